"""Read the records that Fetch sends, of several partitions, as Kafka's record batches. On a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import CorruptRecord, SeglogError, SnapshotExpired
from seglog.kafka import codes
from seglog.kafka.records.encode import MOST_RECORDS, Room, encode
from seglog.kafka.requests.epochs import check_epoch, shown_cuts
from seglog.log.view import at_one_moment
from seglog.topic.fetch import LARGE, small_ranges, view_for

if TYPE_CHECKING:
    from seglog.kafka.requests.call import Values
    from seglog.log.log import Log

MOST_BATCHES = 512  # of a response for a partition: with the server's times each record may need a batch of its own
COPIES = 2  # of a record in memory: as read and as sent


class Wanted(NamedTuple):
    """A partition that is read.

    log: None with an error code, or with where the client's records differ; epoch: that the client knows, -1: none;
    stamped: whether the topic's records have the server's time.
    """

    topic: str
    partition: int
    log: Log | None
    start: int
    size: int
    code: int
    epoch: int
    diverging: Values | None = None
    stamped: bool = False


class Size(NamedTuple):
    """About how many bytes can be read: in the first record, and at most in a response, which has at least that one."""

    first: int
    available: int


def size_of(one: Wanted) -> Size:
    """Return what there is of a partition; nothing where it cannot be read."""
    if one.log is None:
        return Size(0, 0)
    try:
        view = one.log.view()
        if one.start >= view.next_offset:
            return Size(0, 0)
        first = view.span_bytes(one.start, one.start + 1)
        return Size(first, max(first, available(one)))
    except SeglogError:  # it is reported when it is read
        return Size(0, 0)


def available(one: Wanted) -> int:
    """Return about how many bytes of a partition there are, up to the size of a response."""
    try:
        view = None if one.log is None else one.log.view()
        if view is None or one.start >= view.next_offset:
            return 0
        return min(view.span_bytes(one.start, view.next_offset, one.size), one.size)
    except SeglogError:  # as above
        return 0


class Found(NamedTuple):
    """What was read of a partition. values: for the response; next_offset: where to continue."""

    values: Values
    next_offset: int


def read_all(wanted: list[Wanted], most: int) -> list[Found]:
    """Read up to `most` bytes in all; at least one record of the first partition that has any."""
    answers, left = [], most
    for one in wanted:
        room, longer = min(one.size, left), left == most
        answer = _read(one, room, longer=longer) if one.log is not None else _failed(one, one.code)
        left -= sum(map(len, answer.values["records"]))
        answers.append(answer)
    return answers


def _read(one: Wanted, most: int, *, longer: bool) -> Found:
    """Read a partition. longer: whether its first record may have more bytes."""
    log = one.log
    assert log is not None  # noqa: S101 - the caller has checked it
    try:
        parts, following = _batches(one, log, most, longer=longer) if most > 0 else ([], one.start)
        check_epoch(log, one.epoch)  # last: what was read is of the history that the client has read
        bounds = bounds_of(log)
    except SeglogError as error:
        return _failed(one, codes.code_of(error))
    return Found({"partition_index": one.partition, **bounds, "records": parts}, following)


def bounds_of(log: Log) -> Values:
    """Return the bounds of a partition as a response has them."""
    end = log.next_offset
    return {"high_watermark": end, "last_stable_offset": end, "log_start_offset": log.lowest_offset}


def _failed(one: Wanted, code: int) -> Found:
    failed = {"partition_index": one.partition, "error_code": code, "high_watermark": -1, "records": []}
    values = failed if one.diverging is None else {**failed, "diverging_epoch": one.diverging}
    return Found(values, one.start)


@at_one_moment
def _batches(one: Wanted, log: Log, most: int, *, longer: bool) -> tuple[list[memoryview], int]:
    """Return record batches, and the offset after the last record."""
    view, stop = view_for(log, one.start)
    cuts, room = shown_cuts(view.manifest.cuts), Room(most, MOST_BATCHES)
    parts: list[memoryview] = []
    following = one.start
    if not longer and one.start < stop and view.span_bytes(one.start, one.start + 1) > most:
        return parts, following
    try:
        for start, end in small_ranges(view, one.start, stop, MOST_RECORDS, most):
            if parts and end == start + 1 and view.span_bytes(start, end) > max(room.bytes, LARGE):
                break
            for batch in encode(view, start, end, cuts, room, stamped=one.stamped):
                parts.append(batch.data)
                following = batch.next_offset
            if room.is_full:
                break
    except (CorruptRecord, SnapshotExpired):
        if not parts:
            raise
    return parts, following
