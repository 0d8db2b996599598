"""Find the logs behind a path: which partitions there are, and what each of them holds now.

The access of planning and tasks to the file system. Decides nothing except by option path and the selection.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Self

from seglog.config import Expose
from seglog.errors import InvalidArgument, LogNotFound, LogReplaced, NotALog, SnapshotExpired, StorageError
from seglog.format.manifest import SegmentEntry
from seglog.log.follower import LogFollower
from seglog.log.opening import open_log, storage_at
from seglog.log.view import View
from seglog.spark.option_values import is_archive
from seglog.spark.read.extents import Extent, LogSnapshot
from seglog.spark.read.log_access import Site
from seglog.topic.layout import description
from seglog.topic.layout.places import Place, is_log, topics_at

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.segment.reader import SegmentReader
    from seglog.spark.read.options import Selection
    from seglog.spark.read.plan import OffsetRange

KEEP_SECONDS = 900.0  # that a plan keeps files after its last task has begun
OPEN_LOGS = 200  # a follower holds three files; beyond this number logs are reopened for every look


def places(path: str, selection: Selection) -> list[Place]:
    """Return the selected partitions behind `path`, by topic and partition.

    A standalone log is partition 0 of a topic with its directory's name. Raises LogNotFound or NotALog naming option
    path, InvalidArgument naming the option of the selection, and the errors of reading a topic.json.
    """
    if is_archive(path):
        return selected(_archived_topics(path, selection), selection, path)
    root = Path(path).absolute()
    return selected(_topics(root, selection), selection, str(root))


def selected(topics: Mapping[str, list[Place]], selection: Selection, where: str) -> list[Place]:
    """Return the selected partitions of topics, in order. Raises InvalidArgument for a missing one."""
    for name in selection.topics:
        if name not in topics:
            raise InvalidArgument(f"option {selection.option}: there is no topic {name!r} at {where}")
    wanted = sorted(name for name in topics if selection.wants(name))
    return [place for name in wanted for place in _selected(topics[name], selection)]


def _topics(root: Path, selection: Selection) -> dict[str, list[Place]]:
    """Return every topic's partitions, of a topic, a log or a broker directory."""
    if not (description.is_topic(root) or is_log(root)):
        _refuse_unless_broker(root, selection)
    try:
        return topics_at(root)
    except NotALog as error:
        raise NotALog(f"option path: {error}") from error


def _archived_topics(url: str, selection: Selection) -> dict[str, list[Place]]:
    """Return every topic's partitions in an archive, or in a part of it."""
    try:
        root = storage_at(url)
    except LogNotFound as error:
        raise LogNotFound(f"option path: there is no archive at {url}") from error
    if selection.option is None and not (description.is_topic(root) or is_log(root)):
        raise InvalidArgument(
            f"option path: {url} holds several topics; select some with assign, subscribe or subscribePattern"
        )
    return topics_at(root)


def _refuse_unless_broker(root: Path, selection: Selection) -> None:
    """Accept a broker directory; if there is no topic yet, a selection shows that one is intended."""
    if root.is_file():
        raise NotALog(f"option path: {root} is a file, not the directory of a log, a topic or a broker")
    if not root.is_dir():
        raise LogNotFound(f"option path: there is neither a log, a topic nor a broker at {root}")
    if selection.option is not None:
        return
    if description.below(root):
        raise InvalidArgument(
            f"option path: {root} is a broker; select topics with assign, subscribe or subscribePattern"
        )
    if any(root.iterdir()):
        raise NotALog(f"option path: {root} is neither a log, a topic nor a broker")
    raise LogNotFound(f"option path: there is neither a log, a topic nor a broker at {root}")


def _selected(partitions: list[Place], selection: Selection) -> list[Place]:
    if selection.partitions is None:
        return partitions
    topic = partitions[0].topic
    wanted = selection.partitions[topic]
    if wanted[-1] >= len(partitions):
        raise InvalidArgument(
            f"option assign: topic {topic!r} has no partition {wanted[-1]}, only 0 to {len(partitions) - 1}"
        )
    return [partitions[number] for number in wanted]


class Logs:
    """Open logs for reading; a context manager. Keeps the most recently used ones open."""

    def __init__(self, *, durable: bool = False) -> None:
        """durable: show only what survives power loss."""
        self._expose: Expose = "durable" if durable else "appended"
        self._open: OrderedDict[str, LogFollower] = OrderedDict()

    def get(self, path: str) -> LogFollower:
        """Return the log at a path, opened if necessary; valid until OPEN_LOGS others were requested."""
        if path not in self._open:
            log = open_log(path, mode="r", expose=self._expose)
            assert isinstance(log, LogFollower)  # noqa: S101 - the kind of this mode
            self._open[path] = log
            if len(self._open) > OPEN_LOGS:
                self._open.popitem(last=False)[1].close()
        self._open.move_to_end(path)
        return self._open[path]

    def view(self, path: str) -> View:
        """Return the present view of the log at a path, also if it is another log than before."""
        try:
            return self.get(path).view()
        except LogReplaced:
            self.forget(path)
            return self.get(path).view()

    def look(self, place: Place) -> LogSnapshot:
        """Return the present state of a partition's log. Raises the errors of opening it."""
        try:
            return snapshot_of(self.view(place.path), place)
        except BaseException:
            self.forget(place.path)
            raise

    def forget(self, path: str) -> None:
        """Close a log, if it is open."""
        log = self._open.pop(path, None)
        if log is not None:
            log.close()

    def close(self) -> None:
        """Close all of them."""
        for path in list(self._open):
            self.forget(path)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def snapshot_of(view: View, place: Place) -> LogSnapshot:
    """Return the content of a view of a partition's log; does not read the active segment's records."""
    manifest, end = view.manifest, view.next_offset
    extents = [_sealed(entry) for entry in manifest.segments[:-1]]
    active = manifest.active
    extents.append(
        Extent(
            active.base_offset,
            end,
            view.active.size,
            active.file,
            end - active.base_offset if active.dense else None,
            dense=active.dense,
            entry=active,
        )
    )
    return LogSnapshot(
        place.topic,
        place.partition,
        place.path,
        manifest.start,
        end,
        tuple(extent for extent in extents if extent.start < extent.stop),
        f"{manifest.log_id:016x}",
        manifest.epoch,
        manifest.config.initial_offset,
        manifest.cuts,
        manifest.version,
    )


def _sealed(entry: SegmentEntry) -> Extent:
    return Extent(
        entry.base_offset,
        entry.next_offset or entry.base_offset,
        entry.bytes or 0,
        entry.file,
        entry.records,
        entry.dense,
        entry,
    )


def look_at_all(logs: Logs, wanted: Sequence[Place]) -> list[LogSnapshot]:
    """Return the present state of every partition, taken in one pass, so that a read ends at one moment.

    Raises LogNotFound or NotALog, naming option path, if a log is missing.
    """
    found = []
    for place in wanted:
        try:
            found.append(logs.look(place))
        except LogNotFound as error:
            raise LogNotFound(f"option path: there is no log at {place.path}") from error
        except NotALog as error:
            raise NotALog(f"option path: {place.path} is not a log: {error}") from error
    return found


def look_at_those_left(logs: Logs, wanted: Sequence[Place]) -> list[LogSnapshot]:
    """Return the present state of every existing partition; missing ones are omitted."""
    found = []
    for place in wanted:
        with suppress(LogNotFound, NotALog):
            found.append(logs.look(place))
    return found


def keep_version(log: LogFollower, version: int) -> None:
    """Keep the files of a version of a log for KEEP_SECONDS, unless its directory cannot be written to."""
    with suppress(StorageError):
        log._keep_version(version, KEEP_SECONDS)


class LocalSite(Site):
    """The logs at a path."""

    def __init__(self, path: str, *, durable: bool = False) -> None:
        self.where = path
        self._logs = Logs(durable=durable)

    def places(self, selection: Selection) -> list[Place]:
        """Return the selected partitions; see the function."""
        return places(self.where, selection)

    def look_at_all(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every partition; see the function."""
        return look_at_all(self._logs, wanted)

    def look_at_those_left(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every existing partition."""
        return look_at_those_left(self._logs, wanted)

    def offset_at(self, snapshot: LogSnapshot, timestamp: int) -> int | None:
        """Return a log's first offset at or after a timestamp (us), None if all records are older."""
        return self._logs.get(snapshot.path).offset_at(timestamp, force_timestamp=True)

    def hold(self, place: Place) -> LocalHeld:
        """Return the present state of a log, for reading. Raises the errors of opening it."""
        view = self._logs.view(place.path)
        return LocalHeld(snapshot_of(view, place), view.readers)

    def keep(self, snapshots: Sequence[LogSnapshot]) -> bool:
        """Keep the files of snapshots for KEEP_SECONDS, where the directory can be written to."""
        for one in snapshots:
            view = self._logs.view(one.path)  # whose lease keeps the files until there is the other one
            if view.manifest.version != one.version:
                return False
            keep_version(self._logs.get(one.path), one.version)
        return True

    def hold_planned(self, part: OffsetRange) -> LocalHeld:
        """Return a planned range, read from the files that it was planned with, and keep them again."""
        log = self._logs.get(part.path)
        assert part.snapshot is not None  # noqa: S101 - of a batch
        trace = part.snapshot.trace
        keep_version(log, part.snapshot.version)
        entries = [extent.entry for extent in part.extents if extent.entry is not None]
        place = Place(part.topic, part.partition, part.path)

        def readers(start: int, stop: int) -> Iterator[SegmentReader]:
            for entry in entries:
                if entry.next_offset is not None and entry.next_offset <= start:
                    continue
                try:
                    yield log._reader_of(entry, stop, trace)
                except SnapshotExpired as error:
                    raise error.of(max(start, entry.base_offset), stop) from error.__cause__

        return LocalHeld(snapshot_of(log.view(), place), readers)

    def close(self) -> None:
        """Close the logs."""
        self._logs.close()


class LocalHeld:
    """One state of a log, for reading. bytes_read: of stores."""

    def __init__(self, snapshot: LogSnapshot, readers: Callable[[int, int], Iterable[SegmentReader]]) -> None:
        """readers: returns the segments that hold offsets start .. stop; it keeps their files."""
        self.snapshot = snapshot
        self.bytes_read = 0
        self._readers = readers

    def batches(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the records of a range as `site.Held` specifies, one block of the store per batch."""
        from seglog.spark.read.blocks import Blocks  # noqa: PLC0415 - Arrow and the kernels: planning needs neither

        for reader in self._readers(start, stop):
            blocks = Blocks(reader, start, stop)
            for batch in blocks:
                yield batch, blocks.next_offset
            self.bytes_read += blocks.bytes_read
