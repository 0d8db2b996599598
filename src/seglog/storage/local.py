"""A directory of the operating system as a storage, and locks in it. Linux and macOS; knows nothing of logs."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import stat
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import ClassVar
from weakref import WeakSet

from seglog.errors import InvalidArgument, NotALog
from seglog.storage.base import doomed_name
from seglog.storage.descriptors import open_file, open_urgently, with_descriptors
from seglog.storage.inside import inside
from seglog.storage.local_file import LocalFile
from seglog.storage.system_calls import close_descriptor, errors_naming, pwrite_rest, storage_error, sync_descriptor
from seglog.uncopied import Uncopied

_FORMAT = 0o170000  # the bits of a mode that say what kind of file it is


def _is_directory(path: str) -> bool:
    """Whether this is a directory. StorageError if it cannot be examined (Path.is_dir raises or returns False)."""
    with errors_naming(path):
        try:
            return stat.S_ISDIR(os.stat(path).st_mode)  # noqa: PTH116 - see above
        except (FileNotFoundError, NotADirectoryError):
            return False


class LocalLock(Uncopied):
    """An flock on a file. A forked child closes its copy of the descriptor, which does not release the lock."""

    _held: ClassVar[WeakSet[LocalLock]] = WeakSet()

    def __init__(self, descriptor: int, path: str) -> None:
        self._descriptor = descriptor
        self.path = path
        LocalLock._held.add(self)
        status = os.fstat(descriptor)
        self._file = status.st_dev, status.st_ino  # the inode is not reused while the descriptor is open

    def write(self, data: bytes) -> None:
        """Replace the content of the locked file."""
        with errors_naming(self.path):
            pwrite_rest(self._descriptor, data, 0, 0)
            os.ftruncate(self._descriptor, len(data))

    def is_current(self) -> bool:
        """Whether the locked file is still at its path."""
        try:
            status = os.stat(self.path)  # noqa: PTH116 - called by a writer at every sync
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise storage_error(error, self.path) from error
        return self._file == (status.st_dev, status.st_ino)

    def release(self) -> None:
        """Release the lock; a second call does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        LocalLock._held.discard(self)
        if descriptor >= 0:
            close_descriptor(descriptor)

    def __del__(self) -> None:
        self.release()

    @classmethod
    def leave_to_parent(cls) -> None:
        """Close the locks in a forked child; the parent keeps them."""
        for lock in list(cls._held):
            lock.release()


os.register_at_fork(after_in_child=LocalLock.leave_to_parent)


def checked_directory(path: object) -> str:
    """Return the path. Raises InvalidArgument if no system call accepts it: empty, with a NUL or a lone surrogate."""
    try:
        sound = isinstance(path, str) and b"\0" not in os.fsencode(path)
    except UnicodeEncodeError:
        sound = False
    if not (sound and path and isinstance(path, str)):
        raise InvalidArgument(f"{path!r} is not the path of a directory")
    return path


class LocalStorage:
    """A directory of the file system. Its methods are described in `Storage`.

    Args:
        path: Path of the directory; it need not exist yet.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._root = Path(os.path.abspath(path))  # noqa: PTH100 - Path.absolute keeps "..", resolve follows links
        self.path = str(self._root)

    def _at(self, name: str) -> str:
        return inside(self.path, name)

    @property
    def enclosing(self) -> LocalStorage | None:
        """The parent directory, None for the root; for a link, the parent of its target."""
        path = os.path.realpath(self.path)
        parent = os.path.dirname(path)  # noqa: PTH120 - strings, as the other calls here
        return None if parent == path else LocalStorage(parent)

    def exists(self, directory: str = "") -> bool:
        """Whether the directory exists."""
        path = self._at(directory)
        if _is_directory(path):
            return True
        if os.path.lexists(path):
            raise NotALog(errno.ENOTDIR, "this is a file, not the directory of a log", path)
        return False

    def make(self, directories: Sequence[str]) -> None:
        """Create missing directories, and sync every directory that got a new name."""
        if _is_directory(self.path) and self._is_empty():
            self._sync_own_name()
        for directory in [self._root, *(Path(self._at(name)) for name in directories)]:
            self._make_one(directory)

    def _is_empty(self) -> bool:
        with errors_naming(self.path), with_descriptors(os.scandir, self.path) as entries:
            return next(entries, None) is None  # without a list of all names

    def _sync_own_name(self) -> None:
        parent = f"{self.path}/.."  # not the path's parent, which may be a link
        with errors_naming(parent), suppress(PermissionError):  # a user who may not read the parent did not create this
            if os.stat(parent).st_dev == os.stat(self.path).st_dev:  # noqa: PTH116 - strings, as the other calls here
                self._sync(parent)

    def _make_one(self, directory: Path) -> None:
        if _is_directory(str(directory)):
            return
        self._make_one(directory.parent)
        with errors_naming(str(directory)):
            directory.mkdir(exist_ok=True)
            self._sync(str(directory.parent))

    def names(self, directory: str = "") -> list[str]:
        """Return the names in a directory, sorted."""
        with errors_naming(self._at(directory)):
            try:
                return sorted(with_descriptors(os.listdir, self._at(directory)))
            except FileNotFoundError:
                return []

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """Return name -> size in bytes of the files in a directory; see Storage.sizes."""
        path = self._at(directory)
        with errors_naming(path):
            names = sorted(with_descriptors(os.listdir, path))  # as they were created, and their inodes on the disk
        wanted = [name for name in names if name.endswith(ending)]
        sizes = zip(wanted, self.sizes_of(wanted, directory), strict=True)
        return {name: size for name, size in sizes if size is not None}

    def sizes_of(self, names: Iterable[str], directory: str = "") -> list[int | None]:
        """Return the size in bytes of each of these files, in this order; None for one that is missing or no file."""
        found, status_of, regular = list[int | None](), os.stat, stat.S_IFREG
        with errors_naming(self._at(directory)), self.opened(directory) as descriptor:
            for name in names:
                try:
                    status = status_of(name, dir_fd=descriptor)  # faster than by path
                except FileNotFoundError:  # also one that a writer has unlinked
                    found.append(None)
                else:
                    found.append(status.st_size if status.st_mode & _FORMAT == regular else None)
        return found

    @contextmanager
    def opened(self, directory: str = "") -> Iterator[int]:
        """Open the directory and yield the descriptor."""
        with errors_naming(self._at(directory)):
            descriptor = open_file(self._at(directory), os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            close_descriptor(descriptor)

    def open(self, name: str, *, writable: bool = False) -> LocalFile:
        """Open an existing file."""
        flags = os.O_RDWR if writable else os.O_RDONLY
        return self._descriptor(
            name, flags | os.O_NONBLOCK
        )  # a FIFO by this name must not block; files ignore the flag

    def create(self, name: str, *, replace: bool = False) -> LocalFile:
        """Create an empty file."""
        return self._descriptor(name, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if replace else os.O_EXCL))

    def _descriptor(self, name: str, flags: int) -> LocalFile:
        path = self._at(name)
        try:
            return LocalFile(open_file(path, flags), path)
        except OSError as error:
            raise storage_error(error, path) from error

    def rename(self, old: str, new: str) -> None:
        """Move atomically."""
        with errors_naming(self._at(new)):
            os.replace(self._at(old), self._at(new))  # noqa: PTH105 - names are joined already

    def link(self, old: str, new: str) -> None:
        """Give a file a second name."""
        with errors_naming(self._at(new)):
            os.link(self._at(old), self._at(new))

    def unlink(self, name: str) -> None:
        """Remove a name; a missing one is no error."""
        with errors_naming(self._at(name)), suppress(FileNotFoundError):
            os.unlink(self._at(name))  # noqa: PTH108 - names are joined already

    def sync_directory(self, directory: str = "") -> None:
        """Return once the names in a directory are on the disk."""
        with errors_naming(self._at(directory)):
            self._sync(self._at(directory))

    @staticmethod
    def _sync(path: str) -> None:
        descriptor = open_urgently(path, os.O_RDONLY)
        try:
            sync_descriptor(descriptor)
        finally:
            close_descriptor(descriptor)

    def identity(self, name: str) -> object:
        """Return inode, time of change of the content, and size; None if there is no file, or it is a directory."""
        try:
            status = os.stat(self._at(name))  # noqa: PTH116 - called by a reader before every read
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(error, self._at(name)) from error
        if stat.S_ISDIR(status.st_mode):
            return None
        return status.st_ino, status.st_mtime_ns, status.st_size

    def try_lock(self, name: str, *, shared: bool = False) -> LocalLock | None:
        """Take a flock without waiting."""
        path = self._at(name)
        with errors_naming(path):
            descriptor = self._lockable(path)
            try:
                fcntl.flock(descriptor, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
            except OSError as error:
                close_descriptor(descriptor)
                if error.errno in (errno.EWOULDBLOCK, errno.EACCES):
                    return None
                raise
            return LocalLock(descriptor, path)

    @staticmethod
    def _lockable(path: str) -> int:
        try:
            return open_file(path, os.O_RDWR | os.O_CREAT)
        except PermissionError as denied:
            try:  # a file of another user: flock needs no write permission
                return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            except OSError:
                raise denied from None

    def remove_directory(self, directory: str) -> None:
        """Remove a subdirectory and its content; no error if it is missing, or another process removes it as well."""
        with errors_naming(self._at(directory)):
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
        """Return the directory and those below it, the deepest first."""
        return [root for root, _, _ in os.walk(self._at(directory), topdown=False)]

    def remove_if_empty(self, directory: str) -> None:
        """Remove a subdirectory if it is empty."""
        with errors_naming(self._at(directory)):
            try:
                os.rmdir(self._at(directory))  # noqa: PTH106 - as the other calls here
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST, errno.ENOENT):
                    raise

    def free_bytes(self, directory: str = "") -> int:
        """Return the bytes that an ordinary user may still write."""
        with errors_naming(self._at(directory)):
            status = os.statvfs(self._at(directory))
            return status.f_bavail * status.f_frsize

    def remove(self) -> None:
        """Remove the directory and its content."""
        doomed = self._root.with_name(doomed_name(self._root.name))
        with errors_naming(self.path):
            self._root.rename(doomed)  # atomic, so that no process opens a part of a log
            with suppress(PermissionError):  # nor one whose name returns after a power loss
                self._sync(str(doomed.parent))
            shutil.rmtree(doomed)
