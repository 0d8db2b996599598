"""States of a group that real clients reach seldom."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from seglog import Broker, MemoryStorage
from seglog.errors import GroupConflict
from seglog.kafka import codes
from seglog.kafka.groups import coordinator
from seglog.kafka.groups.group import Group, State
from seglog.kafka.groups.member import SyncWish, Wish
from seglog.server.runtime.shares import Shares
from seglog.server.runtime.workers import Workers
from seglog.topic.groups import Groups
from tests.kafka.virtual import run_in_virtual_time
from tests.waiting import HANG_SECONDS


def _wish(member: str = "", instance: str | None = None, *, session: float = 30.0) -> Wish:
    return Wish(member, instance, session, 0.2, "consumer", {"range": b""}, "client", "host")


def _told(story: Callable[[Group, list[Group]], Coroutine[Any, Any, None]]) -> None:
    """Run a story of a group. Its second argument lists the group as often as it was forgotten."""

    async def run() -> None:
        forgotten: list[Group] = []
        group = Group("g", forgotten.append, Shares(2_000_000))
        try:
            await story(group, forgotten)
        finally:
            group.close()

    run_in_virtual_time(run())


def test_a_refused_join_leaves_no_empty_group() -> None:
    async def story(group: Group, forgotten: list[Group]) -> None:
        assert (await group.join(_wish("unknown"))).code == codes.UNKNOWN_MEMBER_ID
        assert forgotten == [group]

    _told(story)


def test_a_member_that_stops_while_it_waits_for_its_assignment_is_removed() -> None:
    async def story(group: Group, _: list[Group]) -> None:
        leading, following = await asyncio.gather(group.join(_wish()), group.join(_wish(session=0.05)))
        if group.leader == following.member:
            leading, following = following, leading
        waiting = asyncio.create_task(group.sync(following.member, None, group.generation, SyncWish({})))
        expiry = group.members[following.member].expiry
        while group.members[following.member].expiry is expiry:  # its session ends while it waits
            await asyncio.sleep(0.01)
        await group.sync(leading.member, None, group.generation, SyncWish({}))
        assert (await waiting).code == codes.NONE
        while following.member in group.members:
            await asyncio.sleep(0.01)
        assert group.state is not State.STABLE

    _told(story)


def test_a_member_does_not_take_another_instance_name() -> None:
    async def story(group: Group, _: list[Group]) -> None:
        member = (await group.join(_wish(instance="one"))).member
        assert (await group.join(_wish(member, "two"))).code == codes.UNKNOWN_MEMBER_ID
        assert (await group.join(_wish(member, None))).code == codes.UNKNOWN_MEMBER_ID
        assert group.leave("", "one") == codes.NONE
        assert group.members == {}

    _told(story)


def test_what_members_hold_is_counted_until_they_are_gone() -> None:
    async def story(group: Group, _: list[Group]) -> None:
        room = group._room
        one = (await group.join(_wish()._replace(protocols={"range": bytes(1000)}))).member
        assert 1000 < room.held < 3000
        await group.sync(one, None, group.generation, SyncWish({one: bytes(500_000)}))
        assert 501_000 < room.held < 503_000
        again = await group.join(_wish(one)._replace(protocols={"range": bytes(1_100_000)}))
        assert again.code == codes.GROUP_MAX_SIZE_REACHED
        assert (await group.join(_wish(one)._replace(protocols={"range": bytes(400_000)}))).code == codes.NONE
        assert 900_000 < room.held <= 1_000_000
        assert (await group.sync(one, None, group.generation, SyncWish({one: bytes(1_200_000)}))).code == (
            codes.GROUP_MAX_SIZE_REACHED
        )
        assert (await group.sync(one, None, group.generation, SyncWish({one: bytes(10)}))).code == codes.NONE
        assert group.leave(one, None) == codes.NONE
        assert room.held == 0

    _told(story)


def test_a_restarted_static_member_is_counted_once() -> None:
    async def story(group: Group, _: list[Group]) -> None:
        wish = _wish(instance="s")._replace(protocols={"range": bytes(1000)})
        one = await group.join(wish)
        await group.sync(one.member, "s", group.generation, SyncWish({one.member: bytes(2000)}))
        held = group._room.held
        for _number in range(3):
            one = await group.join(wish)
        assert group._room.held == held
        group.leave(one.member, "s")
        assert group._room.held == 0

    _told(story)


@pytest.mark.parametrize("may_skip", [True, False])
def test_a_leader_that_has_restarted_gets_its_assignment_and_is_not_asked_for_one(*, may_skip: bool) -> None:
    async def story(group: Group, _: list[Group]) -> None:
        wish = _wish(instance="s")._replace(may_skip=may_skip)
        first = await group.join(wish)
        await group.sync(first.member, "s", group.generation, SyncWish({first.member: b"all"}))
        again = await group.join(wish)
        assert (again.generation, again.kind, again.protocol) == (first.generation, "consumer", "range")
        assert again.member != first.member
        assert (again.skips, again.leader) == ((True, again.member) if may_skip else (False, first.member))
        assert [one for one, *_ in again.members] == ([again.member] if may_skip else [])
        synced = await group.sync(again.member, "s", group.generation, SyncWish({}, "consumer", "range"))
        assert (synced.code, synced.assignment) == (codes.NONE, b"all")

    _told(story)


def test_a_member_that_names_another_protocol_gets_no_assignment() -> None:
    async def story(group: Group, _: list[Group]) -> None:
        one = (await group.join(_wish())).member
        for kind, protocol in (("consumer", "sticky"), ("connect", "range")):
            refused = await group.sync(one, None, group.generation, SyncWish({one: b"all"}, kind, protocol))
            assert refused.code == codes.INCONSISTENT_GROUP_PROTOCOL
        synced = await group.sync(one, None, group.generation, SyncWish({one: b"all"}, "consumer", "range"))
        assert (synced.code, synced.kind, synced.protocol) == (codes.NONE, "consumer", "range")

    _told(story)


def test_a_group_that_nobody_joins_because_the_client_is_gone_is_free_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(coordinator, "UNUSED_SECONDS", 0.01)

    async def story(groups: Groups, workers: Workers) -> None:
        found = coordinator.Coordinator(groups, workers, 1_000_000)
        gone = asyncio.create_task(found.join("g", _wish()))
        while not found._reserving:
            await asyncio.sleep(0)
        gone.cancel()
        while found._reserving:  # the group is there in the moment in which this ends
            await asyncio.sleep(0)
        while found.names():
            await asyncio.sleep(0.001)
        groups.join("g", ["t"])
        with pytest.raises(GroupConflict):
            await found.join("g", _wish())

    _with_groups(story)


def test_members_that_reserve_a_group_at_the_same_time_are_in_the_same_group() -> None:
    async def story(groups: Groups, workers: Workers) -> None:
        found = coordinator.Coordinator(groups, workers, 1_000_000)
        first, second = await asyncio.gather(found.join("g", _wish()), found.join("g", _wish()))
        assert {first.code, second.code} == {codes.NONE}
        assert (first.generation, first.leader) == (second.generation, second.leader) == (1, first.leader)
        with pytest.raises(GroupConflict):
            groups.join("g", ["t"])
        found.close()

    _with_groups(story)


def _with_groups(story: Callable[[Groups, Workers], Coroutine[Any, Any, None]]) -> None:
    with Broker(MemoryStorage()) as broker:
        broker.create_topic("t")
        workers = Workers("group", 2, 10)
        asyncio.run(asyncio.wait_for(story(broker.groups, workers), HANG_SECONDS))
        workers.close()
