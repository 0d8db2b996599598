"""Find the next valid record after damage without using a lookup: what of a store can be saved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from seglog.format.codec import HEAD_BYTES, METADATA_FIXED, NULL, InvalidRecord, Rules
from seglog.storage import File

WINDOW = 1024 * 1024
CANDIDATE_BYTES = 4096
"""Cost of trying a candidate besides hashing it, as a number of bytes hashed in the same time."""

CANDIDATES = 16
"""Number of records to examine before one is accepted although its position is too early."""


class Found(NamedTuple):
    """A valid record after damage."""

    position: int
    offset: int


def find_record(
    store: File, rules: Rules, *, position: int, end: int, least: int, budget: float = math.inf
) -> Found | None:
    """Return the first valid record in position..end with offset `least` or greater; None if there is none.

    budget: maximum bytes to hash; None after that. Bytes that resemble heads can require the square of their number.
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
    """Return the record to continue with after damage at `position`. least: the lowest offset that it may have.

    In a dense segment, a record that was moved or copied to an earlier place (the damage itself, or too early for all
    the records before it) is accepted only if none of the following records belongs before it.
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
    """Yield the possible starts of a record in the window, with its length: all checks passed that need no hashing."""
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
    at = starts + HEAD_BYTES + key  # the first header: as far as it is in the window it must fit, too
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
