"""Metadata: the one broker, the topics and their partitions."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from seglog.errors import Forbidden, InvalidArgument, SeglogError, TopicExists, TopicNotFound
from seglog.kafka import codes
from seglog.kafka.configs import NEW
from seglog.kafka.messages.admin import BROKERS, CONTROLLERS
from seglog.kafka.messages.shared import UNKNOWN_RIGHTS
from seglog.kafka.requests import operations
from seglog.kafka.requests.call import ENTRY_BYTES, Call, Values
from seglog.kafka.requests.epochs import leader_epoch
from seglog.kafka.requests.turns import in_turns
from seglog.kafka.topic_ids import uuid_of
from seglog.topic.layout.names import checked_name, refuse_reserved

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from seglog.topic.topic import Topic

NODE = 1
"""The number of this broker, the only one."""
CLUSTER = "seglog"
NO_NAME_SINCE = 12
"""The version since which a topic may lack a name."""


async def metadata(call: Call) -> Values:
    """Return the broker and topics; create those that are missing if the request and the settings allow it."""
    wanted = call.values["topics"]
    host, port = call.advertised
    if wanted is None:
        names = await visible_names(call)
    else:
        names = list(dict.fromkeys(one["name"] for one in wanted if one["name"] is not None))
    ids = dict.fromkeys(one["topic_id"] for one in wanted or () if one["name"] is None)
    topics = [await _described(call, name) async for name in in_turns(names)]
    topics += [await _with_id(call, uuid) async for uuid in in_turns(ids)]
    for one in topics if call.values["include_topic_authorized_operations"] else ():
        if not one.get("error_code"):
            one["topic_authorized_operations"] = operations.on_topic(call.caller, one["name"])
    asked = call.values["include_cluster_authorized_operations"]
    return {
        "brokers": [{"node_id": NODE, "host": host, "port": port}],
        "cluster_id": CLUSTER,
        "controller_id": NODE,
        "topics": topics,
        "cluster_authorized_operations": operations.on_cluster(call.caller) if asked else UNKNOWN_RIGHTS,
    }


async def visible_names(call: Call) -> list[str]:
    """Return the names of the topics on which the sender has any right, sorted. Raises Busy."""
    services = call.services
    names = await services.reads.run_when_free(services.broker.topics, services.settings.limits.idle_seconds)
    return [name for name in names if _is_visible(call, name)]


def _is_visible(call: Call, name: str) -> bool:
    return call.caller.may_anything(name)


async def _described(call: Call, name: str) -> Values:
    return await topic_or_error(call, name, _created(call, name))


async def topic_or_error(call: Call, name: str, found: Awaitable[Topic]) -> Values:
    """Return a topic with all of its partitions, or the error of `found`."""
    try:
        topic = await found
        await call.room((1 + topic.partitions) * ENTRY_BYTES)
    except SeglogError as error:
        return {"error_code": _passing(refusal_of(error)), "name": name, "partitions": []}
    return _partitions(topic)


async def _with_id(call: Call, uuid: str) -> Values:
    """Return a topic that was requested by its id; its name only if the sender may know it."""
    name, code = None, codes.UNKNOWN_TOPIC_ID
    try:
        name = await call.name_of(uuid)
    except SeglogError as error:
        code = _passing(codes.code_of(error))
    if name is not None:
        found = await _described(call, name)
        if not found.get("error_code"):
            return found
        code = found["error_code"]
    return {
        "error_code": code,
        "name": None if call.version >= NO_NAME_SINCE else "",
        "topic_id": uuid,
        "partitions": [],
    }


def _passing(code: int) -> int:
    """Return the code with which clients keep a topic that they know, and ask for it again."""
    return codes.LEADER_NOT_AVAILABLE if code == codes.REQUEST_TIMED_OUT else code


def refusal_of(error: SeglogError) -> int:
    """Return the code of an error about a topic, whose name may be invalid."""
    return codes.INVALID_TOPIC if isinstance(error, InvalidArgument) else codes.code_of(error)


async def describe_cluster(call: Call) -> Values:
    """Return the one broker; there are no separate controllers."""
    kind = call.values["endpoint_type"]
    if kind not in (BROKERS, CONTROLLERS):
        text = f"there are no endpoints of type {kind}"
        return {"error_code": codes.UNSUPPORTED_ENDPOINT_TYPE, "error_message": text}
    if kind == CONTROLLERS:
        text = "this is a broker; there are no separate controllers (bootstrap.controllers)"
        return {"error_code": codes.MISMATCHED_ENDPOINT_TYPE, "error_message": text}
    host, port = call.advertised
    brokers = [{"broker_id": NODE, "host": host, "port": port}]
    asked = call.values["include_cluster_authorized_operations"]
    rights = operations.on_cluster(call.caller) if asked else UNKNOWN_RIGHTS
    shown = {"cluster_id": CLUSTER, "controller_id": NODE, "brokers": brokers}
    return {**shown, "cluster_authorized_operations": rights}


async def visible_topic(call: Call, name: str) -> Topic:
    """Return a topic.

    Raises:
        Forbidden: The sender has no right on it.
        InvalidArgument: It is no name of a topic.
        TopicNotFound: There is none.
    """
    if not _is_visible(call, name):
        raise Forbidden(f"the token {call.caller.name!r} has no right on topic {name!r}")
    broker = call.services.broker
    refuse_reserved(checked_name(name, "topic"))
    opened = broker.if_open(name)
    return opened if opened is not None else await call.services.reads.run(lambda: broker.topic(name))


async def _created(call: Call, name: str) -> Topic:
    """Return a topic, which is created if it is missing, and the request and the settings allow it."""
    with suppress(TopicNotFound):
        return await visible_topic(call, name)
    broker, partitions = call.services.broker, call.parts.settings.topic_partitions
    if not (partitions and call.values["allow_auto_topic_creation"] and call.caller.may("admin", name)):
        raise TopicNotFound(name)
    try:
        create = partial(broker.create_topic, name, partitions=partitions, config=NEW.log, policies=NEW.policies)
        return await call.services.care.run(create)
    except TopicExists:  # another request was faster
        return await call.services.reads.run(lambda: broker.topic(name))


def _partitions(topic: Topic) -> Values:
    partitions = [
        {
            "partition_index": number,
            "leader_id": NODE,
            "leader_epoch": leader_epoch(topic.partition(number)),
            "replica_nodes": [NODE],
            "isr_nodes": [NODE],
        }
        for number in range(topic.partitions)
    ]
    return {"name": topic.name, "topic_id": uuid_of(topic), "partitions": partitions}
