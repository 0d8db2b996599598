"""Decide whether the log before a position is still the one that was read. Pure; opens nothing.

An offset alone is not enough: a log that was truncated, or deleted and created again, assigns the same offsets to other
records. A trace identifies the record before a position by its log and the epoch of its offset (see format/cuts.py);
compaction, expiry and cuts elsewhere change neither. For a log that an older version of seglog cut without recording
the place, the file of that record decides; if compaction moved the record or retention removed it, it counts as cut.
"""

from __future__ import annotations

from typing import NamedTuple

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
