"""The frames of a journal: bytes <-> values, no I/O.

    length  u32   of the payload          kind  u8
    check   u64   XXH64 of kind and payload
    payload       JSON; a batch has the length of its JSON (u32), the JSON, and an Arrow stream

Little endian. A journal ends at the first frame that is incomplete or does not have its check: a crash left it.
"""

from __future__ import annotations

import json
import struct
from enum import IntEnum
from typing import Any, NamedTuple

from xxhash import xxh64

HEAD = struct.Struct("<IBQ")
JSON_LENGTH = struct.Struct("<I")
FORMAT = 1


class Kind(IntEnum):
    """What a frame is."""

    BEGIN = 1
    BATCH = 2
    OFFSETS = 3
    NOTE = 4
    DECISION = 5


KINDS = frozenset(Kind)


class Frame(NamedTuple):
    """A frame as it was read. position, length: in the file, of a batch's Arrow stream; begin, end: of the frame."""

    kind: Kind
    values: dict[str, Any]
    position: int
    length: int
    begin: int
    end: int


def encode(kind: Kind, values: dict[str, Any], data: Any = b"") -> list[Any]:
    """Return the buffers of a frame."""
    text = json.dumps(values, separators=(",", ":")).encode()
    payload = [JSON_LENGTH.pack(len(text)), text, data] if kind is Kind.BATCH else [text]
    length = sum(memoryview(part).nbytes for part in payload)
    return [HEAD.pack(length, kind, _check(kind, payload)), *payload]


def decode(head: bytes, payload: bytes, position: int) -> Frame | None:
    """Return the frame at `position` of a file; None if it is incomplete or damaged."""
    length, kind, _ = HEAD.unpack(head)
    if len(payload) < length or kind not in KINDS or not has_check(head, payload):
        return None
    start, text = position + HEAD.size, payload
    if kind == Kind.BATCH:
        size = JSON_LENGTH.unpack_from(payload)[0]
        text = payload[JSON_LENGTH.size : JSON_LENGTH.size + size]
        start += JSON_LENGTH.size + size
    end = position + HEAD.size + length
    return Frame(Kind(kind), json.loads(text), start, end - start, position, end)


def has_check(head: bytes, payload: bytes) -> bool:
    """Whether a payload has the check of its head."""
    _, kind, check = HEAD.unpack(head)
    found: int = _check(kind, [payload])
    return found == int(check)


def _check(kind: int, parts: list[Any]) -> int:
    found = xxh64(bytes([kind]))
    for part in parts:
        found.update(part)
    return found.intdigest()
