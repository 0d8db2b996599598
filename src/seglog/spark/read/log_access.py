"""The location of a read's logs, a file system or a server, behind one interface for planning and tasks.

Planning looks at partitions and takes snapshots, whichever kind of site they come from; a task holds one log and reads
a range. `local_logs` knows directories, `server_logs` knows servers, `tiered` knows tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Protocol, Self

from seglog.spark.read.extents import LogSnapshot
from seglog.topic.layout.places import Place

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.spark.read.options import Selection
    from seglog.spark.read.plan import OffsetRange


class Held(Protocol):
    """A log's state at one moment, for reading."""

    @property
    def bytes_read(self) -> int:
        """Bytes of stores, or of a server's answers, so far."""

    @property
    def snapshot(self) -> LogSnapshot:
        """What it held."""

    def batches(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the records start <= offset < stop of the snapshot, each batch with the offset to continue at.

        Columns are those of `Log.batches`, batches of a size that suits Spark. Raises LogTruncated or OffsetOutOfRange
        if the log has changed so that it must be looked at again: what was yielded before is valid. LogNotFound if it
        is gone, CorruptRecord for a damaged record.
        """


class Site(Protocol):
    """Logs that can be looked at and read; a context manager. where: a path or URL, for messages."""

    where: str

    def places(self, selection: Selection) -> list[Place]:
        """Return the selected partitions, by topic and partition; errors name the option."""

    def look_at_all(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every partition, taken in one pass. Raises LogNotFound or NotALog."""

    def look_at_those_left(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every existing partition; missing ones are omitted."""

    def offset_at(self, snapshot: LogSnapshot, timestamp: int) -> int | None:
        """Return a log's first offset at or after a timestamp (us), None if all records are older."""

    def hold(self, place: Place) -> Held:
        """Return the present state of a log, for reading. Raises LogNotFound if it is gone."""

    def keep(self, snapshots: Sequence[LogSnapshot]) -> bool:
        """Keep what snapshots show for the tasks of a read, for a time that each task prolongs.

        Where that is not possible, a task raises SnapshotExpired for what has changed. Returns False if a log has
        changed since its snapshot was taken, so that it must be looked at again.
        """

    def hold_planned(self, part: OffsetRange) -> Held:
        """Return a planned range as it was when it was planned, for reading; its `snapshot` is the log's present state.
        Raises LogNotFound if the log is gone.

        Its `batches` raise SnapshotExpired if records of the range were deleted or replaced, and are not kept.
        """

    def close(self) -> None:
        """Release files and connections."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
