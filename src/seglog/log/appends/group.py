"""Append records of many callers together: one outcome for each, one write for each run of adjacent records.

An invalid record fails alone; a failed write fails every record that was part of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from time import time_ns
from typing import NamedTuple

from seglog.clock import Clock, system_clock
from seglog.config import MAX_OFFSET
from seglog.errors import KeyRequired, LogPoisoned, OffsetConflict, OffsetOutOfRange, SeglogError
from seglog.format.codec import encode_headers, record_length
from seglog.log.live_segments import LiveSegments
from seglog.record import (
    MAX_KEY_BYTES,
    MAX_TIMESTAMP,
    SURE_TIMESTAMP,
    Header,
    Timestamp,
    checked_all,
    checked_bytes,
    checked_headers,
    checked_key,
    checked_offset,
    checked_timestamp,
)
from seglog.segment.write_buffer import Row

NO_HEADERS: tuple[Header, ...] = ()  # there is one empty tuple
RUN_BYTES = 256 * 1024  # of one write; more would only wait longer in memory


class Draft(NamedTuple):
    """A record to append: the parameters of `Log.append`.

    Attributes:
        value: Bytes, or None for a tombstone.
        key: Bytes, or None.
        timestamp: Microseconds since the epoch, or a datetime with a time zone; None for now.
        headers: Pairs of str and bytes or None.
        expected_offset: The offset that the record must get, or None.
        force_timestamp: Whether a number that looks like another unit is taken as it is.
    """

    value: bytes | None
    key: bytes | None = None
    timestamp: Timestamp | None = None
    headers: Iterable[Header] = ()
    expected_offset: int | None = None
    force_timestamp: bool = False


Appended = int | Exception


def checked_row(
    value: bytes | None,
    key: bytes | None,
    timestamp: Timestamp | None,
    force_timestamp: bool,
    headers: Iterable[Header],
    needs_keys: bool,
    clock: Clock,
) -> Row:
    """Return the row to append. Raises the error of an invalid argument. clock: from `checked_clock`."""
    if value is not None and type(value) is not bytes:
        value = checked_bytes(value, "value")
    if key is None:
        if needs_keys:
            raise KeyRequired
    elif type(key) is not bytes or len(key) > MAX_KEY_BYTES:
        key = checked_key(key)
    if timestamp is None:
        timestamp = time_ns() // 1000 if clock is system_clock else clock()  # the system clock, without a call
    elif type(timestamp) is not int or not SURE_TIMESTAMP <= timestamp <= MAX_TIMESTAMP:
        timestamp = checked_timestamp(timestamp, force_timestamp=force_timestamp)
    return timestamp, key, value, encode_headers(checked_headers(headers)) if headers is not NO_HEADERS else b""


Wanted = tuple[Row, int | None]  # a row, and its expected offset


def checked_rows(drafts: Iterable[Draft], *, needs_keys: bool, clock: Clock) -> list[Wanted | Exception]:
    """Return for each draft its row and expected offset, or the error of an invalid argument."""
    return [_checked(draft, needs_keys, clock) for draft in checked_all(drafts, Draft, "drafts")]


def _checked(draft: Draft, needs_keys: bool, clock: Clock) -> Wanted | Exception:
    value, key, timestamp, headers, expected, force = draft
    try:
        row = checked_row(value, key, timestamp, force, headers, needs_keys, clock)
        return row, None if expected is None else checked_offset(expected, "expected_offset")
    except Exception as error:  # noqa: BLE001 - it is the outcome for the caller of this draft
        return error


class Group:
    """Appends rows to a log whose mutex is held; records an outcome for each: its offset or an error.

    Outcomes are stored by row number: a signal handler may raise at any moment, which must not shift the others.
    """

    def __init__(self, live: LiveSegments) -> None:
        self._outcomes: list[Appended] = []
        self._live = live
        self._run: list[tuple[int, Row]] = []
        self._bytes = 0

    def append(self, rows: Sequence[Wanted | Exception]) -> list[Appended]:
        """Append the rows that are valid; return the outcomes. Raises only what ends all writing: then none is
        acknowledged.
        """
        self._outcomes = [-1] * len(rows)
        for number, row in enumerate(rows):
            if isinstance(row, Exception):
                self._end(number, row)
                continue
            try:
                self._take(number, *row)
            except SeglogError as error:
                self._raise_if_final(error)
                self._end(number, error)
        self._write()
        return self._outcomes

    def _take(self, number: int, row: Row, expected_offset: int | None) -> None:
        live, (_, key, value, headers) = self._live, row
        length = record_length(key, headers, value)
        total = self._bytes + length
        if total > RUN_BYTES or live.active.size + total > live.segment_bytes or expected_offset is not None:
            self._write()  # an expected offset depends on whether the rows before get theirs
        offset = live.active.next_offset + len(self._run)
        if expected_offset is not None and expected_offset != offset:
            raise OffsetConflict(expected_offset, offset)
        if offset >= MAX_OFFSET:
            raise OffsetOutOfRange(offset, live.start, offset)
        if not self._run:
            live.make_room(length)
        self._bytes += length
        self._run.append((number, row))

    def _end(self, number: int, error: Exception) -> None:
        """Set the outcome of a row that is not part of the run; write the rows before it."""
        self._run = [one for one in self._run if one[0] != number]
        self._write()
        self._outcomes[number] = error

    def _write(self) -> None:
        """Write the rows of the run."""
        run, self._run, self._bytes = self._run, [], 0
        if not run:
            return
        active = self._live.active
        first = active.next_offset
        try:
            active.append_run([row for _, row in run])
        except SeglogError as error:
            self._raise_if_final(error)
            if active.next_offset != first:  # raised by a signal handler: the records are stored
                self._note(run, first)
                raise
            for number, _ in run:
                self._outcomes[number] = error
        else:
            self._note(run, first)

    def _note(self, run: Sequence[tuple[int, Row]], first: int) -> None:
        for offset, (number, _) in enumerate(run, first):
            self._outcomes[number] = offset

    def _raise_if_final(self, error: SeglogError) -> None:
        if isinstance(error, LogPoisoned) or not self._live.settled:
            raise error
