"""One record as an answer: its value unchanged and complete, or the record as JSON."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from starlette.responses import Response

from seglog.server.answers import NeedsRoom
from seglog.server.bodies import IN_JSON, OCTETS, line_of

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.record import Record
    from seglog.server.operations import Call

SMALL = 1024 * 1024  # a record up to this size is read without reserving memory
KEY_BYTES = 4096  # longest key in a header, before percent-encoding
KEY_ABOUT = (
    f"Seglog-Key has the key, percent-encoded, if it has at most {KEY_BYTES} bytes; for a longer one "
    "Seglog-Key-Bytes has its length, and JSON has the key."
)


async def whole_record(call: Call, log: Log, offset: int) -> Record:
    """Read a record with its complete value, once there is memory for it. Raises Busy if there is none."""
    return await call.read(partial(_read, log, offset), SMALL, free=SMALL)


def _read(log: Log, offset: int, room: int) -> Record:
    view = log.view()
    if view.lowest_offset <= offset < view.next_offset:
        size = view.span_bytes(offset, offset + 1)
        if size > room:
            raise NeedsRoom(size)
    return log.read(offset)


def value_answer(record: Record) -> Response:
    """Return a record's value as the answer, with the other fields except headers in its head."""
    headers = {"Seglog-Offset": str(record.offset), "Seglog-Timestamp": str(record.timestamp)}
    if record.key is not None and len(record.key) <= KEY_BYTES:
        headers["Seglog-Key"] = quote_from_bytes(record.key)
    elif record.key is not None:
        headers["Seglog-Key-Bytes"] = str(len(record.key))
    if record.value is None:
        return Response(status_code=204, headers={**headers, "Seglog-Tombstone": "true"})
    return Response(record.value, headers=headers, media_type=OCTETS)


async def shown_answer(call: Call, log: Log, offset: int) -> Response:
    """Return a record as JSON, with a long value cut."""
    most = call.services.settings.limits.shown_bytes

    def read(room: int) -> bytes:
        view = log.view()
        if view.lowest_offset <= offset < view.next_offset:
            size = IN_JSON * min(view.span_bytes(offset, offset + 1), 2 * most)
            if size > room:
                raise NeedsRoom(size)
        return line_of(log.read_cut(offset, most), most)

    return Response(await call.read(read, SMALL, free=SMALL), media_type="application/json")
