"""One open file of the operating system, which can close its descriptor while it is idle."""

from __future__ import annotations

import errno
import os
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar

from seglog.errors import StorageError
from seglog.storage import mapping
from seglog.storage.base import Buffer
from seglog.storage.descriptors import open_urgently
from seglog.storage.system_calls import close_descriptor, errors_naming, pwrite_rest, storage_error, sync_data
from seglog.uncopied import Uncopied

_PARTS_MAX = 512  # below IOV_MAX everywhere
_HEADER_BYTES = 64
_COPIED_BYTES = 256 * 1024

_Identity = tuple[int, int, bytes]
"""Device, inode and first bytes of a file. A new file may get the inode of one that was removed; files that are
suspended begin with a header, which contains the salt of their segment.
"""


def _identity_of(descriptor: int, path: str) -> _Identity:
    with errors_naming(path):
        status = os.fstat(descriptor)
        return status.st_dev, status.st_ino, os.pread(descriptor, _HEADER_BYTES, 0)


class LocalFile(Uncopied):
    """An open file: `descriptor` is -1 once it is closed, and while it is suspended.

    Invariant: a call on a suspended file works as on an open one, and never uses another file's descriptor.
    - A suspended file has no descriptor; the first call that needs one opens it again.
    - Reads may run while another thread suspends the file, and the number may then already belong to another file. So
      every read compares the count of suspensions before and after, and is repeated if it has changed.
    - A file that is opened again must be the same one: device, inode and first bytes are compared (ESTALE if not).
    - Only a file whose data is synced is suspended, so a later sync has nothing to do.
    """

    __slots__ = ("_identity", "_reopened", "_suspensions", "descriptor", "path")

    _installing: ClassVar[threading.RLock] = threading.RLock()  # a signal handler may interrupt

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self._suspensions = 0
        self._identity: _Identity | None = None  # set by the first suspension
        self._reopened: Callable[[], None] | None = None

    # --- suspending ---------------------------------------------------------------------------------------------

    @property
    def suspended(self) -> bool:
        """Whether the descriptor was closed by `suspend` and is not open again."""
        return self.descriptor < 0 and self._identity is not None

    def suspend(self, reopened: Callable[[], None]) -> None:
        """Close the descriptor until a call needs it, and call `reopened` then.

        The caller has synced what must be durable, and ensures that no thread writes or syncs meanwhile. A file that
        was unlinked or renamed since it was opened stays open, because it could not be opened again.
        """
        if self._is_at_its_path():
            self._identity, self._reopened = _identity_of(self.descriptor, self.path), reopened
            descriptor, self.descriptor = self.descriptor, -1  # first: a thread that still has it sees the old count
            self._suspensions += 1
            close_descriptor(descriptor)

    def _is_at_its_path(self) -> bool:
        with errors_naming(self.path):
            opened = os.fstat(self.descriptor)
            try:
                named = os.stat(self.path)  # noqa: PTH116 - a path is a string here
            except FileNotFoundError:
                return False
        return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)

    def _resumed(self, suspensions: int, used: int) -> bool:
        """Whether a call may have failed because the file was suspended, and it is open again now.

        suspensions, used: their number, and the descriptor, when the call began. The error of the call does not matter:
        the number may belong to another file or a socket by now, or to this file again. Raises StorageError if the name
        leads to another file (ESTALE) or to none, or the file cannot be opened.
        """
        identity = self._identity
        if identity is None or (used >= 0 and suspensions == self._suspensions):
            return False
        if self.descriptor < 0:
            self._install(self._reopen(identity))
        return True

    def _install(self, descriptor: int) -> None:
        """Use a new descriptor, unless another thread was faster.

        No lock is held while it is opened, because other logs may sync and close their files to free a descriptor.
        """
        with LocalFile._installing:
            is_first = self.descriptor < 0 and self._identity is not None
            if is_first:
                self.descriptor = descriptor
        if not is_first:
            close_descriptor(descriptor)
        elif self._reopened is not None:
            self._reopened()

    @classmethod
    def renew_guard(cls) -> None:
        """Replace the lock in a forked child: another thread of the parent may have held it."""
        cls._installing = threading.RLock()

    def _reopen(self, identity: _Identity) -> int:
        with errors_naming(self.path):
            descriptor = open_urgently(self.path, os.O_RDWR)
        try:
            is_same = _identity_of(descriptor, self.path) == identity
        except StorageError:
            close_descriptor(descriptor)
            raise
        if not is_same:
            close_descriptor(descriptor)
            raise StorageError(errno.ESTALE, "the file was replaced by another one while its log was idle", self.path)
        return descriptor

    # --- reading ------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the size in bytes."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            size = os.fstat(descriptor).st_size  # called by a reader before every read
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.size()
            raise storage_error(error, self.path) from error
        return size if suspensions == self._suspensions else self.size()

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at `position`; fewer only at the end of the file."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            data = os.pread(descriptor, length, position)
            if len(data) != length and data:
                data += _pread_rest(descriptor, length - len(data), position + len(data))
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.pread(length, position)
            raise storage_error(error, self.path) from error
        return data if suspensions == self._suspensions else self.pread(length, position)

    def map(self) -> memoryview:
        """Return a memory map of the present bytes, or a copy of a small file. A read error under a map is a SIGBUS."""
        suspensions, size = self._suspensions, self.size()
        if size <= _COPIED_BYTES:
            return memoryview(self.pread(size, 0))
        descriptor = self.descriptor
        if descriptor < 0:  # Python would map anonymous memory
            return self.map()
        try:
            mapped = mapping.map_file(descriptor, size)
        except (OSError, ValueError) as error:  # ValueError: the number belongs to an empty file
            if suspensions != self._suspensions or self.size() < size:  # or it was cut, which later Pythons refuse
                return self.map()
            if isinstance(error, OSError):
                raise storage_error(error, self.path) from error
            raise
        return mapped if suspensions == self._suspensions else self.map()

    # --- writing ------------------------------------------------------------------------------------------------

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` or raise."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            written = os.pwrite(descriptor, data, position)
            if written != len(data):
                pwrite_rest(descriptor, data, written, position)
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.pwrite(data, position)
            raise storage_error(error, self.path) from error

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts one after another or raise."""
        total, suspensions, descriptor = sum(len(part) for part in parts), self._suspensions, self.descriptor
        try:
            written = os.pwritev(descriptor, parts, position) if len(parts) <= _PARTS_MAX else 0
            if written != total:
                pwrite_rest(descriptor, b"".join(parts), written, position)
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.pwritev(parts, position)
            raise storage_error(error, self.path) from error

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.truncate(size)
            raise storage_error(error, self.path) from error

    def datasync(self) -> None:
        """Return once data and size are on the disk; those of a suspended file are."""
        descriptor = self.descriptor
        if descriptor < 0:
            if self._identity is not None:  # not `suspended`: another thread may open it again meanwhile
                return
            # Python raises ValueError for a closed descriptor here, elsewhere EBADF
            raise StorageError(errno.EBADF, os.strerror(errno.EBADF), self.path)
        try:
            sync_data(descriptor)
        except OSError as error:
            raise storage_error(error, self.path) from error

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        self._identity = None
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            close_descriptor(descriptor)

    def __del__(self) -> None:
        self.close()


os.register_at_fork(after_in_child=LocalFile.renew_guard)


def _pread_rest(descriptor: int, length: int, position: int) -> bytes:
    pieces = []
    while length > 0:  # one call moves at most 2 GiB
        data = os.pread(descriptor, length, position)
        if not data:
            break
        pieces.append(data)
        length -= len(data)
        position += len(data)
    return b"".join(pieces)
