"""The contract between the log and a storage. Names are relative to the log's directory, separated by "/".

Every failed call raises StorageError (an OSError with errno and path). A storage does not retry. Nothing is durable
until the sync of that file or directory has returned.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from seglog.errors import LogPoisoned, NotALog, StorageError

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. Safe for several reading threads and one writing thread. Closes when no user refers to it any
    more.
    """

    path: str

    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at a position; fewer than `length` only at the end of the file.

        Args:
            length: Number of bytes.
            position: Position in bytes.

        Raises:
            StorageError: If the read fails, or the file is closed.
        """
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of the data, visible to readers at once; after an error any prefix of it may be written.

        Args:
            data: The bytes.
            position: Position in bytes; a gap before it reads as zeros.

        Raises:
            StorageError: If the write fails, or the file is closed or was opened for reading.
        """
        ...

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write parts one after another, as `pwrite` does, without joining them.

        Args:
            parts: The bytes, in order.
            position: Position of the first part in bytes.

        Raises:
            StorageError: As in `pwrite`.
        """
        ...

    def truncate(self, size: int) -> None:
        """Cut the file, or extend it with zeros.

        Args:
            size: New size in bytes.

        Raises:
            StorageError: If that fails.
        """
        ...

    def datasync(self) -> None:
        """Return once data and size are on the disk.

        After an error the state of everything not synced before is unknown: the caller must acknowledge nothing more.
        """
        ...

    def map(self) -> memoryview:
        """Return the file's present bytes, read only, memory-mapped if the storage can do so.

        The view stays valid after the file is unlinked or closed.
        """
        ...

    def close(self) -> None:
        """Close at once; further calls raise StorageError."""
        ...


@runtime_checkable
class RangedFile(Protocol):
    """A file whose bytes are fetched from elsewhere, so that mapping all of it may cost much more than a part."""

    def map_range(self, start: int, stop: int) -> memoryview:
        """Return the bytes as `File.map` does, but only start..stop are certain to be there; others may be zero.

        Args:
            start: First position.
            stop: Position after the last byte.

        Raises:
            StorageError: If they cannot be fetched.
        """
        ...


@runtime_checkable
class SuspendableFile(Protocol):
    """A file that can close its descriptor temporarily. A storage without descriptors has no such files."""

    @property
    def suspended(self) -> bool:
        """Whether the descriptor is closed at the moment."""
        ...

    def suspend(self, reopened: Callable[[], None]) -> None:
        """Close the descriptor until the next call, which opens it again. No thread may write meanwhile.

        Args:
            reopened: Called when the file is open again.

        Raises:
            StorageError: If the file cannot be examined; it stays open.
        """
        ...


class Lock(Protocol):
    """A lock on a name. It ends with the process at the latest; a forked child does not hold it."""

    def write(self, data: bytes) -> None:
        """Replace the content of the locked file; not synced.

        Args:
            data: The new content.

        Raises:
            StorageError: If the write fails.
        """
        ...

    def is_current(self) -> bool:
        """Whether the locked file still has its name.

        False after it was removed, renamed or replaced: another process can then lock that name as well. Costs one
        system call. Raises StorageError if that call fails.
        """
        ...

    def release(self) -> None:
        """Release the lock."""
        ...


class Storage(Protocol):
    """A directory of files and subdirectories: of one log, or of a topic or broker with its logs in subdirectories."""

    path: str

    def exists(self, directory: str = "") -> bool:
        """Whether the directory, or one below it, exists.

        Args:
            directory: Name of a subdirectory; "" for the directory itself.

        Raises:
            NotALog: If something else than a directory has that name.
        """
        ...

    def make(self, directories: Sequence[str]) -> None:
        """Create the directory, its parents and the named subdirectories, as needed.

        Each new name is on the disk before anything is created below it. The name of an existing empty directory is
        synced as well: its creator may have crashed before it did so.

        Args:
            directories: Names of subdirectories.

        Raises:
            StorageError: If that fails.
        """
        ...

    def names(self, directory: str = "") -> list[str]:
        """Return the names in a directory; none if it does not exist.

        Args:
            directory: Name of a subdirectory; "" for the directory itself.

        Raises:
            StorageError: If the directory cannot be read.
        """
        ...

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """Return name -> size in bytes of every file directly in a directory.

        Args:
            directory: Name of a subdirectory; "" for the directory itself.
            ending: Include only names with this ending. On a local disk each size is a system call; 10,000 take 30 ms.

        Raises:
            StorageError: If the directory cannot be read.
        """
        ...

    def open(self, name: str, *, writable: bool = False) -> File:
        """Open an existing file.

        Args:
            name: Its name.
            writable: Open it for reading and writing.

        Raises:
            StorageError: With ENOENT if there is no such file.
        """
        ...

    def create(self, name: str, *, replace: bool = False) -> File:
        """Create an empty writable file.

        Args:
            name: Its name.
            replace: Replace the content of an existing file.

        Raises:
            StorageError: With EEXIST if the name exists and `replace` is False, ENOENT if its directory is missing.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Move a file atomically, replacing `new`; or a directory with its content, to a name that is not in use.

        Open files and locks keep working.

        Args:
            old: Present name.
            new: New name.

        Raises:
            StorageError: With ENOENT if `old` is missing, ENOTEMPTY or ENOTDIR if a directory cannot replace `new`.
        """
        ...

    def link(self, old: str, new: str) -> None:
        """Give a file a second name.

        Args:
            old: Present name.
            new: Second name.

        Raises:
            StorageError: With EEXIST if `new` exists.
        """
        ...

    def unlink(self, name: str) -> None:
        """Remove a name of a file; a missing one is no error.

        Args:
            name: The name.

        Raises:
            StorageError: If that fails.
        """
        ...

    def sync_directory(self, directory: str = "") -> None:
        """Return once the names in a directory are on the disk.

        Args:
            directory: Name of a subdirectory; "" for the directory itself.

        Raises:
            StorageError: If the sync fails.
        """
        ...

    def identity(self, name: str) -> object:
        """Return a token that changes whenever a file is replaced; None if there is no such file.

        If it also changes when a file becomes longer, changes of a log's structure can be appended to its manifest;
        otherwise each change writes the whole manifest.

        Args:
            name: Name of the file.

        Raises:
            StorageError: If the file cannot be examined.
        """
        ...

    def try_lock(self, name: str, *, shared: bool = False) -> Lock | None:
        """Lock a name without waiting, creating the file; return None if another holder prevents it.

        Args:
            name: Name of the file to lock.
            shared: Take a lock that several holders may share.

        Raises:
            StorageError: If the file cannot be created or locked.
        """
        ...

    def remove_directory(self, directory: str) -> None:
        """Remove a subdirectory and its content; a missing one is no error.

        Args:
            directory: Name of the subdirectory.

        Raises:
            StorageError: If that fails.
        """
        ...

    def remove_if_empty(self, directory: str) -> None:
        """Remove a subdirectory if it is empty; one that is missing or not empty is no error.

        Args:
            directory: Name of the subdirectory.

        Raises:
            StorageError: If that fails.
        """
        ...

    def free_bytes(self, directory: str = "") -> int:
        """Return the free bytes of the disk that holds a directory.

        Args:
            directory: Name of a subdirectory; "" for the directory itself.

        Raises:
            StorageError: If that is unknown.
        """
        ...

    def remove(self) -> None:
        """Remove the directory and its content: it loses its name, durably, before the first file is removed."""
        ...


_DOOMED = ".removed-"


def doomed_name(name: str) -> str:
    """Return the name of a directory that is being removed: after this rename no process opens a part of it."""
    return f".{name}{_DOOMED}{secrets.token_hex(4)}"


def is_doomed(name: str) -> bool:
    """Whether a directory was being removed."""
    return name.startswith(".") and _DOOMED in name


def is_directory(storage: Storage, directory: str = "") -> bool:
    """Whether the directory exists; False, where `exists` would raise, if something else has that name."""
    try:
        return storage.exists(directory)
    except NotALog:
        return False


def must_sync(sync: Callable[[], None]) -> None:
    """Call a sync that an acknowledgement depends on; LogPoisoned if it fails: what is on the disk is then unknown."""
    try:
        sync()
    except StorageError as error:
        raise LogPoisoned(
            error.errno,
            f"a sync failed ({error.strerror}); the writer stops here, open the log again",
            error.filename,
        ) from error
