"""Is what was planned, or read, still there? A position in a log, and what a later look at the log says of it.

Pure. Rules, for a position behind which offsets below `offset` count as read (or as planned to be read):
- another log stands in its place (its id differs): all is lost;
- it lies below the log's start: what lies between went by retention;
- it lies behind the log's end: a truncate (or a crash, of what was not synced) took the end away;
- the epoch of the offset differs: a truncate below it happened, or an opening lost what was not synced there. A
  truncate above a position changes nothing of that. See `seglog.log.history`, also for logs of earlier versions.
Gaps that compaction left are never loss.
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
ADVICE = "set failOnDataLoss to false to go on at what is there"


@dataclass(frozen=True, slots=True)
class Position:
    """A place in a log: the next offset to read.

    log, epoch, file: the trace of what was before it when the position was taken.
    """

    offset: int
    log: str
    epoch: int
    file: int | None = None

    @property
    def trace(self) -> Trace:
        """What was before it."""
        return Trace(self.log, self.epoch, self.file)


def position_at(snapshot: LogSnapshot, offset: int) -> Position:
    """Return a position in the log as it stands. Also where nothing was read yet what stands below it tells of a
    truncate: what takes the place of the records behind it must not pass for them.
    """
    return Position(offset, *snapshot.trace_of(offset))


@dataclass(frozen=True, slots=True)
class Loss:
    """What is lost: the offset that was wanted, why it cannot be had, and where to go on if that is wanted."""

    offset: int
    reason: str
    resume: int
    expired: bool = False


def lost_below(snapshot: LogSnapshot, position: Position) -> Loss | None:
    """Return what is lost of the records below a position or at it, None where nothing is."""
    lowest, end, offset = snapshot.lowest_offset, snapshot.next_offset, position.offset
    if snapshot.log != position.log:
        return Loss(offset, "another log stands in its place", lowest)
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
    """Return where the log was cut; where that was not noted, where the first newer file below the position begins.

    Files that are not dense are left out then: compaction writes those.
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
    """Raise the loss as OffsetOutOfRange (retention) or LogTruncated, or only warn of it."""
    if not fail:
        _LOG.warning("%s (%s): %s; going on at what is there", snapshot, snapshot.path, loss.reason)
        return
    text = f"{snapshot} ({snapshot.path}): {loss.reason}; {ADVICE}"
    if not loss.expired:
        raise LogTruncated(text)
    error = OffsetOutOfRange(loss.offset, snapshot.lowest_offset, snapshot.next_offset)
    error.args = (text,)
    raise error
