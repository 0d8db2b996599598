"""Append Arrow data: a batch as a whole, or a stream of batches in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING, Any

from seglog.config import MAX_OFFSET
from seglog.errors import LogPoisoned, StorageError
from seglog.log.batch_layout import checked, fill
from seglog.log.writer_state import OPEN, WriterState

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.arrow.encodable import EncodableRows
    from seglog.clock import Clock
    from seglog.log.live_segments import LiveSegments


def prepared(
    live: LiveSegments, data: Any, *, force_timestamp: bool, needs_keys: bool, clock: Clock
) -> Iterator[EncodableRows]:
    """Return the batches of Arrow data, each after every check that is possible before the append.

    The first one is ready before this returns, so that the caller takes the lock afterwards; the rest of a stream is
    read while it is appended.
    """
    from seglog.arrow.convert import ArrowBatch  # noqa: PLC0415 - pyarrow and the kernels load when first used
    from seglog.arrow.given_times import checked_pieces  # noqa: PLC0415 - as above

    def prepare(piece: pa.Table | pa.RecordBatch) -> EncodableRows:
        return checked(live, ArrowBatch.prepare(piece, now=clock()), needs_keys=needs_keys)

    batches = map(prepare, checked_pieces(data, force_timestamp=force_timestamp))
    return chain((next(batches),), batches)


def append_batches(state: WriterState, batches: Iterator[EncodableRows]) -> range:
    """Append batches and return their offsets; after an error none of them is in the log. Called within a change."""
    live = state.live
    first = live.active.next_offset
    live.note_epoch()
    try:
        for number, batch in enumerate(batches):
            if number:  # reading the stream may have closed the log, or forked
                state.refuse_closing()
            if live.active.next_offset + batch.rows > MAX_OFFSET:
                live.refuse_offset(live.active.next_offset + batch.rows - 1)
            fill(live, batch)
    except LogPoisoned:
        raise
    except BaseException:
        if state.phase is OPEN and live.settled and live.active.next_offset != first:
            _undo(state, first)
        raise
    live.note_append()
    return range(first, live.active.next_offset)


def _undo(state: WriterState, first: int) -> None:
    """Remove the segments that a batch had committed before it failed."""
    try:
        state.live.truncate(first)
    except StorageError as error:
        message = "a batch failed and could not be rolled back; open the log again"
        raise LogPoisoned(error.errno, message, state.path) from error
