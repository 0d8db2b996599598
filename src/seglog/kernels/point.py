"""One record of a file, read, verified and converted to Python objects in one call.

The only kernel that reads a file itself. It uses pread(2) into memory of its own: with a memory map a failing disk
would kill the process (SIGBUS). Numba cannot return bytes, so the result has its own type, which converts itself to a
tuple (`boxing`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.format.codec import HEAD_BYTES
from seglog.kernels.checksum import xxh64_at
from seglog.kernels.layout import CHECKED_FROM, FIXED_METADATA_BYTES, NULL, VALUE_BASE
from seglog.kernels.memory import compiling, inlined, kernel, load_i64, load_u32, load_u64

MOST_BYTES = 1024 * 1024  # of a record; for longer ones allocating memory in each call costs too much
FIELDS = 9  # of `boxing.found`

boxing = compiling("boxing")
_pread, _malloc, _free, _found = boxing.pread, boxing.malloc, boxing.free, boxing.found
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
def _found_in(record: int, offset: int) -> Any:
    key_size, value_size = load_u32(record + 20), load_u32(record + 12)
    key = record + HEAD_BYTES
    headers, value = key + _length(key_size), record + VALUE_BASE + load_u32(record + 8)
    fields = (
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
    return _found(fields)


@kernel
def read_point(descriptor: int, entries: int, number: int, size: int, offset: int, relative: int, salt: int) -> Any:
    """Return (offset, timestamp, key, value, packed headers or ()) of a record; None if it does not verify.

    descriptor: of the store, of which `size` bytes may be read. entries: address of dense entries, of which `number` is
    the record's; the caller keeps them alive and has checked the number against their count. salt: the store's, as a
    signed number. Also None for a record of more than MOST_BYTES, and for a read error.
    """
    entry = entries + 16 * number
    length, position = load_u32(entry + 8), load_u32(entry + 12)
    record = 0
    if HEAD_BYTES <= length <= MOST_BYTES and position + length <= size:
        record = _malloc(np.uint64(length))
    if record == 0:
        return _found(_NOTHING)
    came = _pread(np.int32(descriptor), record, np.uint64(length), position)
    if came == length and _is_valid(record, length, relative, salt):
        return _found_in(record, offset)
    _free(record)
    return _found(_NOTHING)


def load() -> None:
    """Compile `read_point`, or load it from the cache. Not during the import of this module: the cache imports it."""
    entry = np.zeros(2, np.int64)
    read_point(-1, entry.ctypes.data, 0, 0, 0, 0, 0)
