"""One record read by a kernel, where the process has it: in half of the time that the interpreter takes.

The kernel is not loaded for it: a read must not wait for a compiler (see `held`). Reading or writing batches loads it.
What it does not find as it must be, whatever the reason, is left to the reader, who finds out why.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from seglog.format.codec import InvalidRecord, decode_headers
from seglog.format.index import ENTRY_BYTES
from seglog.record import Record
from seglog.segment.loaded import loaded_kernel
from seglog.segment.lookup import BLOCK_ENTRIES, Lookup
from seglog.segment.scan import Rules
from seglog.storage import File
from seglog.storage.local_file import LocalFile

BYTES_DATA = bytes.__basicsize__ - 1  # where the data of a bytes object begins: its last byte is the closing zero

_kernel: Callable[..., Any] | None = None
_made = tuple.__new__  # a named tuple of its fields, in half the time that the class takes


def _loaded_kernel() -> Callable[..., Any] | None:
    """Return the kernel once somebody has had it compiled, and note that for good."""
    global _kernel  # noqa: PLW0603 - looked up once, not with each read
    _kernel = loaded_kernel("point", "read_point")
    return _kernel


class PointReader:
    """Reads records of one store by their entries in a dense lookup: of a store that is a file of the system."""

    __slots__ = ("_base", "_salt", "_store")

    def __init__(self, store: File, rules: Rules) -> None:
        self._store = store if isinstance(store, LocalFile) else None
        self._base = rules.base_offset
        self._salt = rules.salt - (rules.salt >> 63 << 64)  # the same 64 bits with a sign, as kernels take them

    def read(self, lookup: Lookup, offset: int, size: int) -> Record | None:
        """Return the record, verified, in the first `size` bytes of the store; None where that takes the long way."""
        kernel = _kernel or _loaded_kernel()
        if kernel is None or self._store is None:
            return None
        relative = offset - self._base
        entries, number = lookup.held(relative), relative % BLOCK_ENTRIES
        if len(entries) < (number + 1) * ENTRY_BYTES:
            return None
        cells = kernel(self._store.descriptor, id(entries) + BYTES_DATA, number, size, offset, relative, self._salt)
        if cells is None:
            return None
        headers = cells[4]
        if headers:
            try:
                cells = (*cells[:4], decode_headers(headers, 0, len(headers)))
            except InvalidRecord:
                return None
        return _made(Record, cells)
