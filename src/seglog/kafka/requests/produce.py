"""Produce: one record batch for each partition, appended completely or not at all."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from seglog.clock import system_clock
from seglog.errors import SeglogError, StorageError
from seglog.kafka import codes
from seglog.kafka.configs import MESSAGE_BYTES, most_bytes
from seglog.kafka.faults import Unanswered
from seglog.kafka.producers.sequences import key_of
from seglog.kafka.records.decode import head_of
from seglog.kafka.records.faults import BadBatch, BadRecords, TooLarge
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
from seglog.kafka.requests.copies import check_copies, copied
from seglog.kafka.requests.decoding import ProducedBatch, decoded, decoded_bytes, in_bounds
from seglog.kafka.requests.staging import staged
from seglog.log.appends.group import Draft
from seglog.server.runtime.appends import Append
from seglog.server.runtime.memory import Claim
from seglog.server.runtime.mirroring import Written

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from seglog.kafka.records.records import Records
    from seglog.log.log import Log
    from seglog.policies import Policies
    from seglog.topic.topic import Topic

NO_ACK, APPENDED, DURABLE = 0, 1, -1
SMALL_BYTES = 64 * 1024  # up to this size a record or a batch is appended without a thread
HERE_BYTES = 256 * 1024  # the same, decompressed
FEW_PARTS = 100  # partitions of a request, whose answers may wait without a claim on memory
NO_TIME = -1
AT_A_TIME = 100  # partitions of a request
Item = TypeVar("Item")
T = TypeVar("T")


class Stored(NamedTuple):
    """A batch that was appended, or staged in its transaction, which makes it durable when it commits.

    Attributes:
        offsets: Its offsets.
        time: The server's time that its records got, in ms; NO_TIME: they keep their own.
        is_staged: Whether it is in a transaction.
    """

    offsets: range
    time: int
    is_staged: bool = False


class Part(NamedTuple):
    """What a partition of a topic is answered, which of its records must be durable first, if any, and in how many
    copies.
    """

    topic: str
    values: Values
    waits: Written | None = None
    copies: int = 0


async def produce(call: Call) -> Values | None:
    """Append the batches; answer when `acks` is fulfilled: at once, when appended, or when synced.

    While records of a few partitions wait to be synced, the next request of the client is read.
    """
    topics, acks = call.values["topic_data"], call.values["acks"]
    wanted = [(topic["name"], one) for topic in topics for one in topic["partition_data"]]
    rows = max(BadRecords.MOST // max(len(wanted), 1), 1)
    parts = await _each(lambda one: _store(call, *one, acks, rows), wanted)
    if acks == NO_ACK:
        _check_accepted(parts)
        return None
    if any(one.waits is not None for one in parts):
        if len(parts) <= FEW_PARTS:
            call.read_on()
        answers = await _each(partial(_acknowledged, call), parts)
    else:
        answers = [one.values for one in parts]
    found = iter(answers)
    return {
        "responses": [
            {"name": topic["name"], "partition_responses": [next(found) for _ in topic["partition_data"]]}
            for topic in topics
        ]
    }


def _check_accepted(parts: list[Part]) -> None:
    """Raise Unanswered if a partition has refused its batch: the client learns it when its connection ends."""
    for one in parts:
        if one.values.get("error_code"):
            place = f"partition {one.values['index']} of {one.topic!r}"
            raise Unanswered(f"a batch with acks=0 for {place} was refused: {one.values['error_message']}")


async def _each(work: Callable[[Item], Coroutine[Any, Any, T]], items: list[Item]) -> list[T]:
    """Return what the work on each item returns; on some at a time, between which other requests have their turn."""
    if len(items) == 1:  # a task costs 50 us
        return [await work(items[0])]
    found: list[T] = []
    for start in range(0, len(items), AT_A_TIME):
        found += await asyncio.gather(*map(work, items[start : start + AT_A_TIME]))
    return found


async def _store(call: Call, name: str, wanted: Values, acks: int, rows: int) -> Part:
    """Append the batch of a partition; its memory is not held any longer. rows: how many an answer may blame."""
    number, data = wanted["index"], wanted.pop("records")
    if acks not in (NO_ACK, APPENDED, DURABLE):
        text = f"acks is {acks}; it must be 0, 1 or -1 (all)"
        return Part(name, _refused(number, codes.INVALID_REQUIRED_ACKS, text))
    try:
        topic = await call.topic(name, "write")
        log = log_of(topic, number)
        since = log.epoch
        stored = await _append(call, topic, number, data, durable=acks == DURABLE)
    except SeglogError as error:
        return Part(name, _failed(call, name, number, error, rows))
    call.services.space.worked(name)
    values = {
        "index": number,
        "base_offset": stored.offsets.start,
        "log_append_time_ms": stored.time,
        "log_start_offset": log.lowest_offset,
    }
    waits = acks == DURABLE and not stored.is_staged
    last = Written(log, stored.offsets.stop - 1, since) if waits else None
    return Part(name, values, last, topic.policies.copies)


async def _acknowledged(call: Call, part: Part) -> Values:
    """Return the answer for a partition when its records are durable, here and on the copies that the topic wants."""
    number = part.values["index"]
    if part.waits is not None:
        try:
            await call.services.appends.synced((part.topic, number), part.waits.log)
            await copied(call, part.waits, part.copies)
        except SeglogError as error:
            return _failed(call, part.topic, number, error)
    return part.values


def _failed(call: Call, name: str, number: int, error: SeglogError, rows: int = 0) -> Values:
    call.services.space.failed(name, error)
    return {**_refused(number, codes.code_of(error), str(error)), "record_errors": _errors_of(error, rows)}


def _refused(number: int, code: int, text: str) -> Values:
    return {"index": number, "error_code": code, "base_offset": -1, "error_message": text}


def _errors_of(error: SeglogError, most: int) -> list[Values]:
    """Return which records of a batch are to blame, the first `most`; the client can send the others again."""
    if not isinstance(error, BadRecords):
        return []
    return [{"batch_index": row, "batch_index_error_message": error.why} for row in error.rows[:most]]


async def _append(call: Call, topic: Topic, number: int, data: memoryview | None, *, durable: bool) -> Stored:
    """Append a batch."""
    if data is None:
        raise BadBatch("there are no records")
    limits = call.services.settings.limits
    log = topic.partition(number)
    if len(data) > limits.batch_bytes:
        raise TooLarge(limits.batch_bytes)
    policies = topic.policies
    if len(data) > (most := most_bytes(policies, limits.batch_bytes)):
        raise TooLarge(most, f"{MESSAGE_BYTES} of the topic")
    batch = ProducedBatch(topic, number, log, data, _stamped(head_of(data), policies), policies)
    _check(batch.head, limits.batch_records)
    if batch.head.attributes & TRANSACTIONAL:
        return Stored(await staged(call, batch), _time_of(batch.head), is_staged=True)
    if durable:
        check_copies(log, policies.copies)
    return await _append_once(call, batch)


def _stamped(head: Head, policies: Policies) -> Head:
    """Return the head of a batch as it is stored: with the server's time if the topic wants it for its records."""
    if policies.timestamps == "given":
        return head
    return head._replace(attributes=head.attributes | LOG_APPEND_TIME, max_timestamp=system_clock() // MICROSECONDS)


def _time_of(head: Head) -> int:
    return head.max_timestamp if head.attributes & LOG_APPEND_TIME else NO_TIME


async def _append_once(call: Call, batch: ProducedBatch) -> Stored:
    """Append a batch, unless it is a repeated one of an idempotent producer."""
    head, log = batch.head, batch.log
    if head.producer_id == NO_PRODUCER:
        return Stored(await _append_new(call, batch, None), _time_of(head))
    owner, place = call.producer_owner(call.caller.name), (batch.topic.id, batch.number)
    async with call.parts.producers.turn(place, log, head, owner, call.payer) as turn:
        if turn.offset is None or turn.offset + head.records > log.next_offset:  # a poisoned log may have lost its end
            offsets = await _append_new(call, batch, key_of(batch.number, head, turn.owner))
            turn.offset = offsets.start
            return Stored(offsets, _time_of(head))
        offsets = range(turn.offset, turn.offset + head.records)
        if _time_of(head) == NO_TIME:
            return Stored(offsets, NO_TIME)
        return Stored(offsets, await call.services.reads.run(partial(_stored_time, log, turn.offset)))


def _stored_time(log: Log, offset: int) -> int:
    """Return the time, in ms, of a record that was stored before; NO_TIME if it cannot be read any more."""
    try:
        return log.read(offset).timestamp // MICROSECONDS
    except SeglogError:
        return NO_TIME


async def _append_new(call: Call, batch: ProducedBatch, once: str | None) -> range:
    """Append a batch in the way that its size allows."""
    if batch.head.records == 1 and len(batch.data) <= SMALL_BYTES and not batch.head.attributes & CODEC_BITS:
        return await _append_one(call, batch, once)
    try:
        stored = _append_here(call, batch, once)
        if stored is None:
            apart, most = partial(_append_apart, call, batch, once), call.services.settings.limits.batch_bytes
            stored = await in_bounds(batch.data, batch.head, most, apart)
    except OSError as error:
        if isinstance(error, SeglogError):
            raise
        raise StorageError(error.errno, str(error)) from error
    call.services.metrics.appended(batch.topic.name, len(stored), len(batch.data))
    return stored


async def _append_apart(call: Call, batch: ProducedBatch, once: str | None, most: int) -> range:
    """Append a batch on a thread, in memory that the server has for it; see `in_bounds`."""
    services, limits = call.services, call.services.settings.limits

    def append() -> range:
        return _appended(batch, decoded(batch, most, limits), once)

    claim = Claim(services.memory, "decoding")
    call.hold(claim)
    room = partial(claim.wait, decoded_bytes(batch.head, most))
    written: Any = lambda _: [(batch.number, batch.log)]  # noqa: E731 - as `batch` calls it
    try:
        offsets: range = await services.appends.batch(batch.topic.name, written, append, durable=False, first=room)
    finally:
        claim.close()
    return offsets


def _append_here(call: Call, batch: ProducedBatch, once: str | None) -> range | None:
    """Append a small batch immediately; None, without having done anything, if that could block or take long."""
    services, topic, number = call.services, batch.topic, batch.number
    if len(batch.data) > SMALL_BYTES or not topic.is_ready(number, decoded_bytes(batch.head, HERE_BYTES), once):
        return None
    try:
        records = decoded(batch, HERE_BYTES, services.settings.limits)
    except TooLarge:  # decompressed
        return None
    offsets: range = services.appends.batch_here(
        (topic.name, number), batch.log, partial(_appended, batch, records, once)
    )
    return offsets


def _appended(batch: ProducedBatch, records: Records, once: str | None) -> range:
    """Append records; those without headers, and so without marks, need no Arrow to be stored."""
    topic, number = batch.topic, batch.number
    if not records.headers:
        if once is None:
            return topic._append_encodable(number, records.to_rows())
        return topic._append_unmarked_once(number, records, once)
    return topic.append_batch(records.arrow, partition=number, once=once, force_timestamp=True)[number]


async def _append_one(call: Call, batch: ProducedBatch, once: str | None) -> range:
    """Append a single record as HTTP does: immediately if nothing can delay it, else in the partition's queue."""
    services, data = call.services, batch.data
    record = _draft(decoded(batch, SMALL_BYTES, services.settings.limits))
    wanted = Append(batch.topic.writer(batch.number), record, once, durable=False)
    _, offset = await services.appends.append(wanted, len(data) + HEAD_BYTES)
    services.metrics.appended(batch.topic.name, 1, len(data))
    return range(offset, offset + 1)


def _draft(records: Records) -> Draft:
    """Return the only record."""
    if not records.headers:
        timestamp, key, value = records.first()
        return Draft(value, key, timestamp, (), force_timestamp=True)
    try:
        [row] = records.arrow.to_pylist()
    except UnicodeDecodeError as error:
        raise BadBatch("the name of a header is not UTF-8") from error
    headers = tuple((one["key"], one["value"]) for one in row["headers"])
    return Draft(row["value"], row["key"], row["timestamp"], headers, force_timestamp=True)


def _check(head: Head, most: int) -> None:
    if head.records > most:
        raise BadBatch(f"a batch of {head.records} records; this server accepts {most} (--batch-records)")
    if head.attributes & TRANSACTIONAL and head.producer_id == NO_PRODUCER:
        raise BadBatch("a transactional batch needs a producer")
    if head.producer_id != NO_PRODUCER and (head.producer_id < 0 or head.producer_epoch < 0 or head.sequence < 0):
        raise BadBatch("a batch of an idempotent producer needs its epoch and sequence")
