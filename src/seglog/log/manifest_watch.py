"""Whether a log's MANIFEST is still the one that was seen: one system call where that is possible.

In a directory of the system the time of the inode (ctime) is compared. Tools that put a directory back keep the times
of the content, and a file may get the inode of the one before.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from seglog.format import filename
from seglog.segment.kernel_read import Seen
from seglog.segment.loaded_kernels import loaded_kernel
from seglog.segment.lookup import BYTES_DATA
from seglog.storage import Storage, local_directory

INT64 = 2**63


class ManifestWatch:
    """Compares MANIFEST with an identity that it returned before; another file is never "the same".

    In a directory of the system a kernel compares inode, time and size, if the process has loaded it (see
    segment/kernel_read); elsewhere, and with injected faults, the storage is asked.
    """

    __slots__ = ("_address", "_kernel", "_path", "_storage")

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._kernel: Callable[..., Any] | None = None
        is_local = local_directory(storage) is not None
        self._path = os.fsencode(f"{storage.path}/{filename.MANIFEST}") if is_local else None
        self._address = id(self._path) + BYTES_DATA

    def identity(self) -> object:
        """Return that of the present MANIFEST, None if there is none; StorageError if it cannot be found out."""
        if self._path is not None:
            with suppress(OSError):
                status = os.stat(self._path)  # noqa: PTH116 - called by a reader before every read
                if not stat.S_ISDIR(status.st_mode):
                    return status.st_ino, status.st_ctime_ns, status.st_size
        return self._storage.identity(filename.MANIFEST)

    def is_same(self, identity: Any) -> bool:
        """Whether MANIFEST has this identity now; StorageError if that cannot be found out."""
        kernel, seen = self._kernel or self._loaded(), self.seen(identity)
        if kernel is None or seen is None:
            return bool(self.identity() == identity)
        if kernel(*seen):
            return True
        is_same = bool(self.identity() == identity)
        if is_same:  # there is no statx(2) here, or a sandbox refuses it
            self._path = None
        return is_same

    def seen(self, identity: Any) -> Seen | None:
        """Return MANIFEST as a kernel compares it, which this object keeps valid; None if a kernel cannot."""
        if self._path is None or identity is None or not all(-INT64 <= number < INT64 for number in identity):
            return None
        inode, changed, size = identity
        return self._address, inode, changed, size

    def _loaded(self) -> Callable[..., Any] | None:
        self._kernel = None if self._path is None else loaded_kernel("unchanged", "is_unchanged")
        return self._kernel
