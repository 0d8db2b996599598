"""What a user of a log knows: which records were acknowledged, which of them are durable, and what may be found after a
crash in the middle of a call. Proofs compare every surviving log with it.

A ledger is told of a call before it is made and after it has returned. It judges contents; it never looks at files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from seglog.errors import OffsetCompacted
from seglog.log.group import Draft
from seglog.log.log import Log
from seglog.record import Record

STORE_HEADER, RECORD_HEAD = 64, 32


class Content(NamedTuple):
    """What a log was found to hold. start: its lowest offset; next_offset: its end."""

    start: int
    records: tuple[Record, ...]
    next_offset: int


def content_of(log: Log) -> Content:
    """Read a log by scan and record by record; AssertionError where the two do not agree."""
    records, start, end = tuple(log.scan()), log.lowest_offset, log.next_offset
    known = {record.offset: record for record in records}
    assert list(known) == sorted(known), f"a scan out of order: {list(known)}"
    assert all(start <= offset < end for offset in known), f"{list(known)} is not within {start} and {end}"
    for offset in range(start, end):
        try:
            found: Record | None = log.read(offset)
        except OffsetCompacted:
            found = None
        assert found == known.get(offset), f"read({offset}) gives {found}, a scan {known.get(offset)}"
    return Content(start, records, end)


@dataclass(frozen=True)
class Outcome:
    """What a log may hold after a call. loose: offsets of records that compaction may have taken, or may yet take.

    expires: retention may have taken records from the start on, but leaves stores of so many bytes; 0: it takes none.
    """

    start: int = 0
    records: tuple[Record, ...] = ()
    next_offset: int = 0
    loose: frozenset[int] = frozenset()
    expires: int = 0

    def later(self, start: int) -> Outcome:
        """Return the same without the records before a later start."""
        records = tuple(record for record in self.records if record.offset >= start)
        return replace(self, start=start, records=records)

    @property
    def most_bytes(self) -> int:
        """What its stores may have at most: every record in one of its own, and an empty one."""
        sizes = (len(record.key or b"") + len(record.value or b"") for record in self.records)
        return sum(STORE_HEADER + RECORD_HEAD + size for size in sizes) + STORE_HEADER

    def objection(self, found: Content, durable: int) -> str | None:
        """Return why `found` cannot be this, cut at an end between `durable` and the whole; None if it can."""
        if self.expires and self.start < found.start <= self.next_offset:
            later = self.later(found.start)
            if later.most_bytes < self.expires:
                return f"retention keeps {self.expires} bytes, and from {found.start} on there are {later.most_bytes}"
            return later.objection(found, durable)
        if found.start != self.start:
            return f"it begins at {found.start} and not at {self.start}"
        if not min(durable, self.next_offset) <= found.next_offset <= self.next_offset:
            return f"it ends at {found.next_offset}, not between {durable} and {self.next_offset}"
        expected = {record.offset: record for record in self.records if record.offset < found.next_offset}
        for record in found.records:
            if expected.pop(record.offset, None) != record:
                return f"{record} was never appended there"
        if not expected.keys() <= self.loose:
            return f"the records at {sorted(expected.keys() - self.loose)} are lost"
        return self._unfaithful(found)

    def _unfaithful(self, found: Content) -> str | None:
        """Return which key's latest record is gone while an earlier one is there."""
        latest = {record.key: record for record in self.records if record.offset < found.next_offset}
        held = {record.offset for record in found.records}
        for record in found.records:
            last = latest[record.key]
            if record.key is not None and last.offset not in held:
                return f"{record} is back: {last} superseded it"
        return None


@dataclass(frozen=True)
class Standing:
    """What may be found now. possible: the outcomes of the call under way, the last one if it returns.

    durable: the offset before which records survive power loss.
    """

    possible: tuple[Outcome, ...] = (Outcome(),)
    durable: int = 0

    def objections(self, found: Content, *, power_lost: bool) -> list[str]:
        """Return why none of the outcomes is what was found, empty if one is.

        power_lost: records behind `durable` may be missing, from an end on; else they may not.
        """
        reasons: list[str] = []
        for outcome in self.possible:
            reason = outcome.objection(found, self.durable if power_lost else outcome.next_offset)
            if reason is None:
                return []
            reasons.append(reason)
        return reasons


class Ledger:
    """Calls a log and notes what it may hold. on_change: called with every new standing, before and after a call.

    standing: what may be found at the first opening; power_lost: records that are not durable may be missing then.
    No two records it makes are alike, so that one that comes back from a truncated end is known for what it is.
    """

    def __init__(
        self,
        on_change: Callable[[Standing], None] | None = None,
        standing: Standing | None = None,
        *,
        power_lost: bool = False,
    ) -> None:
        self.standing = standing or Standing()
        self.on_change = on_change
        self._power_lost = power_lost
        self._each_is_durable = False
        self._serial = 1000 + max(
            (one.timestamp for known in self.standing.possible for one in known.records), default=0
        )

    @property
    def known(self) -> Outcome:
        """What the log holds if no call is under way."""
        return self.standing.possible[-1]

    @property
    def next_offset(self) -> int:
        """The end of what is known."""
        return self.known.next_offset

    # --- noting ---------------------------------------------------------------------------------------------------

    def _note(self, standing: Standing) -> None:
        self.standing = standing
        if self.on_change is not None:
            self.on_change(standing)

    def begin(self, *outcomes: Outcome) -> None:
        """A call begins that leaves the log as it is, or as one of the outcomes; as the last one if it returns."""
        self._note(replace(self.standing, possible=(self.known, *outcomes)))

    def done(self, log: Log, *, durable: bool = False) -> None:
        """It has returned; what the log calls durable by now must survive power loss. durable: all must be."""
        if durable or self._each_is_durable:
            assert log.durable_offset == self.next_offset, (
                f"only {log.durable_offset} of {self.next_offset} are durable"
            )
        known = self.known.later(log.lowest_offset) if self.known.expires else self.known
        self._note(Standing((known,), log.durable_offset))

    def died(self) -> None:
        """The process has died, without a close: what it had not written yet may be gone."""
        self.begin(self.known)
        self._power_lost = True

    def settle(self, log: Log) -> None:
        """Take what the log holds for known, if it may hold that."""
        found = content_of(log)
        reasons = self.standing.objections(found, power_lost=self._power_lost)
        assert not reasons, reasons
        self._power_lost = False
        held = {record.offset for record in found.records}
        loose = frozenset().union(*(one.loose for one in self.standing.possible)) & held
        config = log.config  # asked for here only: it has the log write what it buffers
        self._each_is_durable, expires = config.flush_records == 1, config.retention.bytes or 0
        known = Outcome(found.start, found.records, found.next_offset, loose, expires)
        self._note(Standing((known,), log.durable_offset))

    # --- making records -------------------------------------------------------------------------------------------

    def make(self, key: bytes | None = None, *, size: int = 40, tombstone: bool = False) -> Record:
        """Return a record for the next offset; its value of about `size` bytes holds a number that no other has."""
        self._serial += 1
        value = b"%06d " % self._serial
        return Record(self.next_offset, self._serial, key, None if tombstone else (value * (size // 7 + 1))[:size])

    def grown(self, records: Sequence[Record], known: Outcome | None = None) -> Outcome:
        """Return what is known with records added at the end."""
        known = known or self.known
        added = tuple(record._replace(offset=known.next_offset + number) for number, record in enumerate(records))
        return replace(known, records=known.records + added, next_offset=known.next_offset + len(added))

    # --- calling --------------------------------------------------------------------------------------------------

    def append(self, log: Log, records: int = 1, *, key: bytes | None = None, **options: int | bool) -> None:
        """Append records one by one; see `make` for the options."""
        for _ in range(records):
            record = self.make(key, **options)  # type: ignore[arg-type] # the options of make
            self.begin(self.grown([record]))
            log.append(record.value, key=record.key, timestamp=record.timestamp)
            self.done(log)

    def append_each(self, log: Log, records: int, *, key: bytes | None = None, **options: int | bool) -> None:
        """Append records of many callers at once: any first part of them. Raises the first error that one was told."""
        known = self.known
        batch = [self.make(key, **options) for _ in range(records)]  # type: ignore[arg-type] # the options of make
        self.begin(*(self.grown(batch[:count], known) for count in range(1, records + 1)))
        outcomes = log.append_each([Draft(record.value, record.key, record.timestamp) for record in batch])
        taken = [record for record, outcome in zip(batch, outcomes, strict=True) if isinstance(outcome, int)]
        self.begin(self.grown(taken, known))
        offsets = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert offsets == list(range(known.next_offset, self.next_offset)), f"{offsets} were told"
        self.done(log)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def append_stream(self, log: Log, *, size: int = 40, key: bytes | None = None) -> None:
        """Append one record whose value comes in pieces of five bytes."""
        record = self.make(key, size=size)
        self.begin(self.grown([record]))
        value = record.value or b""
        pieces = (value[start : start + 5] for start in range(0, size, 5))
        log.append_stream(pieces, key=key, timestamp=record.timestamp)
        self.done(log)

    def append_batch(self, log: Log, records: int, *, pieces: bool = False, key: bytes | None = None) -> None:
        """Append a batch: whole or not at all; with `pieces` (larger than a segment) any first part of it."""
        batch = [self.make(key) for _ in range(records)]
        least = 1 if pieces else records
        self.begin(*(self.grown(batch[:count]) for count in range(least, records + 1)))
        log.append_batch(table(batch))
        self.done(log)

    def sync(self, log: Log) -> None:
        """Sync: what is known is durable once it has returned."""
        log.sync()
        self.done(log, durable=True)

    def close(self, log: Log) -> None:
        """Close: as after a sync, and the next opening finds the same."""
        self.begin(self.known)
        log.close()
        self._note(Standing((self.known,), self.next_offset))

    def truncate(self, log: Log, offset: int) -> None:
        """Truncate; what is left is durable."""
        cuts, kept = offset < self.next_offset, tuple(one for one in self.known.records if one.offset < offset)
        self.begin(replace(self.known, records=kept, next_offset=offset, start=min(self.known.start, offset)))
        log.truncate(offset)
        self.done(log, durable=cuts)

    def expire(self, log: Log) -> None:
        """Let retention drop any number of whole segments."""
        self.begin(self.known)
        log.expire()
        self.done(log)

    def compact(self, log: Log, *, roll: bool = False) -> None:
        """Compact: superseded records and tombstones may go, and once they are known to be gone they stay so."""
        latest = {record.key: record.offset for record in self.known.records}
        loose = {
            record.offset
            for record in self.known.records
            if record.key is not None and (record.value is None or latest[record.key] != record.offset)
        }
        self.begin(replace(self.known, loose=frozenset(loose)))
        log.compact(roll=roll)
        self.settle(log)

    def publish(self, log: Log, staged: Sequence[object], records: Sequence[Record], batch: int = 0) -> None:
        """Publish what was staged of some records: all of it or nothing."""
        self.begin(self.grown(records))
        log.publish(staged, query="q", batch=batch)  # type: ignore[arg-type] # StagedSegment; the ledger looks at none
        self.done(log, durable=True)


def table(records: Sequence[Record]) -> pa.Table:
    """Return records as a batch."""
    columns = {"value": pa.binary(), "key": pa.binary(), "timestamp": pa.int64()}
    return pa.table({name: pa.array([getattr(one, name) for one in records], kind) for name, kind in columns.items()})
