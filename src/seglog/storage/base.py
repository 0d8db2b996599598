"""What the log asks of a storage medium: obligations only. Names are relative to the log's directory, "/" between.

Every failed call of the medium raises StorageError (an OSError with errno and path). Nothing is retried here, and
nothing is durable until the sync that names it has returned.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from seglog.errors import LogPoisoned, NotALog, StorageError

Buffer = bytes | bytearray | memoryview


class File(Protocol):
    """One open file. Safe for threads as long as one of them writes. Closes itself when the last user lets go."""

    path: str

    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at `position`; fewer than `length` only where the file ends."""
        ...

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` or raise; after an error any prefix of it may be there. Visible to readers at once."""
        ...

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """As `pwrite` of the parts end to end, without joining them."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend (with zeros) to `size` bytes."""
        ...

    def datasync(self) -> None:
        """Return once data and size are on the medium. After an error nothing may be believed of what was not
        synced before: the caller must stop promising.
        """
        ...

    def map(self) -> memoryview:
        """Return the file's present bytes, read only; from a memory map where the medium has one. Stays valid after
        the file is unlinked or closed.
        """
        ...

    def close(self) -> None:
        """Let go at once; further calls raise StorageError."""
        ...


@runtime_checkable
class SuspendableFile(Protocol):
    """A file that can give its descriptor back for a while; a storage without descriptors has none of these."""

    @property
    def suspended(self) -> bool:
        """Whether it has no descriptor at the moment."""
        ...

    def suspend(self, reopened: Callable[[], None]) -> None:
        """Close the descriptor; the next call opens it again and calls `reopened`. No thread may write meanwhile."""
        ...


class Lock(Protocol):
    """A lock held on a name; ends with the process at the latest. A forked child does not hold it."""

    def write(self, data: bytes) -> None:
        """Replace the content of the locked file; not synced."""
        ...

    def is_current(self) -> bool:
        """Whether the locked file is still the one at its name: False once it was removed, renamed or replaced, so that
        another process can lock that name as well. One call of the system; StorageError where it fails.
        """
        ...

    def release(self) -> None:
        """Give the lock back."""
        ...


class Storage(Protocol):
    """A directory of files and subdirectories: for one log, or for a topic or a broker with its logs below it."""

    path: str

    def exists(self, directory: str = "") -> bool:
        """Whether the directory, or one below it, is there; NotALog where that is something else than a directory."""
        ...

    def make(self, directories: Sequence[str]) -> None:
        """Create the directory, its parents and the named subdirectories where missing. Each new name is on the medium
        before anything is made below it.

        The directory's own name is synced also where it was there and is empty: who made it may have died before that.
        """
        ...

    def names(self, directory: str = "") -> list[str]:
        """Return the names in a directory, empty where it does not exist."""
        ...

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """Return name -> size in bytes of every file right in a directory, in one sweep.

        ending: only of those whose names end so; a local file's size is a call of its own, ten thousand take 30 ms.
        """
        ...

    def open(self, name: str, *, writable: bool = False) -> File:
        """Open an existing file; StorageError with ENOENT where there is none."""
        ...

    def create(self, name: str, *, replace: bool = False) -> File:
        """Create an empty file, writable; StorageError with EEXIST where there is one, unless `replace`, with ENOENT
        where its directory is missing.
        """
        ...

    def rename(self, old: str, new: str) -> None:
        """Move a file in one step, replacing `new`; or a directory with all that is in it, to a name that is free.
        Files that are open, and locks, go along.
        """
        ...

    def link(self, old: str, new: str) -> None:
        """Give a file a second name; StorageError with EEXIST where `new` exists."""
        ...

    def unlink(self, name: str) -> None:
        """Remove a name; missing is no error."""
        ...

    def sync_directory(self, directory: str = "") -> None:
        """Return once the names in a directory are on the medium."""
        ...

    def identity(self, name: str) -> object:
        """Return a token that changes whenever `name` is replaced, None where there is no such file."""
        ...

    def try_lock(self, name: str, *, shared: bool = False) -> Lock | None:
        """Lock a name, creating the file; None, at once, where another holder stands against it."""
        ...

    def remove_directory(self, directory: str) -> None:
        """Remove a subdirectory and all that is in it; missing is no error."""
        ...

    def remove_if_empty(self, directory: str) -> None:
        """Remove a subdirectory in which nothing is; one that is not empty, or missing, is no error."""
        ...

    def free_bytes(self, directory: str = "") -> int:
        """Return the bytes left on the medium where the directory is."""
        ...

    def remove(self) -> None:
        """Remove the directory and all that is in it: in one step, and for good before the first file goes."""
        ...


_DOOMED = ".removed-"


def doomed_name(name: str) -> str:
    """Return what a directory is called while it is being removed: one rename, so that nobody ever opens half of it."""
    return f".{name}{_DOOMED}{secrets.token_hex(4)}"


def is_doomed(name: str) -> bool:
    """Whether a directory is one that was being removed."""
    return name.startswith(".") and _DOOMED in name


def is_directory(storage: Storage, directory: str = "") -> bool:
    """Whether there is a directory; False, where `exists` would raise, if it is something else."""
    try:
        return storage.exists(directory)
    except NotALog:
        return False


def must_sync(sync: Callable[[], None]) -> None:
    """Call a sync on which a promise rests; LogPoisoned where it fails: nobody knows then what the medium holds."""
    try:
        sync()
    except StorageError as error:
        raise LogPoisoned(
            error.errno,
            f"a sync failed ({error.strerror}); the writer stops here, open the log again",
            error.filename,
        ) from error
