"""Read one record with a kernel, if the process has loaded it, in half of the time of the interpreter.

The kernel is not loaded for this, because a read must not wait for a compiler (see `held`); batch calls load it. If the
kernel does not find a valid record, for whatever reason, the reader finds out why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seglog.format.codec import InvalidRecord, Rules, decode_headers
from seglog.format.index import ENTRY_BYTES
from seglog.record import Record
from seglog.segment.loaded_kernels import loaded_kernel
from seglog.segment.lookup import BLOCK_ENTRIES, BYTES_DATA, Lookup
from seglog.storage import File
from seglog.storage.local_file import LocalFile

Seen = tuple[int, int, int, int]
"""The file whose change makes a record outdated: address of its path, inode, time of change in ns, size in bytes."""

_kernel: Callable[..., Any] | None = None
_kernel_if: Callable[..., Any] | None = None
_made = tuple.__new__  # makes a named tuple from its fields in half the time of its class


def _loaded_kernel() -> Callable[..., Any] | None:
    """Return the kernel if another call has loaded it, and remember both."""
    global _kernel, _kernel_if  # noqa: PLW0603 - looked up once, not at each read
    kernel = loaded_kernel("point", "read_point")
    _kernel_if = loaded_kernel("point", "read_point_if")  # second: another thread may be loading them
    _kernel = kernel
    return kernel


class PointReader:
    """Reads records by their entries in a dense lookup, if the store is a file of the system."""

    __slots__ = ("_base", "_salt", "_store")

    def __init__(self, store: File, rules: Rules) -> None:
        self._store = store if isinstance(store, LocalFile) else None
        self._base = rules.base_offset
        self._salt = rules.salt - (rules.salt >> 63 << 64)  # the same 64 bits with a sign, as kernels take them

    def read(self, lookup: Lookup, offset: int, size: int, seen: Seen | None = None) -> Record | None:
        """Return the verified record in the first `size` bytes of the store; None if the reader has to find it.

        seen: return None also if this file has changed, or if that is not known.
        """
        kernel = _kernel or _loaded_kernel()
        if kernel is None or self._store is None:
            return None
        relative = offset - self._base
        entries, number = lookup.held(relative), relative % BLOCK_ENTRIES
        if len(entries) < (number + 1) * ENTRY_BYTES:
            return None
        descriptor, address, salt = self._store.descriptor, id(entries) + BYTES_DATA, self._salt
        if seen is None:
            cells = kernel(descriptor, address, number, size, offset, relative, salt)
        elif _kernel_if is None:
            return None
        else:
            path, inode, changed, length = seen
            cells = _kernel_if(path, inode, changed, length, descriptor, address, number, size, offset, relative, salt)
        if cells is None:
            return None
        headers = cells[4]
        if headers:
            try:
                cells = (*cells[:4], decode_headers(headers, 0, len(headers)))
            except InvalidRecord:
                return None
        return _made(Record, cells)
