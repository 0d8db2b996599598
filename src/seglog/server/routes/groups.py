"""Consumer groups: members, assignment, committed offsets, lag."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING

from starlette.responses import Response

from seglog.errors import GroupNotFound
from seglog.server import shapes
from seglog.server.access import EVERY
from seglog.server.models import NAME, Commit, Heartbeat, Join, Lag
from seglog.server.operations import Call, Operation, json_answer
from seglog.server.parameters import text
from seglog.server.routes.common import EMPTY, json_of, partition_log, topic_of
from seglog.topic.positions import from_values, nested

if TYPE_CHECKING:
    from seglog.server.access import Right
    from seglog.topic.groups import GroupState, Membership

GROUP = text("group", "A consumer group's name.", pattern=NAME)
MEMBER = text("member", "A member's id, as joining gave it.", pattern=NAME)


def _require(call: Call, right: Right, topics: Iterable[str]) -> None:
    for topic in topics:
        call.caller.require(right, topic)


def _topics_of(state: GroupState) -> set[str]:
    return {topic for member in state.members for topic in member.topics} | set(state.committed)


async def _state(call: Call, right: Right) -> GroupState:
    """Return the group, for a caller who has the right on all that it reads."""
    state: GroupState = await call.services.groups.run(
        partial(call.services.broker.groups.describe, call.values["group"])
    )
    _require(call, right, _topics_of(state))
    return state


async def _refuse_outsider(call: Call) -> None:
    """Raise Forbidden unless the caller may read all that the group reads, if there is one of this name.

    Else who may read one topic could bring it into a group of others, who would then lack a right on their own group.
    """
    if not call.caller.may("read", EVERY):
        with suppress(GroupNotFound):
            await _state(call, "read")


async def _list(call: Call) -> Response:
    groups = call.services.broker.groups

    def names() -> list[str]:
        return [name for name in groups.names() if _is_shown(call, groups.describe(name))]

    return json_answer({"groups": await call.services.groups.run(names)})


def _is_shown(call: Call, state: GroupState) -> bool:
    return all(call.caller.may("read", topic) for topic in _topics_of(state))


async def _get(call: Call) -> Response:
    state = await _state(call, "read")
    members = [{**asdict(member), "assignment": [[*place] for place in member.assignment]} for member in state.members]
    shown = {"name": state.name, "generation": state.generation, "members": members}
    return json_answer({**shown, "committed": state.committed, "lag": nested(state.lag)})


async def _delete(call: Call) -> Response:
    await _state(call, "admin")
    await call.services.care.run(partial(call.services.broker.groups.delete, call.values["group"]))
    return Response(status_code=204)


async def _join(call: Call) -> Response:
    wanted = await call.json(Join)
    _require(call, "read", wanted.topics)
    await _refuse_outsider(call)
    join = partial(
        call.services.broker.groups.join,
        call.values["group"],
        wanted.topics,
        member=wanted.member,
        session_timeout=wanted.session_timeout,
    )
    return _membership(await call.services.groups.run(join))


async def _beat(call: Call) -> Response:
    sign, values = await call.json(Heartbeat), call.values
    if not call.caller.may("read", EVERY):
        await _state(call, "read")  # before a session is renewed that is none of the caller's business
    beat = partial(call.services.broker.groups.heartbeat, values["group"], values["member"], sign.generation)
    membership: Membership = await call.services.groups.run(beat)
    return _membership(membership)


def _membership(membership: Membership) -> Response:
    assignment = [[*place] for place in membership.assignment]
    return json_answer({"member": membership.member, "generation": membership.generation, "assignment": assignment})


async def _leave(call: Call) -> Response:
    await _state(call, "read")
    await call.services.groups.run(
        partial(call.services.broker.groups.leave, call.values["group"], call.values["member"])
    )
    return Response(status_code=204)


async def _offsets(call: Call) -> Response:
    committed = await call.services.groups.run(partial(call.services.broker.groups.committed, call.values["group"]))
    _require(call, "read", committed)
    return json_answer({"offsets": committed})


async def _lag(call: Call) -> Response:
    positions = from_values((await call.json(Lag)).positions)
    _require(call, "read", positions)
    topics = {name: await topic_of(call, name) for name in positions}
    logs = {
        name: {number: partition_log(topics[name], number) for number in numbers} for name, numbers in positions.items()
    }

    def count() -> dict[str, dict[int, int]]:
        return {
            name: {number: log.records_from(positions[name][number]) for number, log in of.items()}
            for name, of in logs.items()
        }

    return json_answer({"lag": await call.services.reads.run(count)})


async def _commit(call: Call) -> Response:
    wanted = await call.json(Commit)
    offsets = from_values(wanted.offsets)
    _require(call, "read", offsets)
    await _refuse_outsider(call)
    for name, numbers in offsets.items():
        topic = await topic_of(call, name)
        for number in numbers:
            partition_log(topic, number)
    commit = partial(
        call.services.broker.groups.commit,
        call.values["group"],
        offsets,
        member=wanted.member,
        durable=wanted.ack == "durable",
    )
    await call.services.groups.run(commit)
    return Response(status_code=204)


JOINED = {"group": "$request.path.group", "member": "$response.body#/member"}
OPERATIONS = (
    Operation(
        "GET",
        "/groups",
        "groups",
        "List the consumer groups of topics that the token may read.",
        _list,
        "token",
        {200: json_of("Their names.", {"groups": shapes.list_of(shapes.STRING)})},
    ),
    Operation(
        "GET",
        "/groups/{group}",
        "group",
        "Show a group: members, assignment, committed offsets, lag in records.",
        _get,
        "token",
        {200: json_of("The group.", shapes.GROUP)},
        (GROUP,),
    ),
    Operation(
        "DELETE",
        "/groups/{group}",
        "delete_group",
        "Forget a group that has no members.",
        _delete,
        "token",
        {204: EMPTY},
        (GROUP,),
    ),
    Operation(
        "POST",
        "/groups/{group}/members",
        "join",
        "Join a group, and learn which partitions to read.",
        _join,
        "token",
        {200: json_of("The membership.", shapes.MEMBERSHIP)},
        (GROUP,),
        Join,
        links=dict.fromkeys(("heartbeat", "leave"), JOINED),
    ),
    Operation(
        "POST",
        "/groups/{group}/members/{member}/heartbeat",
        "heartbeat",
        "Say that a member lives; learn what it reads now.",
        _beat,
        "token",
        {200: json_of("The membership.", shapes.MEMBERSHIP)},
        (GROUP, MEMBER),
        Heartbeat,
    ),
    Operation(
        "DELETE",
        "/groups/{group}/members/{member}",
        "leave",
        "Leave a group; its partitions are free at once.",
        _leave,
        "token",
        {204: EMPTY},
        (GROUP, MEMBER),
    ),
    Operation(
        "GET",
        "/groups/{group}/offsets",
        "offsets",
        "Show the offsets that a group has committed.",
        _offsets,
        "token",
        {200: json_of("Topic, partition, offset.", {"offsets": shapes.OFFSETS})},
        (GROUP,),
    ),
    Operation(
        "POST",
        "/groups/{group}/offsets",
        "commit",
        "Commit offsets: of each partition the one to be read next.",
        _commit,
        "token",
        {204: EMPTY},
        (GROUP,),
        Commit,
    ),
    Operation(
        "POST",
        "/lag",
        "lag",
        "Count the records from positions on, reading none: exactly, or about where compaction left gaps.",
        _lag,
        "token",
        {200: json_of("Topic, partition, records.", {"lag": shapes.OFFSETS})},
        (),
        Lag,
    ),
)
