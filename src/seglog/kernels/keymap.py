"""The map from key to latest record, as two parallel arrays: 16-byte fingerprints and 8-byte record numbers.

After the proposal "Integrating keyed messages into Kafka" (two arrays, a slot derived from the fingerprint), but with
open addressing instead of overwriting: a key in the map stays in it, and all 16 bytes are compared. It stores a
record's number, not its offset, so that the bit of a superseded record is found directly.

The first word of a fingerprint determines the range of fingerprints that it belongs to, the second one its slot, so
that a map of one range is filled as evenly as a map of all. Keys in adjacent slots are ordered by their second words,
so that a search for a missing key ends as soon as one for a present key, however full the map is (Amble and Knuth,
"Ordered hash tables"). Knows nothing of records.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.memory import address_of, inlined, kernel, prefetch
from seglog.kernels.parameters import Bools, InputBools, InputInt64s, Int64s, Uint8s, Uint64Rows, Word

AHEAD = 12  # keys whose slots are prefetched, so that cache misses overlap
EMPTY = np.uint64(0)  # both words of a free slot; no fingerprint has two


@inlined
def _home(word: Any, slots: int) -> int:
    """Return the slot where the search for a fingerprint begins, from the high half of its second word."""
    return np.int64(((word >> np.uint64(32)) * np.uint64(slots)) >> np.uint64(32))  # type: ignore[return-value] # as address_of


@inlined
def _is_free(table: Any, slot: int) -> Any:
    return table[slot, 0] == EMPTY and table[slot, 1] == EMPTY


@inlined
def _find(first: Any, second: Any, table: Any) -> Any:
    """Return (slot, whether the fingerprint is in it); if not, it is the slot where the fingerprint belongs."""
    slots = table.shape[0]
    slot, around = _home(second, slots), False
    while not _is_free(table, slot):
        there = table[slot, 1]
        if there == second and table[slot, 0] == first:
            return slot, True
        if there > second or around:  # keys that wrapped around the last slot precede those whose search begins here
            pushed_around = _home(there, slots) > slot
            if (around and not pushed_around) or (there > second and pushed_around == around):
                return slot, False
        slot += 1
        if slot == slots:
            slot, around = 0, True
    return slot, False


@inlined
def _put(slot: int, first: Any, second: Any, number: int, table: Any, numbers: Any) -> None:
    """Put a key into a slot; the keys in it and after it move on by one, up to a free slot."""
    while not _is_free(table, slot):
        table[slot, 0], first = first, table[slot, 0]
        table[slot, 1], second = second, table[slot, 1]
        numbers[slot], number = number, numbers[slot]
        slot = slot + 1 if slot + 1 < table.shape[0] else 0
    table[slot, 0], table[slot, 1], numbers[slot] = first, second, number


@inlined
def _ask(row: int, fingerprints: Any, slots: int, column: Any, width: int) -> None:
    """Prefetch what the search for a row will read in an array of the map, `width` bytes per slot: where the search
    begins, and where most searches end. Does nothing after the last row.
    """
    if row < fingerprints.shape[0]:
        home = address_of(column) + width * _home(fingerprints[row, 1], slots)
        prefetch(home)
        prefetch(home + 4 * width)


@inlined
def _set_bit(bits: Any, number: int) -> int:
    """Set a record's bit; return 1 if it was not set before."""
    byte, bit = bits[number >> 3], np.uint8(1 << (number & 7))
    bits[number >> 3] = byte | bit
    return 1 if byte & bit == 0 else 0


@kernel
def set_bits(chosen: Bools, first: int, bits: Uint8s) -> int:
    """Set the bits of the records from `first` on where `chosen` (bool) is true; return how many are new."""
    count = 0
    for row in range(chosen.size):
        if chosen[row]:
            count += _set_bit(bits, first + row)
    return count


@kernel
def insert(
    fingerprints: Uint64Rows,
    keyed: Uint8s,
    first: int,
    table: Uint64Rows,
    numbers: Int64s,
    low: Word,
    high: Word,
    room: int,
    died: Uint8s,
) -> Any:
    """Store the latest records of the keys of a range, and set in `died` the bits of those that they supersede.

    fingerprints: uint64[rows, 2]; keyed: uint8, 0 for a row without key; first: number of the first row, ascending from
    call to call. low, high: range, inclusive, of the first words to accept. table: uint64[slots, 2], EMPTY if free;
    numbers: int64[slots]; died: uint8, one bit per number. Returns (rows taken, keys added, bits newly set); stops
    before the key that would exceed `room` new ones.
    """
    added, dead = 0, 0
    for row in range(keyed.size):
        _ask(row + AHEAD, fingerprints, table.shape[0], table, 16)
        _ask(row + AHEAD, fingerprints, table.shape[0], numbers, 8)
        one, two = fingerprints[row, 0], fingerprints[row, 1]
        if keyed[row] == 0 or one < low or one > high:
            continue
        slot, known = _find(one, two, table)
        if known:
            dead += _set_bit(died, numbers[slot])
            numbers[slot] = first + row
            continue
        if added == room:
            return row, added, dead
        _put(slot, one, two, first + row, table, numbers)
        added += 1
    return keyed.size, added, dead


@kernel
def keep_newest(
    fingerprints: Uint64Rows, keyed: InputBools, offsets: InputInt64s, table: Uint64Rows, numbers: Int64s, room: int
) -> Any:
    """Store the offset of the last record of each key. Returns (rows taken, keys added).

    Arguments as in `insert`; keyed: bool, false for a row without key; offsets: int64, those of the rows, which are
    stored as their numbers. Stops before the key that would exceed `room` new ones.
    """
    added = 0
    for row in range(offsets.size):
        _ask(row + AHEAD, fingerprints, table.shape[0], table, 16)
        _ask(row + AHEAD, fingerprints, table.shape[0], numbers, 8)
        if not keyed[row]:
            continue
        one, two = fingerprints[row, 0], fingerprints[row, 1]
        slot, known = _find(one, two, table)
        if known:
            numbers[slot] = offsets[row]
            continue
        if added == room:
            return row, added
        _put(slot, one, two, offsets[row], table, numbers)
        added += 1
    return offsets.size, added


@kernel
def find_numbers(fingerprints: Uint64Rows, table: Uint64Rows, numbers: Int64s, found: Int64s) -> None:
    """Fill found (int64, one per row) with the number of each key, or -1 if the map does not hold it."""
    for row in range(found.size):
        _ask(row + AHEAD, fingerprints, table.shape[0], table, 16)
        slot, known = _find(fingerprints[row, 0], fingerprints[row, 1], table)
        found[row] = numbers[slot] if known else -1


@kernel
def look_up(fingerprints: Uint64Rows, keyed: Uint8s, table: Uint64Rows, low: Word, high: Word, known: Bools) -> None:
    """Fill known (bool, one per row) with whether the map holds the row's key; arguments as in `insert`."""
    for row in range(keyed.size):
        _ask(row + AHEAD, fingerprints, table.shape[0], table, 16)
        one, two = fingerprints[row, 0], fingerprints[row, 1]
        known[row] = keyed[row] != 0 and low <= one <= high and _find(one, two, table)[1]


@inlined
def _stays(home: int, hole: int, slot: int) -> bool:
    """Whether the key at `slot` cannot move to `hole`, because its search begins after the hole."""
    if hole <= slot:
        return hole < home <= slot
    return hole < home or home <= slot


@inlined
def _remove(hole: int, table: Any, numbers: Any) -> None:
    """Free a slot, and move back the keys that it displaced, so that no search ends early."""
    slots = table.shape[0]
    slot = hole
    while True:
        slot = slot + 1 if slot + 1 < slots else 0
        if _is_free(table, slot):
            break
        if not _stays(_home(table[slot, 1], slots), hole, slot):
            table[hole, 0], table[hole, 1], numbers[hole] = table[slot, 0], table[slot, 1], numbers[slot]
            hole = slot
    table[hole, 0], table[hole, 1] = EMPTY, EMPTY


@kernel
def evict(table: Uint64Rows, numbers: Int64s, high: Word) -> int:
    """Remove every key whose first word is greater than `high`; return how many. At least one slot must be free."""
    removed, slot = 0, 0
    while slot < table.shape[0]:
        if table[slot, 0] > high:
            _remove(slot, table, numbers)  # the key that moves here is checked next
            removed += 1
        else:
            slot += 1
    return removed
