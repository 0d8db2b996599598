"""Walk a store forward, record by record, verifying each. Reports where and why it stopped; never skips."""

from __future__ import annotations

from collections.abc import Iterator

from seglog.errors import SnapshotExpired
from seglog.format.codec import Framed, InvalidRecord, Rules
from seglog.segment.long_record import LONG_BYTES, read_long
from seglog.storage import File

FIRST_CHUNK = 16 * 1024
MAX_CHUNK = 1024 * 1024


class StoreWalk:
    """Iterate over the records of `store` from `position` up to `end`, the first with offset `expected` or later.

    After the last one, `position` is where the walk ended, `expected` the next offset, and `reason` why it stopped
    before `end` (None if it did not). keep: maximum bytes to return of a long value, as a `Cut`; None: all.
    """

    def __init__(
        self, store: File, rules: Rules, *, position: int, end: int, expected: int, keep: int | None = None
    ) -> None:
        self.store = store
        self.rules = rules
        self.position = position
        self.end = end
        self.expected = expected
        self.reason: str | None = None
        self._keep = keep
        self._chunk = FIRST_CHUNK

    def __iter__(self) -> Iterator[Framed]:
        while self.reason is None and self.position < self.end:
            wanted = min(self._chunk, self.end - self.position)
            data = self._read(wanted)
            if not data:
                self.reason = "the store ends before it"
                return
            self._chunk = min(self._chunk * 2, MAX_CHUNK)
            yield from self._records(data, all_there_is=len(data) < wanted or wanted == self.end - self.position)

    def _read(self, length: int) -> bytes:
        try:
            return self.store.pread(length, self.position)
        except SnapshotExpired as error:
            raise error.of(self.expected, error.next_offset) from error.__cause__

    def _records(self, data: bytes, *, all_there_is: bool) -> Iterator[Framed]:
        base, salt, dense, codec = self.rules
        start, end = 0, len(data)
        while start < end:
            try:
                framed = codec.decode(data, start, end, base, salt)
            except InvalidRecord as error:
                missing = 0 if all_there_is else self._missing(data, start)
                if 0 < missing <= LONG_BYTES:
                    self._chunk = max(missing, FIRST_CHUNK)
                    return
                long = self._long(missing) if missing else None
                if long is None:
                    self.reason = self.reason or str(error)
                    return
                framed = long
            offset, length = framed[0].offset, framed[2]
            if offset != self.expected and (dense or offset < self.expected):
                self.reason = f"it holds offset {offset} where {self.expected} belongs"
                return
            start += length
            self.position += length
            self.expected = offset + 1
            yield framed

    def _long(self, length: int) -> Framed | None:
        """Return a record that is too long for a chunk; None, with `reason` set, if it is damaged."""
        try:
            return read_long(self.store, self.rules, position=self.position, length=length, keep=self._keep)
        except InvalidRecord as error:
            self.reason = str(error)
            return None

    def _missing(self, data: bytes, start: int) -> int:
        """Return the size of the record at `start` if the chunk only ends inside it, else 0."""
        seen = len(data) - start
        try:
            needed = self.rules.codec.length_at(data, start)
        except InvalidRecord:
            return FIRST_CHUNK if seen < self.rules.codec.head_bytes else 0
        return needed if seen < needed <= self.end - self.position else 0
