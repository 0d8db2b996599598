"""ListTransactions and DescribeTransactions, for operators: the transactional ids and the states of their last ones."""

from __future__ import annotations

from seglog.errors import Busy
from seglog.kafka import codes
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values, by_topic
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.transactions.state import State, Transactional

SHOWN = {
    State.EMPTY: "Empty",
    State.OPEN: "Ongoing",
    State.DECIDED: "PrepareCommit",
    State.COMMITTED: "CompleteCommit",
    State.ABORTED: "CompleteAbort",
}
KNOWN = frozenset({*SHOWN.values(), "PrepareAbort", "Dead", "PrepareEpochFence"})
"""Kafka's states; a transaction here is never in the others."""
NOT_STARTED = -1


async def list_transactions(call: Call) -> Values:
    """Return the ids that the sender may use, in the wanted states and of the wanted producers."""
    states, producers = set(call.values["state_filters"]), set(call.values["producer_id_filters"])
    known = call.parts.transactions.of(call.caller)
    try:
        await call.room(len(known) * ENTRY_BYTES)
    except Busy as error:
        return {"error_code": codes.coordinator_code_of(error), "unknown_state_filters": [], "transaction_states": []}
    found = [
        {"transactional_id": one.name, "producer_id": one.producer_id, "transaction_state": SHOWN[one.state]}
        for one in known
        if (not states or SHOWN[one.state] in states) and (not producers or one.producer_id in producers)
    ]
    return {
        "error_code": codes.NONE,
        "unknown_state_filters": sorted(states - KNOWN),
        "transaction_states": found,
    }


async def describe_transactions(call: Call) -> Values:
    """Return the producers, the states and the partitions of ids that the sender may use; of each id once."""
    known = {one.name: one for one in call.parts.transactions.of(call.caller)}
    found = []
    async for name in in_turns(dict.fromkeys(call.values["transactional_ids"])):
        one = known.get(name)
        try:
            await call.room(ENTRY_BYTES * (1 if one is None else 1 + len(one.partitions)))
        except Busy as error:
            found.append(_refused(name, codes.coordinator_code_of(error)))
        else:
            found.append(_described(name, one))
    return {"transaction_states": found}


def _refused(name: str, code: int) -> Values:
    absent = {"transactional_id": name, "transaction_state": "", "producer_id": -1, "producer_epoch": -1}
    times = {"transaction_timeout_ms": 0, "transaction_start_time_ms": NOT_STARTED}
    return {"error_code": code, **absent, **times, "topics": []}


def _described(name: str, one: Transactional | None) -> Values:
    if one is None:  # or it is another token's
        return _refused(name, codes.TRANSACTIONAL_ID_NOT_FOUND)
    return {
        "error_code": codes.NONE,
        "transactional_id": name,
        "transaction_state": SHOWN[one.state],
        "transaction_timeout_ms": round(one.timeout * 1000),
        "transaction_start_time_ms": one.used_at // 1000 if one.state is State.OPEN else NOT_STARTED,
        "producer_id": one.producer_id,
        "producer_epoch": one.epoch,
        "topics": [
            {"topic": topic, "partitions": numbers} for topic, numbers in by_topic(sorted(one.partitions)).items()
        ],
    }
