"""A broker: a directory of topics, and the committed offsets of their consumer groups. Topics' composition root.

    root/<topic>/         a topic each; the directory's name is its name
    root/.seglog.lock     held by the broker that has everything open for writing
    root/.groups/         a compacted log: members and committed offsets
    root/.transactions/   a file for each transaction that is open, or decided and not complete
    root/.producers/      a compacted log: who may write transactions
    root/.deleted-<id>/   a topic being deleted, cleared when a broker opens the root for writing

The topics and the log make everything durable; one rename makes a deletion atomic (`deletion`). The broker knows
nothing of record bytes, of assignment, and of callers over a network.

`OpenTopics` holds the topics that are open.

Locks, in the order in which they are taken: `_structure` (creating, altering, deleting), the groups' own, `_guard`
(which topics are open). Groups ask for partitions while they hold theirs, so `_guard` never calls them.
"""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Self, TypeVar

from seglog.clock import Clock, system_clock
from seglog.config import Expose, LogConfig
from seglog.deprecated import TopicsAlteredByName
from seglog.errors import (
    LogClosed,
    LogPoisoned,
    LogReadOnly,
    SeglogError,
    TopicExists,
    TopicNotFound,
)
from seglog.forks import Inheritable
from seglog.format.manifest import Role
from seglog.log.locks.wait import patiently
from seglog.log.locks.write_lock import TreeLock
from seglog.log.log import Log
from seglog.log.opening import check_expose, check_leads, storage_at
from seglog.policies import Policies
from seglog.record import checked_text
from seglog.serializers import Deserialize, Serialize, serializers_of
from seglog.storage import Storage
from seglog.topic.groups import Groups
from seglog.topic.groups_of_topics import groups_of
from seglog.topic.layout import creation, deletion, description
from seglog.topic.layout.names import checked_name, is_name, refuse_reserved
from seglog.topic.layout.places import is_log
from seglog.topic.layout.root import OFFSETS, PRODUCERS, lock_to_write, open_to_read, open_to_write, refuse_other
from seglog.topic.open_topics import OpenTopics
from seglog.topic.topic import Topic
from seglog.topic.transactions.transactions import DIRECTORY, Transactions
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from seglog.topic.groups.consumer import Consumer
    from seglog.topic.groups.position import Start

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _closes(
    method: Callable[Concatenate[Broker, Arguments], Result],
) -> Callable[Concatenate[Broker, Arguments], Result]:
    """Let a method that takes the broker's locks close the broker at its end, if `close` was called meanwhile."""

    @functools.wraps(method)
    def call(broker: Broker, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return method(broker, *args, **options)
        finally:
            if broker._closing:
                broker.close()

    return call


class Broker(TopicsAlteredByName, Inheritable, Uncopied):
    """Topics and consumer groups below one directory. A context manager, thread-safe.

    recovered: what opening had to correct, as text; empty after a clean shutdown.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | Storage,
        *,
        mode: Literal["a", "r"] = "a",
        expose: Expose = "appended",
        clock: Clock = system_clock,
        wait: float | None = None,
        archive: str | None = None,
    ) -> None:
        """Open a directory of topics. A topic is opened when it is first used.

        Args:
            root: A path or a Storage.
            mode: "a": create the directory if necessary and hold it exclusively; "r": read beside a writer.
            expose: "durable", with mode "r": topics and consumers show only records that are synced.
            clock: Microseconds since the epoch; default: the system's clock.
            wait: Seconds to wait for another process that has it open for writing; None: raise LogLocked immediately.
            archive: The URL of the directory's archive: what retention has deleted here is read from there.

        Raises:
            LogLocked: another process has the directory or a part of it open for writing.
            LogNotFound: with mode "r", there is no such directory.
            NotALog: it is a file, or itself a topic or a log.
        """
        self._storage = storage_at(root)
        self.root = Path(self._storage.path)
        self.recovered: tuple[str, ...] = ()
        self._mode: Literal["a", "r"] = mode
        self._wait = wait
        archive = None if archive is None else checked_text(archive, "archive").rstrip("/")
        self._clock = clock
        self._enter_child()
        self._watch_forks()
        self._prepare: Callable[[Topic], object] | None = None
        self._closed = False
        self._closing = False  # `close` was called during a call, which closes the broker at its end
        self._lock: TreeLock | None = None  # of a writing broker
        self._producers: Log | None = None
        refuse_other(self._storage, mode)
        check_expose(expose, mode)
        with ExitStack() as resources:
            self._offsets = resources.enter_context(self._open_offsets(resources))
            self._topics = OpenTopics(self._storage, self._lock, mode, expose, clock, archive)
            resources.callback(self._close_topics)
            self._groups = groups_of(self._offsets, self.topic, self._clock)
            self._transactions = Transactions(self._topics.at(DIRECTORY), self.topic, self._groups, clock)
            if mode == "a":
                deletion.clear(self._storage)
                cleared = creation.clear_leftovers(self._storage, self._lock)
                resources.callback(self._transactions.close)
                self.recovered = (*cleared, *self._transactions.load(), *self._groups.settle())
            self._resources = resources.pop_all()

    def _enter_child(self) -> None:
        self._structure = threading.RLock()
        self._guard = threading.RLock()

    def _open_offsets(self, resources: ExitStack) -> Log:
        if self._mode == "r":
            return open_to_read(self._storage, self._clock)
        lock = patiently(lambda: lock_to_write(self._storage), self._wait)
        resources.callback(lock.release)
        self._lock = lock.tree
        return open_to_write(self._storage, self._clock, lock.tree)

    # --- topics -------------------------------------------------------------------------------------------------

    def topics(self) -> list[str]:
        """Return the names of all topics, sorted."""
        self._check_open()
        return [name for name in description.below(self._storage) if is_name(name) and name != self._topics.coming]

    @_closes
    def topic(
        self,
        name: str,
        *,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Topic:
        """Return a topic, opened in the broker's mode; the same object until it is closed or deleted.

        With serializers: an object of its own each time, which is the same topic; see Topic.with_serializers.

        Raises:
            TopicNotFound: there is no such topic.
            InvalidType: a serializer is neither a serializer nor a function.
            CorruptLog, FormatVersionError, StorageError: as Topic.open.
        """
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        checked_name(name, "topic")
        with self._guard:
            self._check_open()
            known = self._topics.get(name)
            return known if serializers is None else known.with_serializers(**serializers._asdict())

    def if_open(self, name: str) -> Topic | None:
        """Return a topic that is already open, else None; never waits. Only for a writing broker."""
        name = checked_text(name, "name")
        return None if self._mode == "r" else self._topics.if_open(name)

    @_closes
    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        config: LogConfig | None = None,
        policies: Policies | None = None,
    ) -> Topic:
        """Create a topic durably and return it.

        Args:
            name: The topic's name.
            partitions: 1 to 10,000.
            config: The config of every partition.
            policies: What the topic wants of requests.

        Raises:
            TopicExists: there is a topic of this name.
            InvalidArgument: the number of partitions is invalid, or the name is invalid or reserved (a number, or the
                name of a file of a log or a topic).
        """
        refuse_reserved(checked_name(name, "topic"))
        with self._structure:
            self._check_writable("create_topic")
            check_leads(self._offsets.view().manifest.role, self._offsets.path)
            if description.is_topic(self._topics.at(name)):
                raise TopicExists(name)
            self._forget_offsets(name)  # of a deleted topic, if its deletion failed half-way
            self._topics.coming = name
            try:
                created = Topic.create(
                    self._topics.at(name),
                    partitions=partitions,
                    config=config,
                    policies=policies,
                    clock=self._clock,
                    archive=self._topics.archive_of(name),
                )
                self._prepare_or_remove(created)
                with self._guard:
                    self._topics.add(name, created)
            finally:
                self._topics.coming = None
            return created

    def _prepare_or_remove(self, created: Topic) -> None:
        """Prepare a new topic, see `_prepare_topics`; after an error there is no topic, as far as that is possible."""
        if self._prepare is None:
            return
        try:
            self._prepare(created)
        except BaseException:
            with suppress(SeglogError):  # the first error counts; a topic that stays can be used
                created.close()
                deletion.remove(self._storage, deletion.take_away(self._storage, created.name))
            raise

    def _prepare_topics(self, prepare: Callable[[Topic], object]) -> None:
        """Call this with each topic that is created from now on, before anything can be appended to it."""
        self._prepare = prepare

    @_closes
    def add_partitions(self, name: str, partitions: int) -> None:
        """Raise the number of a topic's partitions, durably; see Topic.add_partitions.

        Raises:
            TopicNotFound: there is no such topic.
            InvalidArgument: it has as many already.
        """
        with self._structure:
            self._check_writable("add_partitions")
            topic = self.topic(name)
            topic.add_partitions(partitions)
            if self._prepare is not None:
                self._prepare(topic)

    @_closes
    def alter_topic(self, /, name: str, **changes: Any) -> None:
        """Change policies of a topic and settings of its partitions by one commit; see Topic.alter.

        Raises:
            TopicNotFound: there is no such topic.
            ConfigError: a setting is unknown or cannot change, or a value is invalid.
        """
        with self._structure:
            self._check_writable("alter_topic")
            self.topic(name).alter(**changes)

    @_closes
    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and committed offsets; durable when it returns.

        The topic is complete or gone, whenever the process dies. Other users of the open topic get LogClosed.

        Raises:
            TopicNotFound: there is no such topic.
        """
        with self._structure:
            self._check_writable("delete_topic")
            checked_name(name, "topic")
            doomed = self._take_away(name)
            self._forget_offsets(name)
        deletion.remove(self._storage, doomed)

    def _forget_offsets(self, name: str) -> None:
        """Delete the committed offsets of a topic durably: a new topic of its name must not start there."""
        self._groups.forget_topic(name)
        self._offsets.sync()

    def _take_away(self, name: str) -> str:
        """Rename a topic's directory away and close the topic; return the directory's new name.

        The topic is closed before a new one of its name can exist, so that it never writes to that one.
        """
        topic = None
        try:
            with self._guard:
                if not description.is_topic(self._topics.at(name)):
                    raise TopicNotFound(name)
                self._topics.prepare_to_go(name)
                try:
                    return deletion.take_away(self._storage, name)
                finally:
                    if not description.is_topic(self._topics.at(name)):
                        topic = self._topics.forget(name)
        finally:
            if topic is not None:
                with suppress(SeglogError):  # it syncs data that is no longer needed
                    topic.close()

    # --- groups -------------------------------------------------------------------------------------------------

    @property
    def lineage(self) -> tuple[str, Role]:
        """The id of the log of groups, which copies of this directory share, and its role."""
        self._check_open()
        manifest = self._offsets.view().manifest
        return f"{manifest.log_id:016x}", manifest.role

    @property
    def groups(self) -> Groups:
        """The consumer groups; of a reading broker their state at this moment."""
        self._check_open()
        if self._mode == "a":
            return self._groups
        self._look_for_offsets()
        return groups_of(self._offsets, self.topic, self._clock)

    def _look_for_offsets(self) -> None:
        """Open the log of groups if it did not exist when this broker was opened to read."""
        with self._guard:
            own = self._topics.at(OFFSETS)
            if self._offsets.path != own.path and is_log(own):  # else it is the empty one of open_to_read
                self._offsets = self._resources.enter_context(open_to_read(self._storage, self._clock))

    def _producers_log(self, *, create: bool) -> Log | None:
        """Return the log of who may write transactions, None if it does not exist and is not to be created."""
        with self._guard:
            self._check_writable("transactions")
            if self._producers is None and (create or is_log(self._topics.at(PRODUCERS))):
                assert self._lock is not None  # noqa: S101 - a writing broker holds it
                log = open_to_write(self._storage, self._clock, self._lock, PRODUCERS)
                self._producers = self._resources.enter_context(log)
            return self._producers

    def consumer(
        self,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = "earliest",
        session_timeout: float = 30.0,
        share: tuple[int, int] | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Consumer:
        """Return a consumer of topics for a group; see `seglog.topic.groups.consumer.Consumer`."""
        from seglog.topic.groups.consumer import Consumer  # noqa: PLC0415 - it imports the broker

        return Consumer(
            self,
            self.groups,
            group,
            topics,
            start=start,
            session_timeout=session_timeout,
            share=share,
            key_deserializer=key_deserializer,
            value_deserializer=value_deserializer,
        )

    # --- all of it ----------------------------------------------------------------------------------------------

    def logs(self) -> dict[str, Log]:
        """Return every log by name, "<topic>/<partition>", ".groups" and ".producers", as `Cleaner` takes them.

        A topic that cannot be opened is omitted, and listed in `failed`.
        """
        found = self._own_logs()
        for name in self.topics():
            with suppress(SeglogError):
                topic = self.topic(name)
                found |= {f"{name}/{number}": topic.partition(number) for number in range(topic.partitions)}
        return found

    def _own_logs(self) -> dict[str, Log]:
        return {OFFSETS: self._offsets} | ({} if self._producers is None else {PRODUCERS: self._producers})

    def free_bytes(self) -> int:
        """Return the free bytes on the file system of the topics."""
        return self._storage.free_bytes()

    @property
    def failed(self) -> dict[str, SeglogError]:
        """The topics that could not be opened at the last try, with the error."""
        return dict(self._topics.failed)

    @property
    def poisoned(self) -> dict[str, LogPoisoned]:
        """The logs that reject writes until they are opened again, by the names of `logs`, with the error."""
        found = {name: log.failure for name, log in self._own_logs().items()}
        for name, topic in self._topics.items():
            found |= {f"{name}/{number}": topic.partition(number).failure for number in range(topic.partitions)}
        return {name: failure for name, failure in found.items() if failure is not None}

    @property
    def unpublished(self) -> dict[str, SeglogError]:
        """The committed transactions whose records cannot be appended, by their files, with the error."""
        return {f"{DIRECTORY}/{name}": error for name, (_, error) in [*self._transactions.failed.items()]}

    @_closes
    def sync(self) -> None:
        """Make everything that was appended and committed so far durable."""
        with self._guard:
            self._check_open()
            topics = [topic for _, topic in self._topics.items() if not topic.closed]
        for topic in topics:
            topic.sync()
        self._offsets.sync()

    def close(self) -> None:
        """Sync and close every topic and the groups; all are closed even if one fails. Closing twice is harmless."""
        if self._structure._is_owned() or self._guard._is_owned():  # type: ignore[attr-defined] # as Condition does
            self._closing = True  # called by a signal handler: the interrupted call closes the broker at its end
            return
        with self._structure:
            with self._guard:
                self._closed = True
            self._resources.close()

    def _close_topics(self) -> None:
        with self._guard:
            self._topics.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Broker({str(self.root)!r}, mode={self._mode!r})"

    def _check_open(self) -> None:
        if self._closed:
            raise LogClosed(f"{self.root}: the broker is closed; open it again")

    def _check_writable(self, what: str) -> None:
        self._check_open()
        self._check_not_inherited("broker")
        if self._mode == "r":
            raise LogReadOnly(errno.EROFS, f'{what} needs a broker opened with mode="a"', str(self.root))


def transactions_of(broker: Broker) -> Transactions:
    """Return the transactions over topics and groups, for the protocols that have them.

    Raises:
        LogReadOnly: The broker was opened to read.
    """
    broker._check_writable("transactions")
    return broker._transactions
