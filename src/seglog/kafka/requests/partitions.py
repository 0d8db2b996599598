"""Add partitions to topics, and delete the first records of partitions."""

from __future__ import annotations

from collections import Counter
from functools import partial

from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.configs import TopicConfig, deletes
from seglog.kafka.requests.call import Call, Values, log_of
from seglog.kafka.requests.metadata import NODE, refusal_of
from seglog.kafka.requests.topics import Refused
from seglog.kafka.requests.turns import in_turns
from seglog.topic.topic import Topic

TO_THE_END = -1
NO_OFFSET = -1


async def create_partitions(call: Call) -> Values:
    """Raise the numbers of partitions; or only check whether they could be."""
    wanted = call.values["topics"]
    named = Counter(one["name"] for one in wanted)
    return {"results": [await _create(call, one, twice=named[one["name"]] > 1) async for one in in_turns(wanted)]}


async def _create(call: Call, wanted: Values, *, twice: bool) -> Values:
    name = wanted["name"]
    try:
        if twice:
            raise Refused(codes.INVALID_REQUEST, f"the request has the topic {name!r} twice")
        topic = await call.topic(name, "admin")
        _check(call, topic, wanted)
        if not call.values["validate_only"]:
            await call.services.care.run(partial(call.services.broker.add_partitions, name, wanted["count"]))
    except Refused as error:
        return {"name": name, "error_code": error.code, "error_message": str(error)}
    except SeglogError as error:
        return {"name": name, "error_code": refusal_of(error), "error_message": str(error)}
    return {"name": name}


def _check(call: Call, topic: Topic, wanted: Values) -> None:
    """Raise Refused for a number of partitions, or an assignment to brokers, that is not possible."""
    present, count, assigned = topic.partitions, wanted["count"], wanted["assignments"]
    most = call.services.settings.limits.partitions
    if count <= present < most:
        text = f"topic {topic.name!r} already has {present} partitions; the number must be higher, up to {most}"
        raise Refused(codes.INVALID_PARTITIONS, text)
    if not present < count <= most:
        text = f"topic {topic.name!r} has {present} partitions and may have up to {most} (--partitions), not {count}"
        raise Refused(codes.INVALID_PARTITIONS, text)
    if assigned is not None and [one["broker_ids"] for one in assigned] != [[NODE]] * (count - present):
        text = f"assignments need one entry for each new partition, and the only broker is {NODE}"
        raise Refused(codes.INVALID_REPLICA_ASSIGNMENT, text)


async def delete_records(call: Call) -> Values:
    """Delete the records before an offset, or all; not of a topic with cleanup.policy=compact alone."""
    return await call.each_partition(_delete)


async def _delete(call: Call, name: str, wanted: Values) -> Values:
    number, offset = wanted["partition_index"], wanted["offset"]
    try:
        topic = await call.topic(name, "admin")
        log = log_of(topic, number)
        if not deletes(TopicConfig.of(topic)):
            return {"partition_index": number, "low_watermark": NO_OFFSET, "error_code": codes.POLICY_VIOLATION}

        def work() -> int:
            return log.delete_before(log.next_offset if offset == TO_THE_END else offset)

        lowest = await call.services.care.run(work)
    except SeglogError as error:
        return {"partition_index": number, "low_watermark": NO_OFFSET, "error_code": codes.code_of(error)}
    return {"partition_index": number, "low_watermark": lowest}
