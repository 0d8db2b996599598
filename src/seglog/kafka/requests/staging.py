"""The batches of a transaction: staged in its journal, and answered with the offsets that they are likely to get."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from seglog.kafka.faults import WrongState
from seglog.kafka.producers.remembered import Who
from seglog.kafka.producers.sequences import Appended, key_of
from seglog.kafka.records.faults import BadBatch
from seglog.kafka.requests.decoding import ProducedBatch, decoded, decoded_bytes, in_bounds
from seglog.kafka.transactions.state import Size
from seglog.server.runtime.memory import Claim
from seglog.topic.broker import transactions_of
from seglog.topic.transactions.journal import Batch

if TYPE_CHECKING:
    from seglog.kafka.requests.call import Call
    from seglog.kafka.transactions.state import Transactional
    from seglog.topic.transactions.journal import Journal

HEADERS = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
STORED = {"timestamp": pa.int64(), "key": pa.binary(), "value": pa.binary(), "headers": HEADERS}
"""The types of a staged batch: without views, which would store the data of a batch once for each column."""


async def staged(call: Call, produced: ProducedBatch) -> range:
    """Stage a batch in the open transaction of its producer, and return the offsets that it is announced with.

    They rise with each batch of a producer, and are those of the records if no other program appends to the
    partition before the commit.

    Raises:
        Fenced, UnknownProducer, NotOwner: As `Transactions.find`.
        WrongState: The partition was not added to the transaction.
        OldProducerEpoch, OutOfOrderSequence: It is neither the next batch nor one of the last.
        BadBatch, NoKeys, BadTimes, RecordTooLarge, KeyRequired: The partition would refuse the records.
        Busy: The transaction, or all open ones, have too many bytes.
    """
    topic, number, log, data, head, _ = produced
    transactions = call.parts.transactions
    one = transactions.find(call.caller, call.values["transactional_id"], head.producer_id, head.producer_epoch)
    owner, place = call.producer_owner(one.owner), (topic.id, number)
    stored = None
    if place not in one.lines:
        stored = await call.parts.producers.stored(place, log, Who(owner, head.producer_id))

    async def work(journal: Journal) -> range:
        if (topic.name, number) not in one.partitions:
            raise WrongState(f"partition {number} of {topic.name!r} was not added to the transaction of {one.name!r}")
        line = one.line(place, stored)
        offset = line.check(head)
        if offset is None:
            offset = line.announce(log.next_offset)
            about = {"sequence": head.sequence, "checksum": head.checksum, "offset": offset}
            once = f"{key_of(number, head, owner)} {journal.id}"
            batch = Batch(topic.name, topic.id, number, once, head.records, about)
            stage = partial(_stage, call, produced, one, journal, batch)
            await in_bounds(data, head, call.services.settings.limits.batch_bytes, stage)
            line.note(head.producer_epoch, head.sequence, head.records, Appended(offset, head.checksum))
        return range(offset, offset + head.records)

    return await transactions.within(one, head.producer_epoch, work)


async def _stage(
    call: Call, produced: ProducedBatch, one: Transactional, journal: Journal, batch: Batch, most: int
) -> None:
    """Stage a batch on threads, in memory that the server has for it; see `in_bounds`.

    The journal has the records as they are when decompressed, so only then is known whether they fit.
    """
    limits, transactions = call.services.settings.limits, call.parts.transactions
    claim = Claim(call.services.memory, "decoding")

    def decode() -> pa.RecordBatch:
        return _stored(decoded(produced, most, limits).arrow)

    try:
        room = partial(claim.wait, decoded_bytes(produced.head, most) + len(produced.data))
        records = await transactions.run(decode, room)
        with transactions.room(one, Size(records.nbytes, 1)):
            await transactions.run(partial(transactions_of(call.services.broker).stage, journal, batch, records))
    finally:
        claim.close()


def _stored(records: pa.RecordBatch) -> pa.RecordBatch:
    try:
        return records.cast(pa.schema([(name, STORED[name]) for name in records.schema.names]))
    except pa.ArrowException as error:
        raise BadBatch(f"its records cannot be stored: {error}") from error
