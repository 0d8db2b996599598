"""The endpoints of laminarmq's commit log server, at the same paths and in the same shapes.

They act on partition 0 of the topic "default", so that a client written for that server works unchanged.
"""

from __future__ import annotations

from starlette.responses import Response

from seglog.log.appends.group import Draft
from seglog.log.log import Log
from seglog.server.api.expose import EXPOSE
from seglog.server.api.models import TruncateIndex
from seglog.server.api.operations import ANYTHING, Answer, Call, Operation, json_answer
from seglog.server.api.parameters import integer
from seglog.server.api.schemas import BINARY, COUNT
from seglog.server.http.bodies import OCTETS
from seglog.server.routes.appending import acknowledged, store
from seglog.server.routes.common import ACKS, ONCE, json_of, topic_of
from seglog.server.routes.record import whole_record
from seglog.server.routes.topics import truncate
from seglog.server.services import DEFAULT_TOPIC

INDEX = integer("index", "A record's index in the log.", least=0).in_path()


async def _log(call: Call) -> Log:
    return (await topic_of(call, DEFAULT_TOPIC)).partition(0)


async def _bounds(call: Call) -> Response:
    log = await _log(call)
    return json_answer({"highest_index": log.next_offset, "lowest_index": log.lowest_offset})


async def _append(call: Call) -> Response:
    async with call.spooled() as body:
        topic = await topic_of(call, DEFAULT_TOPIC)
        place = await store(call, topic, body, Draft(None), partition=0)
    await acknowledged(call, topic, [place])
    return json_answer({"write_index": place[1]})


async def _read(call: Call) -> Response:
    return (await whole_record(call, await _log(call), call.values["index"])).answer({})


async def _truncate(call: Call) -> Response:
    wanted = await call.json(TruncateIndex)
    await truncate(call, (DEFAULT_TOPIC, 0), await _log(call), wanted.truncate_index)
    return Response(status_code=200)


OPERATIONS = (
    Operation(
        "GET",
        "/index_bounds",
        "index_bounds",
        "Where the default log starts and ends (the highest index is exclusive).",
        _bounds,
        "read",
        {200: json_of("The bounds.", {"highest_index": COUNT, "lowest_index": COUNT})},
        topic=DEFAULT_TOPIC,
    ),
    Operation(
        "POST",
        "/records",
        "append_default",
        "Append the body to the default log, unchanged.",
        _append,
        "write",
        {200: json_of("It is stored.", {"write_index": COUNT})},
        (*ACKS, ONCE),
        {ANYTHING: BINARY},
        DEFAULT_TOPIC,
    ),
    Operation(
        "GET",
        "/records/{index}",
        "read_default",
        "Read a record's value from the default log.",
        _read,
        "read",
        {200: Answer("The value, unchanged.", {OCTETS: BINARY})},
        (INDEX, EXPOSE),
        topic=DEFAULT_TOPIC,
    ),
    Operation(
        "POST",
        "/rpc/truncate",
        "truncate_default",
        "Remove the records of the default log from an index on.",
        _truncate,
        "admin",
        {200: Answer("They are removed.")},
        (),
        TruncateIndex,
        DEFAULT_TOPIC,
    ),
)
