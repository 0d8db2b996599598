"""ElectLeaders: this server leads every partition, so no election is needed."""

from __future__ import annotations

from seglog.errors import SeglogError
from seglog.kafka import codes
from seglog.kafka.requests.call import Call, Values
from seglog.kafka.requests.metadata import refusal_of
from seglog.kafka.requests.turns import in_turns

PREFERRED, UNCLEAN = 0, 1


async def elect_leaders(call: Call) -> Values:
    """Return that the named partitions exist and have a leader; nothing if all are asked for, as none gets another."""
    if call.values["election_type"] not in (PREFERRED, UNCLEAN):
        return {"error_code": codes.INVALID_REQUEST, "replica_election_results": []}
    wanted = call.values["topic_partitions"] or ()
    return {"replica_election_results": [await _elected_of(call, one) async for one in in_turns(wanted)]}


async def _elected_of(call: Call, wanted: Values) -> Values:
    name, numbers = wanted["topic"], dict.fromkeys(wanted["partitions"])
    return {"topic": name, "partition_result": [await _elected(call, name, one) async for one in in_turns(numbers)]}


async def _elected(call: Call, topic: str, number: int) -> Values:
    try:
        await call.log(topic, number, "admin")
    except SeglogError as error:
        return {"partition_id": number, "error_code": refusal_of(error), "error_message": str(error)}
    message = f"this server leads partition {number} of topic {topic!r}, as it does every partition"
    return {"partition_id": number, "error_code": codes.ELECTION_NOT_NEEDED, "error_message": message}
