"""Keep the part of an archived segment that the log itself no longer has, as a sealed segment of the archive.

A log deletes whole segments, so the archive usually keeps whole ones, too. There are two exceptions: the segment was
active when it was archived last, or the log's segments begin elsewhere, since another copy was promoted.
"""

from __future__ import annotations

import tempfile
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from seglog.archive.verifying import sealed_tail
from seglog.format import filename
from seglog.format.store import HEADER_BYTES
from seglog.segment.blocks import plain_file
from seglog.segment.sealed import open_sealed, write_lookups
from seglog.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.archive.commit import ArchivedLog
    from seglog.archive.objects import ObjectStore
    from seglog.archive.segments import ArchivedSegments
    from seglog.format.manifest import SegmentEntry
    from seglog.storage import File, Storage

READ_BYTES = 8 * 1024 * 1024


def remainder(log: ArchivedLog, archived: ArchivedSegments, first: int) -> SegmentEntry | None:
    """Return the archived segment of which only a part precedes the log's first offset; None if there is none."""
    entry = next((one for one in archived.manifest.segments if _end(one, log) > first or not one.sealed), None)
    if entry is None or entry.base_offset >= min(first, _end(entry, log)):
        return None
    return entry


def _end(entry: SegmentEntry, log: ArchivedLog) -> int:
    return log.next_offset if entry.next_offset is None else entry.next_offset


@contextmanager
def sealed_part(
    store: ObjectStore, log: ArchivedLog, archived: ArchivedSegments, entry: SegmentEntry, stop: int, now: int
) -> Iterator[tuple[Storage, SegmentEntry]]:
    """Yield the files of a segment with the records of an archived one before `stop`, and its entry.

    Raises CorruptRecord if the archived one is damaged.

    now: us, when it is sealed if it is not yet.
    """
    interval = archived.manifest.config.index_interval_bytes
    with tempfile.TemporaryDirectory(prefix="seglog-archive-") as directory:
        storage = LocalStorage(directory)
        storage.make(filename.DIRECTORIES)
        file = storage.create(entry.name())
        end = _download(store, log, archived, entry, file)
        plain = plain_file(file, entry)
        whole = sealed_tail(plain, entry, end=end, next_offset=_end(entry, log), interval=interval, now=now)
        if stop < _end(entry, log):
            end = open_sealed(storage, whole, interval=interval, heal=False).seek(stop)[0]
            whole = sealed_tail(plain, entry, end=end, next_offset=stop, interval=interval, now=now)
        part = replace(whole, sealed_at=entry.sealed_at or now)
        write_lookups(storage, part, interval=interval)
        yield storage, part


def _download(store: ObjectStore, log: ArchivedLog, archived: ArchivedSegments, entry: SegmentEntry, file: File) -> int:
    """Write an archived store to a file; return the end of its records, in the plain store."""
    if not entry.sealed:
        for piece in log.tail:
            file.pwrite(store.read(piece.key), piece.start)
        return log.tail[-1].stop if log.tail else HEADER_BYTES
    key, size = archived.keys_of(entry)[filename.STORE], entry.disk_bytes
    for start in range(0, size, READ_BYTES):
        file.pwrite(store.read(key, start, min(start + READ_BYTES, size)), start)
    return entry.bytes or 0
