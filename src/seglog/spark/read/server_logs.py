"""The logs of a server: snapshots from the partition states it reports, ranges read page by page.

The only module of Spark's side that uses the client. Needs httpx, so it is imported only with option url. The client
retries: it waits for a restarting server, and raises ConnectionFailed for one that is gone.

A batch read names the snapshot that it was planned with in every page; the server keeps its files for some time. A
stream reads each page from the log's present state. Every page names its log and epoch; if they differ from the
snapshot's, the log must be looked at again.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from seglog.client import Client
from seglog.errors import CorruptLog, InvalidArgument, LogNotFound, LogTruncated, TopicNotFound
from seglog.log.history import KNOWN, Snapshot, files_in
from seglog.spark.read.batches import BATCH_ROWS
from seglog.spark.read.extents import Extent, LogSnapshot
from seglog.spark.read.local_logs import selected
from seglog.spark.read.log_access import Site
from seglog.spark.read.options import Selection
from seglog.topic.layout.places import Partition, Place

if TYPE_CHECKING:
    from seglog.client.models import Page, PartitionInfo, PartitionState, SegmentState
    from seglog.client.topic import RemoteTopic
    from seglog.spark.read.plan import OffsetRange

RETRIES = 8  # about 10 s in total: a restarted server is back by then
# Spark asks a hundred times a second whether there is anything new; ask a server ten times.
QUIET_SECONDS = 0.1

States = dict[str, dict[int, "PartitionState"]]


class RemoteSite(Site):
    """The logs of one server. Sends nothing before the first call."""

    def __init__(self, url: str, token: str | None, *, durable: bool = False) -> None:
        """durable: show only what survives power loss."""
        self.where = url
        self._durable = durable
        self._client = Client(url, token=token, retries=RETRIES)
        self._known: dict[Partition, PartitionInfo] = {}
        self._offsets: dict[tuple[str, int], dict[int, int | None]] = {}
        self._last: States = {}
        self._quiet_until = 0.0

    def places(self, selection: Selection) -> list[Place]:
        """Return the selected partitions. Raises InvalidArgument naming the option of the selection.

        Raises CorruptLog if the server cannot open a topic that may be selected: it is not skipped silently.
        """
        for name, why in self._client.failed_topics().items():
            if selection.wants(name):
                raise CorruptLog(f"{self.where} cannot open topic {name!r}: {why}")
        topics = {
            topic.name: [self._place(topic.name, number) for number in range(topic.partitions)]
            for topic in self._client.topics()
        }
        return selected(topics, selection, self.where)

    def look_at_all(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every partition. Raises LogNotFound if one has disappeared since it was found."""
        self._offsets.clear()
        states = self._states(wanted)
        return [self._snapshot(place, states) for place in wanted]

    def look_at_those_left(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return the present state of every existing partition. Waits briefly if the last two looks were equal."""
        time.sleep(max(self._quiet_until - time.monotonic(), 0.0))
        states, found = self._states(wanted), []
        for place in wanted:
            with suppress(LogNotFound):
                found.append(self._snapshot(place, states))
        self._quiet_until = time.monotonic() + QUIET_SECONDS if states == self._last else 0.0
        self._last = states
        return found

    def offset_at(self, snapshot: LogSnapshot, timestamp: int) -> int | None:
        """Return a log's first offset at or after a timestamp (us), None if all records are older."""
        asked = snapshot.topic, timestamp
        if asked not in self._offsets:  # one answer covers all partitions
            self._offsets[asked] = self._client.topic(snapshot.topic).offset_at(timestamp, force_timestamp=True)
        found = self._offsets[asked].get(snapshot.partition)
        return None if found is not None and self._durable and found >= snapshot.next_offset else found

    def hold(self, place: Place) -> RemoteHeld:
        """Return the present state of a log, for reading. Raises LogNotFound if it is gone."""
        topic = self._client.topic(place.topic)
        with _gone(place):
            info = topic.partition(place.partition)
        return RemoteHeld(topic, _snapshot_of(place, info.segments, info.state, durable=self._durable))

    def keep(self, snapshots: Sequence[LogSnapshot]) -> bool:
        """Ask the server to keep what snapshots show, as long as tasks ask for it often enough."""
        kept = [self._keeps(one) for one in snapshots if one.lowest_offset < one.next_offset]
        return all(kept)

    def _keeps(self, one: LogSnapshot) -> bool:
        with _gone(one.place):
            begun = self._client.topic(one.topic)._begin(one.partition)
        return begun is not None and Snapshot.parse(begun.snapshot).version == one.version

    def hold_planned(self, part: OffsetRange) -> RemoteHeld:
        """Return a planned range, read as its snapshot shows it."""
        held = self.hold(Place(part.topic, part.partition, part.path))
        return RemoteHeld(held.topic, held.snapshot, part)

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def _place(self, topic: str, number: int) -> Place:
        return Place(topic, number, f"{self.where}/topics/{topic}/partitions/{number}")

    def _states(self, wanted: Sequence[Place]) -> States:
        """Return the states of all topics' partitions, one request per topic; missing topics are omitted."""
        states: States = {}
        for name in dict.fromkeys(place.topic for place in wanted):
            with suppress(TopicNotFound):
                states[name] = self._client.topic(name).states()
        return states

    def _snapshot(self, place: Place, states: States) -> LogSnapshot:
        """Return the state of a partition. Its segments are requested only if they have changed since the last look."""
        state = states.get(place.topic, {}).get(place.partition)
        if state is None:
            raise LogNotFound(f"option url: there is no log any more at {place.path}")
        known = self._known.get(place.key)
        if known is None or _segments_of(known.state) != _segments_of(state):
            with _gone(place):
                known = self._client.topic(place.topic).partition(place.partition)
            self._known[place.key] = known
            state = known.state  # from the same moment as the segments
        return _snapshot_of(place, known.segments, state, durable=self._durable)


class RemoteHeld:
    """The state of a server's log at one moment, for reading. bytes_read: of answers."""

    def __init__(self, topic: RemoteTopic, snapshot: LogSnapshot, planned: OffsetRange | None = None) -> None:
        """planned: the range that is read, by whose snapshot the server checks each page; None: the log and epoch of
        the present one are checked here.
        """
        self.snapshot = snapshot
        self.bytes_read = 0
        self.topic = topic
        self._planned = planned

    def batches(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the records of a range as the protocol specifies; each page is checked before any of it is yielded."""
        snapshot = self.snapshot
        with _gone(snapshot.place):
            planned = _rest(self._planned, start)
            for page in self.topic._pages(snapshot.partition, start, stop, planned):
                if not planned and (page.log, page.epoch) != (snapshot.log, snapshot.epoch):
                    raise LogTruncated(f"{snapshot} ({snapshot.path}) was truncated while it was read")
                self.bytes_read += page.size
                yield from _pieces(page)
                start = page.next_offset
        if start < stop:
            raise LogTruncated(
                f"{snapshot} ({snapshot.path}) ends at offset {start}, before it did when it was looked at"
            )


def _rest(planned: OffsetRange | None, start: int) -> str:
    """Return the snapshot of what a planned range holds from an offset on; "" if none is planned."""
    if planned is None or planned.snapshot is None:
        return ""
    stores = ((one.start, one.stop, one.file) for one in planned.extents if one.file != KNOWN)
    return str(planned.snapshot._replace(files=files_in(stores, start, planned.stop)))


def _pieces(page: Page) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the batches of a page in pieces that suit Spark."""
    for batch in page.batches:
        for first in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(first, BATCH_ROWS)
            yield piece, piece.column("offset")[-1].as_py() + 1


def _segments_of(state: PartitionState) -> tuple[str, int, int]:
    """Return a value that changes only with the segments, except for the end of the active one."""
    return state.log, state.epoch, state.version


def _snapshot_of(
    place: Place, segments: Sequence[SegmentState], state: PartitionState, *, durable: bool
) -> LogSnapshot:
    """Return a snapshot of a partition; `state` may be newer than the segments, by appends to the active one.

    durable: it ends where the synced records end. Sealed segments are synced.
    """
    *sealed, active = segments
    end = state.durable_offset if durable else state.next_offset
    extents = [
        Extent(
            one.base_offset,
            one.next_offset,
            one.bytes,
            one.file,
            one.records,
            one.dense,
        )
        for one in sealed
    ]
    size = max(state.bytes - sum(one.bytes for one in sealed), 0)
    records = end - active.base_offset if active.dense else None
    extents.append(Extent(active.base_offset, end, size, active.file, records, dense=active.dense))
    return LogSnapshot(
        place.topic,
        place.partition,
        place.path,
        state.lowest_offset,
        end,
        tuple(extent for extent in extents if extent.start < extent.stop),
        state.log,
        state.epoch,
        state.initial_offset,
        state.cuts,
        state.version,
    )


@contextmanager
def _gone(place: Place) -> Iterator[None]:
    """Report a topic that was deleted, or created again with fewer partitions, as a missing log."""
    try:
        yield
    except (TopicNotFound, InvalidArgument) as error:
        raise LogNotFound(f"there is no log any more at {place.path}: {error}") from error
