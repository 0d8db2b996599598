"""Create and delete topics."""

from __future__ import annotations

from collections import Counter
from functools import partial

from seglog.errors import Forbidden, InvalidArgument, SeglogError, TopicExists, TopicNotFound
from seglog.kafka import codes
from seglog.kafka.configs import NEW, changed, checked
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.metadata import NODE, refusal_of
from seglog.kafka.requests.turns import in_turns
from seglog.topic.layout.names import checked_name, refuse_reserved

DEFAULT = -1


class Refused(SeglogError):
    """A topic or partition that cannot be created as wanted; code: Kafka's."""

    def __init__(self, code: int, text: str) -> None:
        super().__init__(text)
        self.code = code


async def create_topics(call: Call) -> Values:
    """Create topics; or only check whether they could be."""
    wanted = call.values["topics"]
    named = Counter(one["name"] for one in wanted)
    return {"topics": [await _create(call, one, twice=named[one["name"]] > 1) async for one in in_turns(wanted)]}


async def _create(call: Call, wanted: Values, *, twice: bool) -> Values:
    name = wanted["name"]
    try:
        if twice:
            raise Refused(codes.INVALID_REQUEST, f"the request has the topic {name!r} twice")
        call.caller.require("admin", name)
        refuse_reserved(checked_name(name, "topic"))
        partitions = _partitions(call, wanted)
        most = call.services.settings.limits.batch_bytes
        given = checked({one["name"]: one["value"] for one in wanted["configs"]}, most)
        config = changed(NEW, given)
        if call.values["validate_only"]:
            _check_absent(call, name)
        else:
            create = partial(
                call.services.broker.create_topic,
                name,
                partitions=partitions,
                config=config.log,
                policies=config.policies,
            )
            await call.services.care.run(create)
    except Refused as error:
        return {"name": name, "error_code": error.code, "error_message": str(error)}
    except SeglogError as error:
        return {"name": name, "error_code": refusal_of(error), "error_message": str(error)}
    return {"name": name}


def _check_absent(call: Call, name: str) -> None:
    if name in call.services.broker.topics():
        raise TopicExists(name)


def _partitions(call: Call, wanted: Values) -> int:
    """Return the number of partitions, after every check. Raises Refused."""
    count: int = wanted["num_partitions"]
    assigned = {one["partition_index"]: one["broker_ids"] for one in wanted["assignments"]}
    if assigned:
        if count != DEFAULT or sorted(assigned) != list(range(len(assigned))):
            raise Refused(codes.INVALID_REPLICA_ASSIGNMENT, "assignments need every partition from 0, and no count")
        if any(brokers != [NODE] for brokers in assigned.values()):
            raise Refused(codes.INVALID_REPLICA_ASSIGNMENT, f"the only broker is {NODE}")
        count = len(assigned)
    elif wanted["replication_factor"] not in (DEFAULT, 1):
        text = f"the replication factor is {wanted['replication_factor']}; there is one broker, so it must be 1"
        raise Refused(codes.INVALID_REPLICATION_FACTOR, text)
    if count == DEFAULT:
        return max(call.parts.settings.topic_partitions, 1)
    most = call.services.settings.limits.partitions
    if not 1 <= count <= most:
        raise Refused(codes.INVALID_PARTITIONS, f"{count} partitions; a topic has 1 to {most} (--partitions)")
    return count


async def delete_topics(call: Call) -> Values:
    """Delete topics with their records and committed offsets."""
    names = in_turns(call.values["topic_names"])
    return {"responses": [{"name": name, "error_code": await _delete(call, name)} async for name in names]}


async def _delete(call: Call, name: str) -> int:
    try:
        call.caller.require("admin", name)
        checked_name(name, "topic")
        await call.services.care.run(partial(call.services.broker.delete_topic, name))
    except (InvalidArgument, TopicNotFound):
        return codes.UNKNOWN_TOPIC_OR_PARTITION
    except Forbidden:
        return codes.TOPIC_AUTHORIZATION_FAILED
    except SeglogError as error:
        return codes.code_of(error)
    return codes.NONE
