"""Sequences of requests: batches, paging, following. Generators (call.Flow), written once for sync and async."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.client import full_values
from seglog.client.models import Bounds, Fetched, Page
from seglog.client.requests import append_calls, topic_calls
from seglog.client.requests.call import Emit, Flow
from seglog.client.requests.topic_calls import NEW, Acknowledgement
from seglog.client.retrying import Retries, retrying
from seglog.config import Expose
from seglog.errors import InvalidArgument, LogTruncated, SeglogError, SnapshotExpired
from seglog.log.history import Snapshot
from seglog.record import Share, checked_offset
from seglog.topic.groups.position import Cursor
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    from seglog.topic.groups.consumer import TopicBatch

PAGE_RECORDS = 65_536
PAGE_BYTES = 8 * 1024 * 1024
POLL_SECONDS = 20.0
LOOKS = 20  # at the end of a log that changes all the time


def append_batch(
    topic: str,
    data: Any,
    *,
    partition: int | None,
    once: str,
    ack: Acknowledgement,
    most: int,
    force_timestamp: bool,
    retries: Retries,
) -> Flow[dict[int, range]]:
    """Append a Table or RecordBatch in requests of up to `most` bytes, one after another: rows keep their order."""
    from seglog.client import arrow  # noqa: PLC0415 - imports pyarrow with the first batch

    offsets: dict[int, range] = {}
    shares = list(arrow.pieces(arrow.table_of(data, force_timestamp=force_timestamp), most))
    for number, share in enumerate(shares):
        named = once if len(shares) == 1 else f"{once}.{number}"
        call = append_calls.append_batch(topic, arrow.stream_of(share), partition=partition, once=named, ack=ack)
        try:
            added = yield from retrying(call, retries)
        except SeglogError as error:
            if offsets:
                error.add_note(f"rows before this part of the batch were appended: {offsets}")
            raise
        for where, got in added.items():
            offsets[where] = range(offsets.get(where, got).start, got.stop)
    return offsets


def pages(
    topic: str,
    partition: int,
    start: int | None,
    stop: int | None,
    retries: Retries,
    expose: Expose = "appended",
    snapshot: str = "",
) -> Flow[None]:
    """Emit the pages of a range, by default of everything present now, all as it was at the first one.

    snapshot: of the range, from an earlier page; "": the range is taken as it is now.
    """
    partition = checked_offset(partition, "partition")
    start = None if start is None else checked_offset(start, "start")
    stop = None if stop is None else checked_offset(stop, "stop")
    if start is None or stop is None:
        begun = yield from begin(topic, partition, start, stop, retries, expose)
        if begun is None:
            return
        page, snapshot, start, stop = begun
    elif start < stop:
        page, snapshot = yield from _next_page(topic, partition, start, stop, retries, expose, snapshot)
    else:
        return
    while True:
        yield Emit(page)
        if page.next_offset <= start or page.next_offset >= stop:  # the end may be before `stop`
            return
        start = page.next_offset
        page, snapshot = yield from _next_page(topic, partition, start, stop, retries, expose, snapshot)


class Begun(NamedTuple):
    """A read that has begun: its first page, the snapshot of the rest, and the range."""

    page: Page
    snapshot: str
    start: int
    stop: int


def begin(
    topic: str,
    partition: int,
    start: int | None,
    stop: int | None,
    retries: Retries,
    expose: Expose,
    most: tuple[int, int] | None = None,
) -> Flow[Begun | None]:
    """Read the first page of what a partition holds; None if that is nothing. most: records and bytes of the page.

    The end and the page are of one state of the log: if it has changed between them, both are read again.
    """
    for _ in range(LOOKS):
        looked = (yield from retrying(topic_calls.states(topic), retries)).get(partition)
        if looked is None:
            raise InvalidArgument(f"topic {topic!r} has no partition {partition}")
        first = looked.lowest_offset if start is None else start
        end = looked.end(expose) if stop is None else stop
        if first >= end:
            return None
        page, snapshot = yield from _next_page(topic, partition, first, end, retries, expose, "", most)
        if Snapshot.parse(snapshot).version == looked.version:
            return Begun(page, snapshot, first, end)
    raise SnapshotExpired(first, end, f"partition {partition} of topic {topic!r}")


def _next_page(
    topic: str,
    partition: int,
    start: int,
    stop: int,
    retries: Retries,
    expose: Expose,
    snapshot: str,
    most: tuple[int, int] | None = None,
) -> Generator[Any, Any, tuple[Page, str]]:
    """Read a page of a range, and return it with the snapshot of the rest. snapshot: of the range; "": as it is now."""
    while True:
        records, size = most or (PAGE_RECORDS, PAGE_BYTES)
        page = yield from full_values.page(
            topic, partition, start, stop, records, size, retries, expose, snapshot or NEW
        )
        if page.snapshot is not None:
            return page, page.snapshot
        info = yield from retrying(topic_calls.partition(topic, partition), retries)  # an older server: has it changed?
        now = info._snapshot_of(start, stop)
        if not snapshot:  # read again: it may have changed since the page
            snapshot = str(now)
            continue
        if not Snapshot.parse(snapshot).holds(now):
            raise SnapshotExpired(start, stop, f"partition {partition} of topic {topic!r}")
        return page, str(info._snapshot_of(page.next_offset, stop))


def follow(
    topic: str,
    partition: int | None,
    start: str | int | Mapping[int, int],
    retries: Retries,
    expose: Expose = "appended",
    share: Share | None = None,
) -> Flow[None]:
    """Emit lists of new records forever, by long polls; each poll names its position, so that none is lost.

    share: (i, n): only records whose offset % n is i.
    """
    from seglog.client import arrow  # noqa: PLC0415 - as above

    bounds = yield from retrying(topic_calls.bounds(topic), retries)
    beginning = _beginning(topic, bounds, partition, start, expose)
    cursor = Cursor()
    cursor.adopt((topic, number) for number in beginning)
    for number, offset in beginning.items():
        cursor.place((topic, number), offset)
    while True:
        wanted = cursor.wanted()
        call = topic_calls.fetch(
            wanted, max_records=PAGE_RECORDS, max_bytes=PAGE_BYTES, wait=POLL_SECONDS, expose=expose
        )
        fetched = yield from full_values.fetched(call, wanted, retries)
        for batch in taken(cursor, wanted, fetched):
            yield Emit(arrow.topic_records(batch if share is None else arrow.share_of(batch, share)))


def taken(cursor: Cursor, wanted: Mapping[str, Mapping[int, int]], fetched: Fetched) -> list[TopicBatch]:
    """Advance the cursor by the answer to a fetch of `wanted`; return the batches to deliver.

    Raises LogTruncated if a log is not the one read before. Batches of partitions before it are delivered first; those
    after it are fetched again.
    """
    from seglog.client import arrow  # noqa: PLC0415 - as above

    batches = arrow.topic_batches(fetched.body)
    returned = {(batch.topic, batch.partition) for batch in batches}
    kept: set[Partition] = set()
    for partition, start in [((topic, number), at) for topic, of in wanted.items() for number, at in of.items()]:
        reached = fetched.next_offsets[partition[0]][partition[1]]
        passage = fetched.passages.get(partition)
        try:
            if cursor.took(partition, reached, partition in returned, start=start, passage=passage):
                kept.add(partition)
        except LogTruncated:
            if kept & returned:  # the next fetch starts with this partition and raises
                break
            raise
    return [batch for batch in batches if (batch.topic, batch.partition) in kept]


def _beginning(
    topic: str,
    bounds: Mapping[int, Bounds],
    partition: int | None,
    start: str | int | Mapping[int, int],
    expose: Expose,
) -> dict[int, int]:
    """Return partition -> starting offset."""
    partition = None if partition is None else checked_offset(partition, "partition")
    if partition is not None and partition not in bounds:
        raise InvalidArgument(f"topic {topic!r} has no partition {partition}")
    numbers = sorted(bounds) if partition is None else [partition]
    if start == "earliest":
        return {number: bounds[number].lowest_offset for number in numbers}
    if start == "latest":
        return {number: bounds[number].end(expose) for number in numbers}
    if isinstance(start, Mapping):
        return {checked_offset(number, "partition"): checked_offset(offset) for number, offset in start.items()}
    if isinstance(start, int) and partition is not None:
        return {partition: start}
    raise InvalidArgument(
        f'start is {start!r}; it must be "earliest", "latest", partition -> offset, or with partition an offset'
    )


def fetch(
    positions: Mapping[str, Mapping[int, int]],
    *,
    max_records: int,
    max_bytes: int,
    wait: float,
    retries: Retries,
    expose: Expose = "appended",
) -> Flow[tuple[list[Any], dict[str, dict[int, int]]]]:
    """Fetch once; return the batches (TopicBatch) and the next positions."""
    from seglog.client import arrow  # noqa: PLC0415 - as above

    call = topic_calls.fetch(positions, max_records=max_records, max_bytes=max_bytes, wait=wait, expose=expose)
    fetched = yield from full_values.fetched(call, positions, retries)
    return arrow.topic_batches(fetched.body), fetched.next_offsets
