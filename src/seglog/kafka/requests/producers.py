"""Identities of producers."""

from __future__ import annotations

from seglog.errors import Busy, SeglogError
from seglog.kafka import codes
from seglog.kafka.producers.registry import new_producer
from seglog.kafka.requests.call import Call, Values

LONGEST_ID = 1000


async def init_producer_id(call: Call) -> Values:
    """Return a producer id and its epoch; a new producer, for which nothing is stored, without a transactional id."""
    name = call.values["transactional_id"]
    if name is None:
        return {"producer_id": new_producer(), "producer_epoch": 0}
    if not 0 < len(name) <= LONGEST_ID:
        return _refused(codes.INVALID_REQUEST)
    try:
        found = await call.parts.transactions.init(call.caller, name, call.values["transaction_timeout_ms"])
    except Busy:
        return _refused(codes.POLICY_VIOLATION)
    except SeglogError as error:
        return _refused(codes.code_of(error))
    return {"producer_id": found[0], "producer_epoch": found[1]}


def _refused(code: int) -> Values:
    return {"error_code": code, "producer_id": -1, "producer_epoch": -1}
