"""Groups whose partitions this server assigns (KIP-848): the heartbeat, which is also join and leave; describe."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from seglog.errors import Busy, GroupConflict, InvalidArgument, SeglogError, UnknownMember
from seglog.kafka import codes
from seglog.kafka.faults import BadRegex, UnsupportedAssignor
from seglog.kafka.groups.consumer_group import ASSIGNORS, ConsumerGroup, Found
from seglog.kafka.groups.consumer_member import JOIN, LEAVE, LEAVE_FOR_NOW, Answer, Beat, ConsumerMember
from seglog.kafka.groups.group import State
from seglog.kafka.requests.call import Call, Values, by_topic
from seglog.kafka.requests.groups import admitted
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.topic_ids import uuid_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seglog.topic.layout.places import Partition

OWN_ID_SINCE = 1
"""The version of the heartbeat since which members choose their ids."""
MOST_REGEX = 1000
MATCH_SECONDS = 5.0
"""How old the topics of a regular expression may be."""
CONSUMER_TYPE = 1


async def consumer_group_heartbeat(call: Call) -> Values:
    """Join a group, stay in it and get the assignment, or leave it."""
    beat = _beat(call)
    code = await admitted(call, call.values["group_id"]) if beat.epoch == JOIN else codes.NONE
    if code:
        return {"error_code": code}
    try:
        _check(beat)
        if beat.epoch in (LEAVE, LEAVE_FOR_NOW):
            return _answer(_leave(call, beat))
        return _answer(await _stay(call, beat))
    except GroupConflict as error:
        return {"error_code": codes.GROUP_ID_NOT_FOUND, "error_message": str(error)}
    except SeglogError as error:
        return {"error_code": codes.coordinator_code_of(error), "error_message": str(error)}


def _beat(call: Call) -> Beat:
    values, rebalance = call.values, call.values["rebalance_timeout_ms"]
    names, owned = values["subscribed_topic_names"], values["topic_partitions"]
    gets_id = call.version < OWN_ID_SINCE and values["member_epoch"] == JOIN
    return Beat(
        member=values["member_id"] or (str(uuid4()) if gets_id else ""),
        epoch=values["member_epoch"],
        instance=values["instance_id"],
        rack=values["rack_id"],
        rebalance=None if rebalance < 0 else rebalance / 1000,
        topics=None if names is None else tuple(names),
        regex=values["subscribed_topic_regex"],
        assignor=values["server_assignor"],
        owned=None if owned is None else frozenset(_places(owned)),
        client_id=call.sender.client_id,
        host=call.sender.host,
        payer=call.payer,
    )


def _places(topics: Iterable[Values]) -> Iterable[Partition]:
    return ((one["topic_id"], number) for one in topics for number in one["partitions"])


def _check(beat: Beat) -> None:
    """Raise InvalidArgument or UnsupportedAssignor for a heartbeat that no state of a group allows."""
    if not beat.member or beat.instance == "" or beat.rack == "" or beat.epoch < LEAVE_FOR_NOW:
        raise InvalidArgument("a heartbeat needs a member id, an epoch of -2 or more, and no empty instance or rack")
    if beat.epoch == LEAVE_FOR_NOW and beat.instance is None:
        raise InvalidArgument("only a static member leaves with the epoch -2; send its instance id")
    if beat.epoch == JOIN and (beat.rebalance is None or beat.owned != frozenset() or not (beat.topics or beat.regex)):
        raise InvalidArgument("the first heartbeat needs a rebalance timeout, topics, and no partitions")
    if beat.assignor is not None and beat.assignor not in ASSIGNORS:
        raise UnsupportedAssignor(f"there is no assignor {beat.assignor!r}; there are {', '.join(ASSIGNORS)}")


def _leave(call: Call, beat: Beat) -> Answer:
    group = _group(call, beat.member)
    leave = group.leave if beat.epoch == LEAVE else group.leave_for_now
    leave(beat.member, beat.instance)
    return Answer(beat.member, beat.epoch)


def _group(call: Call, member: str) -> ConsumerGroup:
    """Return the group of a member. Raises UnknownMember, also for one that the server forgot when it stopped."""
    name = call.values["group_id"]
    found = call.parts.coordinator.find_consumers(name)
    if found is None:
        raise UnknownMember(f"group {name!r} has no member {member!r}: it left, or the server restarted; join again")
    return found


async def _stay(call: Call, beat: Beat) -> Answer:
    joins = beat.epoch == JOIN
    known = None if joins else _group(call, beat.member).members.get(beat.member)
    reads = await _reads(call, beat, known)
    coordinator = call.parts.coordinator
    group = await coordinator.consumers(call.values["group_id"], call.payer) if joins else _group(call, beat.member)
    answer = group.beat(beat, reads, partial(_find, call))
    if reads is not None:
        group.members[beat.member].matched_at = asyncio.get_running_loop().time()
    return answer


def _find(call: Call, name: str) -> Found | None:
    """Return a topic; all that exist are open, as a server opens them when it starts."""
    topic = call.services.broker.if_open(name)
    return None if topic is None else Found(uuid_of(topic), topic.partitions)


# --- subscriptions ----------------------------------------------------------------------------------------------------


async def _reads(call: Call, beat: Beat, known: ConsumerMember | None) -> tuple[str, ...] | None:
    """Return the topics that a member reads now, by name; None: as before.

    Raises:
        Forbidden: It may not read one of those that it names.
        BadRegex: It is none.
    """
    said = beat if known is None else known.said.and_then(beat)
    due = known is None or asyncio.get_running_loop().time() - known.matched_at >= MATCH_SECONDS
    if beat.topics is None and beat.regex is None and not (said.regex and due):
        return None
    for name in beat.topics or ():
        call.caller.require("read", name)
    found = await call.services.reads.run(partial(_matching, call, said.regex)) if said.regex else []
    return tuple(sorted({*(said.topics or ()), *found}))


def _matching(call: Call, regex: str) -> list[str]:
    """Return the topics whose whole names match, and that the caller may read. RE2, as in Kafka: in linear time."""
    if len(regex) > MOST_REGEX:
        raise BadRegex(f"the regular expression has {len(regex)} characters; {MOST_REGEX} are allowed")
    names = [name for name in call.services.broker.topics() if call.caller.may("read", name)]
    try:
        pc.match_substring_regex(pa.array([""]), regex)  # alone, so that brackets have to match
        matches = pc.match_substring_regex(pa.array(names, pa.string()), rf"\A(?:{regex})\z")
    except pa.ArrowInvalid as error:
        raise BadRegex(f"{regex!r} is not a regular expression of RE2: {error}") from error
    return [name for name, fits in zip(names, matches.to_pylist(), strict=True) if fits]


# --- answers ----------------------------------------------------------------------------------------------------------


def _answer(answer: Answer) -> Values:
    assignment = None
    if answer.assignment is not None:
        topics = by_topic(answer.assignment)
        shown = [{"topic_id": topic, "partitions": numbers} for topic, numbers in topics.items()]
        assignment = {"topic_partitions": shown}
    return {
        "member_id": answer.member,
        "member_epoch": answer.epoch,
        "heartbeat_interval_ms": int(answer.interval * 1000),
        "assignment": assignment,
    }


async def consumer_group_describe(call: Call) -> Values:
    """Return states, epochs, members and their assignments; of each group once, however often it is named."""
    names = dict.fromkeys(call.values["group_ids"])
    return {"groups": [await _described(call, name) async for name in in_turns(names)]}


async def _described(call: Call, name: str) -> Values:
    code = await admitted(call, name, creates=False)
    group, remains = call.parts.coordinator.find_consumers(name), call.parts.coordinator.were_consumers(name)
    if not code and group is None and remains is not None:
        empty = {"group_id": name, "group_state": State.EMPTY.value, "assignor_name": next(iter(ASSIGNORS))}
        return {**empty, **_epochs(remains.epoch), "members": []}
    if code or group is None:
        text = f"group {name!r} has no members with group.protocol=consumer, or belongs to another token"
        return {"error_code": code or codes.GROUP_ID_NOT_FOUND, "error_message": text, "group_id": name}
    try:
        await call.room(group.described_bytes)
    except Busy as error:
        return {"error_code": codes.coordinator_code_of(error), "error_message": str(error), "group_id": name}
    return {
        "group_id": name,
        "group_state": group.state,
        **_epochs(group.crew.generation),
        "assignor_name": group.assignor,
        "members": [_member(call, group, one) for one in group.members.values()],
    }


def _epochs(epoch: int) -> Values:
    return {"group_epoch": epoch, "assignment_epoch": epoch}


def _member(call: Call, group: ConsumerGroup, one: ConsumerMember) -> Values:
    return {
        "member_id": one.id,
        "instance_id": one.said.instance,
        "rack_id": one.said.rack,
        "member_epoch": one.epoch,
        "client_id": one.said.client_id,
        "client_host": f"/{one.said.host}",
        "subscribed_topic_names": [name for name in one.said.topics or () if call.caller.may("read", name)],
        "subscribed_topic_regex": one.said.regex or None,
        "assignment": _shown(call, group, sorted(one.assigned)),
        "target_assignment": _shown(call, group, group.target(one.id)),
        "member_type": CONSUMER_TYPE,
    }


def _shown(call: Call, group: ConsumerGroup, places: Iterable[Partition]) -> Values:
    names = {topic: name for topic, name in group.names().items() if call.caller.may("read", name)}
    return {
        "topic_partitions": [
            {"topic_id": topic, "topic_name": names[topic], "partitions": numbers}
            for topic, numbers in by_topic(places).items()
            if topic in names
        ]
    }
