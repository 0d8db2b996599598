"""Produce: one record batch for each partition, appended completely or not at all."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.clock import system_clock
from seglog.errors import SeglogError, StorageError
from seglog.kafka import codes
from seglog.kafka.producers.sequences import key_of
from seglog.kafka.records.decode import head_of
from seglog.kafka.records.faults import BadBatch, NoKeys, TooLarge
from seglog.kafka.records.layout import (
    CODEC_BITS,
    HEAD_BYTES,
    LOG_APPEND_TIME,
    MICROSECONDS,
    NO_PRODUCER,
    TRANSACTIONAL,
    Head,
)
from seglog.kafka.requests.call import Call, Values, log_of
from seglog.kafka.requests.copies import copied
from seglog.kafka.requests.decoding import decoded, decoded_bytes
from seglog.kafka.requests.staging import staged
from seglog.log.appends.group import Draft
from seglog.server.runtime.appends import Append
from seglog.server.runtime.memory import Claim

if TYPE_CHECKING:
    from seglog.kafka.records.records import Records
    from seglog.log.log import Log
    from seglog.topic.topic import Topic

NO_ACK, APPENDED, DURABLE = 0, 1, -1
SMALL_BYTES = 64 * 1024  # up to this size a record or a batch is appended without a thread
HERE_BYTES = 256 * 1024  # the same, decompressed
NO_TIME = -1


class Stored(NamedTuple):
    """The offsets of a batch, and the server's time that its records got, in ms; NO_TIME: they keep their own."""

    offsets: range
    time: int


async def produce(call: Call) -> Values | None:
    """Append the batches; answer when `acks` is fulfilled: at once, when appended, or when synced."""
    acks = call.values["acks"]
    places = [(topic["name"], one) for topic in call.values["topic_data"] for one in topic["partition_data"]]
    wanted = [_answer(call, name, one, acks) for name, one in places]
    answers = [await wanted[0]] if len(wanted) == 1 else await asyncio.gather(*wanted)  # a task costs 50 us
    if acks == NO_ACK:
        return None
    found = iter(answers)
    return {
        "responses": [
            {"name": topic["name"], "partition_responses": [next(found) for _ in topic["partition_data"]]}
            for topic in call.values["topic_data"]
        ]
    }


async def _answer(call: Call, name: str, wanted: Values, acks: int) -> Values:
    number = wanted["index"]
    if acks not in (NO_ACK, APPENDED, DURABLE):
        return _refused(number, codes.INVALID_REQUIRED_ACKS, f"acks is {acks}; it must be 0, 1 or -1 (all)")
    try:
        topic = await call.topic(name, "write")
        log = log_of(topic, number)
        stored = await _append(call, topic, number, wanted["records"], durable=acks == DURABLE)
    except SeglogError as error:
        call.services.space.failed(name, error)
        return {**_refused(number, codes.code_of(error), str(error)), "record_errors": _errors_of(error)}
    call.services.space.worked(name)
    return {
        "index": number,
        "base_offset": stored.offsets.start,
        "log_append_time_ms": stored.time,
        "log_start_offset": log.lowest_offset,
    }


def _refused(number: int, code: int, text: str) -> Values:
    return {"index": number, "error_code": code, "base_offset": -1, "error_message": text}


def _errors_of(error: SeglogError) -> list[Values]:
    """Return which records of a batch are to blame; the client can send the others again."""
    rows = error.rows if isinstance(error, NoKeys) else []
    return [{"batch_index": row, "batch_index_error_message": "it has no key"} for row in rows]


async def _append(call: Call, topic: Topic, number: int, data: memoryview | None, *, durable: bool) -> Stored:
    """Append a batch."""
    if data is None:
        raise BadBatch("there are no records")
    services, most = call.services, call.services.settings.limits.batch_bytes
    if len(data) > most:
        raise TooLarge(most)
    log = topic.partition(number)
    head = _stamped(head_of(data), log)
    _check(head, services.settings.limits.batch_records)
    if head.attributes & TRANSACTIONAL:
        return Stored(await staged(call, topic, number, data, head), _time_of(head))
    if not durable:
        return await _append_once(call, topic, number, data, head, durable=False)
    async with copied(call, log) as appended:
        stored = await _append_once(call, topic, number, data, head, durable=True)
        appended.append(stored.offsets)
    return stored


def _stamped(head: Head, log: Log) -> Head:
    """Return the head of a batch as it is stored: with the server's time if the topic wants it for its records."""
    if log.config.retention.timestamps == "given":
        return head
    return head._replace(attributes=head.attributes | LOG_APPEND_TIME, max_timestamp=system_clock() // MICROSECONDS)


def _time_of(head: Head) -> int:
    return head.max_timestamp if head.attributes & LOG_APPEND_TIME else NO_TIME


async def _append_once(call: Call, topic: Topic, number: int, data: memoryview, head: Head, *, durable: bool) -> Stored:
    """Append a batch, unless it is a repeated one of an idempotent producer."""
    services = call.services
    if head.producer_id == NO_PRODUCER:
        return Stored(await _store(call, topic, number, data, head, durable=durable), _time_of(head))
    place = (topic.id, number)
    log = topic.partition(number)
    async with call.parts.producers.turn(place, log, head) as turn:
        if turn.offset is None or turn.offset + head.records > log.next_offset:  # a poisoned log may have lost its end
            offsets = await _store(call, topic, number, data, head, once=key_of(number, head), durable=durable)
            turn.offset = offsets.start
            return Stored(offsets, _time_of(head))
        if durable:
            await services.appends.synced(topic.name, number, log)
        offsets = range(turn.offset, turn.offset + head.records)
        if _time_of(head) == NO_TIME:
            return Stored(offsets, NO_TIME)
        return Stored(offsets, await services.reads.run(partial(_stored_time, log, turn.offset)))


def _stored_time(log: Log, offset: int) -> int:
    """Return the time, in ms, of a record that was stored before; NO_TIME if it cannot be read any more."""
    try:
        return log.read(offset).timestamp // MICROSECONDS
    except SeglogError:
        return NO_TIME


async def _store(
    call: Call,
    topic: Topic,
    number: int,
    data: memoryview,
    head: Head,
    *,
    once: str | None = None,
    durable: bool,
) -> range:
    services, limits = call.services, call.services.settings.limits
    if head.records == 1 and len(data) <= SMALL_BYTES and not head.attributes & CODEC_BITS:
        return await _store_one(call, topic, number, data, head, once=once, durable=durable)

    def append() -> range:
        records = decoded(data, head, topic.partition(number), limits.batch_bytes, limits)
        return _appended(topic, number, records, once)

    claim = Claim(services.memory, "decoding")
    call.held.callback(claim.close)
    room = partial(claim.wait, decoded_bytes(data, head))
    written: Any = lambda _: [(number, topic.partition(number))]  # noqa: E731 - as `batch` calls it
    try:
        stored = await _store_here(call, topic, number, data, head, once, durable=durable)
        if stored is not None:
            return stored
        offsets: range = await services.appends.batch(topic.name, written, append, durable=durable, first=room)
    except OSError as error:
        if isinstance(error, SeglogError):
            raise
        raise StorageError(error.errno, str(error)) from error
    finally:
        claim.close()
    services.metrics.appended(topic.name, len(offsets), len(data))
    return offsets


async def _store_here(
    call: Call, topic: Topic, number: int, data: memoryview, head: Head, once: str | None, *, durable: bool
) -> range | None:
    """Append a small batch immediately; None, without having done anything, if that could block or take long."""
    services, log = call.services, topic.partition(number)
    if len(data) > SMALL_BYTES or not topic.is_ready(number, HERE_BYTES + decoded_bytes(data, head), once):
        return None
    try:
        records = decoded(data, head, log, HERE_BYTES, services.settings.limits)
    except TooLarge:  # decompressed
        return None

    def append() -> range:
        return _appended(topic, number, records, once)

    offsets: range = await services.appends.batch_here(topic.name, number, log, append, durable=durable)
    services.metrics.appended(topic.name, len(offsets), len(data))
    return offsets


def _appended(topic: Topic, number: int, records: Records, once: str | None) -> range:
    """Append records; those without headers, and so without marks, need no Arrow to be stored."""
    if not records.headers:
        if once is None:
            return topic._append_encodable(number, records.to_rows())
        return topic._append_unmarked_once(number, records, once)
    return topic.append_batch(records.arrow, partition=number, once=once)[number]


async def _store_one(
    call: Call, topic: Topic, number: int, data: memoryview, head: Head, *, once: str | None, durable: bool
) -> range:
    """Append a single record as HTTP does: immediately if nothing can delay it, else in the partition's queue."""
    record = _draft(decoded(data, head, topic.partition(number), SMALL_BYTES, call.services.settings.limits))
    wanted = Append(topic.writer(number), record, once, durable)
    _, offset = await call.services.appends.append(wanted, len(data) + HEAD_BYTES)
    call.services.metrics.appended(topic.name, 1, len(data))
    return range(offset, offset + 1)


def _draft(records: Records) -> Draft:
    """Return the only record."""
    if not records.headers:
        timestamp, key, value = records.first()
        return Draft(value, key, timestamp, (), None)
    try:
        [row] = records.arrow.to_pylist()
    except UnicodeDecodeError as error:
        raise BadBatch("the name of a header is not UTF-8") from error
    headers = tuple((one["key"], one["value"]) for one in row["headers"])
    return Draft(row["value"], row["key"], row["timestamp"], headers, None)


def _check(head: Head, most: int) -> None:
    if head.records > most:
        raise BadBatch(f"a batch of {head.records} records; this server accepts {most} (--batch-records)")
    if head.attributes & TRANSACTIONAL and head.producer_id == NO_PRODUCER:
        raise BadBatch("a transactional batch needs a producer")
    if head.producer_id != NO_PRODUCER and (head.producer_id < 0 or head.producer_epoch < 0 or head.sequence < 0):
        raise BadBatch("a batch of an idempotent producer needs its epoch and sequence")
