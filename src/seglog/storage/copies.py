"""Files that share the bytes of others: a reflink or a hard link instead of a copy."""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress

from seglog.storage.base import File, Storage
from seglog.storage.local import LocalStorage
from seglog.storage.local_file import LocalFile
from seglog.storage.subdirectory import Subdirectory
from seglog.storage.system_calls import close_descriptor, sync_descriptor

_FICLONE = 0x40049409  # linux/fs.h: share the extents of a file, copied on write


def can_share(source: File, target: Storage) -> bool:
    """Whether `share_file` may be tried: both are files of the operating system, whose paths name them.

    The paths of another storage are its own: there may be a file of that name on the disk, with other bytes.
    """
    directory = target.outermost if isinstance(target, Subdirectory) else target
    return isinstance(source, LocalFile) and isinstance(directory, LocalStorage)


def share_file(old: str, new: str) -> bool:
    """Make `new` a file with the bytes of `old` without copying them: a reflink, else a hard link.

    Everything but its name is durable. Both are paths. Return False, and leave nothing there, if the file system can do
    neither, or if the paths are on two file systems.
    """
    with suppress(FileNotFoundError):
        os.unlink(new)  # noqa: PTH108 - strings, as the other calls here
    try:
        if _reflink(old, new):
            return True
        os.link(old, new)  # its bytes are those of `old`, which are on the disk
    except OSError:
        return False
    return True


def _reflink(old: str, new: str) -> bool:
    source = os.open(old, os.O_RDONLY | os.O_CLOEXEC)
    try:
        target = os.open(new, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        try:
            fcntl.ioctl(target, _FICLONE, source)
            sync_descriptor(target)
        except OSError:
            os.unlink(new)  # noqa: PTH108 - as above
            return False
        finally:
            close_descriptor(target)
    finally:
        close_descriptor(source)
    return True
