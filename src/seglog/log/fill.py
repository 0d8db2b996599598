"""A batch laid out over segments: in one piece if the active one can take it, else segment by segment.

Knows neither who rolls (a live log, a stage) nor Arrow: a batch is what knows the encoded sizes of its rows.
"""

from __future__ import annotations

from typing import Any, Protocol

from seglog.format.store import HEADER_BYTES
from seglog.segment.active import ActiveSegment


class Rolling(Protocol):
    """Segments that are filled one after the other; sizes in bytes of store."""

    segment_bytes: int

    @property
    def active(self) -> ActiveSegment:
        """The segment that is being filled."""
        ...

    def age_is_due(self) -> bool:
        """Whether the active segment is too old to take more."""
        ...

    def fits(self, length: int) -> bool:
        """Whether the active segment takes `length` more bytes."""
        ...

    def check_size(self, length: int, *, row: int | None = None) -> None:
        """Raise RecordTooLarge for a record that no segment can take."""
        ...

    def roll(self) -> object:
        """End the active segment and begin the next."""
        ...


def check_widest(segments: Rolling, batch: Any) -> None:
    """Raise RecordTooLarge, which names the row, if a record of the batch fits no segment."""
    if batch.rows:
        row, length = batch.widest
        segments.check_size(length, row=row)


def fill(segments: Rolling, batch: Any) -> None:
    """Append a batch; on an error what earlier segments took stays there."""
    if not batch.rows:
        return
    total = batch.bytes
    whole = total <= segments.segment_bytes - HEADER_BYTES
    if segments.age_is_due() or (whole and not segments.fits(total)):
        segments.roll()
    row = 0
    while row < batch.rows:
        stop = batch.rows_within(row, segments.segment_bytes - segments.active.size)
        if stop == row and not segments.active.empty:
            segments.roll()
            continue
        stop = max(stop, row + 1)  # one record may use the overflow of an empty segment
        segments.active.append_batch(batch, row, stop)
        row = stop
