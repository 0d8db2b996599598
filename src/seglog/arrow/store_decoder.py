"""Iterate over the validated batches of a range of a store. What a batch is, a subclass defines."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, NamedTuple, TypeVar

import numpy as np

from seglog.errors import CorruptRecord
from seglog.kernels.layout import OK, REASONS, SHORT
from seglog.kernels.scan import as_bytes
from seglog.kernels.validate import Cursor

NO_STOP = 2**32
Batch = TypeVar("Batch")


class Ended(NamedTuple):
    """Where the records of a batch end, as in `kernels.decode`. stopped: whether nothing of the range follows."""

    position: int
    expected: int
    reason: int
    stopped: bool


class StoreDecoder(Iterator[Batch]):
    """Iterate over the batches of a range of a store.

    position, next_relative: where the next record would start, and its lowest relative offset; both advance with every
    batch, so that a follower knows where to continue.
    """

    def __init__(
        self,
        buffer: Any,
        *,
        path: str,
        salt: int,
        base_offset: int,
        relative: int,
        position: int,
        end: int,
        dense: bool,
        tail: bool,
        stop: int,
        origin: int,
    ) -> None:
        self._origin = origin
        self._source = as_bytes(buffer)
        self._path, self._tail, self._base_offset, self._stop = path, tail, base_offset, stop
        self._end, self._dense, self._salt = min(end, origin + self._source.size), dense, np.uint64(salt)
        self._lacks = end > self._end or (dense and stop < NO_STOP)  # the data may end too early
        self._done = False
        self.position, self.next_relative = position, relative
        self._reason = OK

    @abstractmethod
    def _decode(self, cursor: Cursor) -> tuple[Batch | None, Ended]:
        """Return the batch of the records from the cursor on, None if it has none; positions count from `origin`."""

    def __next__(self) -> Batch:
        """Return the next batch; raise CorruptRecord at an invalid record, after returning all records before it."""
        while not self._done:
            start, end = self.position - self._origin, self._end - self._origin
            batch, ended = self._decode(Cursor(start, end, self.next_relative, self._dense, self._salt))
            self.position, self.next_relative = ended.position + self._origin, ended.expected
            complete = ended.stopped or self.next_relative >= self._stop
            self._reason = OK if complete else ended.reason  # what follows the range does not matter
            self._done = complete or ended.reason != OK or self.position >= self._end
            if self._done and not complete and self._reason == OK and self._lacks:
                self._reason = SHORT
            if batch is not None:
                return batch
        self._refuse()
        raise StopIteration

    @property
    def reason(self) -> str | None:
        """Why there is no valid record at `position`; None at the end of the range."""
        return REASONS[self._reason] if 0 < self._reason < len(REASONS) else None

    def _refuse(self) -> None:
        if self.reason is not None and not self._tail:
            offset = self._base_offset + self.next_relative if self._dense else None
            raise CorruptRecord(self._path, offset, self.position, self.reason)
