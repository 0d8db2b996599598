"""DescribeTopicPartitions: topics in the order of their names, some partitions at a time."""

from __future__ import annotations

from seglog.errors import InvalidArgument
from seglog.kafka import codes
from seglog.kafka.requests import operations
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.metadata import topic_or_error, visible_names, visible_topic
from seglog.kafka.requests.turns import in_turns

MOST = 2000
"""Partitions in a response, whatever the request allows; as Kafka's default."""


async def describe_topic_partitions(call: Call) -> Values:
    """Return the named topics, or all that the sender may see, from the cursor on; never creates one."""
    named, cursor = {one["name"] for one in call.values["topics"]}, call.values["cursor"]
    try:
        start, first = _start(named, cursor)
    except InvalidArgument:
        return {"topics": [{"error_code": codes.INVALID_REQUEST, "name": name, "partitions": []} for name in named]}
    left = max(1, min(call.values["response_partition_limit"], MOST))
    found = list[Values]()
    async for name in in_turns(sorted(one for one in (named or await visible_names(call)) if one >= start)):
        if not left:
            return {"topics": found, "next_cursor": {"topic_name": name, "partition_index": 0}}
        topic = await _described(call, name)
        if topic.get("error_code") and not named:  # it was deleted meanwhile
            continue
        rest = [one for one in topic["partitions"] if name != start or one["partition_index"] >= first]
        found.append({**topic, "partitions": rest[:left]})
        if len(rest) > left:
            following = rest[left]["partition_index"]
            return {"topics": found, "next_cursor": {"topic_name": name, "partition_index": following}}
        left -= max(1, len(rest))  # a topic with an error counts as a partition
    return {"topics": found}


def _start(named: set[str], cursor: Values | None) -> tuple[str, int]:
    """Return the first topic and its first partition."""
    if cursor is None:
        return "", 0
    name, partition = cursor["topic_name"], cursor["partition_index"]
    if partition < 0 or (named and name not in named):
        raise InvalidArgument(f"the cursor {name!r}, {partition} is not of the named topics")
    return name, partition


async def _described(call: Call, name: str) -> Values:
    found = await topic_or_error(call, name, visible_topic(call, name))
    if not found.get("error_code"):
        found["topic_authorized_operations"] = operations.on_topic(call.caller, name)
    return found
