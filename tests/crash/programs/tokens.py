"""Records that tell what they are: all of a record follows from its token, a number that is given once and is its time.

So a ledger need only keep numbers, and a reader can say of any record whether a byte of it is wrong. Knows no log.
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from typing import Any

from seglog import Record

LONG = 11
"""One value of so many is of up to 1,300 bytes, the others of up to 90."""


def _mixed(token: int) -> int:
    return token * 0x9E3779B97F4A7C15 % 2**64 >> 16


def key_of(token: int, keys: int) -> bytes | None:
    """Return a record's key, one of `keys` different ones; 0: none has a key."""
    return b"k%d" % (_mixed(token) % keys) if keys else None


def value_of(token: int, keys: int) -> bytes | None:
    """Return a record's value; where records have keys, one of nine is a tombstone."""
    if keys and token % 9 == 4:
        return None
    rest = _mixed(token) % (1300 if token % LONG == 0 else 90)
    return b"%d|" % token + (b"%012x" % _mixed(token) * (rest // 12 + 1))[:rest]


def token_of(record: Record, keys: int) -> int:
    """Return a record's token; AssertionError if the record is not exactly the one that the token describes."""
    token = record.timestamp
    expected = (key_of(token, keys), value_of(token, keys))
    assert (record.key, record.value) == expected, f"a wrong byte in {record}: expected {expected}"
    return token


def length_of(token: int, keys: int) -> int:
    """Return the bytes that a record takes in a store."""
    return 32 + len(key_of(token, keys) or b"") + len(value_of(token, keys) or b"")


def table_of(tokens: Iterable[int], keys: int) -> Any:
    """Return the records as a table for `append_batch`."""
    import pyarrow as pa  # noqa: PLC0415 - of what imports this only writers need it

    tokens = list(tokens)
    return pa.table(
        {
            "value": pa.array([value_of(token, keys) for token in tokens], pa.binary()),
            "key": pa.array([key_of(token, keys) for token in tokens], pa.binary()),
            "timestamp": pa.array(tokens, pa.int64()),
        }
    )


def chunks_of(token: int, keys: int, draw: random.Random) -> list[bytes]:
    """Return a value in pieces, cut anywhere."""
    value = value_of(token, keys) or b""
    cuts = sorted(draw.randint(0, len(value)) for _ in range(draw.randint(0, 4)))
    return [value[begin:end] for begin, end in zip([0, *cuts], [*cuts, len(value)], strict=True)]
