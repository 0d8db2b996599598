"""The logs of a server: snapshots made of what it tells of a partition, ranges read page by page.

The only module of Spark's side that takes the client. Needs httpx, so it is loaded where option url is given. What the
client tries again is not known here: a server that restarts is waited for, one that is gone is its ConnectionFailed.

The server reads each page by the log's state of that moment: no lease holds it back from letting go of files. Every
page says of which log and which epoch it is; where that is not what the snapshot says, the log must be looked at again.
"""

from __future__ import annotations

import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Self

from seglog.client import Client
from seglog.errors import CorruptLog, InvalidArgument, LogNotFound, LogTruncated, TopicNotFound
from seglog.spark.read.batches import BATCH_ROWS
from seglog.spark.read.extents import Extent, LogSnapshot
from seglog.spark.read.place import selected
from seglog.topic.places import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from seglog.client.facts import Page, PartitionInfo, PartitionState, SegmentState
    from seglog.client.topic import RemoteTopic
    from seglog.spark.read.options import Selection
    from seglog.topic.places import Partition

RETRIES = 8  # about 10 s in all: a server that is started anew is back by then
# Spark asks a hundred times a second whether there is anything new; a server is asked ten times.
QUIET_SECONDS = 0.1

States = dict[str, dict[int, "PartitionState"]]


class RemoteSite:
    """The logs of one server. Nothing is sent before the first question."""

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
        """Return the partitions that are selected; InvalidArgument that names the option of the selection.

        CorruptLog where the server cannot open one that may be meant: it is not left out in silence.
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
        """Return what every partition holds now; LogNotFound where one has gone since it was found."""
        self._offsets.clear()
        states = self._states(wanted)
        return [self._snapshot(place, states) for place in wanted]

    def look_at_those_left(self, wanted: Sequence[Place]) -> list[LogSnapshot]:
        """Return what every partition that is there holds now. Waits a moment where the last two looks were alike."""
        time.sleep(max(self._quiet_until - time.monotonic(), 0.0))
        states, found = self._states(wanted), []
        for place in wanted:
            with suppress(LogNotFound):
                found.append(self._snapshot(place, states))
        self._quiet_until = time.monotonic() + QUIET_SECONDS if states == self._last else 0.0
        self._last = states
        return found

    def offset_at(self, snapshot: LogSnapshot, timestamp: int) -> int | None:
        """Return a log's first offset whose timestamp (us) is this or later, None where every record is older."""
        asked = snapshot.topic, timestamp
        if asked not in self._offsets:  # one answer tells of all partitions
            self._offsets[asked] = self._client.topic(snapshot.topic).offset_at(timestamp)
        found = self._offsets[asked].get(snapshot.partition)
        return None if found is not None and self._durable and found >= snapshot.next_offset else found

    def hold(self, place: Place) -> RemoteHeld:
        """Return what a log holds now, for reading; LogNotFound where it is gone."""
        topic = self._client.topic(place.topic)
        with _gone(place):
            info = topic.partition(place.partition)
        return RemoteHeld(topic, _snapshot_of(place, info.segments, info.state, durable=self._durable))

    def close(self) -> None:
        """End the connections."""
        self._client.close()

    def _place(self, topic: str, number: int) -> Place:
        return Place(topic, number, f"{self.where}/topics/{topic}/partitions/{number}")

    def _states(self, wanted: Sequence[Place]) -> States:
        """Return where the partitions of all topics stand, one request a topic; a topic that has gone is left out."""
        states: States = {}
        for name in dict.fromkeys(place.topic for place in wanted):
            with suppress(TopicNotFound):
                states[name] = self._client.topic(name).states()
        return states

    def _snapshot(self, place: Place, states: States) -> LogSnapshot:
        """Return what a partition holds. Its segments are asked for where they are not those of the last look."""
        state = states.get(place.topic, {}).get(place.partition)
        if state is None:
            raise LogNotFound(f"option url: there is no log any more at {place.path}")
        known = self._known.get(place.key)
        if known is None or _segments_of(known.state) != _segments_of(state):
            with _gone(place):
                known = self._client.topic(place.topic).partition(place.partition)
            self._known[place.key] = known
            state = known.state  # of one moment with the segments
        return _snapshot_of(place, known.segments, state, durable=self._durable)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class RemoteHeld:
    """What a log of a server held at one moment, for reading. bytes_read: of answers."""

    def __init__(self, topic: RemoteTopic, snapshot: LogSnapshot) -> None:
        self.snapshot = snapshot
        self.bytes_read = 0
        self._topic = topic

    def batches(self, start: int, stop: int) -> Iterator[tuple[pa.RecordBatch, int]]:
        """Yield the records of a range as the protocol says; each page is checked before anything of it is given."""
        snapshot = self.snapshot
        with _gone(snapshot.place):
            for page in self._topic.pages(snapshot.partition, start, stop):
                if (page.log, page.epoch) != (snapshot.log, snapshot.epoch):
                    raise LogTruncated(f"{snapshot} ({snapshot.path}) was truncated while it was read")
                self.bytes_read += page.size
                yield from _pieces(page)
                start = page.next_offset
        if start < stop:
            raise LogTruncated(
                f"{snapshot} ({snapshot.path}) ends at offset {start}, before it did when it was looked at"
            )


def _pieces(page: Page) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the batches of a page in pieces that Spark takes well."""
    for batch in page.batches:
        for first in range(0, batch.num_rows, BATCH_ROWS):
            piece = batch.slice(first, BATCH_ROWS)
            yield piece, piece.column("offset")[-1].as_py() + 1


def _segments_of(state: PartitionState) -> tuple[str, int, int]:
    """Return what is the same as long as the segments are, but for the end of the active one."""
    return state.log, state.epoch, state.version


def _snapshot_of(
    place: Place, segments: Sequence[SegmentState], state: PartitionState, *, durable: bool
) -> LogSnapshot:
    """Return a snapshot of a partition; `state` may be later than the segments, by appends to the active one.

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
            one.min_timestamp,
            one.max_timestamp,
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
    )


@contextmanager
def _gone(place: Place) -> Iterator[None]:
    """Tell of a topic that was deleted, or made anew with fewer partitions, as of a log that is gone."""
    try:
        yield
    except (TopicNotFound, InvalidArgument) as error:
        raise LogNotFound(f"there is no log any more at {place.path}: {error}") from error
