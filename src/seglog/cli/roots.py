"""What `topics` and `groups` work on: a directory of topics, or a server.

A directory is opened for one command: to read, beside a process that writes, or to change it, alone. What a server
holds is read and changed through the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Protocol

from seglog.cli.frame import Args
from seglog.cli.location import client_at
from seglog.cli.open_broker import changing, looking
from seglog.config import LogConfig
from seglog.errors import GroupConflict, InvalidArgument, SeglogError
from seglog.policies import Policies
from seglog.terminal.exits import message_of
from seglog.terminal.units import format_count
from seglog.topic.figures import figures_of
from seglog.topic.layout.locations import is_location

if TYPE_CHECKING:
    from seglog.client.client import Client
    from seglog.client.models import TopicInfo
    from seglog.topic.broker import Broker
    from seglog.topic.groups import GroupState

Facts = dict[str, Any]
"""A topic as the HTTP API shows it."""


class Root(Protocol):
    """Topics and consumer groups."""

    def topics(self) -> tuple[list[Facts], list[dict[str, str]]]:
        """Return all topics, and "name", "error" and "message" of others that cannot be opened."""

    def topic(self, name: str) -> Facts:
        """Return one topic. TopicNotFound."""

    def create(self, name: str, partitions: int, config: LogConfig | None, policies: Policies | None) -> Facts:
        """Create a topic."""

    def alter(self, name: str, changes: Mapping[str, Any]) -> Facts:
        """Change settings of a topic; see Topic.alter."""

    def add_partitions(self, name: str, partitions: int) -> Facts:
        """Raise a topic's number of partitions."""

    def delete(self, name: str) -> None:
        """Delete a topic."""

    def groups(self) -> list[GroupState]:
        """Return all consumer groups."""

    def group(self, name: str) -> GroupState:
        """Return one group. GroupNotFound."""

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        """Return by partition its lowest and its next offset."""

    def offset_at(self, topic: str, timestamp: int) -> dict[int, int | None]:
        """Return by partition the first offset of that time (us) or later, None where all records are older."""

    def dropping(self, group: GroupState) -> Callable[[], None]:
        """Return what removes a group's members; GroupConflict where they cannot be removed."""

    def commit(self, group: str, offsets: dict[str, dict[int, int]]) -> None:
        """Commit offsets of a group without members; durable when it returns."""

    def delete_group(self, name: str) -> None:
        """Delete a group without members."""


def settle(args: Args, *names: str) -> None:
    """Give ROOT and the arguments after it their values: with --url, ROOT is left out. InvalidArgument."""
    values = [args.root, *(getattr(args, name) for name in names)]
    if args.url is not None:
        if values[-1] is not None:
            raise InvalidArgument("--url names the server: give no ROOT with it")
        values = [args.url, *values[:-1]]
        if not is_location(args.url):
            raise InvalidArgument(f"--url is {args.url!r}; it begins with http:// or https://")
    for name, value in zip(("root", *names), values, strict=True):
        if value is None:
            raise InvalidArgument(f"the argument {name.upper()} is missing; see --help")
        setattr(args, name, value)


@contextmanager
def root_to_read(args: Args) -> Iterator[Root]:
    """Open ROOT to read; creates nothing."""
    if is_location(args.root):
        with client_at(args, args.root) as client:
            yield RemoteRoot(client)
    else:
        with looking(args.root) as broker:
            yield LocalRoot(broker)


@contextmanager
def root_to_change(args: Args, over_http: str, *, create: bool = False) -> Iterator[Root]:
    """Open ROOT for a change; see `brokers.changing`."""
    if is_location(args.root):
        with client_at(args, args.root) as client:
            yield RemoteRoot(client)
    else:
        with changing(args.root, over_http, create=create, wait=args.wait) as broker:
            yield LocalRoot(broker)


class LocalRoot:
    """A directory of topics."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def topics(self) -> tuple[list[Facts], list[dict[str, str]]]:
        shown, failed = [], []
        for name in self._broker.topics():
            try:
                shown.append(self.topic(name))
            except SeglogError as error:
                failed.append({"name": name, "error": type(error).__name__, "message": message_of(error)})
        return shown, failed

    def topic(self, name: str) -> Facts:
        return figures_of(self._broker.topic(name))

    def create(self, name: str, partitions: int, config: LogConfig | None, policies: Policies | None) -> Facts:
        return figures_of(self._broker.create_topic(name, partitions=partitions, config=config, policies=policies))

    def alter(self, name: str, changes: Mapping[str, Any]) -> Facts:
        self._broker.alter_topic(name, **changes)
        return self.topic(name)

    def add_partitions(self, name: str, partitions: int) -> Facts:
        self._broker.add_partitions(name, partitions)
        return self.topic(name)

    def delete(self, name: str) -> None:
        self._broker.delete_topic(name)

    def groups(self) -> list[GroupState]:
        return [self.group(name) for name in self._broker.groups.names()]

    def group(self, name: str) -> GroupState:
        return self._broker.groups.describe(name)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        of = self._broker.topic(topic)
        logs = {number: of.partition(number) for number in range(of.partitions)}
        return {number: (log.lowest_offset, log.next_offset) for number, log in logs.items()}

    def offset_at(self, topic: str, timestamp: int) -> dict[int, int | None]:
        of = self._broker.topic(topic)
        logs = {number: of.partition(number) for number in range(of.partitions)}
        return {number: log.offset_at(timestamp, force_timestamp=True) for number, log in logs.items()}

    def dropping(self, group: GroupState) -> Callable[[], None]:
        def drop() -> None:
            for member in group.members:
                self._broker.groups.leave(group.name, member.id)

        return drop

    def commit(self, group: str, offsets: dict[str, dict[int, int]]) -> None:
        self._broker.groups.commit(group, offsets, durable=True)

    def delete_group(self, name: str) -> None:
        self._broker.groups.delete(name)


class RemoteRoot:
    """A server."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def topics(self) -> tuple[list[Facts], list[dict[str, str]]]:
        failed = self._client.failed_topics().items()
        shown = [_remote_facts(one) for one in self._client.topics()]
        return shown, [{"name": name, "error": "SeglogError", "message": why} for name, why in failed]

    def topic(self, name: str) -> Facts:
        return _remote_facts(self._client.topic(name).info())

    def create(self, name: str, partitions: int, config: LogConfig | None, policies: Policies | None) -> Facts:
        made = self._client.create_topic(name, partitions=partitions, config=config, policies=policies)
        return _remote_facts(made.info())

    def alter(self, name: str, changes: Mapping[str, Any]) -> Facts:
        return _remote_facts(self._client.alter_topic(name, **changes))

    def add_partitions(self, name: str, partitions: int) -> Facts:
        return _remote_facts(self._client.add_partitions(name, partitions))

    def delete(self, name: str) -> None:
        self._client.delete_topic(name)

    def groups(self) -> list[GroupState]:
        return [self.group(name) for name in self._client.groups()]

    def group(self, name: str) -> GroupState:
        return self._client.group(name)

    def bounds(self, topic: str) -> dict[int, tuple[int, int]]:
        found = self._client.topic(topic).bounds()
        return {number: (one.lowest_offset, one.next_offset) for number, one in found.items()}

    def offset_at(self, topic: str, timestamp: int) -> dict[int, int | None]:
        return self._client.topic(topic).offset_at(timestamp, force_timestamp=True)

    def dropping(self, group: GroupState) -> Callable[[], None]:
        count = format_count(len(group.members), "member")
        raise GroupConflict(f"group {group.name} has {count} that read from the server now; end them, then repeat this")

    def commit(self, group: str, offsets: dict[str, dict[int, int]]) -> None:
        self._client.commit(group, offsets, ack="durable")

    def delete_group(self, name: str) -> None:
        self._client.delete_group(name)


def _remote_facts(info: TopicInfo) -> Facts:
    config = info.config.to_json()
    facts = {
        "name": info.name,
        "partitions": info.partitions,
        "id": info.id,
        "records": info.records,
        "bytes": info.bytes,
        "retention": config["retention"],
        "policies": asdict(info.policies),
        "config": config,
    }
    return {**facts, "unknown": dict(info.unknown)} if info.unknown else facts
