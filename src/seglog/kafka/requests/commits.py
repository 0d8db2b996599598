"""Committed offsets: those of `Broker.groups`, shared with the consumers of Python and HTTP."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from seglog.config import MAX_OFFSET
from seglog.errors import GroupConflict, SeglogError
from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.epochs import shown_epoch
from seglog.kafka.requests.groups import admitted
from seglog.topic.layout.places import Partition

MOST_METADATA = 4096
METADATA_TOO_LARGE = 12
NO_OFFSET = -1


async def offset_commit(call: Call) -> Values:
    """Commit offsets, of a member or of a group without members."""
    values = call.values
    places = [(topic["name"], one) for topic in values["topics"] for one in topic["partitions"]]
    code = await admitted(call, values["group_id"]) or _may_commit(call)
    found = await _commit(call, places) if not code else {(name, one["partition_index"]): code for name, one in places}
    return commit_answer(call, found)


def commit_answer(call: Call, found: Mapping[Partition, int]) -> Values:
    """Return the response to a commit of offsets, with what was found for each partition, as a code."""
    return {
        "topics": [
            {
                "name": topic["name"],
                "partitions": [
                    {
                        "partition_index": one["partition_index"],
                        "error_code": found[topic["name"], one["partition_index"]],
                    }
                    for one in topic["partitions"]
                ],
            }
            for topic in call.values["topics"]
        ]
    }


def _may_commit(call: Call) -> int:
    values = call.values
    member, generation = values["member_id"], values["generation_id"]
    group = call.parts.coordinator.find(values["group_id"])
    if group is None:
        return codes.NONE if generation < 0 and not member else codes.UNKNOWN_MEMBER_ID
    return group.check_commit(member, values["group_instance_id"], generation)


async def _commit(call: Call, places: list[tuple[str, Values]]) -> dict[Partition, int]:
    """Commit what is valid; return a code for each partition."""
    group, found = call.values["group_id"], {}
    offsets: dict[str, dict[int, int]] = {}
    metadata: dict[Partition, str] = {}
    for topic, one in places:
        number, text = one["partition_index"], one["committed_metadata"] or ""
        found[topic, number] = code = await invalid_commit(call, topic, one, text)
        if not code:
            offsets.setdefault(topic, {})[number] = one["committed_offset"]
            metadata[topic, number] = text
    holds = call.parts.coordinator.find(group) is not None
    commit = partial(call.services.broker.groups.commit, group, offsets, metadata=metadata, holds=holds, after_end=True)
    try:
        if offsets:
            await call.services.groups.run(commit)
    except GroupConflict:
        return dict.fromkeys(found, codes.INCONSISTENT_GROUP_PROTOCOL)
    except SeglogError as error:
        return {place: code or codes.code_of(error) for place, code in found.items()}
    return found


async def invalid_commit(call: Call, topic: str, one: Values, text: str) -> int:
    """Return what is wrong with the commit of an offset, as a code. text: its metadata."""
    if len(text) > MOST_METADATA:
        return METADATA_TOO_LARGE
    try:
        await call.log(topic, one["partition_index"], "read")
    except SeglogError as error:
        return codes.code_of(error)
    return codes.NONE if 0 <= one["committed_offset"] <= MAX_OFFSET else codes.OFFSET_OUT_OF_RANGE


async def offset_fetch(call: Call) -> Values:
    """Return committed offsets: of the named partitions (-1 where there is none), or all."""
    name, wanted = call.values["group_id"], call.values["topics"]
    code = await admitted(call, name, creates=False)
    groups = call.services.broker.groups
    found = {} if code else await call.services.groups.run(lambda: groups.commits(name))
    if code == codes.GROUP_ID_NOT_FOUND:  # hidden: answered like a group that does not exist, which has no commits
        code = codes.NONE
    stable = call.values["require_stable"]
    places: dict[str, list[int]] = {}
    for topic, number in found if wanted is None else ():
        if call.caller.may("read", topic):
            places.setdefault(topic, []).append(number)
    for one in wanted or ():
        places.setdefault(one["name"], []).extend(one["partition_indexes"])

    def shown(topic: str, number: int) -> Values:
        record = found.get((topic, number)) if call.caller.may("read", topic) else None
        refused = code or (codes.NONE if call.caller.may("read", topic) else codes.TOPIC_AUTHORIZATION_FAILED)
        if stable and not refused and call.parts.transactions.is_pending(name, (topic, number)):
            unstable = {"partition_index": number, "error_code": codes.UNSTABLE_OFFSET_COMMIT}
            return {**unstable, "committed_offset": NO_OFFSET, "metadata": ""}
        known = record is not None and record.offset is not None
        epoch = None if record is None or record.log is None else record.epoch
        return {
            "partition_index": number,
            "committed_offset": record.offset if record is not None and known else NO_OFFSET,
            "committed_leader_epoch": NO_OFFSET if epoch is None else shown_epoch(epoch),
            "metadata": record.metadata if record is not None else "",
            "error_code": refused,
        }

    return {
        "error_code": code,
        "topics": [
            {"name": topic, "partitions": [shown(topic, number) for number in numbers]}
            for topic, numbers in places.items()
        ],
    }
