"""Consumer groups: find the coordinator, join, sync, heartbeat, leave; list, describe and delete groups."""

from __future__ import annotations

from contextlib import suppress
from functools import partial

from seglog.errors import Busy, Forbidden, GroupConflict, GroupNotFound, SeglogError
from seglog.kafka import codes
from seglog.kafka.groups.group import Group, State
from seglog.kafka.groups.member import Joined, Synced, SyncWish, Wish
from seglog.kafka.groups.remains import CLASSIC, CONSUMER
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values
from seglog.kafka.requests.metadata import NODE
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.settings import SESSION_MS
from seglog.kafka.topic_ids import uuid_of
from seglog.server.api import group_rights
from seglog.topic.layout.names import is_group_name
from seglog.topic.layout.places import Partition

GROUP_KIND, TRANSACTION_KIND = 0, 1
NEEDS_ID_SINCE = 4
NO_PROTOCOL_SINCE = 7  # JoinGroup: null, if there is no generation
SKIPS_SINCE = 9  # JoinGroup: a leader may have nothing to assign
PROTOCOL_SINCE = 5  # SyncGroup: a member has to name its protocol
MEMBERS_SINCE = 3  # LeaveGroup: several at a time
UNKNOWN_SINCE = 6  # DescribeGroups: an error for a group that does not exist
SEGLOG = "seglog"
"""The protocol type that is shown for groups whose members use seglog's own protocol."""
_Shown = tuple[str, str, str]
"""The state of a group, its type, and its protocol type."""


async def find_coordinator(call: Call) -> Values:
    """Return this broker."""
    if call.values["key_type"] not in (GROUP_KIND, TRANSACTION_KIND):
        refused = {"error_code": codes.INVALID_REQUEST, "error_message": "only groups and transactions have one"}
        return {**refused, "node_id": -1, "host": "", "port": -1}
    host, port = call.advertised
    return {"node_id": NODE, "host": host, "port": port}


async def admitted(call: Call, name: str, *, creates: bool = True) -> int:
    """Return whether the sender may use a group, as a code.

    creates: it may be a new one. Otherwise a group that the sender may not know of is answered like one that does not
    exist.
    """
    if not is_group_name(name):
        return codes.INVALID_GROUP_ID
    admit = partial(group_rights.admit, call, name) if creates else partial(_require_visible, call, name)
    try:
        await call.services.groups.run(admit)
    except Forbidden:
        return codes.GROUP_AUTHORIZATION_FAILED
    except SeglogError as error:
        return codes.coordinator_code_of(error)
    return codes.NONE


def _require_visible(call: Call, name: str) -> None:
    group_rights.require_visible(call, name, "read", GroupNotFound(name))


async def join_group(call: Call) -> Values:
    """Join a group; answered when the others have joined, too."""
    values = call.values
    session = values["session_timeout_ms"]
    rebalance = values["rebalance_timeout_ms"]
    code = await admitted(call, values["group_id"])
    if not code and session not in SESSION_MS:
        code = codes.INVALID_SESSION_TIMEOUT
    if code:
        return _join_answer(call, Joined(code, values["member_id"]))
    wish = Wish(
        member=values["member_id"],
        instance=values["group_instance_id"],
        session=session / 1000,
        rebalance=(rebalance if rebalance > 0 else session) / 1000,
        kind=values["protocol_type"],
        protocols={one["name"]: bytes(one["metadata"]) for one in values.pop("protocols")},
        client_id=call.sender.client_id,
        host=call.sender.host,
        needs_id=call.version >= NEEDS_ID_SINCE,
        may_skip=call.version >= SKIPS_SINCE,
        payer=call.payer,
    )
    call.drop_values()  # it may wait for long, and the group counts what its members bring
    try:
        joined = await call.parts.coordinator.join(values["group_id"], wish)
        await call.room(sum(ENTRY_BYTES + len(metadata) for _, _, metadata in joined.members))
    except SeglogError as error:
        return _join_answer(call, Joined(codes.coordinator_code_of(error), wish.member))
    return _join_answer(call, joined)


def _join_answer(call: Call, joined: Joined) -> Values:
    return {
        "error_code": joined.code,
        "generation_id": joined.generation,
        "protocol_type": joined.kind or None,
        "protocol_name": joined.protocol or (None if call.version >= NO_PROTOCOL_SINCE else ""),
        "leader": joined.leader,
        "skip_assignment": joined.skips,
        "member_id": joined.member,
        "members": [
            {"member_id": member, "group_instance_id": instance, "metadata": metadata}
            for member, instance, metadata in joined.members
        ],
    }


async def sync_group(call: Call) -> Values:
    """Get the assignment of a generation; the leader brings it."""
    values, group = call.values, _known(call)
    kind, protocol = values["protocol_type"], values["protocol_name"]
    if call.version >= PROTOCOL_SINCE and None in (kind, protocol):
        return _sync_answer(Synced(codes.INCONSISTENT_GROUP_PROTOCOL))
    if group is None:
        return _sync_answer(Synced(codes.UNKNOWN_MEMBER_ID))
    who = values["member_id"], values["group_instance_id"], values["generation_id"]
    return _sync_answer(await group.sync(*who, _sync_wish(call)))


def _sync_wish(call: Call) -> SyncWish:
    """Return what a member sends to sync; only the group keeps it while the member waits."""
    values = call.values
    assignments = {one["member_id"]: bytes(one["assignment"]) for one in values.pop("assignments")}
    call.drop_values()
    return SyncWish(assignments, values["protocol_type"], values["protocol_name"])


def _sync_answer(synced: Synced) -> Values:
    return {
        "error_code": synced.code,
        "protocol_type": synced.kind or None,
        "protocol_name": synced.protocol or None,
        "assignment": synced.assignment,
    }


async def heartbeat(call: Call) -> Values:
    """Stay a member."""
    values, group = call.values, _known(call)
    if group is None:
        return {"error_code": codes.UNKNOWN_MEMBER_ID}
    return {"error_code": group.heartbeat(values["member_id"], values["group_instance_id"], values["generation_id"])}


async def leave_group(call: Call) -> Values:
    """Remove members."""
    wanted = call.values["members"]
    if call.version < MEMBERS_SINCE:
        wanted = [{"member_id": call.values["member_id"], "group_instance_id": None}]
    code = await admitted(call, call.values["group_id"], creates=False)  # a static member's name is no secret
    if code not in (codes.NONE, codes.GROUP_ID_NOT_FOUND):
        return {"error_code": code, "members": []}
    left = [
        {**one, "error_code": codes.UNKNOWN_MEMBER_ID if code else _leave(call, one)} async for one in in_turns(wanted)
    ]
    return {"error_code": left[0]["error_code"] if call.version < MEMBERS_SINCE else codes.NONE, "members": left}


def _leave(call: Call, who: Values) -> int:
    coordinator, name = call.parts.coordinator, call.values["group_id"]
    classic, consumers = coordinator.find(name), coordinator.find_consumers(name)
    if classic is not None:
        return classic.leave(who["member_id"], who["group_instance_id"])
    try:
        if consumers is not None:  # an operator removes a member
            consumers.leave(who["member_id"], who["group_instance_id"])
            return codes.NONE
    except SeglogError as error:
        return codes.coordinator_code_of(error)
    return codes.UNKNOWN_MEMBER_ID


def _known(call: Call) -> Group | None:
    """Return the group of a request, if it has members; a member's id is what shows that it was admitted."""
    return call.parts.coordinator.find(call.values["group_id"])


def member_refusal(call: Call, member: str, instance: str | None, epoch: int, places: list[Partition]) -> int:
    """Return whether a member may commit offsets of partitions, as a code. epoch: the generation, or the epoch.

    A commit without a member needs a group without members.
    """
    coordinator, name = call.parts.coordinator, call.values["group_id"]
    classic, consumers = coordinator.find(name), coordinator.find_consumers(name)
    if classic is not None:
        return classic.check_commit(member, instance, epoch)
    if consumers is not None:
        ids = {topic: topic_id(call, topic) or topic for topic, _ in places}
        return consumers.check_commit(member, instance, epoch, {(ids[topic], number) for topic, number in places})
    return codes.NONE if epoch < 0 and not member else codes.UNKNOWN_MEMBER_ID


def topic_id(call: Call, name: str) -> str | None:
    """Return the id of a topic, None if there is none of this name."""
    topic = call.services.broker.if_open(name)
    return None if topic is None else uuid_of(topic)


# --- for operators ----------------------------------------------------------------------------------------------------


async def list_groups(call: Call) -> Values:
    """Return the groups that the sender may use, in the wanted states and of the wanted types; all of them or none."""
    try:
        shown = await _visible_groups(call)
    except SeglogError as error:
        return {"error_code": codes.coordinator_code_of(error), "groups": []}
    states, types = ({one.lower() for one in call.values[name]} for name in ("states_filter", "types_filter"))
    return {
        "groups": [
            {"group_id": name, "protocol_type": kind, "group_state": state, "group_type": type_}
            for name, (state, type_, kind) in sorted(shown.items())
            if (not states or state.lower() in states) and (not types or type_ in types)
        ]
    }


async def _visible_groups(call: Call) -> dict[str, _Shown]:
    held, groups = await _with_members(call), call.services.broker.groups

    def others() -> dict[str, _Shown]:
        found = {}
        for name in groups.names():
            if name not in held and group_rights.may_use(call, name):
                with suppress(GroupNotFound):
                    found[name] = _shown(call, name, has_members=groups.has_members(name))
        return found

    await call.room(len(await call.services.groups.run(groups.names)) * ENTRY_BYTES)
    return {**await call.services.groups.run(others), **held}


async def _with_members(call: Call) -> dict[str, _Shown]:
    """Return the groups whose members use Kafka's protocol, of those that the sender may use."""
    coordinator, found = call.parts.coordinator, {}
    names = coordinator.names()
    await call.room(len(names) * ENTRY_BYTES)
    async for name in in_turns(names):
        with suppress(Forbidden, GroupNotFound):
            await call.services.groups.run(partial(_require_visible, call, name))
            classic, consumers = coordinator.find(name), coordinator.find_consumers(name)
            if classic is not None:
                found[name] = (classic.state.value, CLASSIC, classic.kind)
            elif consumers is not None:
                found[name] = (consumers.state, CONSUMER, CONSUMER)
    return found


def _shown(call: Call, name: str, *, has_members: bool) -> _Shown:
    """Return how a group is listed whose members, if it has any, use seglog's protocol."""
    if has_members:
        return State.STABLE.value, CLASSIC, CONSUMER
    remains = call.parts.coordinator.remains(name)
    return State.EMPTY.value, *((CLASSIC, "") if remains is None else (remains.type, remains.kind))


async def describe_groups(call: Call) -> Values:
    """Return states, members and their assignments; of each group once, however often the request names it."""
    names = dict.fromkeys(call.values["groups"])
    return {"groups": [await _described(call, name) async for name in in_turns(names)]}


async def _described(call: Call, name: str) -> Values:
    shown = {"group_id": name, "group_state": "Dead", "protocol_type": "", "protocol_data": "", "members": []}
    groups = call.services.broker.groups
    code = await admitted(call, name, creates=False)
    if code:
        return _unknown(call, shown) if code == codes.GROUP_ID_NOT_FOUND else {**shown, "error_code": code}
    group = call.parts.coordinator.find(name)
    if group is not None:
        try:
            await call.room(sum(ENTRY_BYTES + one.size for one in group.members.values()))
        except Busy as error:
            return {**shown, "error_code": codes.coordinator_code_of(error)}
        return {**shown, **_state_of(group)}
    coordinator = call.parts.coordinator
    if (
        coordinator.find_consumers(name) is not None or coordinator.were_consumers(name) is not None
    ):  # another request shows it
        return _unknown(call, shown)
    try:
        known = await call.services.groups.run(lambda: groups.describe(name))
    except GroupNotFound:
        return _unknown(call, shown)
    except SeglogError as error:
        return {**shown, "error_code": codes.coordinator_code_of(error)}
    state, _, kind = _shown(call, name, has_members=bool(known.members))
    return {**shown, "group_state": state, "protocol_type": SEGLOG if known.members else kind}


def _unknown(call: Call, shown: Values) -> Values:
    """Return what is shown of a group that does not exist, or is not of the classic protocol."""
    if call.version < UNKNOWN_SINCE:
        return shown
    message = f"there is no group {shown['group_id']!r} of the classic protocol"
    return {**shown, "error_code": codes.GROUP_ID_NOT_FOUND, "error_message": message}


def _state_of(group: Group) -> Values:
    stable = group.state is State.STABLE
    return {
        "group_state": group.state.value,
        "protocol_type": group.kind,
        "protocol_data": group.protocol if stable else "",
        "members": [
            {
                "member_id": one.id,
                "group_instance_id": one.wish.instance,
                "client_id": one.wish.client_id,
                "client_host": f"/{one.wish.host}",
                "member_metadata": one.wish.protocols.get(group.protocol, b"") if stable else b"",
                "member_assignment": one.assignment if stable else b"",
            }
            for one in group.members.values()
        ],
    }


async def delete_groups(call: Call) -> Values:
    """Delete groups without members, with their committed offsets."""
    return {
        "results": [
            {"group_id": name, "error_code": await _delete(call, name)}
            async for name in in_turns(dict.fromkeys(call.values["groups_names"]))
        ]
    }


async def _delete(call: Call, name: str) -> int:
    if not is_group_name(name):
        return codes.INVALID_GROUP_ID

    def work() -> None:
        group_rights.require_visible(call, name, "admin", GroupNotFound(name))
        call.services.broker.groups.delete(name)

    try:
        await call.services.groups.run(work)
    except GroupConflict:
        return codes.NON_EMPTY_GROUP
    except Forbidden:
        return codes.GROUP_AUTHORIZATION_FAILED
    except SeglogError as error:
        return codes.coordinator_code_of(error)
    return codes.NONE
