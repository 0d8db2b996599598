"""Whether the log under a position is still the one that was read. Pure; opens nothing.

An offset alone does not show that: a log that was truncated, or deleted and created again, gives the same offsets to
other records. A trace identifies the record before a position by its log and by the epoch of the offset (see
format/cuts.py); compaction, expiry and cuts elsewhere change neither. Where a log was cut by a version of seglog that
did not note the place, the file of that record decides; if compaction has moved it or retention removed it, that counts
as cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from seglog.log.view import View

KNOWN = 0
"""As `Trace.file`: the epoch alone decides. No file has this number."""


class Trace(NamedTuple):
    """What is before an offset. log: its id, 16 hex digits; epoch: that of the offset.

    file: KNOWN, or the number of the file of the record before the offset, as `View.file_of` gives it; None where the
    log begins at the offset or after it.
    """

    log: str
    epoch: int
    file: int | None


def trace_of(view: View, offset: int) -> Trace:
    """Return the trace of an offset. Take the view before reading: a truncate in between is then noticed later."""
    manifest, last = view.manifest, offset - 1
    cuts = manifest.cuts
    if cuts.is_known_at(offset):
        file: int | None = KNOWN
    else:
        file = view.file_of(last) if last >= view.lowest_offset else None
    return Trace(f"{manifest.log_id:016x}", cuts.epoch_at(offset), file)


def was_cut(known: Trace, now: Trace) -> bool:
    """Whether what was read before an offset is no longer part of the log. Both traces are of that offset."""
    if now.log != known.log:
        return True
    if now.epoch == known.epoch:
        return False
    if now.file == KNOWN:
        return True
    return known.file is not None and now.file != known.file
