"""A topic on disk: a directory of partitions `0/ 1/ ...`, each a log of its own, and `topic.json`.

Everything durable is the logs' work; this module is what a topic's parts are put together in: where its directory comes
from is in `creation`, which partition a record goes to in `appending`, batches of whole segments in `publishing`. It
knows nothing of record bytes, segments, consumers or brokers.
"""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from seglog.clock import system_clock
from seglog.errors import InvalidArgument, SeglogError
from seglog.log.opening import Expose, open_partition, storage_at
from seglog.record import checked_offset, checked_text
from seglog.storage import Storage
from seglog.topic import creation
from seglog.topic import description as topic_json
from seglog.topic.appending import Appending
from seglog.topic.names import refuse_reserved
from seglog.topic.once import WINDOW, OnceWindow, checked_once
from seglog.topic.publishing import Publishing
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    import pyarrow as pa

    from seglog.clock import Clock
    from seglog.config import LogConfig, Retention
    from seglog.log.log import Log
    from seglog.log.staging import StagedSegment
    from seglog.record import Header
    from seglog.topic.description import Description

Mode = Literal["a", "r"]


class Topic(Uncopied):
    """A named set of logs, from `Topic.create`, `Topic.open` or a `Broker`; a context manager, safe for threads.

    Records with a key go where Kafka's default partitioner would put them, so one key stays in one partition
    and its records keep their order. Records without one are dealt out in turn. Order holds within a
    partition only.

    once, of the appends: an idempotency key, 1 to 200 characters of printable ASCII. An append that is repeated with
    the same one returns what the first returned and stores nothing: also while the first is still under way, and after
    a crash, where a batch of which a part was stored is completed. OnceConflict for another payload (keys and values)
    under the same key. once_window: what is remembered. The first record of an append carries the key, in a header
    "seglog-once", which every append removes from the headers that it is given. Headers and timestamps are no part of
    the payload: a retry may carry others.
    """

    def __init__(
        self,
        path: Path,
        storage: Storage,
        description: Description,
        logs: list[Log],
        resources: ExitStack,
        clock: Clock,
        *,
        unfinished: bool = False,
        once_window: OnceWindow = WINDOW,
    ) -> None:
        """path: as callers see it; unfinished: whether batches may wait that an interrupted `publish` committed."""
        self.path = path
        self.closed = False
        self._description = description
        self._logs = logs
        self._resources = resources
        self._appending = Appending(logs, once_window)
        self._publishing = Publishing(storage, logs, clock, waiting=unfinished)

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | Storage,
        *,
        partitions: int,
        config: LogConfig | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        once_window: OnceWindow = WINDOW,
    ) -> Topic:
        """Create a topic of `partitions` logs (1 to 10,000) with one config and open it for writing.

        path: or a Storage. name: as readers see it (default: the directory's name). What an interrupted create left is
        cleared first; what this one leaves where it fails is removed. Raises InvalidArgument (a bad count, a reserved
        name, a topic is already here), NotALog (something else is here), LogLocked.
        """
        root, clock = storage_at(path), clock or system_clock
        shown = _path_of(path, root)
        creation.check_partitions(partitions)
        refuse_reserved(shown.resolve().name)
        name = None if name is None else checked_text(name, "name")
        is_made = creation.make_directory(root)
        try:
            with ExitStack() as resources:
                lock = creation.lock_topic(root)
                resources.callback(lock.release)
                creation.clear_directory(root, lock.tree)
                description = topic_json.Description.new(name or shown.resolve().name, partitions)
                places = [creation.partition_of(root, number, lock.tree) for number in range(partitions)]
                logs = [
                    resources.enter_context(open_partition(place, (description.id, number), config, clock=clock))
                    for number, place in enumerate(places)
                ]
                _commit(root, description)
                return cls(shown, root, description, logs, resources.pop_all(), clock, once_window=once_window)
        except Exception as error:
            creation.abandon(root, error, is_made=is_made)
            raise

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Storage,
        *,
        mode: Mode = "a",
        expose: Expose = "appended",
        clock: Clock | None = None,
        once_window: OnceWindow = WINDOW,
    ) -> Topic:
        """Open an existing topic at a path or in a Storage; it is never created. mode "a": for writing (as a
        whole: LogLocked while another process has a part of it), "r": for reading, of expose="durable" what is synced.

        Raises LogNotFound, NotALog, FormatVersionError, CorruptLog (damaged, a partition is missing or is another's),
        LogLocked.
        """
        root, clock = storage_at(path), clock or system_clock
        shown = _path_of(path, root)
        description = topic_json.read(root)
        with ExitStack() as resources:
            tree = None
            if mode == "a":
                lock = creation.lock_topic(root)
                resources.callback(lock.release)
                tree = lock.tree
            places = [creation.existing_partition(root, number, tree) for number in range(description.partitions)]
            logs = [
                resources.enter_context(
                    open_partition(place, (description.id, number), mode=mode, expose=expose, clock=clock)
                )
                for number, place in enumerate(places)
            ]
            topic = cls(
                shown, root, description, logs, resources, clock, unfinished=mode == "a", once_window=once_window
            )
            topic._publishing.finish_waiting()
            topic._resources = resources.pop_all()
            return topic

    # --- facts --------------------------------------------------------------------------------------------------

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._description.name

    @property
    def id(self) -> str:
        """The topic's identity: 32 hex digits, drawn when it was created."""
        return self._description.id

    @property
    def partitions(self) -> int:
        """How many partitions there are."""
        return self._description.partitions

    def partition(self, number: int) -> Log:
        """Return the log of one partition, 0 .. partitions - 1; InvalidArgument for any other number."""
        number = checked_offset(number, "partition")
        if not 0 <= number < self.partitions:
            raise InvalidArgument(f"topic {self.name!r} has partitions 0 to {self.partitions - 1}, not {number}")
        return self._logs[number]

    def route(self, key: bytes | None, once: str | None = None) -> int:
        """Return the partition that a record goes to: by its key; without one by `once`, so that a retry takes the same
        way; without both the next in turn, and each call takes a turn.
        """
        return self._appending.route(key, once)

    # --- writing ------------------------------------------------------------------------------------------------

    def is_ready(self, partition: int, length: int, once: str | None = None) -> bool:
        """Whether `append` of so many bytes to a partition could begin at once, for callers that must not wait.

        A hint: by the time of the append it may be otherwise. See Log.is_ready.
        """
        self.partition(partition)
        return self._appending.is_ready(partition, length, None if once is None else checked_once(once))

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        expected_offset: int | None = None,
        once: str | None = None,
    ) -> tuple[int, int]:
        """Append one record and return (partition, offset); arguments as `Log.append`, once: see above.

        partition: in place of the one that `route` gives; expected_offset needs it (InvalidArgument).
        """
        self._publishing.finish_waiting()
        if partition is not None:
            self.partition(partition)
        elif expected_offset is not None:
            raise InvalidArgument("expected_offset needs a partition: offsets count within one")
        return self._appending.append(
            value,
            key=key,
            timestamp=timestamp,
            headers=headers,
            partition=partition,
            expected_offset=expected_offset,
            once=once,
        )

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
        partition: int | None = None,
        once: str | None = None,
        digest: int | None = None,
    ) -> tuple[int, int]:
        """Append one record whose value comes in pieces and return (partition, offset); see `Log.append_stream`.

        digest: the value's XXH64 (seed 0), which `once` needs: it precedes the value. InvalidArgument, and nothing
        stored, where the pieces give another.
        """
        self._publishing.finish_waiting()
        if partition is not None:
            self.partition(partition)
        return self._appending.append_stream(
            chunks,
            key=key,
            timestamp=timestamp,
            headers=headers,
            limit=limit,
            length=length,
            partition=partition,
            once=once,
            digest=digest,
        )

    def append_batch(
        self, data: pa.Table | pa.RecordBatch, *, partition: int | None = None, once: str | None = None
    ) -> dict[int, range]:
        """Append rows (columns as `Log.append_batch`) and return the offsets they got, by partition.

        A column `partition` names the partition of the rows where it is not null; partition: that of all rows, and the
        column is not looked for. Rows keep their order within a partition; rows without a key are dealt out in turn.
        Each partition's share is appended whole or not at all; if one fails, earlier ones stay and the error's note
        tells their offsets. data: as for `Log.append_batch`. A stream is appended in pieces of 16 MiB, each as a batch
        of its own: where others append meanwhile, the offsets of a partition go from the first to the last. With
        `once` a stream is read completely before any of it is appended, and the call may be repeated after any
        failure.
        """
        self._publishing.finish_waiting()
        if partition is not None:
            self.partition(partition)
        return self._appending.append_batch(data, partition=partition, once=once)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all records as an Arrow stream, partition by partition, with a column `partition`.

        Keys and values are plain binary, the other columns as `Log.batches`.
        """
        from seglog.topic.exported import stream  # noqa: PLC0415 - pyarrow loads when used

        return stream([self.partition(number) for number in range(self.partitions)], requested_schema)

    def publish(
        self, staged: Mapping[int, Sequence[StagedSegment]], *, query: str, batch: int
    ) -> dict[int, range] | None:
        """Add a batch of staged segments (partition -> segments that a `Stage` of that log wrote) all at once.

        Returns partition -> its offsets; None, and nothing is done, if this or a later batch of the query is here
        already. All partitions get their share or none does, whenever the process dies; readers may see one partition's
        share a moment before another's. An error whose note says "committed" is no loss: the next opening finishes.
        """
        return self._publishing.publish(staged, query=query, batch=batch)

    def check_staged(self, staged: Mapping[int, Sequence[StagedSegment]]) -> None:
        """Raise, without any change, where a partition would refuse: also one without a share."""
        self._publishing.check_staged(staged)

    def published(self, query: str) -> int | None:
        """Return the number of the last batch that was published for a query, None before the first."""
        return self._publishing.published(query)

    def alter_retention(self, retention: Retention) -> None:
        """Give every partition another retention, for good; see `Log.alter_retention`.

        Partition by partition, each durable. If one fails, a note lists those that have the new one; call it again.
        """
        for number, log in enumerate(self._logs):
            try:
                log.alter_retention(retention)
            except Exception as error:
                error.add_note(f"partitions below {number} of topic {self.name!r} have the new retention already")
                raise

    # --- the end ------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything appended so far durable, in every partition."""
        for log in self._logs:
            log.sync()

    def _keep_files(self) -> None:
        """Keep the files of every partition open, as far as that is possible; see `Log._keep_files`."""
        for log in self._logs:
            with suppress(SeglogError):
                log._keep_files()

    def close(self) -> None:
        """Close every partition (each syncs); all are closed even if one fails. Closing twice is harmless."""
        self.closed = True
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Topic({str(self.path)!r}, name={self.name!r}, partitions={self.partitions})"


def _commit(root: Storage, description: Description) -> None:
    """Make it a topic, or leave it none."""
    try:
        topic_json.write(root, description)
    except Exception:
        creation.retract(root)
        raise


def _path_of(place: str | os.PathLike[str] | Storage, root: Storage) -> Path:
    """Return a path as it was given; of another Storage what it is called."""
    return Path(place) if isinstance(place, (str, os.PathLike)) else Path(root.path)
