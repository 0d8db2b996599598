"""What `read`, `tail`, `export` and `info` read from: the partitions of a log or a topic, here or on a server.

A standalone log is partition 0 of a source that is not `partitioned`. Opening creates nothing and takes no lock.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from heapq import merge
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from seglog.cli.frame import Args, flag
from seglog.cli.held import HeldSource
from seglog.cli.location import Remote, client_for, locate
from seglog.cli.open_log import opened
from seglog.cli.options import expose_from
from seglog.errors import CorruptRecord, InvalidArgument
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import format_count

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.client.topic import RemoteTopic
    from seglog.log.info import SegmentInfo
    from seglog.log.log import Log
    from seglog.record import Record

Row = tuple[int, "Record"]
"""A partition's number and one of its records."""

SHOWN = 10  # offsets of damaged records that are named
FIRST_WAIT_S, LONGEST_WAIT_S = 0.0005, 0.02
POLL_BYTES = 1024 * 1024
BATCH_RECORDS = 65_536
BATCH_BYTES = 16 * 1024 * 1024


SKIP_DAMAGED = flag(
    "--skip-damaged", help="leave out damaged records instead of stopping at the first; they are counted, exit code 1"
)


class Skipped:
    """Damaged records that a command has left out."""

    def __init__(self) -> None:
        self.errors: list[CorruptRecord] = []

    def exit(self) -> Exit:
        """Report how many there were; return the exit code."""
        if not self.errors:
            return Exit.OK
        offsets = [str(error.offset) for error in self.errors[:SHOWN] if error.offset is not None]
        more = ", ..." if len(self.errors) > SHOWN else ""
        what = f" (offsets {', '.join(offsets)}{more})" if offsets else ""
        output.note(f"seglog: {format_count(len(self.errors), 'damaged record')} left out{what}; run `seglog verify`")
        return Exit.FAILED


class Bounds(NamedTuple):
    """Offsets of a partition: of its first record, and the next one to be appended."""

    lowest: int
    end: int


class Source(Protocol):
    """Partitions by number. start <= offset < stop everywhere; the caller stays within `bounds`."""

    topic: str
    partitioned: bool  # whether it is a topic, so that records are shown with their partition

    def bounds(self) -> dict[int, Bounds]:
        """Return the bounds of every partition."""

    def offset_at(self, timestamp: int) -> dict[int, int | None]:
        """Return partition -> the first offset at or after that time (us), None if all records are older."""

    def stop_before(self, timestamp: int) -> dict[int, int]:
        """Return partition -> an offset from which on no record is older than that time (us)."""

    def last(self, partition: int, count: int, stop: int) -> int:
        """Return the offset of the `count`-th record before `stop`; the lowest one if there are fewer."""

    def read(self, partition: int, offset: int) -> Record:
        """Return one record."""

    def scan(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        """Iterate over a range."""

    def batches(self, partition: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """Iterate over a range as Arrow batches with plain binary columns."""

    @property
    def skipped(self) -> Skipped:
        """The damaged records that were left out."""

    def follow(self, starts: Mapping[int, int]) -> Iterator[Row]:
        """Iterate over records as they are appended, without end."""


@contextmanager
def reading(args: Args, *, patient: bool = False) -> Iterator[Source]:
    """Open what LOG names. patient: wait while a server restarts. Raises LogNotFound, TopicNotFound, ..."""
    with ExitStack() as copies, _opened(args, patient=patient) as source:
        yield HeldSource(source, copies) if getattr(args, "hold", False) else source


@contextmanager
def _opened(args: Args, *, patient: bool) -> Iterator[Source]:
    place = locate(args)
    with ExitStack() as resources:
        skip = bool(getattr(args, "skip_damaged", False))
        if isinstance(place, Remote):
            if skip:
                raise InvalidArgument("--skip-damaged reads a log's directory: run it where the server's topics are")
            client = resources.enter_context(client_for(args, place, patient=patient))
            yield RemoteSource(client.topic(place.topic, expose=expose_from(args)), place.partition)
            return
        paths = {0: place.path}
        topic = place.topic or _archived_topic(place.path)
        if topic is not None:
            from seglog.topic.layout.places import logs_at

            numbers = {one.partition: one.path for one in logs_at(topic)}
            paths = numbers if place.partition is None else {place.partition: place.path}
        logs = {
            number: resources.enter_context(opened(path, mode="r", expose=expose_from(args)))
            for number, path in paths.items()
        }
        name = Path(place.path).resolve() if place.topic is None else place.topic.resolve()
        yield LocalSource(logs, name.name, partitioned=topic is not None and place.partition is None, skip=skip)


def _archived_topic(place: str) -> str | None:
    """Return the place if it is the URL of a topic in an archive."""
    from seglog.storage.urls import is_storage_url
    from seglog.topic.layout import description

    return place if is_storage_url(place) and description.is_topic(place) else None


class LocalSource:
    """Logs in this file system."""

    def __init__(self, logs: dict[int, Log], topic: str, *, partitioned: bool, skip: bool = False) -> None:
        """skip: leave out damaged records."""
        self.logs, self.topic, self.partitioned = logs, topic, partitioned
        self._views = {number: log.view() for number, log in logs.items()}  # bounds and scans are of one moment
        self._ends = {number: view.next_offset for number, view in self._views.items()}
        self.skipped = Skipped()
        self._on_corrupt = self.skipped.errors.append if skip else None

    def bounds(self) -> dict[int, Bounds]:
        return {number: Bounds(view.lowest_offset, self._ends[number]) for number, view in self._views.items()}

    def offset_at(self, timestamp: int) -> dict[int, int | None]:
        return {number: log.offset_at(timestamp, force_timestamp=True) for number, log in self.logs.items()}

    def stop_before(self, timestamp: int) -> dict[int, int]:
        return {number: time_stop(log.segments, timestamp, log.next_offset) for number, log in self.logs.items()}

    def last(self, partition: int, count: int, stop: int) -> int:
        log = self.logs[partition]
        start = tail_start(log.segments, count, stop)
        offsets = [record.offset for record in log.view().scan(start, stop, keep=0)] if stop - start > count else []
        return offsets[-count] if count and len(offsets) >= count else start

    def read(self, partition: int, offset: int) -> Record:
        return self.logs[partition].read(offset)

    def scan(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        return self._views[partition].scan(start, stop, self._on_corrupt)

    def batches(self, partition: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        log = self.logs[partition]
        fullest = max((segment.bytes // max(1, segment.records) for segment in log.segments), default=1)
        rows = max(1, min(BATCH_RECORDS, BATCH_BYTES // max(1, fullest)))
        view = self._views[partition]
        if self._on_corrupt is not None:
            return view.sound_batches(start, stop, self._on_corrupt, max_records=rows, values="binary")
        return view.batches(start, stop, max_records=rows, values="binary")

    def follow(self, starts: Mapping[int, int]) -> Iterator[Row]:
        tails = {number: self.logs[number].tail(start) for number, start in starts.items()}
        wait = FIRST_WAIT_S
        while True:
            rows = [[(number, record) for record in tail.poll(size=POLL_BYTES)] for number, tail in tails.items()]
            yield from in_time_order(rows)
            if any(rows):
                wait = FIRST_WAIT_S
                continue
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT_S)


class RemoteSource:
    """A topic on a server, or one partition of it."""

    def __init__(self, topic: RemoteTopic, only: int | None) -> None:
        self.topic, self.partitioned = topic.name, only is None
        self.remote = topic
        self.skipped = Skipped()
        self._only = only

    def bounds(self) -> dict[int, Bounds]:
        found = {
            number: Bounds(one.lowest_offset, one.end(self.remote.expose))
            for number, one in self.remote.bounds().items()
        }
        if self._only is None:
            return found
        if self._only not in found:
            raise InvalidArgument(f"topic {self.topic!r} has partitions 0 to {len(found) - 1}, not {self._only}")
        return {self._only: found[self._only]}

    def offset_at(self, timestamp: int) -> dict[int, int | None]:
        return self.remote.offset_at(timestamp, force_timestamp=True)

    def stop_before(self, timestamp: int) -> dict[int, int]:
        stops = {}
        for number, bounds in self.bounds().items():
            segments: Any = self.remote.partition(number).segments  # they have the fields that are used here
            stops[number] = time_stop(segments, timestamp, bounds.end)
        return stops

    def last(self, partition: int, count: int, stop: int) -> int:
        lowest = self.bounds()[partition].lowest
        span = count
        while count:
            start = max(lowest, stop - span)
            offsets = [
                offset for batch in self.batches(partition, start, stop) for offset in batch.column(0).to_pylist()
            ]
            if len(offsets) >= count:
                return int(offsets[-count])
            if start == lowest:
                return lowest
            span *= 4
        return stop

    def read(self, partition: int, offset: int) -> Record:
        return self.remote.read(partition, offset)

    def scan(self, partition: int, start: int, stop: int) -> Iterator[Record]:
        return self.remote.records(partition, start, stop)

    def batches(self, partition: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        return self.remote.batches(partition, start, stop)

    def follow(self, starts: Mapping[int, int]) -> Iterator[Row]:
        from seglog.record import Record

        only = self._only
        for one in self.remote.follow(only, dict(starts) if only is None else starts[only]):
            yield one.partition, Record(one.offset, one.timestamp, one.key, one.value, one.headers)


def in_time_order(rows: Sequence[Iterable[Row]]) -> Iterator[Row]:
    """Merge the rows of several partitions by time; each partition keeps its order."""
    return iter(rows[0]) if len(rows) == 1 else merge(*rows, key=lambda row: row[1].timestamp)


def time_stop(segments: Sequence[SegmentInfo], to_time: int, end: int) -> int:
    """Return the offset from which on no segment holds a timestamp before `to_time` (us)."""
    for segment in reversed(segments):
        if segment.records and (segment.min_timestamp is None or segment.min_timestamp < to_time):
            break
        end = min(end, segment.base_offset)
    return end


def tail_start(segments: Sequence[SegmentInfo], count: int, stop: int) -> int:
    """Return an offset so that at least `count` records are between it and `stop`, or all if there are fewer.

    Computed for dense segments; a segment with gaps counts from its base offset.
    """
    start = stop
    for segment in reversed(segments):
        if count <= 0:
            break
        end = min(segment.next_offset, stop)  # the log may have grown since `stop` was read
        start = min(start, segment.base_offset)
        if segment.dense and end - segment.base_offset >= count:
            return end - count
        count -= max(0, min(segment.records, end - segment.base_offset))
    return start
