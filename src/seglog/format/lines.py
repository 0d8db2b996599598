"""NDJSON and delimited lines: pure functions between records and lines of bytes.

One record a line: {"offset": 0, "timestamp": 1714564800000000, "key": "k", "value": "text", "headers": []}.
The timestamp is in microseconds since the epoch. UTF-8 bytes are written as text, others as {"base64": "..."}, null as
null, a header as {"key": "name", "value": bytes}: a record survives the round trip unchanged.
Knows no files and no log; errors name the line.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from seglog.errors import InvalidArgument, InvalidType
from seglog.format.foreign import UNREADABLE
from seglog.record import Headers, Record, fitting_timestamp

NAMES_SHOWN, NAME_CHARACTERS = 5, 80  # of unknown fields, in an error
CHUNK_BYTES = 1024 * 1024
COUNTED = 4  # times as many bytes as a piece may have are counted, to report how many a longer one has
_FIELDS = {"offset", "timestamp", "key", "value", "headers"}
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


class LongLine(InvalidArgument):
    """A line with more bytes than it may have. size: how many; None: more than `counted`."""

    def __init__(self, number: int, size: int | None, counted: int) -> None:
        super().__init__(f"line {number} has {f'more than {counted}' if size is None else size} bytes")
        self.size = size


class Entry(NamedTuple):
    """A record to append, from a line: the log assigns its offset; a timestamp of None means now."""

    timestamp: int | None
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def encode_bytes(data: bytes | None) -> str | dict[str, str] | None:
    """Return text for UTF-8 bytes, {"base64": ...} for others, None for None."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def decode_bytes(value: object, what: str) -> bytes | None:
    """Return the bytes that `encode_bytes` encoded; InvalidArgument naming `what` for anything else."""
    if value is None:
        return None
    try:
        if isinstance(value, str):
            return value.encode()
        if isinstance(value, dict) and list(value) == ["base64"] and isinstance(value["base64"], str):
            return base64.b64decode(value["base64"], validate=True)
    except ValueError as error:  # a lone surrogate, or invalid base64
        raise InvalidArgument(f"{what}: {error}") from None
    raise InvalidArgument(f'{what} must be text, {{"base64": "..."}} or null')


def encode_record(record: Record) -> bytes:
    """Return a record as one line of NDJSON with its newline."""
    headers = [{"key": name, "value": encode_bytes(value)} for name, value in record.headers]
    line = {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": encode_bytes(record.key),
        "value": encode_bytes(record.value),
        "headers": headers,
    }
    return _encode(line).encode() + b"\n"


def decode_record(line: bytes, number: int) -> Entry:
    """Decode a line of NDJSON; InvalidArgument with the line's number if it is invalid.

    `value` is required (null is a tombstone); `timestamp`, `key`, `headers` are optional. Whether the timestamp looks
    like another unit is left to the append.
    """
    where = f"line {number}"
    try:
        fields = json.loads(line)
    except UNREADABLE as error:
        raise InvalidArgument(f"{where} is not JSON: {error}") from None
    if not isinstance(fields, dict):
        raise InvalidArgument(f"{where} is not a JSON object")
    if unknown := fields.keys() - _FIELDS:
        raise InvalidArgument(f"{where} has unknown fields {_named(unknown)}; known are {sorted(_FIELDS)}")
    if "value" not in fields:
        raise InvalidArgument(f'{where} has no "value"; for a tombstone write null')
    timestamp = fields.get("timestamp")
    try:
        timestamp = None if timestamp is None else fitting_timestamp(timestamp)
    except (InvalidType, InvalidArgument) as error:
        raise InvalidArgument(f"{where}: {error}") from None
    return Entry(
        timestamp,
        decode_bytes(fields.get("key"), f"{where}: key"),
        decode_bytes(fields["value"], f"{where}: value"),
        _decode_headers(fields.get("headers") or [], where),
    )


def _named(fields: set[str]) -> str:
    """List the first few fields, each shortened, however many there are."""
    shown = [name[:NAME_CHARACTERS] for name in sorted(fields)[:NAMES_SHOWN]]
    return f"{shown}" if len(fields) <= NAMES_SHOWN else f"{shown} and {len(fields) - NAMES_SHOWN} more"


def _decode_headers(headers: Any, where: str) -> Headers:
    if not isinstance(headers, list):
        raise InvalidArgument(f"{where}: headers must be a list")
    decoded = []
    for header in headers:
        if not isinstance(header, dict) or header.keys() != {"key", "value"} or not isinstance(header["key"], str):
            raise InvalidArgument(f'{where}: a header must be {{"key": text, "value": ...}}')
        decode_bytes(header["key"], f"{where}: a header's key")  # rejects a lone surrogate
        decoded.append(
            (header["key"], decode_bytes(header["value"], f"{where}: header {header['key'][:NAME_CHARACTERS]!r}"))
        )
    return tuple(decoded)


def decode_line(line: bytes, number: int, separator: bytes | None) -> Entry:
    """Decode a delimited line: a value, or key and value around the first `separator`."""
    if separator is None:
        return Entry(None, None, line)
    key, found, value = line.partition(separator)
    if not found:
        raise InvalidArgument(f"line {number} has no key separator {separator!r}")
    return Entry(None, key, value)


def split(stream: BinaryIO, delimiter: bytes, most: int | None = None) -> Iterator[bytes]:
    """Yield the pieces between delimiters; the last one needs no delimiter, and is omitted if empty.

    Holds one piece at a time, and yields it as soon as it is complete. most: bytes that a piece may have. Raises
    LongLine if one has more.
    """
    read = getattr(stream, "read1", stream.read)
    held, count = bytearray(), 0
    while chunk := read(CHUNK_BYTES):
        unseen = max(0, len(held) - len(delimiter) + 1)  # a delimiter may cross two chunks
        held += chunk
        if held.find(delimiter, unseen) >= 0:
            *pieces, rest = bytes(held).split(delimiter)
            yield from pieces
            held, count = bytearray(rest), count + len(pieces)
        if most is not None and len(held) > most:
            raise LongLine(count + 1, _length(read, held, delimiter, COUNTED * most), COUNTED * most)
    if held:
        yield bytes(held)


def _length(read: Callable[[int], bytes], begun: bytearray, delimiter: bytes, most: int) -> int | None:
    """Return how many bytes a piece has that has begun, without holding it; None if they are more than `most`."""
    size, overlap = len(begun), len(delimiter) - 1
    end = bytes(begun[size - overlap :])  # a delimiter may cross two chunks
    while size <= most:
        chunk = read(CHUNK_BYTES)
        if not chunk:
            return size
        looked = end + chunk
        at = looked.find(delimiter)
        if at >= 0:
            return size - overlap + at
        size, end = size + len(chunk), looked[len(looked) - overlap :]
    return None
