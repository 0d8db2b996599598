"""A record, and the checks that values from callers must pass."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from operator import index
from typing import Any, NamedTuple, TypeVar

from seglog.errors import InvalidArgument, InvalidType

Header = tuple[str, bytes | None]
Headers = tuple[Header, ...]

Item = TypeVar("Item")

MAX_KEY_BYTES = 2**31 - 1
MIN_TIMESTAMP = -(2**63)
MAX_TIMESTAMP = 2**63 - 1
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)

Timestamp = int | datetime
"""A time that a caller gives: int microseconds since the epoch, UTC, or a datetime with a time zone."""


class Unit(NamedTuple):
    """A unit in which present times are numbers least <= n < most. factor: its microseconds."""

    name: str
    least: int
    most: int
    factor: int


OTHER_UNITS = (Unit("seconds", 10**9, 10**11, 1_000_000), Unit("milliseconds", 10**12, 10**14, 1_000))
"""The units for which a timestamp is refused unless it is forced. As microseconds such numbers are times in 1970."""

SURE_TIMESTAMP = max(unit.most for unit in OTHER_UNITS)
"""From here on a number looks like microseconds."""


class Record(NamedTuple):
    """One record of a log.

    Attributes:
        offset: Logical number of the record in its log.
        timestamp: Microseconds since the epoch, UTC.
        key: Bytes, or None without a key.
        value: Bytes, or None for a tombstone.
        headers: Pairs of str and bytes or None.
    """

    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Headers = ()


class Cut(bytes):
    """The beginning of a value of which only the first bytes were requested. size: bytes of the whole value."""

    size: int

    def __new__(cls, data: bytes, size: int) -> Cut:  # noqa: D102 - see the class
        cut = super().__new__(cls, data)
        cut.size = size
        return cut


HEADER_COST = 32
"""Bytes added for each header, to its key and value, in size limits: empty headers use memory, too."""


def value_size(value: bytes | None) -> int:
    """Return the size of a value in bytes, of the whole value for a `Cut`; 0 for None."""
    return value.size if isinstance(value, Cut) else len(value or b"")


@dataclass(frozen=True, slots=True)
class TopicRecord:
    """One record of a topic: topic, partition, and the fields of `Record`. The offset counts within the partition.

    key, value: bytes or None; of a consumer with deserializers, what these returned, or None.
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: Any
    value: Any
    headers: Headers = ()


def checked_bytes(value: object, what: str) -> bytes:
    """Return `value` as bytes. Raises InvalidType, naming `what`, for anything that is not bytes-like."""
    if type(value) is bytes:
        return value
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes(value)
    hint = "; encode it first, e.g. text.encode()" if isinstance(value, str) else ""
    raise InvalidType(f"{what} must be bytes or None, not {type(value).__name__}{hint}")


def checked_key(key: object) -> bytes | None:
    """Return the key as bytes or None. Raises InvalidType, or InvalidArgument from 2^31 bytes on."""
    if key is None:
        return None
    key = checked_bytes(key, "key")
    if len(key) > MAX_KEY_BYTES:
        raise InvalidArgument(f"the key has {len(key)} bytes; the maximum is {MAX_KEY_BYTES}")
    return key


def checked_timestamp(timestamp: object, *, force_timestamp: bool = False) -> int:
    """Return a time that a caller gives as int microseconds.

    Args:
        timestamp: A `Timestamp`.
        force_timestamp: Whether a number is taken as it is, also if it looks like seconds or milliseconds.

    Raises:
        InvalidType: It is neither an int nor a datetime.
        InvalidArgument: It exceeds 64 bits, looks like another unit, or is a datetime without a time zone.
    """
    if isinstance(timestamp, datetime):
        return _microseconds_of(timestamp)
    found = fitting_timestamp(timestamp)
    if not force_timestamp and looks_like(found) is not None:
        raise InvalidArgument(f"timestamp {unit_hint(found)}")
    return found


def fitting_timestamp(timestamp: object, what: str = "timestamp") -> int:
    """Return int microseconds of which the unit is known: of a record that was stored before, or of a clock.

    Raises InvalidType unless it is an int, InvalidArgument if it exceeds 64 bits.
    """
    if isinstance(timestamp, bool) or not isinstance(timestamp, int):
        raise InvalidType(
            f"{what} must be int microseconds since the epoch (UTC), not {type(timestamp).__name__}; for the present "
            "time use time.time_ns() // 1000"
        )
    if not MIN_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        raise InvalidArgument(f"{what} {timestamp} does not fit 64 bits of microseconds")
    return timestamp


def looks_like(timestamp: int) -> Unit | None:
    """Return the other unit of which a number of microseconds is more likely to be; None for any other number."""
    return next((unit for unit in OTHER_UNITS if unit.least <= timestamp < unit.most), None)


def unit_hint(timestamp: int) -> str:
    """Return, for an error, of which unit a number is likely to be and what to do; see `looks_like`."""
    unit = looks_like(timestamp)
    assert unit is not None  # noqa: S101 - the caller has found one
    return (
        f"{timestamp} looks like {unit.name}, and timestamps are microseconds since the epoch: multiply by "
        f"{unit.factor:_}, or pass force_timestamp=True (--force-timestamp on the command line) to take it as it is"
    )


def _microseconds_of(moment: datetime) -> int:
    if moment.utcoffset() is None:
        raise InvalidArgument(
            f"the datetime {moment} has no time zone; add one, as datetime.now(UTC) and moment.replace(tzinfo=UTC) do"
        )
    return int((moment - EPOCH) // MICROSECOND)


Share = tuple[int, int]
"""(i, n): the records whose offset % n is i, for the i-th of n workers, from 0 on."""


def checked_share(share: object) -> Share | None:
    """Return a share as two plain ints, or None. Raises InvalidType, or InvalidArgument unless 0 <= i < n."""
    if share is None:
        return None
    if not isinstance(share, (tuple, list)) or len(share) != 2:
        raise InvalidType(f"share must be (i, n), such as (0, 3) for the first of three workers, not {share!r}")
    number, workers = (checked_offset(one, "each number of share") for one in share)
    if workers < 1 or not 0 <= number < workers:
        raise InvalidArgument(f"share is ({number}, {workers}); (i, n) must satisfy 0 <= i < n")
    return number, workers


def checked_offset(offset: object, what: str = "offset") -> int:
    """Return the offset as a plain int. Raises InvalidType for anything that is not an integer."""
    if type(offset) is int:
        return offset
    if not isinstance(offset, bool):
        try:
            return index(offset)  # type: ignore[arg-type] # anything else raises TypeError, caught below
        except TypeError:
            pass
    raise InvalidType(f"{what} must be an int, not {type(offset).__name__}")


def checked_text(text: object, what: str) -> str:
    """Return the text. Raises InvalidType unless it is a str."""
    if not isinstance(text, str):
        raise InvalidType(f"{what} must be str, not {type(text).__name__}")
    return text


def checked_kind(value: object, kind: type[Item], what: str) -> Item:
    """Return the value. Raises InvalidType unless it is an instance of `kind`."""
    if not isinstance(value, kind):
        raise InvalidType(f"{what} must be a {kind.__name__}, not {type(value).__name__}")
    return value


def checked_callable(call: object, what: str) -> None:
    """Raise InvalidType unless the value is callable or None."""
    if call is not None and not callable(call):
        raise InvalidType(f"{what} must be a callable or None, not {type(call).__name__}")


def checked_all(values: object, kind: type[Item], what: str) -> Sequence[Item]:
    """Return the values as a sequence. Raises InvalidType unless each is an instance of `kind`."""
    if isinstance(values, (str, bytes)) or not isinstance(values, Iterable):
        raise InvalidType(f"{what} must be a sequence of {kind.__name__}, not {type(values).__name__}")
    found = tuple(values)
    for one in found:
        if not isinstance(one, kind):
            raise InvalidType(f"{what} must be a sequence of {kind.__name__}, not of {type(one).__name__}")
    return found


def checked_headers(headers: object) -> Headers:
    """Return headers as a tuple of (str, bytes or None). Raises InvalidType for anything else."""
    if isinstance(headers, (str, bytes)):
        raise InvalidType("headers must be pairs of (str, bytes or None)")
    pairs = headers.items() if isinstance(headers, dict) else headers
    checked = []
    try:
        for name, value in pairs:  # type: ignore[attr-defined] # anything not iterable raises TypeError, caught below
            if not isinstance(name, str):
                raise InvalidType(f"a header's key must be str, not {type(name).__name__}")
            text = str.__str__(name)  # plain text: a subclass may have an `encode` of its own
            checked.append((text, None if value is None else checked_bytes(value, f"header {text!r}")))
    except (TypeError, ValueError) as error:
        if isinstance(error, InvalidType):
            raise
        raise InvalidType("headers must be pairs of (str, bytes or None)") from error
    return tuple(checked)
