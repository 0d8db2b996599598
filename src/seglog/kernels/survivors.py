"""Records -> those that live, for another store: verified, copied, with new checksums.

The hash of a value does not depend on the store (docs/format.md, "Store"), so it is computed once: to verify a record
in its source and to seal it in its target.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from seglog.kernels.encode import seal
from seglog.kernels.layout import (
    NO_HIGH,
    NO_LOW,
    NULL,
    OK,
    MarksState,
    Summary,
)
from seglog.kernels.memory import (
    address_of,
    copy_short,
    inlined,
    kernel,
    load_i64,
    load_u8,
    load_u32,
    store_i64,
)
from seglog.kernels.parameters import Input, Int64Rows, Int64s, Uint8s, Uint64Rows, Word
from seglog.kernels.validate import Cursor, check, frame, local_hashes, local_spans

MAX_RELATIVE = 2**32 - 1


class Target(NamedTuple):
    """The target of survivors.

    shift: added to each relative offset. salt: np.uint64, that of the new store. records: number of records in it
    already; room: bytes left in it, which only its first record may exceed.
    """

    shift: int
    salt: Word
    records: int
    room: int


class Copied(NamedTuple):
    """The result of a copy.

    position, expected, ordinal: where to continue; rows, length: records and bytes written; summary; reason: OK, or why
    there is no valid record at `position`; blocked: relative offset, in the source, of the record there if it needs
    another store, else -1.
    """

    position: int
    expected: int
    ordinal: int
    rows: int
    length: int
    summary: Summary
    reason: int
    blocked: int


@inlined
def is_dead(bits: Any, ordinal: int) -> Any:
    """Whether a record's bit is set; without bits every record lives."""
    return bits.size > 0 and (load_u8(address_of(bits) + (ordinal >> 3)) >> (ordinal & 7)) & 1 != 0


@inlined
def _move(record: int, length: int, target: int, offset: int) -> None:
    """Copy a record to address `target` with another offset; its checksum is still that of the source."""
    copy_short(target, record, length)
    store_i64(target + 16, offset | (load_u32(record + 20) << 32))


@inlined
def _seal_all(room: int, entries: Any, first: int, last: int, hashes: Any, salt: Any) -> None:
    """Write the checksums of rows first..last, copied to address `room`, and of their entries.

    Done for a group, not for each record: words that were just written in other pieces are slow to load.
    """
    for row in range(first, last):
        record: Any = room + np.int64(entries[row, 1] >> np.uint64(32))
        entries[row, 0] = seal(record, hashes[row - first], salt)


@kernel
def copy_survivors(
    window: Input,
    start: int,
    cursor: Cursor,
    dead: Uint8s,
    ordinal: int,
    target: Target,
    out: Uint8s,
    entries: Uint64Rows,
    newest: Int64s,
) -> Any:
    """Verify the records from the cursor on and copy the live ones to `out`; return the fields of a Copied.

    window: uint8, the store's bytes from position `start` up to cursor.end. dead: uint8, one bit per record of the
    store, or empty; ordinal: number of the next record. out: uint8, at least as long as the rest of the window.
    entries: uint64[*, 2], with positions counted from the start of `out`; newest: int64[*], the maximum timestamp of
    the copied records before each; both with space for every record of the window.
    """
    base, room = address_of(window) - start, address_of(out)
    position, expected, reason, blocked = cursor.position, cursor.expected, OK, -1
    spans, hashes, moved = local_spans(), local_hashes(), local_hashes()
    rows, length, tombstones, low, high = 0, 0, 0, NO_LOW, NO_HIGH
    while position < cursor.end and reason == OK and blocked < 0:
        framed, after = frame(base, position, cursor.end, cursor.end, 1, spans, hashes)
        first = rows
        for one in range(framed):
            record, size = base + position, spans[one, 1]
            reason = check(record, spans[one, 0], hashes[one], expected, cursor)[0]
            if reason != OK:
                break
            relative = load_u32(record + 16)
            if not is_dead(dead, ordinal):
                offset = relative + target.shift
                if offset > MAX_RELATIVE or (target.records + rows > 0 and length + size > target.room):
                    blocked = relative
                    break
                _move(record, size, room + length, offset)
                entries[rows, 1], moved[rows - first] = np.uint64(size | (length << 32)), hashes[one]
                newest[rows] = high
                timestamp = load_i64(record + 24)
                low, high = min(low, timestamp), max(high, timestamp)
                tombstones += load_u32(record + 12) == NULL
                rows += 1
                length += size
            position, expected, ordinal = position + size, relative + 1, ordinal + 1
        else:
            reason = after
        _seal_all(room, entries, first, rows, moved, target.salt)
        if framed == 0:
            break
    return position, expected, ordinal, rows, length, (tombstones, low, high), reason, blocked


@kernel
def place_survivors(
    position: int, out: Uint8s, entries: Uint64Rows, newest: Int64s, marks: MarksState, found: Int64Rows
) -> Any:
    """Assign copied records their place, from `position` on in their store; return (marks found, next marked position).

    out, entries, newest: as `copy_survivors` filled them, one row per record; positions in entries become those in the
    store. found: int64[*, 2], with space for one mark per record.
    """
    base, count, next_position, earlier = address_of(out) - position, 0, marks.next_position, marks.max_timestamp
    for row in range(newest.size):
        place: Any = position + np.int64(entries[row, 1] >> np.uint64(32))
        entries[row, 1] += np.uint64(position << 32)
        if place >= next_position:
            found[count, 0] = max(earlier, newest[row])
            found[count, 1] = load_u32(base + place + 16) | (place << 32)
            next_position = (place // marks.interval + 1) * marks.interval
            count += 1
    return count, next_position
