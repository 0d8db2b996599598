"""Whether a file is still the one that was seen, in one system call without Python objects: statx(2) of Linux.

A third of the time of os.stat, which a reader of another process's log would call before every read.
"""

from __future__ import annotations

import platform
import sys
from typing import Any

import numpy as np

from seglog.kernels.memory import address_of, compiling, inlined, kernel, load_i64, load_u16, load_u32, local_array

NUMBERS = {"x86_64": 332, "amd64": 332, "aarch64": 291, "arm64": 291, "riscv64": 291}
NUMBER = NUMBERS.get(platform.machine().lower(), -1) if sys.platform == "linux" else -1
"""The number of statx(2) on this machine; -1: none, and every file counts as changed."""
WANTED = 0x341  # type, inode, size, time of change of the content
CURRENT_DIRECTORY = -100
MODE, INODE, SIZE, MODIFIED = 28, 32, 40, 112  # places in struct statx, the same on every machine
FORMAT, DIRECTORY = 0xF000, 0x4000
NANOSECONDS = 1_000_000_000

_syscall = compiling("boxing").syscall
_answer = local_array(np.uint64, 32)


@inlined
def is_same(path: int, inode: int, modified: int, size: int) -> Any:
    """Whether the file at a path has this inode, time of change in ns and size, and is no directory.

    path: address of the path, ended by a zero byte. False also after any error: the caller finds out why.
    """
    answer = _answer()
    at = address_of(answer)
    failed = _syscall(NUMBER, CURRENT_DIRECTORY, path, 0, WANTED, at)
    if failed != 0 or load_u16(at + MODE) & FORMAT == DIRECTORY:
        return False
    changed = load_i64(at + MODIFIED) * NANOSECONDS + load_u32(at + MODIFIED + 8)
    return load_i64(at + INODE) == inode and load_i64(at + SIZE) == size and changed == modified


@kernel
def is_unchanged(path: int, inode: int, modified: int, size: int) -> Any:
    """Return `is_same` as 0 or 1."""
    return int(is_same(path, inode, modified, size))


def load() -> None:
    """Compile it, or load it from the cache; see `point.load`."""
    path = np.frombuffer(b"/\0", np.uint8)
    is_unchanged(path.ctypes.data, 0, 0, 0)
