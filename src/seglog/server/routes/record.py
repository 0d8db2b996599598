"""One record as an answer: its value as it was sent, in whole or none of it, or all of the record as JSON.

A long value is never held as a whole. It is verified before the answer begins, and once more as it is sent: if its
bytes change meanwhile, or cannot be read, the connection ends before the answer's last piece.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote_from_bytes

from starlette.responses import Response

from seglog.record import Record, value_size
from seglog.server.api.expose import check_exposed
from seglog.server.http.answers import NeedsRoom, Pieces
from seglog.server.http.bodies import IN_JSON, OCTETS, line_of

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.server.api.operations import Call

SMALL = 1024 * 1024  # a record that is read at once, without asking whether there is room
PIECES_ROOM = 2 * 1024 * 1024  # for a long one: its key and headers, a piece of its value, and what is being sent
KEY_BYTES = 4096  # of a key that a header takes, before it is percent-encoded
KEY_ABOUT = (
    f"Seglog-Key has the key, percent-encoded, if it has at most {KEY_BYTES} bytes; for a longer one "
    "Seglog-Key-Bytes has its length, and JSON has the key."
)


class Whole(NamedTuple):
    """A record with all of its value, or with the pieces of a long one, of which the record has none."""

    record: Record
    pieces: Iterator[bytes] | None

    def answer(self, headers: Mapping[str, str]) -> Response:
        """Return the answer that is the value."""
        if self.pieces is None:
            return Response(self.record.value or b"", headers=dict(headers), media_type=OCTETS)
        return Pieces(self.pieces, value_size(self.record.value), headers, OCTETS, PIECES_ROOM)


async def whole_record(call: Call, log: Log, offset: int) -> Whole:
    """Read a record with all of its value; Busy where there is no room for the pieces of a long one."""
    check_exposed(log, offset, call.values["expose"])
    return await call.read(partial(_read, log, offset), SMALL, free=SMALL)


def _read(log: Log, offset: int, room: int) -> Whole:
    view = log.view()
    if view.lowest_offset <= offset < view.next_offset and view.span_bytes(offset, offset + 1) > SMALL:
        if room < PIECES_ROOM:
            raise NeedsRoom(PIECES_ROOM)
        return Whole(*log._value_pieces(offset))
    return Whole(log.read(offset), None)


def value_answer(whole: Whole) -> Response:
    """Return the answer that is a record's value, with the rest but for headers in its head."""
    record = whole.record
    headers = {"Seglog-Offset": str(record.offset), "Seglog-Timestamp": str(record.timestamp)}
    if record.key is not None and len(record.key) <= KEY_BYTES:
        headers["Seglog-Key"] = quote_from_bytes(record.key)
    elif record.key is not None:
        headers["Seglog-Key-Bytes"] = str(len(record.key))
    if record.value is None:
        return Response(status_code=204, headers={**headers, "Seglog-Tombstone": "true"})
    return whole.answer(headers)


async def shown_answer(call: Call, log: Log, offset: int) -> Response:
    """Return the answer that is a record as JSON, a long value cut."""
    check_exposed(log, offset, call.values["expose"])
    limits = call.services.settings.limits
    most = limits.shown_bytes

    def read(room: int) -> bytes:
        view = log.view()
        if view.lowest_offset <= offset < view.next_offset:
            size = IN_JSON * min(view.span_bytes(offset, offset + 1), most + limits.head_bytes)
            if size > room:
                raise NeedsRoom(size)
        return line_of(log.read_cut(offset, most), most)

    return Response(await call.read(read, SMALL, free=SMALL), media_type="application/json")
