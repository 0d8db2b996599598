"""DescribeLogDirs: the directory of the broker, the free space there, and the sizes of partitions."""

from __future__ import annotations

from seglog.errors import Busy, SeglogError
from seglog.kafka import codes
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values
from seglog.kafka.requests.operations import cluster_refusal

UNKNOWN = -1


async def describe_log_dirs(call: Call) -> Values:
    """Return the sizes of all partitions, or of those that are named; for callers that may administer every topic."""
    refusal = cluster_refusal(call.caller)
    if refusal is not None:
        return refusal
    services, wanted = call.services, call.values["topics"]

    def found() -> list[Values]:
        if wanted is None:
            chosen = dict.fromkeys(services.broker.topics())
        else:
            chosen = {one["topic"]: frozenset(one["partitions"]) for one in wanted}
        return [{"name": name, "partitions": _sizes(call, name, numbers)} for name, numbers in chosen.items()]

    place = {"log_dir": str(services.broker.root), "total_bytes": UNKNOWN}
    try:
        await call.room(len(await services.reads.run(services.broker.logs)) * ENTRY_BYTES)
        shown = {"usable_bytes": services.space.free_bytes(), "topics": await services.reads.run(found)}
    except Busy as error:
        code = codes.code_of(error)
        none = {"error_code": code, "usable_bytes": UNKNOWN, "topics": []}
        return {"error_code": code, "results": [{**place, **none}]}
    return {"error_code": codes.NONE, "results": [{**place, "error_code": codes.NONE, **shown}]}


def _sizes(call: Call, name: str, numbers: frozenset[int] | None) -> list[Values]:
    """Return the partitions of a topic that are wanted; nothing of a topic that does not exist or cannot be opened."""
    try:
        topic = call.services.broker.topic(name)
    except SeglogError:
        return []
    return [
        {"partition_index": number, "partition_size": topic.partition(number).size, "offset_lag": 0}
        for number in range(topic.partitions)
        if numbers is None or number in numbers
    ]
