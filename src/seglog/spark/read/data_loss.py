"""Loss: whether records that were planned or read still exist, from a position and a later look at the log.

Pure. Rules, for a position before which offsets below `offset` count as read (or as planned to be read):
- another log is in its place (its id differs): everything is lost;
- it is below the log's start: retention deleted the records in between;
- it is after the log's end: a truncate (or a crash, for unsynced records) removed the end;
- the epoch of the offset differs: a truncate below it happened, or an opening lost unsynced records there. A truncate
  above a position does not matter. See `seglog.log.history`, also for logs of earlier versions.
Gaps left by compaction are never loss.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seglog.errors import LogTruncated, OffsetOutOfRange
from seglog.log.history import KNOWN, Trace, was_cut

if TYPE_CHECKING:
    from seglog.spark.read.extents import LogSnapshot

_LOG = logging.getLogger("seglog.spark")
ADVICE = "set failOnDataLoss to false to continue with what exists"


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a log: the next offset to read.

    log, epoch, file: the trace of the records before it, at the time of the position.
    """

    offset: int
    log: str
    epoch: int
    file: int | None = None

    @property
    def trace(self) -> Trace:
        """The trace of the records before it."""
        return Trace(self.log, self.epoch, self.file)


def position_at(snapshot: LogSnapshot, offset: int) -> Position:
    """Return a position in the log's present state. Even if nothing was read yet, the records below it reveal a later
    truncate: new records at these offsets must not pass for the old ones.
    """
    return Position(offset, *snapshot.trace_of(offset))


@dataclass(frozen=True, slots=True)
class Loss:
    """A loss: the wanted offset, why it is unavailable, and where to continue if loss is allowed."""

    offset: int
    reason: str
    resume: int
    expired: bool = False


def lost_below(snapshot: LogSnapshot, position: Position) -> Loss | None:
    """Return the loss of records below or at a position, None if there is none."""
    lowest, end, offset = snapshot.lowest_offset, snapshot.next_offset, position.offset
    if snapshot.log != position.log:
        return Loss(offset, "another log is in its place", lowest)
    if offset < lowest:
        return Loss(offset, f"offsets {offset} up to {lowest} expired before they were read", lowest, expired=True)
    if offset > end:
        return Loss(offset, f"the log was truncated below offset {offset}; it ends at {end}", _cut(snapshot, position))
    present = snapshot.trace_of(offset)
    if not was_cut(position.trace, present):
        return None
    if present.file != KNOWN and offset - 1 < lowest:
        return Loss(offset, f"the log was truncated and offset {offset - 1} has expired since", offset)
    return Loss(offset, f"the log was truncated below offset {offset}", _cut(snapshot, position))


def _cut(snapshot: LogSnapshot, position: Position) -> int:
    """Return where the log was truncated; if that is unknown, where the first newer file below the position starts.

    Ignores files that are not dense: compaction writes those.
    """
    cut = snapshot.cuts.first_since(position.epoch)
    if cut is not None and cut < position.offset:
        return max(min(cut, snapshot.next_offset), snapshot.lowest_offset)
    known = abs(position.file or 0)
    newer = [
        extent.start
        for extent in snapshot.extents
        if known and extent.dense and known < extent.file and extent.start < position.offset
    ]
    return max(min([*newer, position.offset, snapshot.next_offset]), snapshot.lowest_offset)


def report(snapshot: LogSnapshot, loss: Loss, *, fail: bool) -> None:
    """Raise the loss as OffsetOutOfRange (retention) or LogTruncated, or only log it."""
    if not fail:
        _LOG.warning("%s (%s): %s; continuing with what exists", snapshot, snapshot.path, loss.reason)
        return
    text = f"{snapshot} ({snapshot.path}): {loss.reason}; {ADVICE}"
    if not loss.expired:
        raise LogTruncated(text)
    error = OffsetOutOfRange(loss.offset, snapshot.lowest_offset, snapshot.next_offset)
    error.args = (text,)
    raise error
