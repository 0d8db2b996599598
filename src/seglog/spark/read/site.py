"""Where the logs of a read are, on a file system or a server: what planning and tasks ask of either, and which it is.

Planning looks at partitions and gets snapshots, whichever kind of site they come from; a task holds one log and reads a
range. All that is known of directories is in `place`, all of servers in `remote`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, Self

from seglog.spark.read.place import LocalSite

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from seglog.spark.read.extents import LogSnapshot
    from seglog.spark.read.options import ReadOptions, Selection
    from seglog.topic.places import Place


class Held(Protocol):
    """What a log held at one moment, for reading. bytes_read: of stores, or of a server's answers, so far."""

    bytes_read: int

    @property
    def snapshot(self) -> LogSnapshot:
        """What it held."""

    def batches(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the records start <= offset < stop of the snapshot, each batch with the offset at which to go on.

        Columns are those of `Log.batches`, rows about as many as Spark likes best. LogTruncated or OffsetOutOfRange
        where the log has changed since so that it must be looked at again: what was yielded before is good.
        LogNotFound where it is gone, CorruptRecord for a damaged record.
        """


class Site(Protocol):
    """Logs that can be looked at and read; a context manager. where: a path or URL, for people."""

    where: str

    def places(self, selection: Selection) -> list[Place]:
        """Return the partitions that are selected, in order of topic and partition; errors name the option."""

    def look_at_all(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return what every partition holds now, looked at in one go; LogNotFound or NotALog where one is gone."""

    def look_at_those_left(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return what every partition that is there holds now; one that has gone is left out."""

    def offset_at(self, snapshot: LogSnapshot, timestamp: int) -> int | None:
        """Return a log's first offset whose timestamp (us) is this or later, None where every record is older."""

    def hold(self, place: Place) -> Held:
        """Return what a log holds now, for reading; LogNotFound where it is gone."""

    def close(self) -> None:
        """Let go of files and connections."""

    def __enter__(self) -> Self:
        """Return itself."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close it."""


def site_of(options: ReadOptions) -> Site:
    """Return where the options say the logs are. Nothing is opened or sent yet; MissingExtra without the client."""
    if options.url is None:
        return LocalSite(options.path, durable=options.durable)
    from seglog.spark.read.remote import RemoteSite  # noqa: PLC0415 - needs httpx, an optional dependency

    return RemoteSite(options.url, options.token, durable=options.durable)
