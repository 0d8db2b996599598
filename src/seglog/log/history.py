"""Decide whether the log before a position is still the one that was read. Pure; opens nothing.

An offset alone is not enough: a log that was truncated, or deleted and created again, assigns the same offsets to other
records. A trace identifies the record before a position by its log and the epoch of its offset (see format/cuts.py);
compaction, expiry and cuts elsewhere change neither. For a log that an older version of seglog cut without recording
the place, the file of that record decides; if compaction moved the record or retention removed it, it counts as cut.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from xxhash import xxh64_intdigest

KNOWN = 0
"""A `Trace.file` for which the epoch alone decides. No file has this number."""


class Trace(NamedTuple):
    """What precedes an offset. log: id of the log, 16 hex digits; epoch: that of the offset.

    file: KNOWN, or the number of the file that holds the record before the offset, as `View.file_of` returns it; None
    if the log begins at the offset or after it.
    """

    log: str
    epoch: int
    file: int | None


def was_cut(known: Trace, now: Trace) -> bool:
    """Whether what was read before an offset is no longer part of the log. Both traces are of that offset."""
    if now.log != known.log:
        return True
    if now.epoch == known.epoch:
        return False
    if now.file == KNOWN:
        return True
    return known.file is not None and now.file != known.file


class Snapshot(NamedTuple):
    """What a range of offsets held at one moment, in a few bytes: a read of several steps carries it.

    end: of the range; trace: of the end; version: of the manifest; files: see `files_in`.
    """

    end: int
    trace: Trace
    version: int
    files: int

    def __str__(self) -> str:
        file = "" if self.trace.file is None else self.trace.file
        return f"{self.trace.log}.{self.trace.epoch}.{file}.{self.end}.{self.version}.{self.files:016x}"

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        """Read the text form; ValueError for any other text."""
        log, epoch, file, end, version, files = text.split(".")
        return cls(int(end), Trace(log, int(epoch), int(file) if file else None), int(version), int(files, 16))

    def holds(self, now: Snapshot) -> bool:
        """Whether the range still has the same records; now: its present state."""
        return (self.end, self.files) == (now.end, now.files) and not was_cut(self.trace, now.trace)


def files_in(stores: Iterable[tuple[int, int | None, int]], start: int, stop: int) -> int:
    """Return a number that changes when records of a range are deleted or moved: XXH64 over the files that hold them.

    A file is never changed, but for appends and cuts, so equal files and an uncut end mean equal records.

    Args:
        stores: Base offset, next offset (None: the active one) and file number of segments, in order.
        start: First offset of the range.
        stop: Offset after the last one.
    """
    ours = [(base, file) for base, end, file in stores if base < stop and (end is None or end > start)]
    return xxh64_intdigest(" ".join(f"{base}:{file}" for base, file in ours).encode())
