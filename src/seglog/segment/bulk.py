"""Whole batches, shared with other threads: encoded ahead of their writing, decoded ahead of whoever reads them.

The kernels and write(2) release the GIL, so that two cores share the work. Nothing here knows Arrow: what is encoded
and decoded comes from the log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol

from seglog.format.codec import HEAD_BYTES
from seglog.format.index import MarkBuilder
from seglog.segment.calls import THREADS, Ahead
from seglog.segment.reader import SegmentReader
from seglog.segment.survey import Block

PIECE_BYTES = 2 * 1024 * 1024
BUFFER_BYTES = PIECE_BYTES + 64 * 1024  # holds a piece whose last record is no longer than this
BUFFERS = THREADS + 3  # one for each thread and the caller, one that waits, one that is written

AHEAD_BYTES = 8 * 1024 * 1024  # about what one batch spans that is decoded ahead
AHEAD_LEAST_BYTES = 4 * 1024 * 1024  # less, and handing it to a thread costs more than it saves
AHEAD_MOST_BYTES = 64 * 1024 * 1024
AHEAD_BATCHES = THREADS + 2  # one more than are worked on, so that no thread waits for the caller


# --- encoding ---------------------------------------------------------------------------------------------------------


class Piece(NamedTuple):
    """Rows first..last of a batch, their records at positions begin..end, the next mark due at or behind `next_mark`.

    They are written together with the bytes from `block` on that the piece before leaves over, and leave over to the
    next what stands behind a multiple of PIECE_BYTES: the page cache takes whole aligned blocks with the least effort.
    """

    first: int
    last: int
    begin: int
    end: int
    block: int
    next_mark: int


class _Buffers:
    """Buffers of the usual size, kept between batches: touching fresh memory costs about as much as filling it."""

    _free: ClassVar[list[Any]] = []

    @classmethod
    def take(cls, count: int, size: int) -> list[Any]:
        """Return `count` numpy arrays of at least `size` bytes."""
        import numpy as np  # noqa: PLC0415 - whoever has a batch has loaded numpy and the kernels

        if size > BUFFER_BYTES:
            return [np.empty(size, np.uint8) for _ in range(count)]
        kept, cls._free = cls._free, []  # in one step: two batches at a time must not be given the same
        return [*kept, *(np.empty(BUFFER_BYTES, np.uint8) for _ in range(count - len(kept)))][:count]

    @classmethod
    def give_back(cls, buffers: list[Any]) -> None:
        """Keep them for the next batch, if they are of the usual size."""
        if buffers[0].size == BUFFER_BYTES and len(buffers) > len(cls._free):
            cls._free = buffers


def encode_ahead(
    batch: Any, start: int, stop: int, *, relative: int, position: int, salt: int, marks: MarkBuilder
) -> Iterator[tuple[memoryview, Block]]:
    """Yield (bytes to write next, what the records are that were encoded for them) of rows start..stop.

    The first row goes to `position`, as relative offset `relative`. What was yielded is valid until the next is asked
    for; the pieces that follow are encoded on other threads meanwhile.
    """
    return iter(_Encoding(batch, start, stop, relative=relative, position=position, salt=salt, marks=marks))


class _Encoding:
    """Rows on their way into a store: pieces that need nothing of each other, in a ring of buffers."""

    def __init__(
        self, batch: Any, start: int, stop: int, *, relative: int, position: int, salt: int, marks: MarkBuilder
    ) -> None:
        self._batch = batch
        self._salt = salt
        self._interval = marks.interval
        self._newest = marks.max_timestamp
        self._first_offset = relative - start  # of row 0
        self._pieces = _pieces(batch, start, stop, position, marks)
        longest = max(piece.end - piece.block for piece in self._pieces)
        most = BUFFERS if longest <= BUFFER_BYTES else 2
        self._buffers = _Buffers.take(min(most, len(self._pieces)), longest)

    def __iter__(self) -> Iterator[tuple[memoryview, Block]]:
        pieces, room, ahead = len(self._pieces), len(self._buffers), Ahead()
        try:
            for number in range(room):
                ahead.launch(partial(self._encode, number), here=number == 0)
            for number in range(pieces):
                encoded = ahead.take()
                yield self._block_bytes(number), self._block(number, encoded)
                if number + room < pieces:  # into the buffer that has just been written
                    ahead.launch(partial(self._encode, number + room))
        finally:
            ahead.finish()
            _Buffers.give_back(self._buffers)

    def _buffer(self, number: int) -> Any:
        return self._buffers[number % len(self._buffers)]

    def _encode(self, number: int) -> Any:
        from seglog.kernels.layout import NO_TIMESTAMP, MarksState  # noqa: PLC0415 - whoever has a batch has loaded it

        piece = self._pieces[number]
        return self._batch.encode(
            piece.first,
            piece.last,
            out=self._buffer(number)[piece.begin - piece.block :],
            relative=self._first_offset + piece.first,
            position=piece.begin,
            salt=self._salt,
            marks_state=MarksState(self._interval, piece.next_mark, NO_TIMESTAMP),
        )

    def _block_bytes(self, number: int) -> memoryview:
        """Return what is to be written of a piece; what it leaves over goes to the front of the next one's buffer."""
        piece, buffer, end = self._pieces[number], self._buffer(number), self._pieces[number].end
        if number + 1 < len(self._pieces):
            end = self._pieces[number + 1].block
            self._buffer(number + 1)[: piece.end - end] = buffer[end - piece.block : piece.end - piece.block]
        data: memoryview = buffer.data[: end - piece.block]
        return data

    def _block(self, number: int, encoded: Any) -> Block:
        """Say what the records of a piece are; its marks knew only the timestamps of their own piece."""
        piece, newest = self._pieces[number], encoded.marks["max_timestamp"]
        newest[: newest.searchsorted(self._newest)] = self._newest  # they never fall
        self._newest = max(self._newest, encoded.marks_state.max_timestamp)
        return Block(
            piece.last - piece.first,
            0,
            0,
            encoded.entries.view("u1").data,  # as it is: fresh memory for copies of them shows in the time of a batch
            encoded.marks.tobytes(),
            (encoded.marks_state.next_position, self._newest),
            encoded.tombstones,
            encoded.min_timestamp,
            encoded.max_timestamp,
            None,
        )


def _pieces(batch: Any, start: int, stop: int, position: int, marks: MarkBuilder) -> list[Piece]:
    """Cut rows start..stop where they pass a multiple of PIECE_BYTES, each piece of at least one row."""
    import numpy as np  # noqa: PLC0415 - whoever has a batch has loaded numpy and the kernels

    origin = position - batch.bytes_before(start)  # where row 0 would stand
    end = origin + batch.bytes_before(stop)
    held_back = position + HEAD_BYTES - 1  # the first head is written last, so it must not lie in two blocks
    limits = np.arange(held_back - held_back % PIECE_BYTES + PIECE_BYTES, end, PIECE_BYTES)
    cuts = batch.rows_taking(np.append(limits, end) - origin)
    pieces: list[Piece] = []
    begin, next_mark = position, marks.next_position
    for last, behind, last_begin in cuts.tolist():
        if last == start:
            continue  # a record longer than PIECE_BYTES passes several
        block = begin - begin % PIECE_BYTES if pieces else begin
        pieces.append(Piece(start, last, begin, behind + origin, block, next_mark))
        start, begin = last, behind + origin
        next_mark = ((last_begin + origin) // marks.interval + 1) * marks.interval
    return pieces


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
) -> Generator[Any, None, tuple[int, tuple[int, int]]]:
    """Yield the batches of a segment from `relative`, at `position`, up to `stop`, the next ones decoded meanwhile.

    Where they begin is taken from the lookup, and believed only where the batch before has ended there: what comes out
    is what one decoder would have given, in smaller batches perhaps. Errors come in their place.

    Returns how many records that were, and (relative offset, position) behind the last one.
    """
    passed = 0
    stretches, ahead = _stretches(reader, relative, position, stop, max_records), Ahead()
    ends: deque[int | None] = deque()

    def launch(count: int) -> None:
        for stretch in islice(stretches, count):
            ends.append(stretch.end)
            ahead.launch(partial(_first_batch, decode, stretch), here=not ahead)

    try:
        launch(AHEAD_BATCHES)
        while ahead and not ahead.orphaned:
            batch, decoder = ahead.take()
            launch(1)
            relative, position = decoder.next_relative, decoder.position
            if batch is not None:
                passed += len(batch)
                yield batch
            if position != ends.popleft():
                break
    finally:
        ahead.finish()
    if relative < stop:
        decoder = decode(relative=relative, position=position, stop=stop)
        for batch in decoder:
            passed += len(batch)
            yield batch
        relative, position = decoder.next_relative, decoder.position
    return passed, (relative, position)


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
            if average * (stop - relative) >= AHEAD_LEAST_BYTES and size - position <= AHEAD_MOST_BYTES:
                yield Stretch(relative, position, stop, None)
            return
        found = reader.lookup.floor(relative + step)
        if found is None or not AHEAD_LEAST_BYTES <= found[1] - position <= AHEAD_MOST_BYTES:
            return
        yield Stretch(relative, position, *found)
        relative, position = found
