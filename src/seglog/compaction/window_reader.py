"""Read a store from beginning to end in windows of whole records, for the kernels.

Reads with pread: a pass reads bytes that were not read for a long time, and a read error must be an exception.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from seglog.compaction.keymap import Keys
from seglog.errors import CorruptRecord
from seglog.format.codec import HEAD_BYTES, NATIVE, InvalidRecord
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.kernels.keys import read_keys
from seglog.kernels.layout import BEYOND, OK, REASONS, SHORT
from seglog.kernels.scan import as_bytes
from seglog.kernels.validate import Cursor
from seglog.parallel.ahead import ROOMS
from seglog.segment.sealed import open_store
from seglog.storage import Storage

WINDOW_BYTES = 2 * 1024 * 1024
ROWS = WINDOW_BYTES // HEAD_BYTES  # a window of this size cannot hold more records

Array = np.ndarray[Any, Any]


class Stretch(NamedTuple):
    """Whole records of a source, at positions position..end.

    number: of the first one in the store; expected: the relative offset that it must have, in a sparse segment the
    lowest that it may have.
    """

    position: int
    end: int
    number: int
    expected: int


class Window:
    """A source's bytes from position `start` on; `cursor` is at the first record that was not taken yet."""

    def __init__(self, data: Array, start: int, expected: int, entry: SegmentEntry) -> None:
        self.data = data
        self.start = start
        self.end = start + data.size
        self.position = start
        self.expected = expected
        self._dense = entry.dense
        self._salt = np.uint64(entry.salt)

    def rewind(self, stretch: Stretch) -> None:
        """Move the cursor back to the start of the stretch in this window, and end the window at the stretch's end."""
        self.position, self.end, self.expected = stretch.position, stretch.end, stretch.expected

    @property
    def cursor(self) -> Cursor:
        """The position of reading, for the kernels; expected is relative to the segment's base."""
        return Cursor(self.position, self.end, self.expected, self._dense, self._salt)


class Run(NamedTuple):
    """The records of a stretch: their keys, with absolute offsets, and the bytes that they were read from."""

    stretch: Stretch
    keys: Keys
    window: Window


class SourceReader:
    """Reads the records of one source. `path`: of its store."""

    def __init__(self, storage: Storage, entry: SegmentEntry) -> None:
        self.entry = entry
        self._store = open_store(storage, entry)
        self._end = entry.bytes or HEADER_BYTES
        self.path = self._store.path

    def windows(self, take: Callable[[Window], int]) -> Iterator[int]:
        """Pass every window to `take`, which advances its cursor and returns why there is no record, as in layout.

        Yields the size of what was taken of each. Raises CorruptRecord at an invalid record.
        """
        position, expected, size = HEADER_BYTES, 0, WINDOW_BYTES
        while position < self._end:
            data = as_bytes(self._store.pread(min(size, self._end - position), position))
            window = Window(data, position, expected, self.entry)
            reason = take(window)
            if reason not in (OK, SHORT, BEYOND):  # those two may only mean that the window ends within a record
                raise self.corrupt(window, REASONS[reason])
            size = WINDOW_BYTES
            if window.position == position:
                size = self._longer(window)
            passed, position, expected = window.position - position, window.position, window.expected
            yield passed  # from here on the caller owns the window

    def _longer(self, window: Window) -> int:
        """Return the length of a record that does not fit its window. CorruptRecord if that length is impossible."""
        left = self._end - window.position
        try:
            needed = NATIVE.length_at(bytes(window.data[:HEAD_BYTES]), 0)
        except InvalidRecord as error:
            raise self.corrupt(window, str(error)) from error
        if window.data.size < min(left, HEAD_BYTES) or needed <= window.data.size or needed > left:
            raise self.corrupt(window, REASONS[BEYOND])
        return needed

    def stretches(self) -> list[Stretch]:
        """Return the whole source as stretches."""
        return [run.stretch for run in KeyReader((0, 0)).runs(self)]

    def window(self, stretch: Stretch) -> Window:
        """Return the bytes of a stretch."""
        data = as_bytes(self._store.pread(stretch.end - stretch.position, stretch.position))
        return Window(data, stretch.position, stretch.expected, self.entry)

    def corrupt(self, window: Window, reason: str) -> CorruptRecord:
        """Return the error for an invalid record at a window's cursor."""
        offset = self.entry.base_offset + window.expected if self.entry.dense else None
        return CorruptRecord(self.path, offset, window.position, reason)


class KeyReader:
    """Reads keys into ROOMS sets of arrays in turn: a result is valid until ROOMS more were requested."""

    def __init__(self, seed: tuple[int, int]) -> None:
        self._seed = np.uint64(seed[0]), np.uint64(seed[1])
        self._rooms = deque(
            Keys(np.empty((ROWS, 2), np.uint64), np.empty(ROWS, np.uint8), np.empty(ROWS, np.int64))
            for _ in range(ROOMS)
        )
        self._rows = 0

    def _take(self, window: Window) -> int:
        self._window = window
        fingerprints, kinds, offsets = self._rooms[0]
        self._rows, window.position, window.expected, reason = read_keys(
            window.data, window.start, window.cursor, *self._seed, fingerprints, offsets, kinds
        )
        return int(reason)

    def runs(self, source: SourceReader) -> Iterator[Run]:
        """Yield every run of records with its keys; offsets are absolute. Does not verify checksums."""
        position, number, expected = HEADER_BYTES, 0, 0
        for passed in source.windows(self._take):
            if not passed:  # a long record, which comes in the next window
                continue
            keys = Keys(*(array[: self._rows] for array in self._rooms[0]))
            self._rooms.rotate()
            stretch = Stretch(position, position + passed, number, expected)
            position, number, expected = stretch.end, number + self._rows, int(keys.offsets[-1]) + 1
            keys.offsets[:] += source.entry.base_offset
            yield Run(stretch, keys, Window(self._window.data, self._window.start, stretch.expected, source.entry))
