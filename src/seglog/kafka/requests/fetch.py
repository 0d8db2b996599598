"""Fetch: the next records of several partitions, now or when enough have been appended."""

from __future__ import annotations

from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from seglog.arrow.headers import drop_header
from seglog.errors import OffsetOutOfRange, RecordTooLarge, SeglogError
from seglog.kafka import codes
from seglog.kafka.records.encode import encode
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.epochs import check_epoch, divergence, shown_cuts
from seglog.server.runtime.memory import Claim
from seglog.server.runtime.waiting import woken
from seglog.topic.fetch import fetch_batches
from seglog.topic.idempotency.marks import HEADER

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.format.cuts import Cuts
    from seglog.log.log import Log

MOST_RECORDS = 65536  # of one batch
COPIES = 2  # of a record in memory: as read and as sent
MOST_BYTES = 2**31 - 1024  # of a record: a response's length has 31 bits
WITHOUT_ROOM = 256 * 1024  # bytes read without reserving memory


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


async def fetch(call: Call) -> Values:
    """Wait until `min_bytes` have been appended or `max_wait_ms` have passed, then read.

    Every request is complete: the server keeps no sessions (session id 0).
    """
    topics = await call.named(call.values["topics"], "topic")
    wanted = [await _wanted(call, topic["topic"], one) for topic in topics for one in topic["partitions"]]
    wanted = await _wait(call, wanted)
    share = call.services.memory.share("answers")
    longest = min(share // COPIES, MOST_BYTES)
    most = min(max(call.values["max_bytes"], 1), call.services.settings.limits.read_bytes)
    sizes = [_size(one) for one in wanted]
    wanted = [_fitting(one, size, longest) for one, size in zip(wanted, sizes, strict=True)]
    sizes = [one for one in sizes if one.first <= longest]
    there = min(sum(one.available for one in sizes), most + max((one.first for one in sizes), default=0))
    claim = Claim(call.services.memory, "answers")
    call.held.callback(claim.close)
    if there > WITHOUT_ROOM and not await claim.wait(min(COPIES * there, share), _seconds(call)):
        most = 0
    found = iter(await call.services.reads.run(partial(_read_all, wanted, most)))
    return {"responses": [{**topic, "partitions": [next(found) for _ in topic["partitions"]]} for topic in topics]}


def _seconds(call: Call) -> float:
    wanted: int = call.values["max_wait_ms"]
    return min(max(wanted, 0) / 1000, call.services.settings.limits.wait_seconds)


async def _wanted(call: Call, topic: str | None, one: Values) -> Wanted:
    number, start, epoch = one["partition"], one["fetch_offset"], one["current_leader_epoch"]
    if topic is None:
        return Wanted("", number, None, start, 0, codes.UNKNOWN_TOPIC_ID, epoch)
    try:
        log = await call.log(topic, number, "read")
        check_epoch(log, epoch)
        diverging = divergence(log, one["last_fetched_epoch"], start)
        if diverging is not None:
            return Wanted(topic, number, None, start, 0, codes.NONE, epoch, diverging)
        _check_start(log, start)
    except SeglogError as error:
        return Wanted(topic, number, None, start, 0, codes.code_of(error), epoch)
    return Wanted(topic, number, log, start, max(one["partition_max_bytes"], 1), codes.NONE, epoch)


def _check_start(log: Log, start: int) -> None:
    if not log.lowest_offset <= start <= log.next_offset:
        raise OffsetOutOfRange(start, log.lowest_offset, log.next_offset)


async def _wait(call: Call, wanted: list[Wanted]) -> list[Wanted]:
    """Return what can be read, as soon as it is enough or the time is over."""
    ends, least = monotonic() + _seconds(call), max(call.values["min_bytes"], 0)
    with call.services.waiting.on({(one.topic, one.partition) for one in wanted if one.log is not None}) as event:
        while True:
            event.clear()
            wanted = [_still(one) for one in wanted]
            left = ends - monotonic()
            enough = any(one.log is None for one in wanted) or sum(_size(one).available for one in wanted) >= least
            if enough or left <= 0 or call.services.waiting.stopped or not await woken(event, left):
                return wanted


def _still(one: Wanted) -> Wanted:
    """Return the same, with an error if the log was truncated or closed meanwhile."""
    if one.log is None:
        return one
    try:
        check_epoch(one.log, one.epoch)
        _check_start(one.log, one.start)
    except SeglogError as error:
        return one._replace(log=None, code=codes.code_of(error))
    return one


class Size(NamedTuple):
    """About how many bytes can be read: in the first record, and at most in a response, which has at least that one."""

    first: int
    available: int


def _size(one: Wanted) -> Size:
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


def _fitting(one: Wanted, size: Size, most: int) -> Wanted:
    """Return the same, with an error if its first record needs more memory than all responses may have."""
    return one if size.first <= most else one._replace(log=None, code=codes.code_of(RecordTooLarge(size.first, most)))


def _read_all(wanted: list[Wanted], most: int) -> list[Values]:
    answers, left = [], most
    for one in wanted:
        answer = _read(one, min(one.size, left)) if one.log is not None else _failed(one, one.code)
        left -= sum(map(len, answer["records"]))
        answers.append(answer)
    return answers


def _read(one: Wanted, most: int) -> Values:
    log = one.log
    assert log is not None  # noqa: S101 - the caller has checked it
    try:
        parts = _batches(one, log, most) if most > 0 else []
        check_epoch(log, one.epoch)  # last: what was read is of the history that the client has read
        end, lowest = log.next_offset, log.lowest_offset
    except SeglogError as error:
        return _failed(one, codes.code_of(error))
    return {
        "partition_index": one.partition,
        "high_watermark": end,
        "last_stable_offset": end,
        "log_start_offset": lowest,
        "records": parts,
    }


def _failed(one: Wanted, code: int) -> Values:
    failed = {"partition_index": one.partition, "error_code": code, "high_watermark": -1, "records": []}
    return failed if one.diverging is None else {**failed, "diverging_epoch": one.diverging}


def _batches(one: Wanted, log: Log, most: int) -> list[memoryview]:
    found = fetch_batches(log, one.start, max_records=MOST_RECORDS, max_bytes=most)
    cuts = shown_cuts(log.view().manifest.cuts)
    return [
        part
        for batch in found.batches
        for piece, epoch in _by_epoch(_shown(batch), cuts)
        for part in encode(piece, epoch)
    ]


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
