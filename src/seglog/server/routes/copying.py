"""What a mirror asks for: history and encoded records of one log, and its pin. See seglog.replication."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.responses import Response

from seglog.errors import OffsetOutOfRange
from seglog.log.log import Log
from seglog.replication import wire
from seglog.replication.source import Held, fetch_from, note_copy, pin_name
from seglog.server.api.models import Fence
from seglog.server.api.operations import Answer, Call, Operation
from seglog.server.api.parameters import integer, text
from seglog.server.api.schemas import BINARY
from seglog.server.routes.common import EMPTY, MAX_BYTES, PARTITION, TOPIC, log_of
from seglog.server.runtime.fencing import fence_all

ID = "[0-9a-f]{16}"
COPY = text("copy", "Id of the copy; the answer reports whether it has a pin.", pattern=ID, where="query")
PINNED = replace(text("copy", "Id of the copy.", pattern=ID, where="query"), required=True)
OFFSET = integer("offset", "The first offset to return; without it the answer has no records.", least=0)
POSITION = integer("offset", "The next offset that the copy will read.", least=0, required=True)
HELD = integer("held", "The copy has every record before this offset on its disk; needs `copy`, `epoch`.", least=0)
NAME = text("name", "What the copy is called, for people.", pattern=r"[^\x00-\x1f\x7f]+", where="query")
EPOCH = integer("epoch", "The epoch of that offset in the copy.", least=0)
SKIP = integer("skip", "Bytes of the record at `offset` to omit, for a record that comes in pieces.", least=0)
COPIED = Answer("History and encoded records; see docs/replication.md.", {wire.MEDIA_TYPE: BINARY})
OVERHEAD = 64 * 1024  # of an answer besides its records


async def _groups_of(call: Call) -> Log:
    return call.services.broker.groups.log


async def _fetch(call: Call, find: Callable[[Call], Awaitable[Log]]) -> Response:
    values, log = call.values, await find(call)
    limits = call.services.settings.limits
    held = _held(values, "held")
    most = min(values["max_bytes"], limits.read_bytes, call.services.memory.share("answers") // 4)

    def read(_: int) -> bytes:
        if held is not None:
            with suppress(OffsetOutOfRange):  # the log was cut just now: the copy follows, and reports again
                note_copy(log, held, durable=False)
                call.services.mirroring.look()
        fetched = fetch_from(log.view(), values["offset"], most, skip=values["skip"] or 0)
        copy = values["copy"]
        return wire.encode(fetched, pinned=copy is not None and pin_name(copy) in log.pins)

    body = await call.read(read, 2 * most + OVERHEAD)  # the records, and the answer made of them
    return Response(body, media_type=wire.MEDIA_TYPE)


async def _pin(call: Call, find: Callable[[Call], Awaitable[Log]]) -> Response:
    values, log = call.values, await find(call)
    held = _held(values, "offset")
    if held is None:
        await call.services.care.run(partial(log.pin, pin_name(values["copy"]), values["offset"]))
    else:
        await call.services.care.run(partial(note_copy, log, held, durable=True))
        call.services.mirroring.look()
    return Response(status_code=204)


def _held(values: dict[str, Any], offset: str) -> Held | None:
    """Return what a copy reports to have on its disk; None if it reports nothing, as one of an earlier version."""
    if values["copy"] is None or values[offset] is None or values["epoch"] is None:
        return None
    return Held(values["copy"], values[offset], values["epoch"], values["name"] or "")


async def _unpin(call: Call, find: Callable[[Call], Awaitable[Log]]) -> Response:
    log = await find(call)
    await call.services.care.run(partial(log.unpin, pin_name(call.values["copy"])))
    return Response(status_code=204)


async def _fence(call: Call) -> Response:
    """Fence every log; see fencing."""
    wanted = await call.json(Fence)
    await call.services.care.run(partial(fence_all, call.services.broker, wanted.term))
    return Response(status_code=204)


PATHS = (
    ("/topics/{topic}/partitions/{partition}/copy", "partition", (TOPIC, PARTITION.in_path()), log_of),
    ("/copy/groups", "groups", (), _groups_of),
)
_LOGS = tuple(
    operation
    for path, what, places, find in PATHS
    for operation in (
        Operation(
            "GET",
            path,
            f"copy_{what}",
            "Return history and encoded records, for a copy that follows this log.",
            partial(_fetch, find=find),
            "admin",
            {200: COPIED},
            (*places, OFFSET, MAX_BYTES, SKIP, COPY, HELD, EPOCH, NAME),
        ),
        Operation(
            "PUT",
            path,
            f"pin_{what}",
            "Store how far a copy is: compaction keeps tombstones that it has not read.",
            partial(_pin, find=find),
            "admin",
            {204: EMPTY},
            (*places, PINNED, POSITION, EPOCH, NAME),
        ),
        Operation(
            "DELETE",
            path,
            f"unpin_{what}",
            "Forget a copy: its position keeps no tombstones any more.",
            partial(_unpin, find=find),
            "admin",
            {204: EMPTY},
            (*places, PINNED),
        ),
    )
)
OPERATIONS = (
    *_LOGS,
    Operation(
        "POST",
        "/fence",
        "fence",
        "Reject all changes of all topics from now on, durably: a copy was promoted in place of this server.",
        _fence,
        "admin",
        {204: EMPTY},
        (),
        Fence,
    ),
)
