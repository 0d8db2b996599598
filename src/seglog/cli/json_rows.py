"""Foreign JSON lines as records: plain objects, kcat's -J output, Kafka Connect's JSON. Pure functions.

    json      {"id": 17, "qty": 3}                       the line is the value, one of its fields the key
    kcat      {"topic": ..., "ts": 1714564800000, "key": "k", "payload": "v", "headers": ["a", "1"]}
    connect   {"schema": {...}, "payload": {...}}        the payload is the value, one of its fields the key

Offset, partition and topic in the input are ignored: the log assigns its own. Errors are InvalidArgument with the line.
"""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from seglog.errors import InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.format.lines import Entry, decode_record
from seglog.record import MAX_TIMESTAMP, MIN_TIMESTAMP
from seglog.terminal.units import parse_time

_compact = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_MISSING = object()


@dataclass(frozen=True, kw_only=True, slots=True)
class Fields:
    """The fields of an object that make a record; "user.id" for a nested one. value: None for the whole object."""

    key: str | None = None
    value: str | None = None
    timestamp: str | None = None


def decoder(kind: str, fields: Fields, *, force_timestamp: bool = False) -> Callable[[bytes, int], Entry]:
    """Return a function that decodes a line of this kind: ndjson, json, kcat or connect.

    force_timestamp: take numbers that look like seconds or milliseconds as they are, instead of refusing them.
    """
    if kind == "ndjson":
        return lambda line, number: _settled(_ours(line, number), number, force_timestamp)
    if kind == "kcat":
        return _of_kcat
    decode = _of_row if kind == "json" else _of_connect
    return lambda line, number: decode(line, number, fields, force_timestamp)


def _settled(entry: Entry, number: int, force: bool) -> Entry:
    """Return a record whose timestamp was checked. Raises InvalidArgument."""
    return entry if entry.timestamp is None else entry._replace(timestamp=_moment(entry.timestamp, number, force))


def _ours(line: bytes, number: int) -> Entry:
    """Decode a line of our own NDJSON; ignore `topic` and `partition`, which the export of a topic has."""
    if b'"partition"' not in line and b'"topic"' not in line:
        return decode_record(line, number)
    found = _object(line, number)
    kept = {name: value for name, value in found.items() if name not in ("partition", "topic")}
    return decode_record(json.dumps(kept).encode(), number)


def _of_row(line: bytes, number: int, fields: Fields, force: bool) -> Entry:
    return _entry(_object(line, number), line.strip(), number, fields, force)


def _entry(found: dict[str, Any], whole: bytes, number: int, fields: Fields, force: bool) -> Entry:
    value = whole if fields.value is None else _bytes(_field(found, fields.value, number))
    key = None if fields.key is None else _bytes(_field(found, fields.key, number))
    given = None if fields.timestamp is None else _field(found, fields.timestamp, number)
    moment = None if given is None else _moment(given, number, force)
    return Entry(moment, key, value)


def _of_kcat(line: bytes, number: int) -> Entry:
    found = _object(line, number)
    if "payload" not in found:
        raise InvalidArgument(f'line {number} has no "payload", which kcat -J writes; check --format')
    pairs = found.get("headers") or []
    try:
        headers = tuple((str(name), _bytes(value)) for name, value in zip(pairs[::2], pairs[1::2], strict=True))
        moment = None if found.get("ts") is None or found["ts"] < 0 else int(found["ts"]) * 1000
    except UNREADABLE as error:
        raise InvalidArgument(f"line {number} is not what kcat -J writes: {error}") from None
    return Entry(_checked(moment, number), _bytes(found.get("key")), _bytes(found["payload"]), headers)


def _of_connect(line: bytes, number: int, fields: Fields, force: bool) -> Entry:
    found = _object(line, number)
    if "payload" not in found or not found.keys() <= {"schema", "payload"}:
        raise InvalidArgument(f'line {number} is not {{"schema": ..., "payload": ...}}, as Kafka Connect writes it')
    payload = found["payload"]
    if isinstance(payload, dict):
        return _entry(payload, _compact(payload).encode(), number, fields, force)
    if fields != Fields():
        raise InvalidArgument(f"line {number}: the payload is not an object and has no fields")
    return Entry(None, None, _bytes(payload))


def _object(line: bytes, number: int) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except UNREADABLE as error:
        raise InvalidArgument(f"line {number} is not JSON: {error}") from None
    if not isinstance(found, dict):
        hint = "; `jq -c '.[]'` writes the objects of an array line by line" if isinstance(found, list) else ""
        raise InvalidArgument(f"line {number} is not a JSON object{hint}")
    return found


def _field(found: Any, path: str, number: int) -> Any:
    at = found.get(path, _MISSING)
    if at is _MISSING:  # a name with dots takes precedence over a nested field
        at = found
        for name in path.split("."):
            at = at.get(name, _MISSING) if isinstance(at, dict) else _MISSING
    if at is _MISSING:
        raise InvalidArgument(f"line {number} has no field {path!r}")
    return at


def _bytes(value: Any) -> bytes | None:
    """Return text unchanged, null as None, anything else as compact JSON."""
    if value is None:
        return None
    return (value if isinstance(value, str) else _compact(value)).encode("utf-8", "surrogatepass")


def _moment(value: Any, number: int, force: bool) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise InvalidArgument(f"line {number}: a timestamp must be int microseconds or ISO 8601, not {value!r}")
    try:
        return parse_time(str(value), force_timestamp=force)
    except ArgumentTypeError as error:
        raise InvalidArgument(f"line {number}: {error}") from None


def _checked(moment: int | None, number: int) -> int | None:
    if moment is not None and not MIN_TIMESTAMP <= moment <= MAX_TIMESTAMP:
        raise InvalidArgument(f"line {number}: timestamp {moment} does not fit 64 bits of microseconds")
    return moment
