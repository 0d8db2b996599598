"""What a broker answers about groups that are missing, empty, or have lost what they have committed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from seglog.kafka.messages.consumer_groups import CONSUMER_GROUP_DESCRIBE, CONSUMER_GROUP_HEARTBEAT
from seglog.kafka.messages.groups import (
    DELETE_GROUPS,
    DESCRIBE_GROUPS,
    FIND_COORDINATOR,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    LIST_GROUPS,
    OFFSET_COMMIT,
    OFFSET_DELETE,
    OFFSET_FETCH,
    SYNC_GROUP,
)
from tests.kafka.suites.asking import AGAIN, Asking, named
from tests.waiting import until

TOPIC = "grouped"
Outcome = tuple[str, str]
"""A check, and what a broker answered."""


class Grouping:
    """Requests about one group."""

    def __init__(self, broker: Asking, group: str, kind: str = "consumer") -> None:
        """Wait until the coordinator of the group has loaded it."""
        self.broker, self.group, self.kind = broker, group, kind
        broker.ask(FIND_COORDINATOR, 2, {"key": group})
        until(lambda: self.committed().split()[0] not in AGAIN)

    def listed(self) -> str:
        """Return how ListGroups shows the group."""
        found = self.broker.ask(LIST_GROUPS, 5, {})["groups"]
        shown = [one for one in found if one["group_id"] == self.group]
        return " ".join(shown[0][key] or "-" for key in ("group_state", "group_type", "protocol_type")) if shown else ""

    def described(self, version: int = 6) -> str:
        """Return how DescribeGroups shows it."""
        [found] = self.broker.ask(DESCRIBE_GROUPS, version, {"groups": [self.group]})["groups"]
        return f"{named(found['error_code'])} {found['group_state']} {found['protocol_type'] or '-'}"

    def described_as_consumers(self) -> str:
        """Return how ConsumerGroupDescribe shows it."""
        [found] = self.broker.ask(CONSUMER_GROUP_DESCRIBE, 0, {"group_ids": [self.group]})["groups"]
        return f"{named(found['error_code'])} {found['group_state'] or '-'} {found['assignor_name'] or '-'}"

    def commit(self, member: str = "", epoch: int = -1) -> str:
        """Commit an offset of partition 0."""
        part = {"partition_index": 0, "committed_offset": 0, "committed_metadata": ""}
        topics = [{"name": TOPIC, "partitions": [part]}]
        values = {"group_id": self.group, "generation_id": epoch, "member_id": member, "topics": topics}
        return named(self.broker.ask(OFFSET_COMMIT, 9, values)["topics"][0]["partitions"][0]["error_code"])

    def committed(self) -> str:
        """Fetch all offsets."""
        [found] = self.broker.ask(OFFSET_FETCH, 9, {"groups": [{"group_id": self.group, "topics": None}]})["groups"]
        places = [part["committed_offset"] for topic in found["topics"] for part in topic["partitions"]]
        return f"{named(found['error_code'])} {places}"

    def forget(self) -> str:
        """Delete the offset of partition 0."""
        topics = [{"name": TOPIC, "partitions": [{"partition_index": 0}]}]
        found = self.broker.ask(OFFSET_DELETE, 0, {"group_id": self.group, "topics": topics})
        codes = [part["error_code"] for topic in found["topics"] for part in topic["partitions"]]
        return " ".join(named(code) for code in (found["error_code"], *codes))

    def delete(self) -> str:
        """Delete the group."""
        return named(self.broker.ask(DELETE_GROUPS, 2, {"groups_names": [self.group]})["results"][0]["error_code"])

    def beat(self, member: str, epoch: int) -> dict[str, Any]:
        """Send a heartbeat of the consumer protocol."""
        joins: dict[str, Any] = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": [TOPIC]}
        first = {**joins, "topic_partitions": []} if epoch == 0 else {}
        who = {"group_id": self.group, "member_id": member, "member_epoch": epoch}
        return self.broker.ask(CONSUMER_GROUP_HEARTBEAT, 1, {**who, **first})

    def join(self, member: str = "") -> dict[str, Any]:
        """Join by the classic protocol."""
        times = {"session_timeout_ms": 30_000, "rebalance_timeout_ms": 30_000}
        protocols = [{"name": "range", "metadata": b"\0\0\0\0\0\0\0\0\0\0"}]
        who = {"group_id": self.group, "member_id": member, "protocol_type": self.kind, "protocols": protocols}
        return self.broker.ask(JOIN_GROUP, 3, {**who, **times})

    def sync(self, member: str, generation: int) -> str:
        """Get no assignment."""
        who = {"group_id": self.group, "generation_id": generation, "member_id": member}
        assignments = [{"member_id": member, "assignment": b""}]
        return named(self.broker.ask(SYNC_GROUP, 3, {**who, "assignments": assignments})["error_code"])

    def heartbeat(self, member: str, generation: int) -> str:
        """Send a heartbeat of the classic protocol."""
        values = {"group_id": self.group, "generation_id": generation, "member_id": member}
        return named(self.broker.ask(HEARTBEAT, 4, values)["error_code"])

    def leave(self, member: str) -> str:
        """Leave by the classic protocol."""
        members = [{"member_id": member, "group_instance_id": None}]
        found = self.broker.ask(LEAVE_GROUP, 4, {"group_id": self.group, "members": members})
        return " ".join(named(code) for code in (found["error_code"], *(one["error_code"] for one in found["members"])))


def outcomes(broker: Asking) -> Iterator[Outcome]:
    """Ask about each kind of group; yield the checks."""
    broker.create(TOPIC, {})
    for story in (missing, committed, consumers, consumers_without_commits, classic, of_connect):
        for check, found in story(broker):
            yield f"group, {story.__name__.replace('_', ' ')}: {check}", found


def looks(group: Grouping, when: str) -> Iterator[Outcome]:
    """Look at a group by every request that shows it."""
    yield f"ListGroups {when}", group.listed()
    yield f"DescribeGroups 5 {when}", group.described(5)
    yield f"DescribeGroups 6 {when}", group.described()
    yield f"ConsumerGroupDescribe {when}", group.described_as_consumers()
    yield f"OffsetFetch {when}", group.committed()


def missing(broker: Asking) -> Iterator[Outcome]:
    """A group that never was."""
    group = Grouping(broker, "missing")
    yield from looks(group, "")
    yield "DeleteGroups", group.delete()
    yield "OffsetDelete", group.forget()
    yield "OffsetCommit of a member", group.commit("nobody", 5)
    yield "OffsetCommit with an epoch alone", group.commit("", 5)
    yield "Heartbeat", group.heartbeat("nobody", 1)
    yield "SyncGroup", group.sync("nobody", 1)
    yield "LeaveGroup", group.leave("nobody")
    yield "ConsumerGroupHeartbeat", named(group.beat("nobody", 3)["error_code"])
    yield "ConsumerGroupHeartbeat to leave", named(group.beat("nobody", -1)["error_code"])
    yield from looks(group, "afterwards")


def committed(broker: Asking) -> Iterator[Outcome]:
    """A group without members that has committed."""
    group = Grouping(broker, "committed")
    yield "OffsetCommit", group.commit()
    yield from looks(group, "")
    yield "OffsetDelete", group.forget()
    yield from looks(group, "after its last offset")
    yield "OffsetDelete of nothing", group.forget()
    yield "DeleteGroups", group.delete()
    yield "DeleteGroups again", group.delete()
    yield from looks(group, "after DeleteGroups")


def consumers(broker: Asking) -> Iterator[Outcome]:
    """A group of the consumer protocol that has committed, and whose member leaves."""
    group = Grouping(broker, "consumers")
    epoch = _joined(group)
    yield "OffsetCommit", group.commit("m", epoch)
    yield from looks(group, "with a member")
    yield "DeleteGroups with a member", group.delete()
    yield "leave", named(group.beat("m", -1)["error_code"])
    yield from looks(group, "empty")
    yield "OffsetCommit without a member", group.commit()
    yield "OffsetDelete", group.forget()
    yield from looks(group, "after its last offset")
    yield "ConsumerGroupHeartbeat of who has left", named(group.beat("m", epoch)["error_code"])
    yield "classic JoinGroup", named(group.join()["error_code"])
    yield "ListGroups after a classic JoinGroup", group.listed()


def consumers_without_commits(broker: Asking) -> Iterator[Outcome]:
    """A group of the consumer protocol that has committed nothing."""
    group = Grouping(broker, "consumers-without-commits")
    _joined(group)
    yield "leave", named(group.beat("m", -1)["error_code"])
    yield from looks(group, "empty")
    yield "DeleteGroups", group.delete()
    yield from looks(group, "after DeleteGroups")


def classic(broker: Asking, kind: str = "consumer") -> Iterator[Outcome]:
    """A group of the classic protocol whose member leaves."""
    group = Grouping(broker, f"classic-{kind}", kind)
    found = group.join()
    member = found["member_id"]
    yield "JoinGroup", named(found["error_code"])
    yield "SyncGroup", group.sync(member, found["generation_id"])
    yield "ListGroups with a member", group.listed()
    yield "DescribeGroups 6 with a member", group.described()
    yield "ConsumerGroupDescribe with a member", group.described_as_consumers()
    yield "LeaveGroup", group.leave(member)
    yield from looks(group, "empty")
    yield "Heartbeat of who has left", group.heartbeat(member, found["generation_id"])
    yield "OffsetCommit", group.commit()
    yield "OffsetDelete", group.forget()
    yield "ConsumerGroupHeartbeat to join", named(group.beat("m", 0)["error_code"])
    yield "ListGroups after it", group.listed()
    yield "leave", named(group.beat("m", -1)["error_code"])
    yield "DeleteGroups", group.delete()


def of_connect(broker: Asking) -> Iterator[Outcome]:
    """The same of another kind of program."""
    yield from classic(broker, "connect")


def _joined(group: Grouping) -> int:
    """Join as m; return its epoch."""
    found = group.beat("m", 0)
    assert found["error_code"] == 0, found
    return int(found["member_epoch"])
