"""Read-only memory maps that keep no file descriptor, in any version of Python.

Before 3.13 `mmap.mmap` keeps a duplicate of the descriptor until the map is closed, so a process that kept 248 tables
of `to_arrow` could open no more files. For those versions this module calls mmap(2) directly.
"""

from __future__ import annotations

import mmap
import os
import sys
import weakref
from functools import cache
from typing import Any

_mmap = mmap.mmap
_FAILED = 2**64 - 1  # MAP_FAILED


def map_file(descriptor: int, size: int) -> memoryview:
    """Map the first `size` bytes (1 or more) of a file for reading. Raises OSError if the system refuses.

    The map lives as long as any object refers to its memory. The descriptor may be closed at any time.
    """
    if sys.version_info >= (3, 13):
        return memoryview(_mmap(descriptor, size, access=mmap.ACCESS_READ, trackfd=False))
    return _mapped_by_libc(descriptor, size)


@cache
def _libc() -> Any:
    import ctypes  # noqa: PLC0415 - not needed in processes that map nothing

    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_uint64
    number, word = ctypes.c_int, ctypes.c_size_t
    libc.mmap.argtypes = [ctypes.c_void_p, word, number, number, number, ctypes.c_int64]
    libc.munmap.argtypes = [ctypes.c_void_p, word]
    return libc


def _mapped_by_libc(descriptor: int, size: int) -> memoryview:
    import ctypes  # noqa: PLC0415 - as above

    libc = _libc()
    address = libc.mmap(None, size, mmap.PROT_READ, mmap.MAP_SHARED, descriptor, 0)
    if address == _FAILED:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    block = (ctypes.c_ubyte * size).from_address(address)
    weakref.finalize(block, libc.munmap, address, size).atexit = False  # the process's exit unmaps the rest
    return memoryview(block).cast("B").toreadonly()
