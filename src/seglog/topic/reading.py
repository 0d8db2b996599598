"""Reading a topic: its facts, and records by partition, offset or key. `topic.Topic` adds the changes."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from typing import Any

from seglog.errors import InvalidArgument
from seglog.log.log import Log
from seglog.policies import Policies
from seglog.record import Record, checked_all, checked_offset
from seglog.serializers import Serializers
from seglog.topic.opening import Parts
from seglog.topic.partitioner import partition_of
from seglog.uncopied import Uncopied


class ReadableTopic(Uncopied):
    """The reading operations and the facts of a topic."""

    def __init__(self, parts: Parts) -> None:
        self.path = parts.path
        self._parts = parts
        self._ended = threading.Event()
        self._description = parts.description
        self._logs = parts.logs
        self._serializers: Serializers | None = None

    # --- facts --------------------------------------------------------------------------------------------------

    @property
    def closed(self) -> bool:
        """Whether the topic is closed."""
        return self._ended.is_set()

    @property
    def name(self) -> str:
        """The topic's name."""
        return self._description.name

    @property
    def id(self) -> str:
        """The topic's identity: 32 hex digits, random, set at its creation."""
        return self._description.id

    @property
    def partitions(self) -> int:
        """The number of partitions."""
        return len(self._logs)

    @property
    def policies(self) -> Policies:
        """What the topic wants of requests."""
        return self._parts.rules.policies

    def partition(self, number: int) -> Log:
        """Return the log of a partition. Raises InvalidArgument unless 0 <= number < partitions."""
        number, logs = checked_offset(number, "partition"), self._logs
        if not 0 <= number < len(logs):
            raise InvalidArgument(f"topic {self.name!r} has partitions 0 to {len(logs) - 1}, not {number}")
        return logs[number]

    # --- records ------------------------------------------------------------------------------------------------

    def read(self, partition: int, offset: int) -> Record:
        """Return one record of a partition, deserialized.

        Raises:
            OffsetOutOfRange, OffsetCompacted, CorruptRecord, NotDurableYet: as Log.read.
            SerializationError: a deserializer refused the record.
        """
        record = self.partition(partition).read(offset)
        return self._deserialized(record, partition)

    def read_many(self, partition: int, offsets: Iterable[int], *, skip_compacted: bool = False) -> list[Record]:
        """Return the records of a partition at these offsets, in this order, deserialized; see Log.read_many.

        Raises:
            OffsetOutOfRange, OffsetCompacted, CorruptRecord, NotDurableYet: as Log.read_many.
            SerializationError: a deserializer refused a record.
        """
        records = self.partition(partition).read_many(offsets, skip_compacted=skip_compacted)
        return [self._deserialized(record, partition) for record in records] if self._serializers else records

    def read_keys(self, keys: Iterable[bytes]) -> dict[bytes, Record]:
        """Return the newest record of each key from the partition that the key belongs to; see Log.read_keys.

        For records that were appended by key, not to a partition of the caller's choice. Neither keys nor values are
        (de)serialized: keys are looked up and returned as they are stored.

        Raises:
            InvalidType, CorruptRecord, MissingExtra: as Log.read_keys.
        """
        wanted = checked_all(keys, bytes, "keys")
        by_partition: dict[int, list[bytes]] = {}
        for key in wanted:
            by_partition.setdefault(partition_of(key, self.partitions), []).append(key)
        found: dict[bytes, Record] = {}
        for number, group in by_partition.items():
            found |= self.partition(number).read_keys(group)
        return {key: found[key] for key in wanted if key in found}

    def records(self, partition: int, start: int | None = None, stop: int | None = None) -> Iterator[Record]:
        """Iterate over a range of a partition, deserialized; by default over everything present now.

        Raises:
            OffsetOutOfRange, CorruptRecord, NotDurableYet: as Log.scan.
            SerializationError: a deserializer refused a record, whose `offset` it has; continue after it to skip it.
        """
        records = self.partition(partition).scan(start, stop)
        if self._serializers is None:
            return records
        return (self._deserialized(record, partition) for record in records)

    def _deserialized(self, record: Record, partition: int) -> Record:
        if self._serializers is None:
            return record
        return self._serializers.deserialized(record, self.name, partition)

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        """Export all records as an Arrow stream, partition by partition, with a column `partition`.

        Keys and values are plain binary, the other columns as `Log.batches`.
        """
        from seglog.topic.arrow_stream import stream  # noqa: PLC0415 - imports pyarrow when used

        logs = [self.partition(number) for number in range(self.partitions)]
        parts = [log.batches(values="binary") for log in logs]  # all views are taken now
        return stream(parts, requested_schema)
