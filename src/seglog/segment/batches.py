"""Whole batches on several threads: encoded before they are written, decoded before they are requested.

The kernels and write(2) release the GIL, so two cores can share the work. Nothing here knows Arrow: the log provides
encoder and decoder.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from functools import partial
from itertools import islice
from typing import Any, ClassVar, NamedTuple, Protocol

from seglog.format.codec import HEAD_BYTES
from seglog.format.index import MarkBuilder
from seglog.parallel.calls import THREADS, Ahead
from seglog.segment.reader import SegmentReader
from seglog.segment.stats import Block, Place
from seglog.storage.base import Buffer

PIECE_BYTES = 2 * 1024 * 1024
BUFFER_BYTES = PIECE_BYTES + 64 * 1024  # for a piece whose last record is not longer than this
BUFFERS = THREADS + 2  # one for each thread, one ready, one being written: more would not fit the CPU caches
ALIGNED = 64  # bytes; copies to or from the page cache take a quarter longer if the two sides differ modulo 32

AHEAD_BYTES = 8 * 1024 * 1024  # approximate size of one batch that is decoded ahead
AHEAD_LEAST_BYTES = 4 * 1024 * 1024  # for less, passing it to a thread costs more than it saves
AHEAD_MOST_BYTES = 64 * 1024 * 1024
AHEAD_BATCHES = THREADS + 2  # one more than are in work, so that no thread waits for the caller


# --- encoding ---------------------------------------------------------------------------------------------------------


class Encoder(Protocol):
    """A batch prepared for encoding, such as `seglog.arrow.encodable.EncodableRows`."""

    def bytes_before(self, row: int) -> int:
        """Return the encoded size of the rows before `row`."""
        ...

    def rows_taking(self, limits: Any) -> Any:
        """Return for each number of bytes (rows, their bytes, where the last begins), int64[limits, 3]."""
        ...

    def encode(
        self, start: int, stop: int, *, out: Any, relative: int, position: int, salt: int, marks_state: Any
    ) -> Any:
        """Encode rows start..stop into `out`."""
        ...


class Encoded(Protocol):
    """The encoding of a batch for a store: iterating yields the bytes to write next, then the rest is known."""

    def __iter__(self) -> Iterator[memoryview]:
        """Return the pieces, each valid until the next one."""
        ...

    @property
    def entries(self) -> Sequence[Buffer]:
        """The index entries of the records, in parts."""
        ...

    def block(self) -> Block:
        """Describe the records, but for their entries."""
        ...


class Piece(NamedTuple):
    """Rows first..last of a batch; their records are at positions begin..end; the next mark is due from `next_mark` on.

    A write begins at `block`, with the bytes that the previous piece left over, and leaves to the next piece what
    follows a multiple of PIECE_BYTES: the page cache handles whole aligned blocks best.
    """

    first: int
    last: int
    begin: int
    end: int
    block: int
    next_mark: int


class _Buffers:
    """Buffers of the usual size, kept between batches: touching fresh memory costs as much as filling it."""

    _free: ClassVar[list[Any]] = []

    @classmethod
    def take(cls, count: int, size: int) -> list[Any]:
        """Return `count` numpy arrays of at least `size` bytes."""
        if size > BUFFER_BYTES:
            return [_aligned(size) for _ in range(count)]
        return [cls._take_one() for _ in range(count)]

    @classmethod
    def _take_one(cls) -> Any:
        try:
            return cls._free.pop()  # in one step: two concurrent batches must not get the same
        except IndexError:
            return _aligned(BUFFER_BYTES)

    @classmethod
    def give_back(cls, buffers: list[Any]) -> None:
        """Keep buffers of the usual size for the next batch."""
        for one in buffers:
            if one.size == BUFFER_BYTES and len(cls._free) < BUFFERS:
                cls._free.append(one)


def _aligned(size: int) -> Any:
    import numpy as np  # noqa: PLC0415 - a caller with a batch has loaded numpy and the kernels

    room = np.empty(size + ALIGNED, np.uint8)
    before = -room.ctypes.data % ALIGNED
    return room[before : before + size]


def encoding(batch: Encoder, start: int, stop: int, place: Place, marks: MarkBuilder) -> Encoded:
    """Return the encoding of rows start..stop, of which the first goes to `place`.

    marks: the state to continue from; it is not changed.
    """
    pieces = _pieces(batch, start, stop, place.position, marks)
    return Whole(batch, pieces[0], place, marks) if len(pieces) == 1 else Encoding(batch, pieces, place, marks)


class Whole:
    """The encoding of a batch in one piece, from the segment's own maximum timestamp on."""

    def __init__(self, batch: Encoder, piece: Piece, place: Place, marks: MarkBuilder) -> None:
        self._batch = batch
        self._piece = piece
        self._place = place
        self._interval = marks.interval
        self._newest = marks.max_timestamp
        self._found: Any = None

    def __iter__(self) -> Iterator[memoryview]:
        from seglog.kernels.layout import MarksState  # noqa: PLC0415 - loaded with the batch

        piece, place = self._piece, self._place
        length, before = piece.end - piece.begin, piece.begin % ALIGNED
        buffers = _Buffers.take(1, ALIGNED + length)
        try:
            room = buffers[0][before : before + length]
            self._found = self._batch.encode(
                piece.first,
                piece.last,
                out=room,
                relative=place.relative,
                position=place.position,
                salt=place.salt,
                marks_state=MarksState(self._interval, piece.next_mark, self._newest),
            )
            yield room.data
        finally:
            _Buffers.give_back(buffers)

    @property
    def entries(self) -> list[memoryview]:
        """See `Encoded`."""
        return [self._found.entries]

    def block(self) -> Block:
        """See `Encoded`."""
        found = self._found
        return Block(
            self._piece.last - self._piece.first,
            0,
            0,
            b"",
            found.marks.tobytes(),
            found.marks_state[1:],
            found.tombstones,
            found.min_timestamp,
            found.max_timestamp,
            None,
        )


class Encoding:
    """The encoding of a batch in several independent pieces, in a ring of buffers.

    While the bytes of one piece are written, other threads encode the following ones.
    """

    def __init__(self, batch: Encoder, pieces: list[Piece], place: Place, marks: MarkBuilder) -> None:
        self._batch = batch
        self._salt = place.salt
        self._interval = marks.interval
        self._newest = marks.max_timestamp
        self._first_offset = place.relative - pieces[0].first  # of row 0
        self._pieces = pieces
        longest = ALIGNED + max(piece.end - piece.block for piece in pieces)
        most = BUFFERS if longest <= BUFFER_BYTES else 2
        self._buffers = _Buffers.take(min(most, len(pieces)), longest)
        self._encoded: list[Any] = []

    def __iter__(self) -> Iterator[memoryview]:
        pieces, room, ahead = len(self._pieces), len(self._buffers), Ahead()
        try:
            for number in range(room):
                ahead.launch(partial(self._encode, number), here=number == 0)
            for number in range(pieces):
                self._encoded.append(ahead.take())
                yield self._block_bytes(number)
                if number + room < pieces:  # uses the buffer that was just written
                    ahead.launch(partial(self._encode, number + room))
        finally:
            ahead.finish()
            _Buffers.give_back(self._buffers)

    @property
    def entries(self) -> list[memoryview]:
        """See `Encoded`. Views of the encoders' output: allocating memory for copies would take noticeable time."""
        return [encoded.entries for encoded in self._encoded]

    def _room(self, number: int) -> Any:
        """Return the buffer of a piece, from the first byte that is written with it."""
        return self._buffers[number % len(self._buffers)][self._pieces[number].block % ALIGNED :]

    def _encode(self, number: int) -> Any:
        from seglog.kernels.layout import NO_TIMESTAMP, MarksState  # noqa: PLC0415 - loaded with the batch

        piece = self._pieces[number]
        return self._batch.encode(
            piece.first,
            piece.last,
            out=self._room(number)[piece.begin - piece.block :],
            relative=self._first_offset + piece.first,
            position=piece.begin,
            salt=self._salt,
            marks_state=MarksState(self._interval, piece.next_mark, NO_TIMESTAMP),
        )

    def _block_bytes(self, number: int) -> memoryview:
        """Return the bytes to write for a piece; copy what it leaves over to the front of the next one's buffer."""
        piece, room, end = self._pieces[number], self._room(number), self._pieces[number].end
        if number + 1 < len(self._pieces):
            end = self._pieces[number + 1].block
            self._room(number + 1)[: piece.end - end] = room[end - piece.block : piece.end - piece.block]
        data: memoryview = room.data[: end - piece.block]
        return data

    def block(self) -> Block:
        """See `Encoded`."""
        pieces = self._encoded
        marks, newest = self._marks()
        return Block(
            self._pieces[-1].last - self._pieces[0].first,
            0,
            0,
            b"",
            marks,
            (pieces[-1].marks_state.next_position, newest),
            sum(piece.tombstones for piece in pieces),
            min(piece.min_timestamp for piece in pieces),
            max(piece.max_timestamp for piece in pieces),
            None,
        )

    def _marks(self) -> tuple[bytes, int]:
        """Return the marks of all pieces, each with the maximum timestamp of everything before it, and the last one."""
        pieces = self._encoded
        import numpy as np  # noqa: PLC0415 - a caller with a batch has loaded numpy and the kernels

        newest = np.maximum.accumulate([self._newest, *(piece.marks_state.max_timestamp for piece in pieces)])
        marks = np.concatenate([piece.marks for piece in pieces])
        times = marks[:, 0]  # the maximum before each mark, within its piece
        np.maximum(times, newest[:-1].repeat([len(piece.marks) for piece in pieces]), out=times)
        return marks.tobytes(), int(newest[-1])


def _pieces(batch: Encoder, start: int, stop: int, position: int, marks: MarkBuilder) -> list[Piece]:
    """Cut rows start..stop where they cross a multiple of PIECE_BYTES; each piece has at least one row."""
    origin = position - batch.bytes_before(start)  # position of a hypothetical row 0
    end = origin + batch.bytes_before(stop)
    held_back = position + HEAD_BYTES - 1  # the first head is written last, so it must not cross a block boundary
    first_limit = held_back - held_back % PIECE_BYTES + PIECE_BYTES
    if end <= first_limit:
        return [Piece(start, stop, position, end, position, marks.next_position)]
    import numpy as np  # noqa: PLC0415 - a caller with a batch has loaded numpy and the kernels

    limits = np.arange(first_limit, end, PIECE_BYTES)
    cuts = batch.rows_taking(np.append(limits, end) - origin)
    pieces: list[Piece] = []
    begin, next_mark = position, marks.next_position
    for last, behind, last_begin in cuts.tolist():
        if last == start:
            continue  # a record longer than PIECE_BYTES crosses several
        block = begin - begin % PIECE_BYTES if pieces else begin
        pieces.append(Piece(start, last, begin, behind + origin, block, next_mark))
        start, begin = last, behind + origin
        next_mark = ((last_begin + origin) // marks.interval + 1) * marks.interval
    return pieces


# --- decoding ---------------------------------------------------------------------------------------------------------


class Decoder(Protocol):
    """Iterates over the validated batches of a stretch, as `seglog.arrow.from_store.BatchDecoder` does.

    position, next_relative: the position after the last batch; the lowest relative offset that can follow.
    """

    position: int
    next_relative: int

    def __iter__(self) -> Iterator[Any]:
        """Return itself."""
        ...

    def __next__(self) -> Any:
        """Return the next batch; raise CorruptRecord at an invalid record."""
        ...


class Stretch(NamedTuple):
    """Records from relative offset `relative`, at `position`, up to `stop`, at position `end`."""

    relative: int
    position: int
    stop: int
    end: int | None


class Decode(Protocol):
    """Makes a decoder of the records from `relative`, at `position`, up to `stop`; both are relative offsets.

    end: their end by the lookup, which may be wrong; None if it is unknown.
    """

    def __call__(self, *, relative: int, position: int, stop: int, end: int | None) -> Decoder:
        """Return the decoder; nothing is decoded yet."""
        ...


def decode_ahead(
    reader: SegmentReader,
    decode: Decode,
    *,
    relative: int,
    position: int,
    stop: int,
    max_records: int | None,
    by_windows: bool = False,
) -> Generator[Any, None, tuple[int, tuple[int, int]]]:
    """Yield the batches of a segment from `relative`, at `position`, up to `stop`, decoding the next ones meanwhile.

    Their start comes from the lookup, and is used only if the batch before ended there. So the result is that of one
    decoder, perhaps in smaller batches, with errors at the same places.

    max_records: of a batch; None: decode nothing ahead.
    by_windows: whether no decoder gets more than a stretch, as long as the lookup is right, because it needs memory for
    all that it may read. Such a decoder ends at the first invalid record, instead of raising an error.

    Returns the number of records, and (relative offset, position) after the last one.
    """
    passed = 0
    stretches = iter(()) if max_records is None else _stretches(reader, relative, position, stop, max_records)
    ahead = Ahead()
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
    while relative < stop:
        part = Stretch(relative, position, stop, None)
        if by_windows:
            part = _window(reader, part)
        decoder = decode(**part._asdict())
        for batch in decoder:
            passed += len(batch)
            yield batch
        relative, position = decoder.next_relative, decoder.position
        if part.end is None:
            break
        by_windows = position == part.end  # else a record is damaged, or the lookup is: the rest shows which
    return passed, (relative, position)


def _first_batch(decode: Decode, stretch: Stretch) -> tuple[Any, Decoder]:
    decoder = decode(**stretch._asdict())
    return next(decoder, None), decoder


def _stretches(reader: SegmentReader, relative: int, position: int, stop: int, max_records: int) -> Iterator[Stretch]:
    """Yield stretches of one batch each, as far as the lookup knows where they end."""
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


def _window(reader: SegmentReader, rest: Stretch) -> Stretch:
    """Return the first AHEAD_BYTES or more of a stretch, if the lookup knows where they end; else all of it."""
    relative, position, stop, _ = rest
    average = max((reader.size - position) // max(reader.next_offset - reader.base_offset - relative, 1), 1)
    step = max(AHEAD_BYTES // average, 1)
    while stop - relative > step:
        found = reader.lookup.floor(relative + step)
        if found is not None and found[1] > position and found[0] > relative:
            return Stretch(relative, position, *found)
        step *= 2
    return rest
