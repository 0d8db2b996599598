"""A broker: a directory of topics, and what their consumer groups have committed. The composition root of topics.

    root/<topic>/         a topic each; the directory's name is its name
    root/.seglog.lock     held by the broker that has all of this open for writing
    root/.groups/         a compacted log of ours: members and committed offsets
    root/.deleted-<id>/   a topic on its way out, cleared when a broker opens the root for writing

What is durable is the topics' and the log's work; what makes a deletion whole or not done is one rename (`deletion`).
It knows nothing of record bytes, of assignment, and of who calls it over a network.

Locks, in the order in which they are taken: `_structure` (creating, altering, deleting), the groups' own, `_guard`
(which topics are open). Groups ask for partitions while they hold theirs, so `_guard` never calls them.
"""

from __future__ import annotations

import errno
import functools
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Concatenate, Literal, ParamSpec, Self, TypeVar

from seglog.clock import Clock, system_clock
from seglog.errors import (
    LogClosed,
    LogPoisoned,
    LogReadOnly,
    SeglogError,
    TopicExists,
    TopicNotFound,
)
from seglog.forks import Inheritable
from seglog.log.opening import Expose, check_expose, storage_at
from seglog.log.patience import patiently
from seglog.record import checked_text
from seglog.storage import Subdirectory
from seglog.topic import creation, deletion, description
from seglog.topic.groups import Groups
from seglog.topic.names import checked_name, is_name, refuse_reserved
from seglog.topic.root import OFFSETS, lock_to_write, open_to_read, open_to_write, refuse_other
from seglog.topic.topic import Topic
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable
    from types import TracebackType

    from seglog.config import LogConfig, Retention
    from seglog.format.cuts import Cuts
    from seglog.log.log import Log
    from seglog.log.write_lock import TreeLock
    from seglog.storage import Storage
    from seglog.topic.groups.consumer import Consumer
    from seglog.topic.groups.position import Start

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


def _closes(
    method: Callable[Concatenate[Broker, Arguments], Result],
) -> Callable[Concatenate[Broker, Arguments], Result]:
    """Let a method that takes the broker's locks close the broker as it ends, if `close` was called meanwhile."""

    @functools.wraps(method)
    def call(broker: Broker, /, *args: Arguments.args, **options: Arguments.kwargs) -> Result:
        try:
            return method(broker, *args, **options)
        finally:
            if broker._closing:
                broker.close()

    return call


class Broker(Inheritable, Uncopied):
    """Topics and consumer groups below one directory. A context manager; safe for threads.

    recovered: what opening had to correct, as text; empty after an orderly end.
    """

    def __init__(
        self,
        root: str | os.PathLike[str] | Storage,
        *,
        mode: Literal["a", "r"] = "a",
        expose: Expose = "appended",
        clock: Clock = system_clock,
        wait: float | None = None,
    ) -> None:
        """Open it. mode "a": create the directory if need be, hold it alone (LogLocked); "r": read beside a writer.

        expose="durable", of a broker that reads: its topics and consumers show only records that are synced.
        wait: seconds to wait for another process that has it open for writing; None: LogLocked at once.

        root: a path or a Storage. A topic is opened when it is first asked for. LogNotFound (mode "r") where there is
        no such directory, NotALog where it is a topic or a log itself, or a file.
        """
        self._storage = storage_at(root)
        self.root = Path(self._storage.path)
        self.recovered: tuple[str, ...] = ()
        self._mode: Literal["a", "r"] = mode
        self._expose: Expose = expose
        self._wait = wait
        self._clock = clock
        self._enter_child()
        self._watch_forks()
        self._open: dict[str, Topic] = {}
        self._failed: dict[str, SeglogError] = {}
        self._coming: str | None = None  # what is being created: nobody's yet, though it may be there already
        self._closed = False
        self._closing = False  # `close` was called in the middle of a call, which closes the broker as it ends
        self._lock: TreeLock | None = None  # of a broker that writes
        refuse_other(self._storage, mode)
        check_expose(expose, mode)
        with ExitStack() as resources:
            self._offsets = resources.enter_context(self._open_offsets(resources))
            resources.callback(self._close_topics)
            self._groups = self._load_groups()
            if mode == "a":
                deletion.clear(self._storage)
                self.recovered = (*creation.clear_leftovers(self._storage, self._lock), *self._groups.settle())
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
        """Return the names of all topics, in order."""
        self._check_open()
        return [name for name in description.below(self._storage) if is_name(name) and name != self._coming]

    @_closes
    def topic(self, name: str) -> Topic:
        """Return a topic, opened as the broker is; the same object until it is closed or deleted.

        TopicNotFound, and what `Topic.open` raises.
        """
        checked_name(name, "topic")
        with self._guard:
            self._check_open()
            known = self._open.get(name)
            if known is not None and not known.closed and self._is_present(name, known):
                return known
            if name == self._coming:
                raise TopicNotFound(name)
            return self._open_topic(name)

    def if_open(self, name: str) -> Topic | None:
        """Return a topic that is open already, None for any other: waits for nobody. Of a broker that writes."""
        topic = self._open.get(checked_text(name, "name"))
        return None if topic is None or topic.closed or self._mode == "r" else topic

    @_closes
    def create_topic(self, name: str, *, partitions: int = 1, config: LogConfig | None = None) -> Topic:
        """Create a topic, durably, and return it. TopicExists, and what `Topic.create` raises.

        InvalidArgument for a name that is reserved: a number, or what a file of a log or a topic is called.
        """
        refuse_reserved(checked_name(name, "topic"))
        with self._structure:
            self._check_writable("create_topic")
            if description.is_topic(self._at(name)):
                raise TopicExists(name)
            self._forget_offsets(name)  # of one that was deleted, if that failed half-way
            self._coming = name
            try:
                created = Topic.create(self._at(name), partitions=partitions, config=config, clock=self._clock)
                with self._guard:
                    self._open[name] = created
            finally:
                self._coming = None
            return created

    @_closes
    def alter_retention(self, name: str, retention: Retention) -> None:
        """Give every partition of a topic another retention, for good; see Topic.alter_retention. TopicNotFound."""
        with self._structure:
            self._check_writable("alter_retention")
            self.topic(name).alter_retention(retention)

    @_closes
    def delete_topic(self, name: str) -> None:
        """Delete a topic with its records and its committed offsets; durable when it returns. TopicNotFound.

        It is whole or gone, whenever the process dies. Whoever still has it gets LogClosed.
        """
        with self._structure:
            self._check_writable("delete_topic")
            checked_name(name, "topic")
            doomed = self._take_away(name)
            self._forget_offsets(name)
        deletion.remove(self._storage, doomed)

    def _forget_offsets(self, name: str) -> None:
        """Forget what was committed of a topic, durably: another of its name must not begin there."""
        self._groups.forget_topic(name)
        self._offsets.sync()

    def _take_away(self, name: str) -> str:
        """Take a topic's directory away, and close the topic; return what the directory is called now.

        It is closed before another of its name can come, which must not be written to by this one.
        """
        topic = None
        try:
            with self._guard:
                if not description.is_topic(self._at(name)):
                    raise TopicNotFound(name)
                self._sync_before_the_end(name)
                try:
                    return deletion.take_away(self._storage, name)
                finally:
                    if not description.is_topic(self._at(name)):
                        topic = self._open.pop(name, None)
                        self._failed.pop(name, None)
        finally:
            if topic is not None:
                with suppress(SeglogError):  # it syncs what nobody wants any more
                    topic.close()

    def _sync_before_the_end(self, name: str) -> None:
        """Sync a topic that is to be deleted, keep its files open: a reader that has begun gets all that it began with.

        Once the directory has moved, the partitions stop for good, and reads of them end at their durable offsets.
        """
        topic = self._open.get(name)
        if topic is not None and not topic.closed:
            with suppress(SeglogError):
                topic.sync()
            topic._keep_files()

    def _at(self, name: str) -> Subdirectory:
        """Return the directory of a topic."""
        return Subdirectory(self._storage, name, locked=self._lock)

    def _open_topic(self, name: str) -> Topic:
        if not description.is_topic(self._at(name)):
            raise TopicNotFound(name)
        stale = self._open.pop(name, None)
        if stale is not None:
            stale.close()
        try:
            self._open[name] = Topic.open(self._at(name), mode=self._mode, expose=self._expose, clock=self._clock)
        except SeglogError as error:
            self._failed[name] = error
            raise
        self._failed.pop(name, None)
        return self._open[name]

    def _is_present(self, name: str, topic: Topic) -> bool:
        """Whether an open topic is the one that stands on the disk; beside a writer it may be another by now."""
        if self._mode == "a":
            return True
        return description.is_topic(self._at(name)) and description.read(self._at(name)).id == topic.id

    # --- groups -------------------------------------------------------------------------------------------------

    @property
    def groups(self) -> Groups:
        """The consumer groups. Of a broker that only reads: as they stand at this moment."""
        self._check_open()
        return self._groups if self._mode == "a" else self._load_groups()

    def consumer(
        self,
        group: str,
        topics: Iterable[str],
        *,
        start: Start = "earliest",
        session_timeout: float = 30.0,
        share: tuple[int, int] | None = None,
    ) -> Consumer:
        """Return a consumer of topics for a group; see `seglog.topic.groups.consumer.Consumer`."""
        from seglog.topic.groups.consumer import Consumer  # noqa: PLC0415 - it needs a broker to be made

        return Consumer(self, self.groups, group, topics, start=start, session_timeout=session_timeout, share=share)

    def _load_groups(self) -> Groups:
        return Groups(
            self._offsets,
            partitions=self._partitions,
            clock=self._clock,
            bounds=self._bounds,
            records_from=self._records_from,
            history=self._history,
        )

    def _partitions(self, name: str) -> int:
        return self.topic(name).partitions

    def _bounds(self, name: str, partition: int) -> tuple[int, int]:
        log = self.topic(name).partition(partition)
        return log.lowest_offset, log.next_offset

    def _history(self, name: str, partition: int) -> tuple[str, Cuts]:
        manifest = self.topic(name).partition(partition).view().manifest
        return f"{manifest.log_id:016x}", manifest.cuts

    def _records_from(self, name: str, partition: int, offset: int) -> int:
        return self.topic(name).partition(partition).records_from(offset)

    # --- all of it ----------------------------------------------------------------------------------------------

    def logs(self) -> dict[str, Log]:
        """Return every log by name, "<topic>/<partition>" and ".groups", as `Cleaner(broker.logs)` takes them.

        A topic that cannot be opened is left out, and named in `failed`.
        """
        found = {OFFSETS: self._offsets}
        for name in self.topics():
            with suppress(SeglogError):
                topic = self.topic(name)
                found |= {f"{name}/{number}": topic.partition(number) for number in range(topic.partitions)}
        return found

    def free_bytes(self) -> int:
        """Return the bytes that are left where the topics are."""
        return self._storage.free_bytes()

    @property
    def failed(self) -> dict[str, SeglogError]:
        """The topics that could not be opened when last tried, and why."""
        return dict(self._failed)

    @property
    def poisoned(self) -> dict[str, LogPoisoned]:
        """The logs that take nothing more until they are opened anew, by the names of `logs`, and why."""
        found = {OFFSETS: self._offsets.failure}
        for name, topic in [*self._open.items()]:
            found |= {f"{name}/{number}": topic.partition(number).failure for number in range(topic.partitions)}
        return {name: failure for name, failure in found.items() if failure is not None}

    @_closes
    def sync(self) -> None:
        """Make everything that was appended and committed so far durable."""
        with self._guard:
            self._check_open()
            topics = [topic for topic in self._open.values() if not topic.closed]
        for topic in topics:
            topic.sync()
        self._offsets.sync()

    def close(self) -> None:
        """Close every topic and the groups (each syncs); all are closed even if one fails. Twice is harmless."""
        if self._structure._is_owned() or self._guard._is_owned():  # type: ignore[attr-defined] # as Condition asks it
            self._closing = True  # a signal handler's: the call that it interrupts closes the broker as it ends
            return
        with self._structure:
            with self._guard:
                self._closed = True
            self._resources.close()

    def _close_topics(self) -> None:
        with self._guard, ExitStack() as closing:
            for topic in self._open.values():
                closing.callback(topic.close)
            self._open.clear()

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
