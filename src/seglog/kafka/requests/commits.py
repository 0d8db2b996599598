"""Committed offsets: those of `Broker.groups`, shared with the consumers of Python and HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial

from seglog.config import MAX_OFFSET
from seglog.errors import Busy, GroupConflict, SeglogError
from seglog.kafka import codes
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values, by_topic
from seglog.kafka.requests.epochs import shown_epoch
from seglog.kafka.requests.groups import admitted, member_refusal, topic_id
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.wire.code import LETTER_BYTES
from seglog.server.api import group_rights
from seglog.topic.groups.records import Note, OffsetRecord
from seglog.topic.layout.places import Partition

MOST_METADATA = 4096
METADATA_TOO_LARGE = 12
NO_OFFSET = NO_EPOCH = -1
EPOCHS_SINCE = 6
"""The version of OffsetCommit since which clients commit their leader epochs."""
CONSUMER_SINCE = 9
"""The version of OffsetCommit since which members of the consumer protocol may use it."""
ERROR_SINCE, GROUPS_SINCE, IDS_SINCE = 2, 8, 10
"""The versions of OffsetFetch since which it has an error for a group, several groups, and the ids of topics."""


async def offset_commit(call: Call) -> Values:
    """Commit offsets, of a member or of a group without members."""
    try:
        topics = await call.named(call.values["topics"])
    except Busy as error:
        unnamed = [{**topic, "name": None} for topic in call.values["topics"]]
        return commit_answer(unnamed, {}, codes.coordinator_code_of(error))
    code = await admitted(call, call.values["group_id"]) or _may_commit(call, topics)
    places = [(topic["name"], one) for topic in topics for one in topic["partitions"] if topic["name"] is not None]
    found = await _commit(call, places) if not code else {(name, one["partition_index"]): code for name, one in places}
    return commit_answer(topics, found, code or codes.UNKNOWN_TOPIC_ID)


def commit_answer(topics: list[Values], found: Mapping[Partition, int], otherwise: int = codes.NONE) -> Values:
    """Return the response to a commit or a deletion of offsets.

    found: a code for each partition; otherwise: for those without.
    """
    return {
        "topics": [
            {
                **topic,
                "partitions": [
                    {
                        "partition_index": one["partition_index"],
                        "error_code": found.get((topic["name"], one["partition_index"]), otherwise),
                    }
                    for one in topic["partitions"]
                ],
            }
            for topic in topics
        ]
    }


def _may_commit(call: Call, topics: list[Values]) -> int:
    values = call.values
    places = [(topic["name"], one["partition_index"]) for topic in topics for one in topic["partitions"]]
    who = values["member_id"], values["group_instance_id"], values["generation_id"]
    if call.parts.coordinator.find_consumers(values["group_id"]) is not None and call.version < CONSUMER_SINCE:
        return codes.UNSUPPORTED_VERSION
    return member_refusal(call, *who, places)


async def _commit(call: Call, places: list[tuple[str, Values]]) -> dict[Partition, int]:
    """Commit what is valid; return a code for each partition."""
    group, found = call.values["group_id"], {}
    offsets: dict[str, dict[int, int]] = {}
    notes: dict[Partition, Note] = {}
    async for topic, one in in_turns(places):
        number, text = one["partition_index"], one["committed_metadata"] or ""
        found[topic, number] = code = await invalid_commit(call, topic, one, text)
        if not code:
            offsets.setdefault(topic, {})[number] = one["committed_offset"]
            epoch = one["committed_leader_epoch"]
            notes[topic, number] = Note(text, max(epoch, NO_EPOCH) if call.version >= EPOCHS_SINCE else None)
    holds = call.parts.coordinator.holds(group)
    groups, payer = call.services.broker.groups, group_rights.payer(call)
    commit = partial(groups.commit, group, offsets, notes=notes, holds=holds, after_end=True, payer=payer)
    try:
        if offsets:
            await call.services.groups.run(commit)
    except GroupConflict:
        return dict.fromkeys(found, codes.INCONSISTENT_GROUP_PROTOCOL)
    except SeglogError as error:
        return {place: code or codes.coordinator_code_of(error) for place, code in found.items()}
    return found


async def invalid_commit(call: Call, topic: str, one: Values, text: str) -> int:
    """Return what is wrong with the commit of an offset, as a code. text: its metadata."""
    if len(text) > MOST_METADATA:
        return METADATA_TOO_LARGE
    try:
        await call.log(topic, one["partition_index"], "read")
    except SeglogError as error:
        return codes.coordinator_code_of(error)
    return codes.NONE if 0 <= one["committed_offset"] <= MAX_OFFSET else codes.OFFSET_OUT_OF_RANGE


async def offset_fetch(call: Call) -> Values:
    """Return committed offsets of groups: of the named partitions (-1 where there is none), or all.

    Of a group that is named several times, the last one counts.
    """
    if call.version < GROUPS_SINCE:
        return await _committed_or_error(call, {**call.values, "member_id": None, "member_epoch": NO_OFFSET})
    wanted = {one["group_id"]: one for one in call.values["groups"]}
    return {"groups": [await _committed_or_error(call, one) async for one in in_turns(wanted.values())]}


async def _committed_or_error(call: Call, asked: Values) -> Values:
    """Return the committed offsets of a group, or that there was no room: for each partition in early versions."""
    try:
        return await _committed(call, asked)
    except Busy:
        code, named = codes.COORDINATOR_LOAD_IN_PROGRESS, asked["topics"] if call.version < ERROR_SINCE else ()
        topics = [
            {**one, "partitions": [_without_offset(number, code) for number in dict.fromkeys(one["partition_indexes"])]}
            for one in named
        ]
        return {"group_id": asked["group_id"], "error_code": code, "topics": topics}


async def _committed(call: Call, asked: Values) -> Values:
    name, wanted = asked["group_id"], asked["topics"]
    code = await admitted(call, name, creates=False)
    groups, members = call.services.broker.groups, call.parts.coordinator.find_consumers(name)
    if not code and members is not None:
        code = members.check_fetch(asked["member_id"], asked["member_epoch"])
    found: Mapping[Partition, OffsetRecord] = {}
    if not code:
        try:
            found = await call.services.groups.run(lambda: groups.commits(name))
        except SeglogError as error:
            code = codes.coordinator_code_of(error)
    if code == codes.COORDINATOR_NOT_AVAILABLE:  # after this one clients do not repeat an OffsetFetch
        code = codes.COORDINATOR_LOAD_IN_PROGRESS
    if code == codes.GROUP_ID_NOT_FOUND:  # hidden: answered like a group that does not exist, which has no commits
        code = codes.NONE
    topics = await call.named(wanted) if wanted is not None else _all_of(call, found)
    answered = []
    async for topic in in_turns(topics):
        numbers = list(dict.fromkeys(topic["partition_indexes"]))
        notes = (found[place].metadata for number in numbers if (place := (topic["name"], number)) in found)
        await call.room(sum(ENTRY_BYTES + LETTER_BYTES * len(text) for text in notes))
        shown = [_shown(call, name, (topic["name"], number), found, code) async for number in in_turns(numbers)]
        answered.append({**topic, "partitions": shown})
    return {"group_id": name, "error_code": code, "topics": answered}


def _all_of(call: Call, found: Iterable[Partition]) -> list[Values]:
    """Return all topics of commits that the sender may know, and that have an id if the response needs it."""
    numbers = by_topic(place for place in found if call.caller.may("read", place[0]))
    ids = {name: topic_id(call, name) for name in numbers}
    return [
        {"name": name, "topic_id": ids[name], "partition_indexes": those}
        for name, those in numbers.items()
        if ids[name] is not None or call.version < IDS_SINCE
    ]


def _shown(
    call: Call, group: str, place: tuple[str | None, int], found: Mapping[Partition, OffsetRecord], code: int
) -> Values:
    topic, number = place
    if topic is None:
        return _without_offset(number, code or codes.UNKNOWN_TOPIC_ID)
    record = found.get((topic, number)) if call.caller.may("read", topic) else None
    refused = code or (codes.NONE if call.caller.may("read", topic) else codes.TOPIC_AUTHORIZATION_FAILED)
    if call.values["require_stable"] and not refused and call.parts.transactions.is_pending(group, (topic, number)):
        return _without_offset(number, codes.UNSTABLE_OFFSET_COMMIT)
    known = record is not None and record.offset is not None
    return {
        "partition_index": number,
        "committed_offset": record.offset if record is not None and known else NO_OFFSET,
        "committed_leader_epoch": _leader_epoch(record),
        "metadata": record.metadata if record is not None else "",
        "error_code": refused,
    }


def _without_offset(number: int, code: int) -> Values:
    """Return what is shown of a partition whose committed offset is not."""
    return {"partition_index": number, "error_code": code, "committed_offset": NO_OFFSET, "metadata": ""}


def _leader_epoch(record: OffsetRecord | None) -> int:
    """Return the epoch that the client has committed, or that of the log then."""
    if record is None or record.log is None:
        return NO_OFFSET
    return shown_epoch(record.epoch) if record.leader_epoch is None else record.leader_epoch
