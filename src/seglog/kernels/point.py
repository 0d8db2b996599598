"""Records of a file, read, verified and converted to Python objects in one call: one, or many of one segment.

The only kernels that read a file themselves. They use pread(2) into memory of their own: with a memory map a failing
disk would kill the process (SIGBUS). Numba cannot return bytes, so the results have their own types, which convert
themselves to tuples (`boxing`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.format.codec import HEAD_BYTES
from seglog.kernels.checksum import xxh64_at
from seglog.kernels.layout import CHECKED_FROM, FIXED_METADATA_BYTES, NULL, VALUE_BASE
from seglog.kernels.memory import compiling, inlined, kernel, load_i64, load_u32, load_u64, store_i64
from seglog.kernels.parameters import Int64Rows, Int64s
from seglog.kernels.unchanged import is_same

MOST_BYTES = 1024 * 1024  # of a record; for longer ones allocating memory in each call costs too much
FIELDS = 9  # of `boxing.found`
ROW_BYTES = 8 * FIELDS
LENGTH, POSITION, PLACE, RUN = 0, 8, 16, 24  # places in a row before the record is read; RUN: bytes that it begins
GAP_BYTES = 4096  # between two records take less time than another call
BLOCK_ENTRIES = 256  # of a block of dense entries, see segment/lookup

boxing = compiling("boxing")
_pread, _malloc, _free, _found = boxing.pread, boxing.malloc, boxing.free, boxing.found
_found_rows = boxing.found_rows
_NOTHING = (0,) * FIELDS


@inlined
def _length(size: int) -> int:
    """Return the size in bytes of a field; 0 if it is null."""
    return 0 if size == NULL else size


@inlined
def _is_valid(record: int, length: int, relative: int, salt: int) -> Any:
    metadata_len, value_len = load_u32(record + 8), _length(load_u32(record + 12))
    value = record + VALUE_BASE + metadata_len
    if value + value_len != record + length or metadata_len < FIXED_METADATA_BYTES + _length(load_u32(record + 20)):
        return False
    seed = np.uint64(salt) ^ xxh64_at(value, value_len, np.uint64(0))
    checksum = xxh64_at(record + CHECKED_FROM, VALUE_BASE - CHECKED_FROM + metadata_len, seed)
    return load_u64(record) == checksum and load_u32(record + 16) == relative


@inlined
def _fields_of(record: int, offset: int) -> Any:
    key_size, value_size = load_u32(record + 20), load_u32(record + 12)
    key = record + HEAD_BYTES
    headers, value = key + _length(key_size), record + VALUE_BASE + load_u32(record + 8)
    return (
        record,
        offset,
        load_i64(record + 24),
        key,
        -1 if key_size == NULL else key_size,
        value,
        -1 if value_size == NULL else value_size,
        headers,
        value - headers if value > headers else -1,
    )


@inlined
def _read_at(descriptor: int, entry: int, size: int, relative: int, salt: int) -> int:
    """Return the address of a verified record in memory that the caller frees; 0 if there is none."""
    length, position = load_u32(entry + 8), load_u32(entry + 12)
    record = 0
    if HEAD_BYTES <= length <= MOST_BYTES and position + length <= size:
        record = _malloc(np.uint64(length))
    if record != 0:
        came = _pread(np.int32(descriptor), record, np.uint64(length), position)
        if came != length or not _is_valid(record, length, relative, salt):
            _free(record)
            record = 0
    return record


@kernel
def read_point(descriptor: int, entries: int, number: int, size: int, offset: int, relative: int, salt: int) -> Any:
    """Return (offset, timestamp, key, value, packed headers or ()) of a record; None if it does not verify.

    descriptor: of the store, of which `size` bytes may be read. entries: address of dense entries, of which `number` is
    the record's; the caller keeps them alive and has checked the number against their count. salt: the store's, as a
    signed number. Also None for a record of more than MOST_BYTES, and for a read error.
    """
    record = _read_at(descriptor, entries + 16 * number, size, relative, salt)
    if record == 0:
        return _found(_NOTHING)
    return _found(_fields_of(record, offset))


@kernel
def read_point_if(
    path: int,
    inode: int,
    changed: int,
    length: int,
    descriptor: int,
    entries: int,
    number: int,
    size: int,
    offset: int,
    relative: int,
    salt: int,
) -> Any:
    """Return what `read_point` returns; None if another file is not the one that was seen.

    path, inode, changed, length: as `path`, `inode`, `changed` and `size` in `unchanged.is_same`, which is called
    before the record is read. The others are those of `read_point`.
    """
    record = 0
    if is_same(path, inode, changed, length):
        record = _read_at(descriptor, entries + 16 * number, size, relative, salt)
    if record == 0:
        return _found(_NOTHING)
    return _found(_fields_of(record, offset))


@inlined
def _take_place(row: int, entry: int, size: int) -> int:
    """Note a record's position in its row; return its length, 0 if it cannot be read here."""
    length, position = load_u32(entry + 8), load_u32(entry + 12)
    store_i64(row + POSITION, position)
    return length if HEAD_BYTES <= length <= MOST_BYTES and position + length <= size else 0


@inlined
def _take_places(rows: int, blocks: Any, size: int, base: int, offsets: Any) -> int:
    """Note in the rows where each record is, and where in memory it comes; return how many bytes that takes.

    Records that follow each other closely are one run: read together, with what is between them.
    """
    total = first = start = end = 0
    for one in range(offsets.size):
        row, relative = rows + one * ROW_BYTES, offsets[one] - base
        block, number = relative // BLOCK_ENTRIES, relative % BLOCK_ENTRIES
        length = 0
        if 0 <= block < blocks.shape[0] and number < blocks[block, 1]:
            length = _take_place(row, blocks[block, 0] + 16 * number, size)
        store_i64(row + LENGTH, length)
        store_i64(row + RUN, 0)
        if length == 0:
            continue
        position = load_i64(row + POSITION)
        if first == 0 or position < end or position > end + GAP_BYTES or position + length > start + MOST_BYTES:
            total += end - start
            first, start = row, position
        end = position + length
        store_i64(first + RUN, end - start)
        store_i64(row + PLACE, total + position - start)
    return total + end - start


@kernel
def read_points(descriptor: int, blocks: Int64Rows, size: int, base: int, salt: int, offsets: Int64s) -> Any:
    """Return a list: what `read_point` returns for each offset, and last the number of those None or with headers.

    blocks: (address, number of entries) of each block of BLOCK_ENTRIES dense entries of the segment; an address counts
    only if there are entries, and the caller keeps them alive. base: the segment's first offset. A list of one number
    if memory runs out.
    """
    rows = _malloc(np.uint64(max(offsets.size, 1) * ROW_BYTES))
    if rows == 0:
        return _found_rows((0, 0, 0, 0))
    memory = _malloc(np.uint64(_take_places(rows, blocks, size, base, offsets) + 1))
    if memory == 0:
        return _found_rows((rows, 0, 0, 0))
    special = came = 0
    for one in range(offsets.size):
        row = rows + one * ROW_BYTES
        length, record, run = load_i64(row + LENGTH), memory + load_i64(row + PLACE), load_i64(row + RUN)
        if run != 0:
            came = record + max(_pread(np.int32(descriptor), record, np.uint64(run), load_i64(row + POSITION)), 0)
        if length == 0 or record + length > came or not _is_valid(record, length, offsets[one] - base, salt):
            store_i64(row, 0)
            special += 1
            continue
        fields = _fields_of(record, offsets[one])
        for field in range(FIELDS):
            store_i64(row + 8 * field, fields[field])
        special += fields[8] >= 0
    return _found_rows((rows, offsets.size, special, memory))


def load() -> None:
    """Compile all, or load them from the cache. Not during the import of this module: the cache imports it."""
    entry, path = np.zeros(2, np.int64), np.frombuffer(b"/\0", np.uint8)
    read_point(-1, entry.ctypes.data, 0, 0, 0, 0, 0)
    read_point_if(path.ctypes.data, 0, 0, 0, -1, entry.ctypes.data, 0, 0, 0, 0, 0)
    read_points(-1, np.zeros((0, 2), np.int64), 0, 0, 0, np.zeros(0, np.int64))
