"""Files of the operating system: the storage that keeps data. Linux and macOS; knows nothing of logs."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from seglog.errors import InvalidArgument, NotALog, StorageError
from seglog.storage import mapping
from seglog.storage.base import Buffer, doomed_name
from seglog.storage.descriptors import open_file, open_urgently, with_descriptors
from seglog.uncopied import Uncopied

_PARTS_MAX = 512  # below IOV_MAX everywhere
_HEADER_BYTES = 64
_COPIED_BYTES = 256 * 1024
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)  # macOS alone has it
_NO_FULL_SYNC = (errno.ENOTSUP, errno.ENOTTY, errno.EINVAL)  # what a file system answers that does not know it


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


_datasync = os.fdatasync if hasattr(os, "fdatasync") and _FULL_SYNC is None else sync_descriptor


def _refused(error: OSError, path: str) -> StorageError:
    return StorageError(error.errno, f"{os.strerror(error.errno or 0)}", path)


@contextmanager
def _naming(path: str) -> Iterator[None]:
    try:
        yield
    except StorageError:
        raise
    except OSError as error:
        raise _refused(error, path) from error


def _is_directory(path: str) -> bool:
    """Whether this is a directory; StorageError where that may not be looked at (Path.is_dir raises, or says no)."""
    with _naming(path):
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - see above
        except (FileNotFoundError, NotADirectoryError):
            return False


def _pwrite_rest(descriptor: int, data: Buffer, done: int, position: int) -> None:
    """Write what lies behind the first `done` bytes of data that is to stand at `position`.

    An error keeps no view of the data: as long as somebody held on to it, a bytearray could not grow.
    """
    with memoryview(data) as whole:
        while done < len(whole):
            with whole[done:] as rest:
                written = os.pwrite(descriptor, rest, position + done)
            if written == 0:
                raise OSError(errno.ENOSPC, "short write")
            done += written


def _let_go(descriptor: int) -> None:
    """Close a descriptor. The system lets go of it whatever it answers, and no promise rests on that."""
    with suppress(OSError):
        os.close(descriptor)


_Identity = tuple[int, int, bytes]
"""Device, inode and first bytes of a file. The inode alone may be a new file's once the old one was removed; the files
that are suspended begin with a header, which contains the salt of their segment.
"""


def _identity_of(descriptor: int, path: str) -> _Identity:
    with _naming(path):
        status = os.fstat(descriptor)
        return status.st_dev, status.st_ino, os.pread(descriptor, _HEADER_BYTES, 0)


class LocalFile(Uncopied):
    """One file descriptor: `descriptor`, -1 once the file is closed and while it is suspended.

    A suspended file has no descriptor until a call needs one. Reads may run while another thread suspends the file:
    the number may then be another file's already, so each read checks that the file was not suspended meanwhile.
    """

    __slots__ = ("_identity", "_reopened", "_suspensions", "descriptor", "path")

    _installing: ClassVar[threading.RLock] = threading.RLock()  # a signal handler may come in

    def __init__(self, descriptor: int, path: str) -> None:
        self.descriptor = descriptor
        self.path = path
        self._suspensions = 0
        self._identity: _Identity | None = None  # of a file that was suspended
        self._reopened: Callable[[], None] | None = None

    # --- suspending ---------------------------------------------------------------------------------------------

    @property
    def suspended(self) -> bool:
        """Whether the descriptor was closed by `suspend` and is not open again."""
        return self.descriptor < 0 and self._identity is not None

    def suspend(self, reopened: Callable[[], None]) -> None:
        """Close the descriptor until a call needs it, and call `reopened` then.

        The caller has synced what must be durable, and sees to it that no thread writes or syncs meanwhile. A file
        that was unlinked or renamed since it was opened stays open: it could not be opened again.
        """
        if self._is_at_its_path():
            self._identity, self._reopened = _identity_of(self.descriptor, self.path), reopened
            descriptor, self.descriptor = self.descriptor, -1  # first: who still got it has counted one less
            self._suspensions += 1
            _let_go(descriptor)

    def _is_at_its_path(self) -> bool:
        with _naming(self.path):
            opened = os.fstat(self.descriptor)
            try:
                named = os.stat(self.path)  # noqa: PTH116 - a path is a string here
            except FileNotFoundError:
                return False
        return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)

    def _resumed(self, suspensions: int, used: int) -> bool:
        """Whether a call may have failed because the file was suspended, and it is open again now.

        suspensions, used: how many there were, and the descriptor, when the call began. Whatever error it got: the
        number may be another file's meanwhile, or a socket's, or again this one's.
        StorageError where its name now leads to another file (ESTALE), to none, or where it cannot be opened.
        """
        identity = self._identity
        if identity is None or (used >= 0 and suspensions == self._suspensions):
            return False
        if self.descriptor < 0:
            self._install(self._reopen(identity))
        return True

    def _install(self, descriptor: int) -> None:
        """Take a new descriptor, unless another thread was faster. No lock is held while it is opened: other logs may
        sync and close their files for it.
        """
        with LocalFile._installing:
            is_first = self.descriptor < 0 and self._identity is not None
            if is_first:
                self.descriptor = descriptor
        if not is_first:
            _let_go(descriptor)
        elif self._reopened is not None:
            self._reopened()

    @classmethod
    def renew_guard(cls) -> None:
        """In a forked child: another thread of the parent may have held the lock."""
        cls._installing = threading.RLock()

    def _reopen(self, identity: _Identity) -> int:
        with _naming(self.path):
            descriptor = open_urgently(self.path, os.O_RDWR)
        try:
            is_same = _identity_of(descriptor, self.path) == identity
        except StorageError:
            _let_go(descriptor)
            raise
        if not is_same:
            _let_go(descriptor)
            raise StorageError(errno.ESTALE, "another file has taken the place of this one", self.path)
        return descriptor

    # --- reading ------------------------------------------------------------------------------------------------

    def size(self) -> int:
        """Return the size in bytes."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            size = os.fstat(descriptor).st_size  # a reader asks this before every read
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.size()
            raise _refused(error, self.path) from error
        return size if suspensions == self._suspensions else self.size()

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at `position`; fewer only where the file ends."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            data = os.pread(descriptor, length, position)
            if len(data) != length and data:
                data += _pread_rest(descriptor, length - len(data), position + len(data))
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.pread(length, position)
            raise _refused(error, self.path) from error
        return data if suspensions == self._suspensions else self.pread(length, position)

    def map(self) -> memoryview:
        """Return a memory map of the present bytes, of a small file a copy. A read error under a map is a SIGBUS."""
        suspensions, size = self._suspensions, self.size()
        if size <= _COPIED_BYTES:
            return memoryview(self.pread(size, 0))
        descriptor = self.descriptor
        if descriptor < 0:  # Python would map memory of no file
            return self.map()
        try:
            mapped = mapping.map_file(descriptor, size)
        except (OSError, ValueError) as error:  # ValueError: the number of an empty file
            if suspensions != self._suspensions:
                return self.map()
            if isinstance(error, OSError):
                raise _refused(error, self.path) from error
            raise
        return mapped if suspensions == self._suspensions else self.map()

    # --- writing ------------------------------------------------------------------------------------------------

    def pwrite(self, data: Buffer, position: int) -> None:
        """Write all of `data` or raise."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            written = os.pwrite(descriptor, data, position)
            if written != len(data):
                _pwrite_rest(descriptor, data, written, position)
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.pwrite(data, position)
            raise _refused(error, self.path) from error

    def pwritev(self, parts: Sequence[Buffer], position: int) -> None:
        """Write the parts end to end or raise."""
        total, suspensions, descriptor = sum(len(part) for part in parts), self._suspensions, self.descriptor
        try:
            written = os.pwritev(descriptor, parts, position) if len(parts) <= _PARTS_MAX else 0
            if written != total:
                _pwrite_rest(descriptor, b"".join(parts), written, position)
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.pwritev(parts, position)
            raise _refused(error, self.path) from error

    def truncate(self, size: int) -> None:
        """Cut or extend to `size` bytes."""
        suspensions, descriptor = self._suspensions, self.descriptor
        try:
            os.ftruncate(descriptor, size)
        except OSError as error:
            if self._resumed(suspensions, descriptor):
                return self.truncate(size)
            raise _refused(error, self.path) from error

    def datasync(self) -> None:
        """Return once data and size are on the medium. Of a suspended file they are."""
        if self.suspended:
            return
        with _naming(self.path):
            if self.descriptor < 0:  # Python refuses a closed descriptor here with ValueError, elsewhere with EBADF
                raise OSError(errno.EBADF, "closed")
            _datasync(self.descriptor)

    def close(self) -> None:
        """Close the descriptor; a second call does nothing."""
        self._identity = None
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            _let_go(descriptor)

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


class LocalLock(Uncopied):
    """A flock on a file. A forked child closes its copy of the descriptor, which gives nothing back."""

    _held: ClassVar[WeakSet[LocalLock]] = WeakSet()

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path
        LocalLock._held.add(self)
        status = os.fstat(descriptor)
        self._file = status.st_dev, status.st_ino  # no other file gets this inode while the descriptor is open

    def write(self, data: bytes) -> None:
        """Replace the content of the locked file."""
        with _naming(self.path):
            _pwrite_rest(self._descriptor, data, 0, 0)
            os.ftruncate(self._descriptor, len(data))

    def is_current(self) -> bool:
        """Whether the locked file is still the one at its path."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - a writer asks this at every sync
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise _refused(error, self.path) from error
        return self._file == (status.st_dev, status.st_ino)

    def release(self) -> None:
        """Give the lock back; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        LocalLock._held.discard(self)
        if descriptor >= 0:
            _let_go(descriptor)

    def __del__(self) -> None:
        self.release()

    @classmethod
    def leave_to_parent(cls) -> None:
        """Close, in a forked child, what the parent holds."""
        for lock in list(cls._held):
            lock.release()


os.register_at_fork(after_in_child=LocalLock.leave_to_parent)


def checked_directory(path: object) -> str:
    """Return the path; InvalidArgument for what no system call takes: empty, a NUL, a lone surrogate."""
    try:
        sound = isinstance(path, str) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        sound = False
    if not (sound and path and isinstance(path, str)):
        raise InvalidArgument(f"{path!r} is not the path of a directory")
    return path


class LocalStorage:
    """A directory of the file system."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps "..", resolve follows links
        self.path = str(self._root)

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}" if name else self.path

    @property
    def enclosing(self) -> LocalStorage | None:
        """The directory that this one is in, None for the root; of a link, the one in which its target is."""
        path = os.path.realpath(self.path)
        parent = os.path.dirname(path)  # noqa: PTH120 - strings, as the other calls here
        return None if parent == path else LocalStorage(parent)

    def exists(self, directory: str = "") -> bool:
        """Whether the directory is there."""
        path = self._at(directory)
        if _is_directory(path):
            return True
        if os.path.lexists(path):
            raise NotALog(errno.ENOTDIR, "this is a file, not the directory of a log", path)
        return False

    def make(self, directories: Sequence[str]) -> None:
        """Create what is missing, and sync every directory that got a new name."""
        if _is_directory(self.path) and self._is_empty():
            self._sync_own_name()
        for directory in [self._root, *(self._root / name for name in directories)]:
            self._make_one(directory)

    def _is_empty(self) -> bool:
        with _naming(self.path), with_descriptors(os.scandir, self.path) as entries:
            return next(entries, None) is None  # without a list of all names

    def _sync_own_name(self) -> None:
        parent = f"{self.path}/.."  # not the path's parent: it may be a link
        with _naming(parent), suppress(PermissionError):  # who may not read the parent has not made it
            if os.stat(parent).st_dev == os.stat(self.path).st_dev:  # noqa: PTH116 - strings, as the other calls here
                self._sync(parent)

    def _make_one(self, directory: Path) -> None:
        if _is_directory(str(directory)):
            return
        self._make_one(directory.parent)
        with _naming(str(directory)):
            directory.mkdir(exist_ok=True)
            self._sync(str(directory.parent))

    def names(self, directory: str = "") -> list[str]:
        """Return the names in a directory, ordered."""
        with _naming(self._at(directory)):
            try:
                return sorted(with_descriptors(os.listdir, self._at(directory)))
            except FileNotFoundError:
                return []

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files in a directory; see Storage.sizes."""
        with _naming(self._at(directory)), with_descriptors(os.scandir, self._at(directory)) as entries:
            found: dict[str, int] = {}
            for entry in entries:
                if entry.name.endswith(ending):
                    try:
                        if entry.is_file():
                            found[entry.name] = entry.stat().st_size
                    except FileNotFoundError:  # a writer unlinked it meanwhile
                        continue
            return found

    def open(self, name: str, *, writable: bool = False) -> LocalFile:
        """Open an existing file."""
        return self._descriptor(name, os.O_RDWR if writable else os.O_RDONLY)

    def create(self, name: str, *, replace: bool = False) -> LocalFile:
        """Create an empty file."""
        return self._descriptor(name, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL))

    def _descriptor(self, name: str, flags: int) -> LocalFile:
        path = self._at(name)
        try:
            return LocalFile(open_file(path, flags), path)
        except OSError as error:
            raise _refused(error, path) from error

    def rename(self, old: str, new: str) -> None:
        """Move in one step."""
        with _naming(self._at(new)):
            os.replace(self._at(old), self._at(new))  # noqa: PTH105 - names are joined already

    def link(self, old: str, new: str) -> None:
        """Give a file a second name."""
        with _naming(self._at(new)):
            os.link(self._at(old), self._at(new))

    def unlink(self, name: str) -> None:
        """Remove a name; missing is no error."""
        with _naming(self._at(name)), suppress(FileNotFoundError):
            os.unlink(self._at(name))  # noqa: PTH108 - names are joined already

    def sync_directory(self, directory: str = "") -> None:
        """Return once the names in a directory are on the medium."""
        with _naming(self._at(directory)):
            self._sync(self._at(directory))

    @staticmethod
    def _sync(path: str) -> None:
        descriptor = open_urgently(path, os.O_RDONLY)
        try:
            sync_descriptor(descriptor)
        finally:
            _let_go(descriptor)

    def identity(self, name: str) -> object:
        """Return inode, change time and size of a file, None where there is none; a directory is no file."""
        try:
            status = os.stat(self._at(name))  # noqa: PTH116 - a reader asks this before every read
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise _refused(error, self._at(name)) from error
        if stat.S_ISDIR(status.st_mode):
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def try_lock(self, name: str, *, shared: bool = False) -> LocalLock | None:
        """Take a flock without waiting."""
        path = self._at(name)
        with _naming(path):
            descriptor = self._lockable(path)
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except OSError as error:
                _let_go(descriptor)
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    return None
                raise
            return LocalLock(descriptor, path)

    @staticmethod
    def _lockable(path: str) -> int:
        try:
            return open_file(path, os.O_RDWR | os.O_CREAT)
        except PermissionError as denied:
            try:  # a file of another user: flock itself needs no write permission
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                raise denied from None

    def remove_directory(self, directory: str) -> None:
        """Remove a subdirectory and all that is in it; missing is no error, also where another removes it as well."""
        with _naming(self._at(directory)):
            for name in self._leaves(directory):
                self.unlink(name)
            for root in self._branches(directory):
                with suppress(FileNotFoundError):
                    os.rmdir(root)  # noqa: PTH106 - as the other calls here

    def _leaves(self, directory: str) -> list[str]:
        return [
            os.path.relpath(f"{root}/{name}", self.path)
            for root, directories, names in os.walk(self._at(directory))
            for name in [*names, *(one for one in directories if os.path.islink(f"{root}/{one}"))]  # noqa: PTH114 - str
        ]

    def _branches(self, directory: str) -> list[str]:
        """Return the directories below and including one, the deepest first."""
        return [root for root, _, _ in os.walk(self._at(directory), topdown=False)]

    def remove_if_empty(self, directory: str) -> None:
        """Remove a subdirectory in which nothing is."""
        with _naming(self._at(directory)):
            try:
                os.rmdir(self._at(directory))  # noqa: PTH106 - as the other calls here
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise

    def free_bytes(self, directory: str = "") -> int:
        """Return the bytes an ordinary user may still write."""
        with _naming(self._at(directory)):
            status = os.statvfs(self._at(directory))
            return status.f_bavail * status.f_frsize

    def remove(self) -> None:
        """Remove the directory and all that is in it."""
        doomed = self._root.with_name(doomed_name(self._root.name))
        with _naming(self.path):
            self._root.rename(doomed)  # in one step, so that no half of a log is ever opened
            with suppress(PermissionError):  # nor one whose name a power loss has brought back
                self._sync(str(doomed.parent))
            shutil.rmtree(doomed)


_FICLONE = 0x40049409  # linux/fs.h: share the extents of a file, copied on write


def share_file(old: str, new: str) -> bool:
    """Make `new` a file with the bytes of `old` without copying them: a reflink, else a hard link.

    All but its name is durable. Both are paths. False, and nothing is there, where the file system can do neither, or
    they are on two file systems.
    """
    with suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108 - strings, as the other calls here
    try:
        if _reflink(old, new):
            return True
        os.link(old, new)  # its bytes are those of the other name, which are on the disk
    except OSError:
        return False
    return True


def _reflink(old: str, new: str) -> bool:
    source = os.open(old, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.ioctl(target, _FICLONE, source)
            os.fsync(target)
        except OSError:
            os.unlink(new)  # noqa: PTH108 - as above
            return False
        finally:
            _let_go(target)
    finally:
        _let_go(source)
    return True
