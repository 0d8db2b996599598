"""System calls that the modules of local storage share: syncs, whole writes, and errors that name the path."""

from __future__ import annotations

import errno
import fcntl
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

from seglog.errors import StorageError
from seglog.storage.base import Buffer

_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone has it
_NO_FULL_SYNC = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)  # what a file system without it returns


def sync_descriptor(descriptor: int) -> None:
    """Return once a file or directory is on the disk. On macOS fsync leaves it in the drive's cache: F_FULLFSYNC."""
    if _FULL_SYNC is not None:
        try:
            fcntl.fcntl(descriptor, _FULL_SYNC)
        except OSError as error:
            if error.errno not in _NO_FULL_SYNC:  # a failed sync must not be followed by one that succeeds
                raise
        else:
            return
    os.fsync(descriptor)


sync_data: Callable[[int], None] = os.fdatasync if hasattr(os, "fdatasync") and _FULL_SYNC is None else sync_descriptor
"""Return once a file's data and size are on the disk."""


def storage_error(error: OSError, path: str) -> StorageError:
    """Return the error of a failed call as ours, with the path of the file."""
    return StorageError(error.errno, f"{os.strerror(error.errno or 0)}", path)


@contextmanager
def errors_naming(path: str) -> Iterator[None]:
    """Raise what a call within raises as StorageError with this path."""
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise storage_error(error, path) from error


def pwrite_rest(descriptor: int, data: Buffer, done: int, position: int) -> None:
    """Write what follows the first `done` bytes of the data, whose place begins at `position`.

    An error keeps no view of the data: while one exists, a bytearray cannot grow.
    """
    with memoryview(data) as whole:
        while done < len(whole):
            with whole[done:] as rest:
                written = os.pwrite(descriptor, rest, position + done)
            if written == 0:
                raise OSError(errno.ENOSPC, "short write")
            done += written


def close_descriptor(descriptor: int) -> None:
    """Close a descriptor. The system frees it whatever the call returns, and no promise depends on the result."""
    with suppress(OSError):
        os.close(descriptor)
