"""Distribute a batch over segments: into the active one if it fits, else segment by segment.

Independent of what rolls segments (a live log or a stage) and of Arrow: a batch only reports the encoded sizes of its
rows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from seglog.format.store import HEADER_BYTES
from seglog.segment.active import ActiveSegment

if TYPE_CHECKING:
    from seglog.arrow.encodable import EncodableRows


class Rolling(Protocol):
    """Segments that are filled one after another; sizes in store bytes."""

    segment_bytes: int

    @property
    def active(self) -> ActiveSegment:
        """The segment that is being filled."""
        ...

    def age_is_due(self) -> bool:
        """Whether the active segment is too old for more records."""
        ...

    def fits(self, length: int) -> bool:
        """Whether the active segment has space for `length` more bytes."""
        ...

    def check_size(self, length: int, *, row: int | None = None) -> None:
        """Raise RecordTooLarge for a record that fits no segment."""
        ...

    def roll(self) -> object:
        """Seal the active segment and begin the next."""
        ...


def checked(segments: Rolling, batch: EncodableRows, *, needs_keys: bool) -> EncodableRows:
    """Return a batch whose every row may be appended. Raises RecordTooLarge or KeyRequired, which name the row."""
    if batch.rows:
        row, length = batch.widest
        segments.check_size(length, row=row)
    if needs_keys:
        batch.check_keys()
    return batch


def fill(segments: Rolling, batch: Any) -> None:
    """Append a batch; after an error, what earlier segments took remains there."""
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
