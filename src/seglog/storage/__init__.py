"""Storage: the protocol and its implementations. Knows files and locks, not segments or records."""

from seglog.storage.base import File, Lock, RangedFile, Storage, SuspendableFile, is_directory, is_doomed, must_sync
from seglog.storage.local import LocalStorage
from seglog.storage.memory import MemoryStorage
from seglog.storage.subdirectory import Subdirectory, enclosing, link_target, local_directory, lock_around, sizes_of
from seglog.storage.urls import register_scheme

__all__ = [
    "File",
    "LocalStorage",
    "Lock",
    "MemoryStorage",
    "RangedFile",
    "Storage",
    "Subdirectory",
    "SuspendableFile",
    "enclosing",
    "is_directory",
    "is_doomed",
    "link_target",
    "local_directory",
    "lock_around",
    "must_sync",
    "register_scheme",
    "sizes_of",
]
