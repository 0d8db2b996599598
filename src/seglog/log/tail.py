"""Follow a log: a position in it and the records that follow. Ensures that no record is skipped silently."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import islice

from seglog.errors import (
    CorruptLog,
    CorruptRecord,
    InvalidArgument,
    InvalidType,
    LogTruncated,
    OffsetOutOfRange,
    SeglogError,
    SnapshotExpired,
    StorageError,
)
from seglog.log.history import was_cut
from seglog.log.view import View, at_one_moment
from seglog.record import HEADER_COST, Record, Share, value_size

FIRST_WAIT = 0.0005
LONGEST_WAIT = 0.02
POLL_RECORDS = 1024


class Tail:
    """A position in a log that advances as records are read.

    position: the next offset to return. view: the view from which the last records were read.
    """

    def __init__(self, path: str, present: Callable[[], View], view: View, position: int) -> None:
        self._path = path
        self._present = present
        self.view = view
        self._failure: SeglogError | None = None
        self.position = position

    @at_one_moment
    def poll(
        self,
        most: int = POLL_RECORDS,
        size: int | None = None,
        keep: int | None = None,
        stop: int | None = None,
    ) -> list[Record]:
        """Return up to `most` records from the position on, without waiting.

        Args:
            most: Maximum number of records.
            size: Maximum size in bytes; the first record may exceed it.
            keep: Maximum bytes to keep of a large value, as `ReadableLog.read_cut`.
            stop: First offset not to return; None: the end.

        Where the log has deleted files of a view without a lease, it goes on in the present view: no position is passed
        without its records, or later ones of the same keys.

        Raises:
            CorruptRecord: If a record does not verify. It, CorruptLog and StorageError are raised by the next call if
                other records precede the problem.
            CorruptLog: If a segment cannot be opened.
            StorageError: If a read fails.
            LogTruncated: If the records read last are no longer part of the log.
            OffsetOutOfRange: If retention deleted records before they were read.
        """
        self.view = self._still_valid(self._present())
        failure, self._failure = self._failure, None
        if failure is not None:
            raise failure  # kept, because a read from the present position may not meet it
        end = self.view.next_offset if stop is None else min(stop, self.view.next_offset)
        if end <= self.position:
            return []
        found = islice(self.view.scan(self.position, end, keep=keep), most)
        records: list[Record] = []
        try:
            records.extend(found if size is None else _up_to(found, size))
            self.view.check_gaps(self.position, records)
        except SnapshotExpired:
            if not records:
                raise
        except (CorruptRecord, CorruptLog, StorageError) as error:
            if not records:
                raise
            self._failure = error
        if records:
            self.position = records[-1].offset + 1
        return records

    def follow(self, timeout: float | None, share: Share | None = None) -> Iterator[Record]:
        """Iterate over new records, of a share if given; end after `timeout` seconds without any new record."""
        wait, since = FIRST_WAIT, time.monotonic()
        while True:
            records = self.poll()
            yield from records if share is None else in_share(records, *share)
            if records:
                wait, since = FIRST_WAIT, time.monotonic()
                continue
            if timeout is not None and time.monotonic() - since >= timeout:
                return
            time.sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)

    def _still_valid(self, now: View) -> View:
        """Return the present view if what was read from the last one is still part of it."""
        if self.position < now.lowest_offset:
            raise OffsetOutOfRange(self.position, now.lowest_offset, now.next_offset)
        if now.manifest.epoch != self.view.manifest.epoch:  # of the same log: a follower raises LogReplaced for another
            known, present = self.view.trace_of(self.position), now.trace_of(self.position)
            if was_cut(known, present) or self.position > now.next_offset:
                raise LogTruncated(
                    f"{self._path}: the log was truncated below offset {self.position}; seek to an offset that"
                    " still exists"
                )
        return now


def in_share(records: list[Record], number: int, workers: int) -> Iterator[Record]:
    """Return the records of a share."""
    return (record for record in records if record.offset % workers == number)


def checked_timeout(timeout: object) -> float | None:
    """Return the timeout of `follow`, seconds or None. Raises InvalidType or InvalidArgument for anything else."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise InvalidType(f"timeout must be seconds or None, not {type(timeout).__name__}")
    if not timeout >= 0:  # also rejects NaN
        raise InvalidArgument(f"timeout is {timeout}; it must be a number of seconds, 0 or more, or None")
    return timeout


def _up_to(records: Iterator[Record], size: int) -> Iterator[Record]:
    is_first = True
    for record in records:
        size -= len(record.key or b"") + value_size(record.value) + HEADER_COST * len(record.headers)
        if size < 0 and not is_first:  # it may be large, and the caller has no space for more than `size`
            return
        yield record
        is_first = False
