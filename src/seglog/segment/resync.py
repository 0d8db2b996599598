"""Finding the next valid record behind damage, without trusting any lookup: what can still be saved of a store."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from seglog.format.codec import HEAD_BYTES, METADATA_FIXED, NULL, InvalidRecord
from seglog.segment.scan import Rules
from seglog.storage import File

WINDOW = 1024 * 1024


class Found(NamedTuple):
    """A valid record behind damage."""

    position: int
    offset: int


def find_record(store: File, rules: Rules, *, position: int, end: int, least: int) -> Found | None:
    """Return the first valid record in position..end whose offset is `least` or greater, None where there is none."""
    while position + HEAD_BYTES <= end:
        window = store.pread(min(WINDOW + HEAD_BYTES - 1, end - position), position)
        if len(window) < HEAD_BYTES:
            return None
        for start in _plausible(window, end - position, least - rules.base_offset):
            offset = _offset_of_valid(store, rules, position + start, end)
            if offset is not None and offset >= least:
                return Found(position + start, offset)
        position += min(WINDOW, len(window) - HEAD_BYTES + 1)
    return None


def _plausible(window: bytes, left: int, least: int) -> Iterator[int]:
    """Yield where in the window a head could stand: its lengths fit what is left, its offset is near and behind."""
    import numpy as np  # noqa: PLC0415 - only damage needs it

    count = len(window) - HEAD_BYTES + 1

    def field(at: int) -> Any:
        pieces = [np.frombuffer(window, np.uint8, count, at + byte).astype(np.int64) << (8 * byte) for byte in range(4)]
        return pieces[0] + pieces[1] + pieces[2] + pieces[3]

    metadata, value, relative, key = field(8), field(12), field(16), field(20)
    lengths = 12 + metadata + np.where(value == NULL, 0, value)
    fits = (metadata >= METADATA_FIXED) & (lengths <= left - np.arange(count))
    fits &= np.where(key == NULL, 0, key) <= metadata - METADATA_FIXED
    fits &= relative >= max(least, 0)
    yield from np.flatnonzero(fits).tolist()


def _offset_of_valid(store: File, rules: Rules, position: int, end: int) -> int | None:
    try:
        length = rules.codec.length_at(store.pread(HEAD_BYTES, position), 0)
        data = store.pread(min(length, end - position), position)
        return rules.codec.decode(data, 0, len(data), rules.base_offset, rules.salt)[0].offset
    except InvalidRecord:
        return None
