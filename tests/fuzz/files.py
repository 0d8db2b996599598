"""Bytes as a file in memory, as the readers of stores and indices take one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.storage import MemoryStorage

if TYPE_CHECKING:
    from seglog.storage import File


def file_of(data: bytes) -> File:
    """Return a file that holds `data`."""
    storage = MemoryStorage()
    storage.make([])
    file = storage.create("file")
    file.pwrite(data, 0)
    return file
