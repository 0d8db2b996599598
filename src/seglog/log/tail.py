"""Following a log: a place in it, and what has come behind it since. Sees to it that nothing is skipped silently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

from seglog.errors import CorruptLog, CorruptRecord, LogTruncated, OffsetOutOfRange, SeglogError, StorageError
from seglog.log.history import trace_of, was_cut
from seglog.log.view import View
from seglog.record import HEADER_COST, Record, value_size

FIRST_WAIT = 0.0005
LONGEST_WAIT = 0.02
POLL_RECORDS = 1024


class Tail:
    """A place in a log that moves forward as records are taken.

    position: the next offset it will give. view: the one that the last records were taken by.
    """

    def __init__(self, path: str, present: Callable[[], View], view: View, position: int) -> None:
        self._path = path
        self._present = present
        self.view = view
        self._failure: SeglogError | None = None
        self.position = position

    def poll(self, most: int = POLL_RECORDS, size: int | None = None, keep: int | None = None) -> list[Record]:
        """Return up to `most` records that stand behind the position now, without waiting.

        size: bound on the bytes, which the first record alone may pass. keep: as `ReadableLog.read`.

        CorruptRecord, CorruptLog or StorageError where one cannot be read; what stands before it is handed out first,
        and the next call raises. LogTruncated where what was taken last is no longer part of the log; OffsetOutOfRange
        where retention overtook.
        """
        self.view = self._still_valid(self._present())
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure  # kept, since from where the position is now nothing may be wrong
        found = islice(self.view.scan(self.position, self.view.next_offset, keep=keep), most)
        records: list[Record] = []
        try:
            records.extend(found if size is None else _up_to(found, size))
            self.view.check_gaps(self.position, records)
        except (CorruptRecord, CorruptLog, StorageError) as error:
            if not records:
                raise
            self._failure = error
        if records:
            self.position = records[-1].offset + 1
        return records

    def follow(self, timeout: float | None) -> Iterator[Record]:
        """Iterate over what comes; end after `timeout` seconds without a record."""
        wait, since = FIRST_WAIT, time.monotonic()
        while True:
            records = self.poll()
            yield from records
            if records:
                wait, since = FIRST_WAIT, time.monotonic()
                continue
            if timeout is not None and time.monotonic() - since >= timeout:
                return
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def _still_valid(self, now: View) -> View:
        """Return the present view if what was taken by the last one is still part of it."""
        if self.position < now.lowest_offset:
            raise OffsetOutOfRange(self.position, now.lowest_offset, now.next_offset)
        if now.manifest.log_id != self.view.manifest.log_id or now.manifest.epoch != self.view.manifest.epoch:
            known, present = trace_of(self.view, self.position), trace_of(now, self.position)
            if was_cut(known, present) or self.position > now.next_offset:
                raise LogTruncated(
                    f"{self._path}: the log was truncated below offset {self.position}; begin again at an offset that"
                    " is there"
                )
        return now


def _up_to(records: Iterator[Record], size: int) -> Iterator[Record]:
    is_first = True
    for record in records:
        size -= len(record.key or b"") + value_size(record.value) + HEADER_COST * len(record.headers)
        if size < 0 and not is_first:  # it may be large, and the caller may have room for `size` bytes only
            return
        yield record
        is_first = False
