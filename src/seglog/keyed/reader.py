"""A store read from its beginning to its end in windows of whole records, for the kernels.

Reads with pread: a pass touches bytes nobody has looked at for a long time, and a read error must be an exception.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from seglog.errors import CorruptRecord
from seglog.format.codec import HEAD_BYTES, NATIVE, InvalidRecord
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.kernels.keys import read_keys
from seglog.kernels.layout import BEYOND, OK, REASONS, SHORT
from seglog.kernels.scan import as_bytes
from seglog.kernels.validate import Cursor
from seglog.keyed.ahead import ROOMS
from seglog.keyed.keymap import Keys
from seglog.segment.sealed import open_store
from seglog.storage import Storage

WINDOW_BYTES = 2 * 1024 * 1024
ROWS = WINDOW_BYTES // HEAD_BYTES  # no window of this size holds more records

Array = np.ndarray[Any, Any]


class Stretch(NamedTuple):
    """Whole records of a source, at positions position..end. number: of the first one in the store; expected: the
    relative offset it must have, in a sparse segment the lowest it may have.
    """

    position: int
    end: int
    number: int
    expected: int


class Window:
    """A source's bytes from position `start` on; `cursor` stands at the first record that was not taken yet."""

    def __init__(self, data: Array, start: int, expected: int, entry: SegmentEntry) -> None:
        self.data = data
        self.start = start
        self.end = start + data.size
        self.position = start
        self.expected = expected
        self._dense = entry.dense
        self._salt = np.uint64(entry.salt)

    def rewind(self, stretch: Stretch) -> None:
        """Move the cursor back to where the stretch that the window holds begins, and end the window where it ends."""
        self.position, self.end, self.expected = stretch.position, stretch.end, stretch.expected

    @property
    def cursor(self) -> Cursor:
        """Where reading stands, as the kernels take it; expected is relative to the segment's base."""
        return Cursor(self.position, self.end, self.expected, self._dense, self._salt)


class Run(NamedTuple):
    """The records of a stretch: their keys, offsets absolute, and the bytes they were read from."""

    stretch: Stretch
    keys: Keys
    window: Window


class SourceReader:
    """Reads the records of one source. `path`: its store."""

    def __init__(self, storage: Storage, entry: SegmentEntry) -> None:
        self.entry = entry
        self._store = open_store(storage, entry)
        self._end = entry.bytes or HEADER_BYTES
        self.path = self._store.path

    def windows(self, take: Callable[[Window], int]) -> Iterator[int]:
        """Hand every window to `take`, which moves its cursor and returns why no record stands there, as in layout.

        Yields the bytes passed with each. CorruptRecord where no valid record stands.
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
            yield passed  # the window is whoever takes it, from here on

    def _longer(self, window: Window) -> int:
        """Return the length of a record that does not fit its window; CorruptRecord where it cannot be."""
        left = self._end - window.position
        try:
            needed = NATIVE.length_at(bytes(window.data[:HEAD_BYTES]), 0)
        except InvalidRecord as error:
            raise self.corrupt(window, str(error)) from error
        if window.data.size < min(left, HEAD_BYTES) or needed <= window.data.size or needed > left:
            raise self.corrupt(window, REASONS[BEYOND])
        return needed

    def stretches(self) -> list[Stretch]:
        """Return all of the source in stretches."""
        return [run.stretch for run in KeyReader((0, 0)).runs(self)]

    def window(self, stretch: Stretch) -> Window:
        """Return the bytes of a stretch."""
        data = as_bytes(self._store.pread(stretch.end - stretch.position, stretch.position))
        return Window(data, stretch.position, stretch.expected, self.entry)

    def corrupt(self, window: Window, reason: str) -> CorruptRecord:
        """Return the error that says why no valid record stands at a window's cursor."""
        offset = self.entry.base_offset + window.expected if self.entry.dense else None
        return CorruptRecord(self.path, offset, window.position, reason)


class KeyReader:
    """Reads keys into sets of arrays by turns: what it yields is valid until ROOMS more were asked for."""

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
        """Yield every run of records and their keys; offsets are absolute. No checksum is looked at."""
        position, number, expected = HEADER_BYTES, 0, 0
        for passed in source.windows(self._take):
            if not passed:  # a long record, which comes next
                continue
            keys = Keys(*(array[: self._rows] for array in self._rooms[0]))
            self._rooms.rotate()
            stretch = Stretch(position, position + passed, number, expected)
            position, number, expected = stretch.end, number + self._rows, int(keys.offsets[-1]) + 1
            keys.offsets[:] += source.entry.base_offset
            yield Run(stretch, keys, Window(self._window.data, self._window.start, stretch.expected, source.entry))
