"""Transactions: add partitions and groups, commit offsets with them, end them."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.faults import Fenced
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.commits import commit_answer, invalid_commit
from seglog.kafka.requests.groups import admitted, member_refusal
from seglog.kafka.requests.turns import in_turns
from seglog.server.api import group_rights
from seglog.topic.groups.records import Note

if TYPE_CHECKING:
    from collections.abc import Mapping

    from seglog.kafka.transactions.state import Transactional
    from seglog.topic.groups.charges import Payer
    from seglog.topic.layout.places import Partition

FENCED_SINCE = 2
"""The version since which a client knows PRODUCER_FENCED; in earlier ones an old epoch is invalid."""


def _code(call: Call, error: SeglogError) -> int:
    if isinstance(error, Fenced) and call.version >= FENCED_SINCE:
        return codes.PRODUCER_FENCED
    return codes.coordinator_code_of(error)


def _find(call: Call) -> Transactional:
    values = call.values
    who = values["transactional_id"], values["producer_id"], values["producer_epoch"]
    return call.parts.transactions.find(call.caller, *who)


async def add_partitions_to_txn(call: Call) -> Values:
    """Add partitions to the transaction, all of them or none."""
    wanted = [(topic["name"], number) for topic in call.values["topics"] for number in topic["partitions"]]
    found = {place: await _refusal(call, place) async for place in in_turns(wanted)}
    if any(found.values()):
        found = {place: code or codes.OPERATION_NOT_ATTEMPTED for place, code in found.items()}
    else:
        try:
            one = _find(call)
            await call.parts.transactions.join(one, call.values["producer_epoch"], call.payer, partitions=wanted)
        except SeglogError as error:
            found = dict.fromkeys(wanted, _code(call, error))
    return {
        "results_by_topic": [
            {
                "name": topic["name"],
                "results_by_partition": [
                    {"partition_index": number, "partition_error_code": found[topic["name"], number]}
                    for number in topic["partitions"]
                ],
            }
            for topic in call.values["topics"]
        ]
    }


async def _refusal(call: Call, place: Partition) -> int:
    try:
        await call.log(*place, "write")
    except SeglogError as error:
        return codes.coordinator_code_of(error)
    return codes.NONE


async def add_offsets_to_txn(call: Call) -> Values:
    """Add a group to the transaction, which may commit offsets for it from now on."""
    group = call.values["group_id"]
    code = await admitted(call, group)
    if code:
        return {"error_code": code}
    try:
        await call.parts.transactions.join(_find(call), call.values["producer_epoch"], call.payer, groups=[group])
    except SeglogError as error:
        return {"error_code": _code(call, error)}
    return {}


async def txn_offset_commit(call: Call) -> Values:
    """Stage offsets, which the group commits with the transaction."""
    values = call.values
    group = values["group_id"]
    code = await admitted(call, group) or _member_refusal(call)
    places = [(topic["name"], one) for topic in values["topics"] for one in topic["partitions"]]
    found: dict[Partition, int] = {}
    offsets: dict[Partition, tuple[int, str]] = {}
    async for topic, one in in_turns(places):
        place, text = (topic, one["partition_index"]), one["committed_metadata"] or ""
        found[place] = code or await invalid_commit(call, topic, one, text)
        if not found[place]:
            offsets[place] = (one["committed_offset"], text)
    try:
        if offsets:
            payer = group_rights.payer(call)
            staged = call.parts.transactions.staged_by(call.payer)
            await call.services.groups.run(partial(_check_kept, call, group, offsets, payer, staged))
            one, epoch = _find(call), values["producer_epoch"]
            await call.parts.transactions.stage_offsets(one, epoch, group, offsets, payer.id)
    except Fenced:
        found = dict.fromkeys(found, codes.INVALID_PRODUCER_EPOCH)
    except SeglogError as error:
        found = {place: code or codes.coordinator_code_of(error) for place, code in found.items()}
    return commit_answer(values["topics"], found)


def _check_kept(
    call: Call, group: str, offsets: Mapping[Partition, tuple[int, str]], payer: Payer, staged: int
) -> None:
    """Raise ShareFull if offsets would take too much when the transaction commits them."""
    notes = {place: Note(text) for place, (_, text) in offsets.items()}
    call.services.broker.groups.check_staged(group, notes, payer, staged)


def _member_refusal(call: Call) -> int:
    """Return what is wrong with the member that a client names since version 3, as a code."""
    values = call.values
    member, generation = values["member_id"], values["generation_id"]
    if generation < 0 and not member:
        return codes.NONE
    if not call.parts.coordinator.holds(values["group_id"]):
        return codes.ILLEGAL_GENERATION if generation >= 0 else codes.UNKNOWN_MEMBER_ID
    places = [(topic["name"], one["partition_index"]) for topic in values["topics"] for one in topic["partitions"]]
    code = member_refusal(call, member, values["group_instance_id"], generation, places)
    return codes.ILLEGAL_GENERATION if code == codes.STALE_MEMBER_EPOCH else code  # the one that producers know


async def end_txn(call: Call) -> Values:
    """Commit or abort the transaction."""
    try:
        await call.parts.transactions.end(_find(call), call.values["producer_epoch"], commit=call.values["committed"])
    except SeglogError as error:
        return {"error_code": _code(call, error)}
    return {}
