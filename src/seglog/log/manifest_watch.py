"""Whether a log's MANIFEST is still the one that was seen: one system call where that is possible."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from seglog.format import filename
from seglog.segment.loaded_kernels import loaded_kernel
from seglog.segment.lookup import BYTES_DATA
from seglog.storage import Storage, local_directory


class ManifestWatch:
    """Compares MANIFEST with an identity that `Storage.identity` returned; another file is never "the same".

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

    def is_same(self, identity: Any) -> bool:
        """Whether MANIFEST has this identity now; StorageError if that cannot be found out."""
        kernel = self._kernel or self._loaded()
        if kernel is None or self._path is None or identity is None:
            return bool(self._storage.identity(filename.MANIFEST) == identity)
        try:
            return bool(kernel(self._address, *identity))
        except OverflowError:  # an inode number above 2^63 - 1
            return bool(self._storage.identity(filename.MANIFEST) == identity)

    def _loaded(self) -> Callable[..., Any] | None:
        self._kernel = None if self._path is None else loaded_kernel("unchanged", "is_unchanged")
        return self._kernel
