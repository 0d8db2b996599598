"""Holds: how an archive or a table keeps retention from deleting segments that it does not have yet.

A hold is a small file `pins/<name>.hold` of the log: the archive has every record before an offset, as they were in an
epoch. Retention deletes only what all holds allow. A hold outlives its process, and any process with access to the
directory may set one without the writer's lock.

    {"format": 1, "offset":                   42, "epoch":                    0}
    {"check":"<XXH64 of the line before>"}

`Retention(after="table")` asks for such a hold of a table: without one nothing is deleted, nor compacted.

A hold is overwritten in place, so that it can move on a full disk. One that is torn or damaged holds everything. Cuts
of the log that came later lower it: what was appended after them is not archived yet.
"""

from __future__ import annotations

import errno
import json
from contextlib import suppress

from xxhash import xxh64_intdigest

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.cuts import Cuts
from seglog.format.foreign import UNREADABLE
from seglog.format.manifest import Manifest
from seglog.storage import Storage

MOST_BYTES = 4096
TABLE = "table-"  # with this the name of a table's hold begins


def _encode(offset: int, epoch: int) -> bytes:
    """Return the bytes of a hold, always as many."""
    body = b'{"format": 1, "offset": %20d, "epoch": %20d}\n' % (offset, epoch)
    return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)


def _decode(data: bytes) -> tuple[int, int] | None:
    """Return (offset, epoch); None if the hold is damaged or of a newer format."""
    body, newline, check = data.removesuffix(b"\n").rpartition(b"\n")
    body += newline
    if check != b'{"check":"%016x"}' % xxh64_intdigest(body):
        return None
    try:
        values = json.loads(body)
        return (values["offset"], values["epoch"]) if values["format"] == 1 else None
    except UNREADABLE:
        return None


def set_hold(storage: Storage, name: str, offset: int, epoch: int) -> None:
    """Let retention delete what is before an offset, durably. epoch: of the log as it was archived.

    After a StorageError or a crash the hold is the old one, the new one, or damaged, which holds everything.
    """
    path, data = filename.hold_file(name), _encode(offset, epoch)
    if storage.identity(path) is not None:
        file = storage.open(path, writable=True)
        file.pwrite(data, 0)
        file.datasync()
        return
    storage.make([filename.PINS])
    file = storage.create(path, replace=True)
    file.pwrite(data, 0)
    file.datasync()
    storage.sync_directory(filename.PINS)


def drop_hold(storage: Storage, name: str) -> None:
    """Remove a hold; a missing one is no error."""
    if storage.identity(filename.hold_file(name)) is not None:
        storage.unlink(filename.hold_file(name))
        storage.sync_directory(filename.PINS)


def holds(storage: Storage) -> list[str]:
    """Return the names of all holds."""
    names = storage.names(filename.PINS)
    return sorted(name.removesuffix(filename.HOLD) for name in names if name.endswith(filename.HOLD))


def held_from(storage: Storage, manifest: Manifest, prefix: str = "") -> int | None:
    """Return the offset from which on nothing may be deleted by retention; None without a hold.

    prefix: with which the names of the considered holds begin.
    """
    names = [name for name in holds(storage) if name.startswith(prefix)]
    offsets = [_allowed(storage, filename.hold_file(name), manifest.epoch, manifest.cuts) for name in names]
    return min((offset for offset in offsets if offset is not None), default=None)


def in_tables(storage: Storage, manifest: Manifest) -> int | None:
    """Return the offset before which retention need not wait for a table; None: it waits for none.

    With `after="table"` every table of the log has the records before it; it is 0 as long as there is no table.
    """
    if manifest.config.retention.after != "table":
        return None
    return held_from(storage, manifest, TABLE) or 0


def deletable_to(storage: Storage, manifest: Manifest) -> int | None:
    """Return the offset before which retention by age and size may delete; None: no hold limits it."""
    limits = (held_from(storage, manifest), in_tables(storage, manifest))
    return min((limit for limit in limits if limit is not None), default=None)


def _allowed(storage: Storage, path: str, epoch: int, cuts: Cuts) -> int | None:
    """Return the offset up to which one hold allows deletions; None if it was removed meanwhile."""
    try:
        found = _decode(storage.open(path).pread(MOST_BYTES, 0))
    except StorageError as error:
        return None if error.errno == errno.ENOENT else 0
    if found is None:
        return 0
    offset, archived = found
    if archived == epoch:
        return offset
    return min(offset, cuts.first_since(archived) or 0)


class Hold:
    """One hold, in each of many logs. Writes only what changes."""

    def __init__(self, name: str) -> None:
        """name: of the hold in every log."""
        self.name = name
        self._moved: dict[str, tuple[int, int]] = {}

    def begin(self, log: Storage) -> None:
        """Hold everything that a log has, unless it has this hold. Raises StorageError."""
        if self.name not in holds(log):
            self._moved.pop(log.path, None)
            set_hold(log, self.name, 0, 0)

    def move(self, log: Storage, offset: int, epoch: int) -> None:
        """Let retention delete what is before an offset; see `set_hold`."""
        if self._moved.get(log.path) != (offset, epoch):
            with suppress(StorageError):  # it holds more than necessary until the next call
                set_hold(log, self.name, offset, epoch)
                self._moved[log.path] = offset, epoch
