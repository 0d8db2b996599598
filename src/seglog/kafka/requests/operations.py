"""What a caller may do, as a set of Kafka's operations: one bit for each, at the number of the operation."""

from __future__ import annotations

from collections.abc import Iterable

from seglog.errors import Forbidden
from seglog.kafka import codes
from seglog.kafka.requests.call import Values
from seglog.server.rights.access import EVERY, Caller

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = range(
    3, 13
)
SEEN = (DESCRIBE, DESCRIBE_CONFIGS)


def on_topic(caller: Caller, topic: str) -> int:
    """Return what a caller may do with a topic that it may know of."""
    found = [*SEEN]
    found += [READ] if caller.may("read", topic) else []
    found += [WRITE] if caller.may("write", topic) else []
    found += [CREATE, DELETE, ALTER, ALTER_CONFIGS] if caller.may("admin", topic) else []
    return _bits(found)


def on_cluster(caller: Caller) -> int:
    """Return what a caller may do with the broker."""
    found = [*SEEN, IDEMPOTENT_WRITE]
    found += [CREATE, ALTER, ALTER_CONFIGS, CLUSTER_ACTION] if caller.may("admin", EVERY) else []
    return _bits(found)


def cluster_refusal(caller: Caller) -> Values | None:
    """Return the response to a caller that may not administer every topic; None if it may."""
    try:
        caller.require("admin", EVERY)
    except Forbidden as error:
        return {"error_code": codes.CLUSTER_AUTHORIZATION_FAILED, "error_message": str(error), "results": []}
    return None


def _bits(operations: Iterable[int]) -> int:
    return sum(1 << one for one in operations)
