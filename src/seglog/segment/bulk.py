"""Whole batches, shared with other threads: encoded ahead of their writing, decoded ahead of whoever reads them.

The kernels and write(2) release the GIL, so that two cores share the work. Nothing here knows Arrow: what is encoded
and decoded comes from the log.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Any, NamedTuple, Protocol

from seglog.format.index import MarkBuilder
from seglog.segment.reader import SegmentReader
from seglog.segment.survey import Block

PIECE_BYTES = 2 * 1024 * 1024
THREADS = 2

AHEAD_BYTES = 16 * 1024 * 1024  # about what one batch spans that is decoded ahead
AHEAD_LEAST_BYTES = 4 * 1024 * 1024  # less, and handing it to a thread costs more than it saves
AHEAD_MOST_BYTES = 64 * 1024 * 1024
AHEAD_BATCHES = THREADS + 1  # one more than are worked on, so that no thread waits for the caller


class _Threads:
    """The threads that encode and decode; a forked child, which has none of its parent's threads, starts its own."""

    pool: ThreadPoolExecutor

    @classmethod
    def start(cls) -> None:
        """Start with no thread; they come when first needed."""
        cls.pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="seglog-bulk")


_Threads.start()
os.register_at_fork(after_in_child=_Threads.start)

# --- encoding ---------------------------------------------------------------------------------------------------------


def encode_ahead(
    batch: Any, start: int, stop: int, *, relative: int, position: int, salt: int, marks: MarkBuilder
) -> Iterator[tuple[memoryview, Block]]:
    """Yield (bytes to write, what they are) of rows start..stop, piece by piece; a piece is valid until the next."""
    import numpy as np  # noqa: PLC0415 - whoever has a batch has loaded numpy and the kernels

    from seglog.kernels.layout import MarksState  # noqa: PLC0415 - as above

    bounds = _bounds(batch.ends, start, stop)
    widest = max(int(batch.ends[last] - batch.ends[first]) for first, last in bounds)
    buffers = [np.empty(widest, np.uint8) for _ in bounds[:2]]
    state = MarksState(marks.interval, *marks.state)

    def encode(number: int, state: Any) -> Any:
        first, last = bounds[number]
        done = int(batch.ends[first] - batch.ends[start])
        return batch.encode(
            first,
            last,
            out=buffers[number % 2],
            relative=relative + first - start,
            position=position + done,
            salt=salt,
            marks_state=state,
        )

    encoded = encode(0, state)
    for number, (first, last) in enumerate(bounds):
        ahead = None
        if number + 1 < len(bounds):
            ahead = _Threads.pool.submit(encode, number + 1, encoded.marks_state)
        try:
            yield buffers[number % 2].data[: encoded.length], _block(encoded, last - first)
        finally:
            following = ahead.result() if ahead is not None else None
        encoded = following


def _bounds(ends: Any, start: int, stop: int) -> list[tuple[int, int]]:
    """Cut rows start..stop into pieces of about PIECE_BYTES, each of at least one row."""
    bounds = []
    while start < stop:
        last = int(ends.searchsorted(ends[start] + PIECE_BYTES, side="right")) - 1
        last = min(max(last, start + 1), stop)
        bounds.append((start, last))
        start = last
    return bounds


def _block(encoded: Any, records: int) -> Block:
    return Block(
        records,
        0,
        0,
        encoded.entries.tobytes(),
        encoded.marks.tobytes(),
        (encoded.marks_state.next_position, encoded.marks_state.max_timestamp),
        encoded.tombstones,
        encoded.min_timestamp,
        encoded.max_timestamp,
        None,
    )


# --- decoding ---------------------------------------------------------------------------------------------------------


class Decoder(Protocol):
    """Iterates over the validated batches of a stretch; `seglog.log.arrow_out.BatchDecoder` is one.

    position, next_relative: behind the last batch; the least relative offset that can follow there.
    """

    position: int
    next_relative: int

    def __iter__(self) -> Iterator[Any]:
        """Return itself."""
        ...

    def __next__(self) -> Any:
        """Return the next batch; CorruptRecord in place of a record that is not valid."""
        ...


class Stretch(NamedTuple):
    """Records from relative offset `relative`, which stands at `position`, up to `stop`, which stands at `end`."""

    relative: int
    position: int
    stop: int
    end: int | None


class Decode(Protocol):
    """Makes a decoder of the records from `relative`, at `position`, up to `stop`: relative offsets."""

    def __call__(self, *, relative: int, position: int, stop: int) -> Decoder:
        """Return it; nothing is read yet."""
        ...


def decode_ahead(
    reader: SegmentReader, decode: Decode, *, relative: int, position: int, stop: int, max_records: int
) -> Iterator[Any]:
    """Yield the batches of a segment from `relative`, at `position`, up to `stop`, the next ones decoded meanwhile.

    Where they begin is taken from the lookup, and believed only where the batch before has ended there: what comes out
    is what one decoder would have given, in smaller batches perhaps. Errors come in their place.
    """
    pool, stretches = _Threads.pool, _stretches(reader, relative, position, stop, max_records)
    flight: deque[tuple[Stretch, Future[tuple[Any, Decoder]]]] = deque()

    def launch(count: int) -> None:
        for stretch in islice(stretches, count):
            flight.append((stretch, pool.submit(_first_batch, decode, stretch)))

    try:
        launch(AHEAD_BATCHES)
        while flight and pool is _Threads.pool:  # in a forked child nobody works on them
            stretch, future = flight.popleft()
            launch(1)
            batch, decoder = future.result()
            relative, position = decoder.next_relative, decoder.position
            if batch is not None:
                yield batch
            if position != stretch.end:
                break
    finally:
        for _, future in flight:
            future.cancel()
    if relative < stop:
        yield from decode(relative=relative, position=position, stop=stop)


def _first_batch(decode: Decode, stretch: Stretch) -> tuple[Any, Decoder]:
    decoder = decode(relative=stretch.relative, position=stretch.position, stop=stretch.stop)
    return next(decoder, None), decoder


def _stretches(reader: SegmentReader, relative: int, position: int, stop: int, max_records: int) -> Iterator[Stretch]:
    """Yield stretches that are one batch each, as far as the lookup tells where they end."""
    records, size = reader.next_offset - reader.base_offset, reader.size
    while relative < stop:
        average = max((size - position) // max(records - relative, 1), 1)
        step = max(min(max_records, AHEAD_BYTES // average), 1)
        if stop - relative <= step:
            if AHEAD_LEAST_BYTES <= average * (stop - relative) and size - position <= AHEAD_MOST_BYTES:
                yield Stretch(relative, position, stop, None)
            return
        found = reader.lookup.floor(relative + step)
        if found is None or not AHEAD_LEAST_BYTES <= found[1] - position <= AHEAD_MOST_BYTES:
            return
        yield Stretch(relative, position, *found)
        relative, position = found
