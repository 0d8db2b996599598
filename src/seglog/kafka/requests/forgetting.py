"""OffsetDelete: a group forgets what it has committed for some partitions."""

from __future__ import annotations

from functools import partial

from seglog.errors import GroupConflict, SeglogError
from seglog.kafka import codes
from seglog.kafka.groups.group import Group
from seglog.kafka.groups.remains import CONSUMER
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.commits import commit_answer
from seglog.kafka.requests.groups import admitted
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.wire.buffers import Malformed, Reader
from seglog.topic.layout.places import Partition


async def offset_delete(call: Call) -> Values:
    """Delete committed offsets, but those of topics that members of the group read now."""
    name = call.values["group_id"]
    code, coordinator = await admitted(call, name, creates=False), call.parts.coordinator
    group, consumers = coordinator.find(name), coordinator.find_consumers(name)
    if not code and group is not None and group.kind != CONSUMER:
        code = codes.NON_EMPTY_GROUP
    if code:
        return {"error_code": code, "topics": []}
    read_now = subscribed(group) if group is not None else frozenset[str]()
    if consumers is not None:
        read_now = frozenset(topic for one in consumers.members.values() for topic in one.reads)
    found = {
        (topic["name"], one["partition_index"]): await _refusal(call, topic["name"], one["partition_index"], read_now)
        for topic in call.values["topics"]
        async for one in in_turns(topic["partitions"])
    }
    chosen: list[Partition] = [place for place, refused in found.items() if not refused]
    forget = partial(call.services.broker.groups.forget_offsets, name, chosen, holds=coordinator.holds(name))
    try:
        await call.services.groups.run(forget)
    except GroupConflict:
        return {"error_code": codes.NON_EMPTY_GROUP, "topics": []}
    except SeglogError as error:
        return {"error_code": codes.coordinator_code_of(error), "topics": []}
    return {"error_code": codes.NONE, **commit_answer(call.values["topics"], found)}


async def _refusal(call: Call, topic: str, partition: int, read_now: frozenset[str]) -> int:
    try:
        await call.log(topic, partition, "read")
    except SeglogError as error:
        return codes.coordinator_code_of(error)
    return codes.GROUP_SUBSCRIBED_TO_TOPIC if topic in read_now else codes.NONE


def subscribed(group: Group) -> frozenset[str]:
    """Return the topics that the members of a group of consumers have subscribed to, as they told their leader."""
    return frozenset(
        topic for member in group.members.values() for told in member.wish.protocols.values() for topic in _topics(told)
    )


def _topics(told: bytes) -> list[str]:
    """Return the topics of a consumer's metadata: a version, then an array of names; [] if it is something else."""
    source = Reader(told)
    try:
        source.number(2)
        return [source.text(source.number(2)) for _ in range(source.number(4))]
    except Malformed:
        return []
