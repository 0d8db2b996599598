"""What a log holds: one record, and the checks a record from outside must pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import index
from typing import NamedTuple, TypeVar

from seglog.errors import InvalidArgument, InvalidType

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]

Item = TypeVar("Item")

MAX_KEY_BYTES = 2**31 - 1
MIN_TIMESTAMP = -(2**63)
MAX_TIMESTAMP = 2**63 - 1


class Record(NamedTuple):
    """One record of a log.

    offset: its logical number; timestamp: int microseconds since the epoch, UTC; key: bytes or None (no key);
    value: bytes or None (a tombstone); headers: pairs of str and bytes or None.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Cut(bytes):
    """The first bytes of a value of which no more were wanted. size: bytes of the whole value."""

    size: int

    def __new__(cls, data: bytes, size: int) -> Cut:  # noqa: D102 - the class tells
        cut = super().__new__(cls, data)
        cut.size = size
        return cut


HEADER_COST = 32
"""Bytes that a header counts beside those of its key and value, in limits of size: many empty ones take memory, too."""


def value_size(value: bytes | None) -> int:
    """Return the bytes of a value, of the whole one where this is only its beginning; 0 for None."""
    return value.size if isinstance(value, Cut) else len(value or b"")


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """One record of a topic: its partition, where offset is its number, and the fields of `Record`."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


def checked_bytes(value: object, what: str) -> bytes:
    """Return `value` as bytes, or raise InvalidType naming `what`."""
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    hint = "; encode it first, e.g. text.encode()" if isinstance(value, str) else ""
    raise InvalidType(f"{what} must be bytes or None, not {type(value).__name__}{hint}")


def checked_key(key: object) -> bytes | None:
    """Return the key as bytes or None; InvalidType, or InvalidArgument when it reaches 2^31 bytes."""
    if key is None:
        return None
    key = checked_bytes(key, "key")
    if len(key) > MAX_KEY_BYTES:
        raise InvalidArgument(f"a key of {len(key)} bytes: keys end at {MAX_KEY_BYTES}")
    return key


def checked_timestamp(timestamp: object, what: str = "timestamp") -> int:
    """Return the timestamp as int microseconds; InvalidType for anything but an int, InvalidArgument beyond 64 bit."""
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise InvalidType(
            f"{what} must be int microseconds since the epoch (UTC), not {type(timestamp).__name__}; "
            "for a datetime use int(moment.timestamp() * 1_000_000)"
        )
    if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        raise InvalidArgument(f"{what} {timestamp} does not fit 64 bits of microseconds")
    return timestamp


def checked_offset(offset: object, what: str = "offset") -> int:
    """Return the offset as a plain int; InvalidType for anything that is not an integer."""
    if type(offset) is int:
        return offset
    if not isinstance(offset, bool):
        try:
            return index(offset)  # type: ignore[arg-type] # whatever is no integer ends in the except below
        except TypeError:
            pass
    raise InvalidType(f"{what} must be an int, not {type(offset).__name__}")


def checked_text(text: object, what: str) -> str:
    """Return the text; InvalidType for anything but a str."""
    if not isinstance(text, str):
        raise InvalidType(f"{what} must be str, not {type(text).__name__}")
    return text


def checked_kind(value: object, kind: type[Item], what: str) -> Item:
    """Return the value; InvalidType for anything but an object of this kind."""
    if not isinstance(value, kind):
        raise InvalidType(f"{what} must be a {kind.__name__}, not {type(value).__name__}")
    return value


def checked_callable(call: object, what: str) -> None:
    """Raise InvalidType for anything but a callable or None."""
    if call is not None and not callable(call):
        raise InvalidType(f"{what} must be a callable or None, not {type(call).__name__}")


def checked_all(values: object, kind: type[Item], what: str) -> Sequence[Item]:
    """Return values as a sequence; InvalidType unless each of them is of this kind."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidType(f"{what} must be a sequence of {kind.__name__}, not {type(values).__name__}")
    found = tuple(values)
    for one in found:
        if not isinstance(one, kind):
            raise InvalidType(f"{what} must be a sequence of {kind.__name__}, not of {type(one).__name__}")
    return found


def checked_headers(headers: object) -> Headers:
    """Return headers as a tuple of (str, bytes | None); InvalidType where one is something else."""
    if isinstance(headers, (str, bytes)):
        raise InvalidType("headers must be pairs of (str, bytes or None)")
    pairs = headers.items() if isinstance(headers, dict) else headers
    checked = []
    try:
        for name, value in pairs:  # type: ignore[attr-defined] # whatever cannot be iterated ends in the except below
            if not isinstance(name, str):
                raise InvalidType(f"a header's key must be str, not {type(name).__name__}")
            checked.append((name, None if value is None else checked_bytes(value, f"header {name!r}")))
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidType):
            raise
        raise InvalidType("headers must be pairs of (str, bytes or None)") from error
    return tuple(checked)
