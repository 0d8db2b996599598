"""Finding the next valid record behind damage, without trusting any lookup: what can still be saved of a store."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from seglog.format.codec import HEAD_BYTES, METADATA_FIXED, NULL, InvalidRecord
from seglog.segment.scan import Rules
from seglog.storage import File

WINDOW = 1024 * 1024
CANDIDATE_BYTES = 4096
"""What trying one candidate costs besides hashing it, in bytes hashed meanwhile."""

CANDIDATES = 16
"""Records to look at before the first one is taken although it stands too early."""


class Found(NamedTuple):
    """A valid record behind damage."""

    position: int
    offset: int


def find_record(
    store: File, rules: Rules, *, position: int, end: int, least: int, budget: float = math.inf
) -> Found | None:
    """Return the first valid record in position..end whose offset is `least` or greater, None where there is none.

    budget: bytes to hash at most before giving up with None; bytes that look like heads can ask for the square.
    """
    while position + HEAD_BYTES <= end:
        window = store.pread(min(WINDOW + HEAD_BYTES - 1, end - position), position)
        if len(window) < HEAD_BYTES:
            return None
        for start, length in _plausible(window, end - position, least - rules.base_offset):
            budget -= length + CANDIDATE_BYTES
            if budget < 0:
                return None
            inside = start + length <= len(window)
            data, at = (window, start) if inside else (store.pread(length, position + start), 0)
            offset = _offset_of_valid(data, at, at + length, rules)
            if offset is not None and offset >= least:
                return Found(position + start, offset)
        position += min(WINDOW, len(window) - HEAD_BYTES + 1)
    return None


def find_next(store: File, rules: Rules, *, position: int, end: int, least: int) -> Found | None:
    """Return the record to go on with behind damage at `position`; least: the first offset that it may have.

    Where offsets have no gaps, a record that was moved or copied to an earlier place (the damage itself, or too early
    for all that must stand before it) is taken only if none of those that follow belongs before it.
    """
    first, start = None, position
    for _ in range(CANDIDATES):
        found = find_record(store, rules, position=start, end=end, least=least)
        if found is None:
            break
        room = (found.position - rules.codec.header_bytes) // HEAD_BYTES
        early = found.offset - rules.base_offset > room or (found.position == position and found.offset > least)
        if not rules.dense or not early:
            return found if first is None or found.offset < first.offset else first
        first, start = first or found, found.position + 1
    return first


def _plausible(window: bytes, left: int, least: int) -> Iterator[tuple[int, int]]:
    """Yield where in the window a record could start, and its length: all that can be told without hashing fits."""
    import numpy as np  # noqa: PLC0415 - only damage needs it

    count = len(window) - HEAD_BYTES + 1
    words = np.ndarray((len(window) - 3,), "<u4", window, 0, (1,))  # the four bytes at every position
    halves = np.ndarray((len(window) - 1,), "<u2", window, 0, (1,))
    metadata = words[8 : 8 + count]
    starts = np.flatnonzero((metadata >= METADATA_FIXED) & (metadata <= min(left, NULL)))
    metadata, value, relative, key = (words[starts + at].astype(np.int64) for at in (8, 12, 16, 20))
    key[key == NULL] = 0
    value[value == NULL] = 0
    lengths, headers = 12 + metadata + value, metadata - METADATA_FIXED - key
    fits = (headers >= 0) & (lengths <= left - starts) & (relative >= least)
    starts, lengths, headers, key = starts[fits], lengths[fits], headers[fits], key[fits]
    at = starts + HEAD_BYTES + key  # the first header: what of it is in the window must fit, too
    name = np.where(headers > 0, halves[np.minimum(at, len(halves) - 1)], 0)
    told = (headers > 0) & (at < len(halves))
    fits = ~told | (name + 6 <= headers)
    at += 2 + name
    content = words[np.minimum(at, len(words) - 1)].astype(np.int64)
    told &= at < len(words)
    fits &= ~told | (content == NULL) | (name + 6 + content <= headers)
    yield from zip(starts[fits].tolist(), lengths[fits].tolist(), strict=True)


def _offset_of_valid(data: bytes, start: int, end: int, rules: Rules) -> int | None:
    try:
        return rules.codec.decode(data, start, min(end, len(data)), rules.base_offset, rules.salt)[0].offset
    except InvalidRecord:
        return None
