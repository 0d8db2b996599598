"""Consumer groups: members, assignment, committed offsets, lag."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import TypeVar

from starlette.responses import Response

from seglog.errors import GroupNotFound, SeglogError
from seglog.server.api import group_rights, schemas
from seglog.server.api.expose import records_from
from seglog.server.api.models import NAME, Commit, Heartbeat, Join, Lag
from seglog.server.api.operations import Call, Operation, json_answer
from seglog.server.api.parameters import text
from seglog.server.rights.access import Right
from seglog.server.routes.common import EMPTY, json_of, partition_log, topic_of
from seglog.topic.groups import Groups, Membership
from seglog.topic.groups.groups import not_a_member
from seglog.topic.layout.names import GROUP_NAME, MAX_GROUP_NAME
from seglog.topic.positions import from_values, nested

Answered = TypeVar("Answered")

GROUP = text("group", "A consumer group's name.", pattern=GROUP_NAME, longest=MAX_GROUP_NAME)
MEMBER = text("member", "A member's id, from joining.", pattern=NAME)


def _require(call: Call, right: Right, topics: Iterable[str]) -> None:
    for topic in topics:
        call.caller.require(right, topic)


async def _on_group(
    call: Call, ask: Callable[[Groups, str], Answered], right: Right = "read", absent: SeglogError | None = None
) -> Answered:
    """Run `ask` on the group in the path, on a thread, if the caller may use it.

    absent: what `ask` raises if there is no such group; default: GroupNotFound.
    """
    group = call.values["group"]

    def work() -> Answered:
        group_rights.require_visible(call, group, right, absent or GroupNotFound(group))
        return ask(call.services.broker.groups, group)

    return await call.services.groups.run(work)


async def _enter(call: Call, ask: Callable[[Groups, str], Answered]) -> Answered:
    """Run `ask`, which creates the group in the path if there is none, on a thread, if the caller may use it."""

    def work() -> Answered:
        group_rights.admit(call, call.values["group"])
        return ask(call.services.broker.groups, call.values["group"])

    return await call.services.groups.run(work)


async def _list(call: Call) -> Response:
    groups = call.services.broker.groups

    def names() -> list[str]:
        return [name for name in groups.names() if group_rights.may_use(call, name)]

    return json_answer({"groups": await call.services.groups.run(names)})


async def _get(call: Call) -> Response:
    state = group_rights.shown(call, await _on_group(call, Groups.describe))
    members = [{**asdict(member), "assignment": [[*place] for place in member.assignment]} for member in state.members]
    shown = {"name": state.name, "generation": state.generation, "members": members}
    return json_answer({**shown, "committed": state.committed, "lag": nested(state.lag)})


async def _delete(call: Call) -> Response:
    await _on_group(call, Groups.delete, "admin")
    return Response(status_code=204)


async def _join(call: Call) -> Response:
    wanted = await call.json(Join)
    _require(call, "read", wanted.topics)

    def join(groups: Groups, group: str) -> Membership:
        payer, timeout = group_rights.payer(call), wanted.session_timeout
        return groups.join(group, wanted.topics, member=wanted.member, session_timeout=timeout, payer=payer)

    return _membership(await _enter(call, join))


async def _beat(call: Call) -> Response:
    sign, member = await call.json(Heartbeat), call.values["member"]

    def beat(groups: Groups, group: str) -> Membership:
        return groups.heartbeat(group, member, sign.generation)

    return _membership(await _on_group(call, beat, absent=not_a_member(call.values["group"], member)))


def _membership(membership: Membership) -> Response:
    assignment = [[*place] for place in membership.assignment]
    return json_answer({"member": membership.member, "generation": membership.generation, "assignment": assignment})


async def _leave(call: Call) -> Response:
    def leave(groups: Groups, group: str) -> None:
        groups.topics(group)  # GroupNotFound
        groups.leave(group, call.values["member"])

    await _on_group(call, leave)
    return Response(status_code=204)


async def _offsets(call: Call) -> Response:
    committed = await _on_group(call, Groups.committed)
    return json_answer({"offsets": {topic: of for topic, of in committed.items() if call.caller.may("read", topic)}})


async def _lag(call: Call) -> Response:
    wanted = await call.json(Lag)
    positions = from_values(wanted.positions)
    _require(call, "read", positions)
    topics = {name: await topic_of(call, name) for name in positions}
    logs = {
        name: {number: partition_log(topics[name], number) for number in numbers} for name, numbers in positions.items()
    }

    def count() -> dict[str, dict[int, int]]:
        return {
            name: {number: records_from(log, positions[name][number], wanted.expose) for number, log in of.items()}
            for name, of in logs.items()
        }

    return json_answer({"lag": await call.services.reads.run(count)})


async def _commit(call: Call) -> Response:
    wanted = await call.json(Commit)
    offsets = from_values(wanted.offsets)
    _require(call, "read", offsets)
    for name, numbers in offsets.items():
        topic = await topic_of(call, name)
        for number in numbers:
            partition_log(topic, number)

    def commit(groups: Groups, group: str) -> None:
        groups.commit(
            group, offsets, member=wanted.member, durable=wanted.ack == "durable", payer=group_rights.payer(call)
        )

    await _enter(call, commit)
    return Response(status_code=204)


JOINED = {"group": "$request.path.group", "member": "$response.body#/member"}
OPERATIONS = (
    Operation(
        "GET",
        "/groups",
        "groups",
        "List the consumer groups that the token may use.",
        _list,
        "token",
        {200: json_of("Their names.", {"groups": schemas.list_of(schemas.STRING)})},
    ),
    Operation(
        "GET",
        "/groups/{group}",
        "group",
        "Show a group: members, assignment, committed offsets, lag in records.",
        _get,
        "token",
        {200: json_of("The group.", schemas.GROUP)},
        (GROUP,),
    ),
    Operation(
        "DELETE",
        "/groups/{group}",
        "delete_group",
        "Delete a group that has no members.",
        _delete,
        "token",
        {204: EMPTY},
        (GROUP,),
    ),
    Operation(
        "POST",
        "/groups/{group}/members",
        "join",
        "Join a group and get the assigned partitions.",
        _join,
        "token",
        {200: json_of("The membership.", schemas.MEMBERSHIP)},
        (GROUP,),
        Join,
        links=dict.fromkeys(("heartbeat", "leave"), JOINED),
    ),
    Operation(
        "POST",
        "/groups/{group}/members/{member}/heartbeat",
        "heartbeat",
        "Send a sign of life and get the current assignment.",
        _beat,
        "token",
        {200: json_of("The membership.", schemas.MEMBERSHIP)},
        (GROUP, MEMBER),
        Heartbeat,
    ),
    Operation(
        "DELETE",
        "/groups/{group}/members/{member}",
        "leave",
        "Leave a group; its partitions are free immediately.",
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
        {200: json_of("Topic, partition, offset.", {"offsets": schemas.OFFSETS})},
        (GROUP,),
    ),
    Operation(
        "POST",
        "/groups/{group}/offsets",
        "commit",
        "Commit offsets: the next one to read of each partition.",
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
        "Count the records after given positions without reading them; an estimate where compaction left gaps.",
        _lag,
        "token",
        {200: json_of("Topic, partition, records.", {"lag": schemas.OFFSETS})},
        (),
        Lag,
    ),
)
