"""The dense index of a segment as its recovery rebuilds it, compared with the previous index file.

The two are usually equal, and may be long. So the old one is read piece by piece as new entries arrive, and entries are
kept in memory only from the first difference on.
"""

from __future__ import annotations

import errno

from xxhash import xxh64

from seglog.errors import StorageError
from seglog.format import filename
from seglog.format.index import DENSE_ENTRY, DENSE_HEADER_BYTES, ENTRY_BYTES, entry_position
from seglog.storage import File, Storage

COPY_BYTES = 1024 * 1024


class OldIndex:
    """An index file in any state, or none. `records`: number of its entries."""

    def __init__(self, storage: Storage, name: str) -> None:
        self._file = _opened(storage, name)
        self.size = self._file.size() if self._file is not None else 0
        self.records = max(self.size - entry_position(0), 0) // ENTRY_BYTES
        self.header = self.read(DENSE_HEADER_BYTES, 0)

    def read(self, length: int, position: int) -> bytes:
        """Return the bytes at `position`; fewer at the end of the file."""
        return self._file.pread(length, position) if self._file is not None else b""

    def entry(self, number: int) -> tuple[int, int, int] | None:
        """Return (checksum, length, position) of the record with this number; None if there is no such entry."""
        data = self.read(ENTRY_BYTES, entry_position(number)) if number < self.records else b""
        return DENSE_ENTRY.unpack(data) if len(data) == ENTRY_BYTES else None


class NewIndex:
    """The entries of the recovered records. digest: of all of them. With gaps the file holds no entries, see format."""

    def __init__(self, old: OldIndex, *, dense: bool) -> None:
        self.digest = xxh64()
        self._old = old
        self._dense = dense
        self._same = entry_position(0)  # the old file agrees up to here
        self._different = bytearray()

    def extend(self, entries: bytes | bytearray | memoryview) -> None:
        """Add packed entries."""
        self.digest.update(entries)
        if not self._dense:
            return
        entries = bytes(entries)  # Python compares memoryviews item by item, but two bytes objects at memory speed
        if not self._different and self._old.read(len(entries), self._same) == entries:
            self._same += len(entries)
        else:
            self._different += entries

    def entry(self, number: int) -> tuple[int, int, int]:
        """Return (checksum, length, position) of the record with this number, which must have been added."""
        start = entry_position(number) - self._same
        data = (
            self._different[start : start + ENTRY_BYTES]
            if start >= 0
            else self._old.read(ENTRY_BYTES, start + self._same)
        )
        return DENSE_ENTRY.unpack(data)

    def write(self, storage: Storage, name: str, header: bytes) -> File:
        """Return the file, open for writing: the old one if its entries are the same, else a new one in its place."""
        if not self._different and self._old.size == self._same:
            index = storage.open(name, writable=True)
            if self._old.header != header:
                index.pwrite(header, 0)
            return index
        index = storage.create(f"{filename.TMP}/{name}", replace=True)
        index.pwrite(header, 0)
        for position in range(len(header), self._same, COPY_BYTES):
            index.pwrite(self._old.read(min(COPY_BYTES, self._same - position), position), position)
        if self._different:
            index.pwrite(self._different, self._same)
        storage.rename(f"{filename.TMP}/{name}", name)
        index.close()  # it keeps its temporary name, under which it could not be reopened after a suspension
        return storage.open(name, writable=True)


def _opened(storage: Storage, name: str) -> File | None:
    try:
        return storage.open(name)
    except StorageError as error:
        if error.errno == errno.ENOENT:
            return None
        raise
