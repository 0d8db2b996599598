"""ListTransactions and DescribeTransactions, for operators: the transactional ids and the states of their last ones."""

from __future__ import annotations

from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values, by_topic
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
    states, producers = call.values["state_filters"], call.values["producer_id_filters"]
    found = [
        {"transactional_id": one.name, "producer_id": one.producer_id, "transaction_state": SHOWN[one.state]}
        for one in call.parts.transactions.of(call.caller)
        if (not states or SHOWN[one.state] in states) and (not producers or one.producer_id in producers)
    ]
    return {
        "error_code": codes.NONE,
        "unknown_state_filters": [name for name in states if name not in KNOWN],
        "transaction_states": found,
    }


async def describe_transactions(call: Call) -> Values:
    """Return the producers, the states and the partitions of ids that the sender may use."""
    known = {one.name: one for one in call.parts.transactions.of(call.caller)}
    return {"transaction_states": [_described(name, known.get(name)) for name in call.values["transactional_ids"]]}


def _described(name: str, one: Transactional | None) -> Values:
    if one is None:  # or it is another token's
        absent = {"transactional_id": name, "transaction_state": "", "producer_id": -1, "producer_epoch": -1}
        times = {"transaction_timeout_ms": 0, "transaction_start_time_ms": NOT_STARTED}
        return {"error_code": codes.TRANSACTIONAL_ID_NOT_FOUND, **absent, **times, "topics": []}
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
