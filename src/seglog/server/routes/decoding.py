"""One record's value as fields, by the schema of its topic's table."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from seglog.record import value_size
from seglog.server.api.expose import EXPOSE, check_exposed
from seglog.server.api.operations import Call, Operation
from seglog.server.api.schemas import BOOLEAN, COUNT, STRING, list_of, object_of, or_null
from seglog.server.routes.common import PARTITION, TOPIC, json_of, log_of
from seglog.server.routes.reading import OFFSET

if TYPE_CHECKING:
    from seglog.table.value_schemas import DecodedValue

MOST_BYTES = 256 * 1024
"""Of a value that is decoded: it is shown to people."""
ROOM = 16 * MOST_BYTES  # for it as Python's objects, and as the answer
NO_SCHEMA: dict[str, Any] = {"schema": None, "fields": [], "complete": True, "unfit": None}


async def _decoded(call: Call) -> Response:
    log, offset, schemas = await log_of(call), call.values["offset"], call.services.value_schemas
    check_exposed(log, offset, call.values["expose"])

    def find(_room: int) -> bytes:
        record = log.read_cut(offset, MOST_BYTES)
        if schemas is None:
            return json.dumps(NO_SCHEMA).encode()
        value = None if record.value is None else bytes(record.value)
        found: DecodedValue = schemas.decode(call.values["topic"], value, value_size(record.value))
        return json.dumps(asdict(found)).encode()

    body = await call.read(find, ROOM, workers=call.services.scans)  # the catalog of the tables may be elsewhere
    return Response(body, media_type="application/json")


FIELD = object_of({"name": STRING, "depth": COUNT, "type": STRING, "value": or_null(STRING)})
OPERATIONS = (
    Operation(
        "GET",
        "/topics/{topic}/partitions/{partition}/records/{offset}/decoded",
        "decoded",
        "Show the fields of a record's value, by the schema of the topic's table (`--table`).",
        _decoded,
        "read",
        {
            200: json_of(
                'schema: "inferred", "given", or null if there is none. fields: in order, each followed by those that '
                "it contains, which have a greater depth. unfit: why the value has no fields, or some are null.",
                {"schema": or_null(STRING), "fields": list_of(FIELD), "complete": BOOLEAN, "unfit": or_null(STRING)},
            )
        },
        (TOPIC, PARTITION.in_path(), OFFSET, EXPOSE),
    ),
)
