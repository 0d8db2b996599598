"""A topic on disk: a directory of partitions `0/ 1/ ...`, each a log, and `topic.json`.

The logs make everything durable; this module uses the parts of a topic: `opening` creates and opens them,
`appending` chooses a record's partition, `publishing` adds batches of whole segments. It knows nothing of record bytes,
segments, consumers or brokers.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seglog.clock import Clock, system_clock
from seglog.config import Expose, LogConfig
from seglog.deprecated import AlteredByName
from seglog.errors import InvalidArgument, LogClosed, LogReadOnly, SeglogError
from seglog.log.appends.group import Draft
from seglog.log.locks.wait import patiently
from seglog.log.log import Log
from seglog.log.opening import with_archive
from seglog.log.staging import StagedSegment
from seglog.policies import Policies
from seglog.record import Header, Timestamp, checked_kind
from seglog.serializers import Deserialize, Serialize, serializers_of
from seglog.storage import Storage
from seglog.topic.appending import Appending
from seglog.topic.idempotency.marks import Share, checked_once
from seglog.topic.idempotency.memory import WINDOW, OnceWindow
from seglog.topic.layout.creation import check_added, check_partitions
from seglog.topic.opening import Mode, Parts, add_parts, alter_parts, create_parts, open_parts
from seglog.topic.partition_writer import PartitionWriter
from seglog.topic.publishing import Publishing
from seglog.topic.reading import ReadableTopic

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.arrow.encodable import EncodableRows
    from seglog.topic.idempotency.marks import UnmarkedRows

_NEEDS_PARTITION = "expected_offset needs partition: each partition has its own offsets"


class Topic(AlteredByName, ReadableTopic):
    """A named set of logs, from `Topic.create`, `Topic.open` or a `Broker`. A context manager, thread-safe.

    Kafka's default partitioner maps a key to a partition, so records of one key stay in one partition and keep their
    order. Records without a key go to the partitions in turn. Order holds within a partition only.

    The argument `once` of the appends is an idempotency key, 1 to 200 printable ASCII characters. An append that is
    repeated with the same key returns what the first returned and stores nothing; also while the first still runs, and
    after a crash, where a partly stored batch is completed. Another payload (keys and values) under the same key raises
    OnceConflict. once_window limits how far back keys are known. The first record of an append carries the key in a
    header "seglog-once", which every append removes from its input. Headers and timestamps are not part of the payload.
    """

    def __init__(
        self,
        parts: Parts,
        clock: Clock,
        *,
        unfinished: bool = False,
        once_window: OnceWindow = WINDOW,
    ) -> None:
        """unfinished: whether a `publish` may have been interrupted after its commit."""
        super().__init__(parts)
        self._clock = clock
        self._resources = parts.resources
        self._appending = Appending(parts.logs, once_window)
        self._structure = Lock()
        self._publishing = Publishing(parts.storage, parts.logs, clock, waiting=unfinished)
        self._writers: dict[int, PartitionWriter] = {}

    @classmethod
    def create(
        cls,
        path: str | os.PathLike[str] | Storage,
        *,
        partitions: int,
        config: LogConfig | None = None,
        policies: Policies | None = None,
        name: str | None = None,
        clock: Clock | None = None,
        once_window: OnceWindow = WINDOW,
        wait: float | None = None,
        archive: str | None = None,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Topic:
        """Create a topic of `partitions` logs with one config and open it for writing.

        Removes what an interrupted creation left; a creation that fails removes its own files.

        Args:
            path: A path or a Storage.
            partitions: 1 to 10,000.
            config: The config of every partition.
            policies: What the topic wants of requests.
            name: The name that readers see; default: the directory's name.
            clock: Microseconds since the epoch; default: the system's clock.
            once_window: How far back idempotency keys are known.
            wait: Seconds to wait for another process that has it open for writing; None: LogLocked at once.
            archive: See `open`.
            key_serializer, value_serializer, key_deserializer, value_deserializer: See `with_serializers`.

        Raises:
            InvalidArgument: the number of partitions is invalid, the name is reserved, or there is a topic already.
            NotALog: something else is at the path.
            LogLocked: another process holds it.
        """
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        checked_kind(once_window, OnceWindow, "once_window")
        clock = clock or system_clock
        parts = patiently(partial(create_parts, path, partitions, config, policies, name, clock), wait)
        topic = cls(parts, clock, once_window=once_window)._with_archive(archive)
        topic._serializers = serializers
        return topic

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str] | Storage,
        *,
        mode: Mode = "a",
        expose: Expose = "appended",
        clock: Clock | None = None,
        once_window: OnceWindow = WINDOW,
        wait: float | None = None,
        archive: str | None = None,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Topic:
        """Open an existing topic; never creates one.

        Args:
            path: A path or a Storage.
            mode: "a": for writing, with all its partitions; "r": for reading.
            expose: "durable", with mode "r": only records that are synced.
            clock: Microseconds since the epoch; default: the system's clock.
            once_window: How far back idempotency keys are known.
            wait: Seconds to wait for another process that has it open for writing; None: LogLocked at once.
            archive: The URL of the topic in an archive: what retention has deleted here is read from there.
            key_serializer, value_serializer, key_deserializer, value_deserializer: See `with_serializers`.

        Raises:
            LogNotFound, NotALog: there is no topic at the path.
            LogLocked: another process has the topic or a part of it open for writing.
            CorruptLog: topic.json is damaged, or a partition is missing or belongs to another topic.
            FormatVersionError: a newer version wrote the topic.
        """
        serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        checked_kind(once_window, OnceWindow, "once_window")
        clock = clock or system_clock
        parts = patiently(partial(open_parts, path, mode, expose, clock), wait)
        topic = cls(parts, clock, unfinished=mode == "a", once_window=once_window)
        try:
            topic._publishing.finish_waiting()
        except BaseException:
            topic.close()
            raise
        topic._with_archive(archive)
        topic._serializers = serializers
        return topic

    def _with_archive(self, archive: str | None) -> Self:
        """Read from an archive what retention has deleted here. Closes the topic after an error."""
        self._archive = archive
        try:
            self._read_archive(enumerate(self._logs))
        except BaseException:
            self.close()
            raise
        return self

    def _read_archive(self, logs: Iterable[tuple[int, Log]]) -> None:
        if self._archive is not None:
            for number, log in logs:
                with_archive(log, f"{self._archive.rstrip('/')}/{number}")

    def with_serializers(
        self,
        *,
        key_serializer: Serialize | None = None,
        value_serializer: Serialize | None = None,
        key_deserializer: Deserialize | None = None,
        value_deserializer: Deserialize | None = None,
    ) -> Topic:
        """Return this topic with other serializers; both are the same topic, and closing one closes both.

        See `seglog.serializers`. `append`, `append_stream` (its key) and `route` serialize, `read` and `records`
        deserialize. Batches, the logs of the partitions and `writer` keep bytes.

        Args:
            key_serializer, value_serializer: A serializer, or a function that returns bytes; None: bytes.
            key_deserializer, value_deserializer: A serializer, or a function of bytes; None: bytes.

        Raises:
            InvalidType: one of them is neither.
        """
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        twin._serializers = serializers_of(key_serializer, value_serializer, key_deserializer, value_deserializer)
        return twin

    # --- writing ------------------------------------------------------------------------------------------------

    def writer(self, number: int) -> PartitionWriter:
        """Return the appends of a partition, for callers that keep it.

        Args:
            number: Number of the partition.

        Raises:
            InvalidArgument: If the topic has no such partition.
        """
        log, found = self.partition(number), self._writers.get(number)
        if found is None:  # another thread may make one too: the first one stays
            made = PartitionWriter((self.name, number), log, self._appending, self._publishing)
            found = self._writers.setdefault(number, made)
        return found

    def route(self, key: Any, once: str | None = None) -> int:
        """Return the partition for a record: by its key; without a key by `once`, so that a retry gets the same one;
        without both the next in turn, which advances the turn.
        """
        if self._serializers is not None:
            key = self._serializers.serialized_key(self.name, key)
        return self._appending.route(key, once)

    def is_ready(self, partition: int, length: int, once: str | None = None) -> bool:
        """Whether an `append` of `length` bytes would not block, for callers that must not wait.

        A hint: it may have changed by the time of the append. See Log.is_ready.
        """
        self.partition(partition)
        return self._appending.is_ready(partition, length, None if once is None else checked_once(once))

    def append(
        self,
        value: Any,
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        partition: int | None = None,
        expected_offset: int | None = None,
        once: str | None = None,
    ) -> tuple[int, int]:
        """Append one record and return (partition, offset).

        Args:
            value, key: Bytes or None; with serializers, objects or None.
            timestamp, force_timestamp, headers: As in `Log.append`.
            partition: Overrides the partition that `route` chooses.
            expected_offset: Append only at this offset; needs `partition`.
            once: An idempotency key; see the class.

        Raises:
            InvalidArgument: expected_offset without partition, an unknown partition, or what Log.append rejects.
            OffsetConflict, KeyRequired, RecordTooLarge: as Log.append.
            OnceConflict: `once` was used for another payload.
            SerializationError: a serializer refused the key or value.
        """
        self._publishing.finish_waiting()
        if partition is not None:
            self.partition(partition)
        elif expected_offset is not None:
            raise InvalidArgument(_NEEDS_PARTITION)
        if self._serializers is not None:
            key, value = self._serializers.serialized(self.name, key, value, partition)
        draft = Draft(value, key, timestamp, headers, expected_offset, force_timestamp)
        return self._appending.append(draft, partition=partition, once=once)

    def _routed(self, draft: Draft, partition: int | None) -> tuple[int, Draft] | None:
        """Return the partition of an append without `once`, and what its log appends; None if `append` must do more.

        For callers that append to the partitions' logs themselves, many records together.
        """
        if self._publishing.is_waiting:
            return None
        if partition is not None:
            self.partition(partition)
        elif draft.expected_offset is not None:
            raise InvalidArgument(_NEEDS_PARTITION)
        if self._serializers is not None:
            key, value = self._serializers.serialized(self.name, draft.key, draft.value, partition)
            draft = draft._replace(key=key, value=value)
        return self._appending.routed(draft, partition)

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
        partition: int | None = None,
        once: str | None = None,
        digest: int | None = None,
    ) -> tuple[int, int]:
        """Append one record whose value comes in chunks, and return (partition, offset).

        Args:
            chunks, key, timestamp, force_timestamp, headers, limit, length: As in `Log.append_stream`.
            partition: Overrides the partition that `route` chooses.
            once: An idempotency key; needs `digest`.
            digest: The value's XXH64 (seed 0), which must be known before the value.

        Raises:
            InvalidArgument: the chunks have another digest; nothing is stored.
            StreamOverflow: the value is longer than limit or its segment; nothing is stored.
            OnceConflict: `once` was used for another payload.
        """
        self._publishing.finish_waiting()
        if partition is not None:
            self.partition(partition)
        if self._serializers is not None:
            key = self._serializers.serialized_key(self.name, key, partition)
        times: dict[str, Any] = {"timestamp": timestamp, "force_timestamp": force_timestamp}
        options = {"headers": headers, "limit": limit, "length": length, **times}
        return self._appending.append_stream(chunks, key=key, partition=partition, once=once, digest=digest, **options)

    def append_batch(
        self,
        data: pa.Table | pa.RecordBatch,
        *,
        partition: int | None = None,
        once: str | None = None,
        force_timestamp: bool = False,
    ) -> dict[int, range]:
        """Append rows and return partition -> their offsets.

        The column `partition` gives the partition of the rows where it is not null. Rows keep their order within a
        partition; rows without a key go to the partitions in turn. The part of a batch for one partition is appended
        completely or not at all; if one fails, earlier ones stay and a note on the error lists their offsets.

        A stream is appended in pieces of 16 MiB, each a batch; if others append meanwhile, the offsets of a partition
        range from its first to its last. With `once` a stream is read completely before anything is appended, and the
        call can be repeated after any failure.

        Args:
            data: As in `Log.append_batch`.
            partition: The partition of all rows; the column `partition` is then ignored.
            once: An idempotency key; see the class.
            force_timestamp: As in `Log.append_batch`.

        Raises:
            InvalidType, InvalidArgument: the data is not Arrow, or has columns or partitions that it must not have.
            KeyRequired, RecordTooLarge: as Log.append_batch.
            OnceConflict: `once` was used for another payload.
        """
        self._publishing.finish_waiting()
        if partition is not None:
            self.partition(partition)
        return self._appending.append_batch(data, partition=partition, once=once, force_timestamp=force_timestamp)

    def _append_encodable(self, partition: int, rows: EncodableRows) -> range:
        """Append rows without marks that are ready to be encoded to a partition; see `Log._append_encodable`."""
        self._publishing.finish_waiting()
        return self.partition(partition)._append_encodable(rows)

    def _append_unmarked_once(self, partition: int, rows: UnmarkedRows, once: str) -> range:
        """Append such rows with an idempotency key to a partition, as `append_batch` does with the same as Arrow."""
        self._publishing.finish_waiting()
        self.partition(partition)
        return self._appending.append_unmarked_once(partition, rows, once)

    def _complete_batch(self, data: pa.Table | pa.RecordBatch, found: Share, once: str) -> None:
        """Append the rows of a batch that a crash has cut, as `append_batch`, to the partition that has the others.

        found: its rows in that log as their mark has them, which may be further back than the topic remembers keys.
        """
        self._publishing.finish_waiting()
        self._appending.complete_batch(data, found, once)

    def publish(
        self, staged: Mapping[int, Sequence[StagedSegment]], *, query: str, batch: int
    ) -> dict[int, range] | None:
        """Add a batch of staged segments atomically.

        All partitions get their part or none does, whenever the process dies; readers may see one partition's part
        slightly before another's. An error with a note "committed" loses nothing: the next opening completes the batch.

        Args:
            staged: partition -> segments that a `Stage` of that log wrote.
            query: The name of the writing query.
            batch: The batch's number, which grows.

        Returns:
            partition -> its offsets; None, without any change, if this or a later batch of the query was already
            published.
        """
        return self._publishing.publish(staged, query=query, batch=batch)

    def check_staged(self, staged: Mapping[int, Sequence[StagedSegment]]) -> None:
        """Raise, without any change, if any partition would refuse the batch, even one without segments in it."""
        self._publishing.check_staged(staged)

    def published(self, query: str) -> int | None:
        """Return the number of the last batch published for a query, None before the first."""
        return self._publishing.published(query)

    def add_partitions(self, partitions: int) -> None:
        """Raise the number of partitions, durably, with the config of the present ones.

        Keys are assigned to the new number from then on, so the records of a key may be in two partitions: a compaction
        keeps one of each. Readers in other processes see the new partitions when they open the topic again. Appends may
        go on.

        Args:
            partitions: Their new number, up to 10,000.

        Raises:
            InvalidArgument: If it is not more than the present number.
            LogReadOnly: If the topic is open for reading.
        """
        check_partitions(partitions)
        with self._structure:
            present = self.partitions
            check_added(self.name, present, partitions)
            self._check_writable("add_partitions")
            logs, resources = add_parts(self._parts, partitions, self._logs[0].config, self._clock)
            with resources:
                self._read_archive(enumerate(logs, present))
                self._resources.enter_context(resources.pop_all())
            self._logs.extend(logs)

    def alter(self, **changes: Any) -> None:
        """Change settings of every partition, also of those added later, and policies, by one commit; see `Log.alter`.

        After a crash all partitions and the topic have the new settings, or none has. If a partition cannot store them,
        the error names it; the others have them, and the next `alter` or opening completes the change.

        Args:
            changes: As of `Log.alter`; and `policies`, of which only the fields change that it was given.
        """
        self._check_writable("alter")
        with self._structure:
            alter_parts(self._parts, changes)

    def _check_writable(self, call: str) -> None:
        if self.closed:
            raise LogClosed(f"{self.path}: the topic is closed; open it again")
        if self._parts.tree is None:
            raise LogReadOnly(errno.EROFS, f'{call} needs a topic opened with mode="a"', str(self.path))

    # --- the end ------------------------------------------------------------------------------------------------

    def sync(self) -> None:
        """Make everything appended so far durable, in every partition."""
        for log in self._logs:
            log.sync()

    def _keep_files(self) -> None:
        """Keep the files of every partition open, as far as possible; see `Log._keep_files`."""
        for log in self._logs:
            with suppress(SeglogError):
                log._keep_files()

    def close(self) -> None:
        """Sync and close every partition; all are closed even if one fails. Closing twice is harmless."""
        self._ended.set()
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Topic({str(self.path)!r}, name={self.name!r}, partitions={self.partitions})"
