"""Identities of producers, and what partitions know of them."""

from __future__ import annotations

from collections.abc import Mapping

from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.producers.registry import KnownProducer, new_producer
from seglog.kafka.producers.remembered import Place
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values, log_of
from seglog.kafka.requests.metadata import refusal_of
from seglog.kafka.requests.turns import in_turns

LONGEST_ID = 1000
MOST_DESCRIBED = 20_000
"""Producers in one response."""
NO_TRANSACTION = -1
"""A partition never has records of open transactions: those are not in its log."""


async def init_producer_id(call: Call) -> Values:
    """Return a producer id and its epoch; a new producer, for which nothing is stored, without a transactional id."""
    name = call.values["transactional_id"]
    if name is None:
        return {"producer_id": new_producer(), "producer_epoch": 0}
    if not 0 < len(name) <= LONGEST_ID:
        return _refused(codes.INVALID_REQUEST)
    try:
        found = await call.parts.transactions.init(call.caller, call.payer, name, call.values["transaction_timeout_ms"])
    except SeglogError as error:
        return _refused(codes.coordinator_code_of(error))
    return {"producer_id": found[0], "producer_epoch": found[1]}


def _refused(code: int) -> Values:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}


async def describe_producers(call: Call) -> Values:
    """Return the idempotent producers that partitions remember, with those of transactions."""
    topics, left, transactional = [], MOST_DESCRIBED, _transactional(call)
    async for topic in in_turns(call.values["topics"]):
        partitions = []
        async for number in in_turns(dict.fromkeys(topic["partition_indexes"])):
            found = await _known(call, topic["name"], number, transactional, left)
            left -= len(found["active_producers"])
            partitions.append(found)
        topics.append({"name": topic["name"], "partitions": partitions})
    return {"topics": topics}


def _transactional(call: Call) -> dict[Place, list[KnownProducer]]:
    """Return the producers of all transactional ids, by partition."""
    found: dict[Place, list[KnownProducer]] = {}
    for one in call.parts.transactions.all():
        for place, line in one.lines.items():
            if line.producer is not None:
                known = KnownProducer(one.producer_id, line.producer.epoch, line.producer.last_sequence)
                found.setdefault(place, []).append(known)
    return found


async def _known(
    call: Call, name: str, number: int, transactional: Mapping[Place, list[KnownProducer]], most: int
) -> Values:
    shown = {"partition_index": number, "active_producers": []}
    try:
        topic = await call.topic(name, "read")
        place = (topic.id, number)
        stored = await call.parts.producers.of(place, log_of(topic, number))
        found = {one.producer: one for one in (*stored, *transactional.get(place, ()))}
        if len(found) > most:
            message = f"a response has at most {MOST_DESCRIBED} producers; ask for fewer partitions"
            return {**shown, "error_code": codes.POLICY_VIOLATION, "error_message": message}
        await call.room(len(found) * ENTRY_BYTES)
    except SeglogError as error:
        return {**shown, "error_code": refusal_of(error), "error_message": str(error)}
    return {**shown, "active_producers": [_described(one) for one in found.values()]}


def _described(one: KnownProducer) -> Values:
    return {
        "producer_id": one.producer,
        "producer_epoch": one.epoch,
        "last_sequence": one.last_sequence,
        "last_timestamp": one.timestamp,
        "coordinator_epoch": NO_TRANSACTION,
        "current_txn_start_offset": NO_TRANSACTION,
    }
