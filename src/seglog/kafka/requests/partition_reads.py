"""Read the records that Fetch sends, of several partitions, as Kafka's record batches. On a thread."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from seglog.arrow.headers import drop_header
from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.records.encode import encode, next_offset_of
from seglog.kafka.requests.epochs import check_epoch, shown_cuts
from seglog.topic.fetch import fetch_batches
from seglog.topic.idempotency.marks import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.format.cuts import Cuts
    from seglog.kafka.requests.call import Values
    from seglog.log.log import Log

MOST_RECORDS = 65536  # of one batch
MOST_BATCHES = 512  # of a response for a partition: with the server's times each record may need a batch of its own
COPIES = 2  # of a record in memory: as read and as sent


class Wanted(NamedTuple):
    """A partition that is read.

    log: None with an error code, or with where the client's records differ; epoch: that the client knows, -1: none.
    """

    topic: str
    partition: int
    log: Log | None
    start: int
    size: int
    code: int
    epoch: int
    diverging: Values | None = None


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
        return Size(first, max(first, min(view.span_bytes(one.start, view.next_offset), one.size)))
    except SeglogError:  # it is reported when it is read
        return Size(0, 0)


class Found(NamedTuple):
    """What was read of a partition. values: for the response; next_offset: where to continue."""

    values: Values
    next_offset: int


def read_all(wanted: list[Wanted], most: int) -> list[Found]:
    """Read up to `most` bytes in all; at least one record of the first partition that has any."""
    answers, left = [], most
    for one in wanted:
        answer = _read(one, min(one.size, left)) if one.log is not None else _failed(one, one.code)
        left -= sum(map(len, answer.values["records"]))
        answers.append(answer)
    return answers


def _read(one: Wanted, most: int) -> Found:
    log = one.log
    assert log is not None  # noqa: S101 - the caller has checked it
    try:
        parts, following = _batches(one, log, most) if most > 0 else ([], one.start)
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


def _batches(one: Wanted, log: Log, most: int) -> tuple[list[memoryview], int]:
    stamped = log.config.retention.timestamps == "server"
    found = fetch_batches(log, one.start, max_records=MOST_RECORDS, max_bytes=most)
    cuts = shown_cuts(log.view().manifest.cuts)
    encoded = (
        part
        for batch in found.batches
        for piece, epoch in _by_epoch(_shown(batch), cuts)
        for part in encode(piece, epoch, stamped=stamped)
    )
    parts = list(islice(encoded, MOST_BATCHES))
    return parts, found.next_offset if next(encoded, None) is None else next_offset_of(parts[-1])


def _by_epoch(batch: pa.RecordBatch, cuts: Cuts) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Yield the records of each epoch, and the epoch."""
    offsets, start = batch.column("offset").to_numpy(), 0
    places = [int(np.searchsorted(offsets, offset)) for _, offset in cuts.entries]
    for stop in (*places, len(offsets)):
        if stop > start:
            yield batch.slice(start, stop - start), cuts.epoch_at(int(offsets[start]) + 1)
            start = stop


def _shown(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return a batch without the headers in which idempotency keys are stored."""
    if not len(batch.column("headers").values):
        return batch
    table = drop_header(pa.Table.from_batches([batch]), HEADER)
    shown: pa.RecordBatch = table.combine_chunks().to_batches()[0]
    return shown
