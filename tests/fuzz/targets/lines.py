"""NDJSON and delimited lines: a record or InvalidArgument; the server's tables hold the same as line by line."""

from __future__ import annotations

import io
from contextlib import suppress
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument
from seglog.format.lines import Entry, decode_line, decode_record, encode_record, split
from seglog.record import Record
from seglog.server.http.bodies import NDJSON, table_of
from seglog.server.runtime.spool import Body
from seglog.server.settings import Limits
from tests.fuzz.choices import Choices, mangled_text

if TYPE_CHECKING:
    from collections.abc import Iterator

LINES = b"".join(
    map(
        encode_record,
        [
            Record(0, 1_714_564_800_000_000, b"key", b"value", (("name", b"x"), ("none", None))),
            Record(1, -1, None, b"\xff\x00", ()),
            Record(2, 0, b"\xfe", None, (("", b"\x80"),)),
        ],
    )
)
CHANGED = b"\1"


def seeds() -> Iterator[bytes]:
    yield b""
    yield b"\0" + LINES
    yield b"\0" + b'{"value":"\\ud800"}\n\n{"value":{"base64":"AA="}}\n{"value":1}'
    yield b"\0" + b'{"value":null,"headers":null}\r\n{"value":"","timestamp":9223372036854775807}'
    for number in range(0, 200, 25):
        yield CHANGED + bytes([1, number, 0, number, 0, number % 21])


def target(data: bytes) -> None:
    text = data[1:]
    if data[:1] == CHANGED:
        choices, text = Choices(text), LINES
        for _ in range(1 + choices.below(3)):
            text = mangled_text(text, choices)
    wanted = _line_by_line(text)
    body = body_of(text)
    try:
        table = table_of(body, NDJSON, Limits(batch_bytes=2**20))
    except InvalidArgument:
        assert wanted is None
    else:
        assert wanted is not None
        assert table.to_pylist() == [_row(entry) for entry in wanted]
    _check_splitting(text)


def body_of(data: bytes) -> Body:
    """Return a body as the server's spool gives one."""
    body = Body()
    body._memory += data
    body.size = len(data)
    return body


def _line_by_line(text: bytes) -> list[Entry] | None:
    entries = []
    for number, line in enumerate(text.split(b"\n"), 1):
        if line.strip():
            try:
                entry = decode_record(line, number)
            except InvalidArgument:
                return None
            record = Record(number, entry.timestamp or 0, entry.key, entry.value, entry.headers)
            assert decode_record(encode_record(record), 1) == entry._replace(timestamp=entry.timestamp or 0)
            entries.append(entry)
    return entries


def _row(entry: Entry) -> dict[str, object]:
    headers = [{"key": name, "value": value} for name, value in entry.headers]
    return {"value": entry.value, "key": entry.key, "timestamp": entry.timestamp, "headers": headers}


def _check_splitting(text: bytes) -> None:
    choices = Choices(text)
    delimiter = choices.some(3) or b"\n"
    pieces = list(split(io.BytesIO(text), delimiter))
    expected = text.split(delimiter)
    assert pieces == (expected if expected[-1] else expected[:-1])
    for number, piece in enumerate(pieces[:50], 1):
        with suppress(InvalidArgument):
            entry = decode_line(piece, number, b":")
            assert entry.key is not None and entry.key + b":" + (entry.value or b"") == piece
