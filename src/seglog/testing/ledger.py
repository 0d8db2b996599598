"""What a user of a log knows: which records were acknowledged, which are durable, and what may be found after a crash
during a call. Proofs compare every surviving log with it.

A ledger is notified before and after each call. It judges contents and never looks at files.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import pyarrow as pa

from seglog.config import Compression
from seglog.errors import OffsetCompacted
from seglog.log.appends.group import Draft
from seglog.log.log import Log
from seglog.record import Record

STORE_HEADER, RECORD_HEAD = 64, 32


class Content(NamedTuple):
    """The content of a log. start: its lowest offset; next_offset: its end."""

    start: int
    records: tuple[Record, ...]
    next_offset: int


def content_of(log: Log) -> Content:
    """Read a log by scan and record by record; AssertionError if the two differ."""
    records, start, end = tuple(log.scan()), log.lowest_offset, log.next_offset
    known = {record.offset: record for record in records}
    assert list(known) == sorted(known), f"a scan out of order: {list(known)}"
    assert all(start <= offset < end for offset in known), f"{list(known)} is not within {start} and {end}"
    for offset in range(start, end):
        try:
            found: Record | None = log.read(offset)
        except OffsetCompacted:
            found = None
        assert found == known.get(offset), f"read({offset}) returns {found}, a scan {known.get(offset)}"
    return Content(start, records, end)


@dataclass(frozen=True)
class Outcome:
    """What a log may hold after a call. loose: offsets of records that compaction may have removed, or may remove.

    expires: retention may have removed records at the start, but leaves stores of this many bytes; 0: it removes none.
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
        """The maximum size of its stores: every record in its own store, and an empty one."""
        sizes = (len(record.key or b"") + len(record.value or b"") for record in self.records)
        return sum(STORE_HEADER + RECORD_HEAD + size for size in sizes) + STORE_HEADER

    def objection(self, found: Content, durable: int) -> str | None:
        """Return why `found` is impossible as this outcome, cut between `durable` and its end; None if possible."""
        if self.expires and self.start < found.start <= self.next_offset:
            later = self.later(found.start)
            if later.most_bytes < self.expires:
                return f"retention keeps {self.expires} bytes, but from {found.start} on there are {later.most_bytes}"
            return later.objection(found, durable)
        if found.start != self.start:
            return f"it begins at {found.start} instead of {self.start}"
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
        """Describe a key whose latest record is missing while an earlier one is present; None without one."""
        latest = {record.key: record for record in self.records if record.offset < found.next_offset}
        held = {record.offset for record in found.records}
        for record in found.records:
            last = latest[record.key]
            if record.key is not None and last.offset not in held:
                return f"{record} is back: {last} superseded it"
        return None


@dataclass(frozen=True)
class Standing:
    """What may be found now. possible: outcomes of the present call, the last one if it returns.

    durable: records before this offset survive power loss.
    """

    possible: tuple[Outcome, ...] = (Outcome(),)
    durable: int = 0

    def objections(self, found: Content, *, power_lost: bool) -> list[str]:
        """Return why no outcome matches what was found; empty if one does.

        power_lost: records at or after `durable` may be missing from some offset on; otherwise none may.
        """
        reasons: list[str] = []
        for outcome in self.possible:
            reason = outcome.objection(found, self.durable if power_lost else outcome.next_offset)
            if reason is None:
                return []
            reasons.append(reason)
        return reasons


class Ledger:
    """Calls a log and records what it may hold. on_change: called with every new standing, before and after a call.

    standing: what may be found at the first opening; power_lost: whether records that are not durable may be missing
    then. All records that it makes are different, so a record that returns from a truncated end is recognized.
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
        """What the log holds if no call is in progress."""
        return self.standing.possible[-1]

    @property
    def next_offset(self) -> int:
        """The end of what is known."""
        return self.known.next_offset

    # --- recording ------------------------------------------------------------------------------------------------

    def _note(self, standing: Standing) -> None:
        self.standing = standing
        if self.on_change is not None:
            self.on_change(standing)

    def begin(self, *outcomes: Outcome) -> None:
        """Begin a call that leaves the log unchanged, or as one of the outcomes; as the last one if it returns."""
        self._note(replace(self.standing, possible=(self.known, *outcomes)))

    def done(self, log: Log, *, durable: bool = False) -> None:
        """End a call: what the log reports as durable must survive power loss. durable: all records must be durable."""
        if durable or self._each_is_durable:
            assert log.durable_offset == self.next_offset, (
                f"only {log.durable_offset} of {self.next_offset} are durable"
            )
        known = self.known.later(log.lowest_offset) if self.known.expires else self.known
        self._note(Standing((known,), log.durable_offset))

    def died(self) -> None:
        """Record that the process died without a close: what it had not written yet may be lost."""
        self.begin(self.known)
        self._power_lost = True

    def settle(self, log: Log) -> None:
        """Accept the log's content as known, if it is possible."""
        found = content_of(log)
        reasons = self.standing.objections(found, power_lost=self._power_lost)
        assert not reasons, reasons
        self._power_lost = False
        held = {record.offset for record in found.records}
        loose = frozenset().union(*(one.loose for one in self.standing.possible)) & held
        config = log.config  # only here, because reading it writes the log's buffer
        self._each_is_durable, expires = config.flush_records == 1, config.retention.bytes or 0
        known = Outcome(found.start, found.records, found.next_offset, loose, expires)
        self._note(Standing((known,), log.durable_offset))

    # --- making records -------------------------------------------------------------------------------------------

    def make(self, key: bytes | None = None, *, size: int = 40, tombstone: bool = False) -> Record:
        """Return a record for the next offset; its value of about `size` bytes contains a unique number."""
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
        """Append records of many callers at once: any leading part of them. Raises the first error of an outcome."""
        known = self.known
        batch = [self.make(key, **options) for _ in range(records)]  # type: ignore[arg-type] # the options of make
        self.begin(*(self.grown(batch[:count], known) for count in range(1, records + 1)))
        outcomes = log.append_each([Draft(record.value, record.key, record.timestamp) for record in batch])
        taken = [record for record, outcome in zip(batch, outcomes, strict=True) if isinstance(outcome, int)]
        self.begin(self.grown(taken, known))
        offsets = [outcome for outcome in outcomes if isinstance(outcome, int)]
        assert offsets == list(range(known.next_offset, self.next_offset)), f"{offsets} were returned"
        self.done(log)
        for outcome in outcomes:
            if isinstance(outcome, Exception):
                raise outcome

    def append_stream(self, log: Log, *, size: int = 40, key: bytes | None = None) -> None:
        """Append one record whose value comes in chunks of five bytes."""
        record = self.make(key, size=size)
        self.begin(self.grown([record]))
        value = record.value or b""
        pieces = (value[start : start + 5] for start in range(0, size, 5))
        log.append_stream(pieces, key=key, timestamp=record.timestamp)
        self.done(log)

    def append_batch(self, log: Log, records: int, *, pieces: bool = False, key: bytes | None = None) -> None:
        """Append a batch: all of it or nothing; with `pieces` (larger than a segment) any leading part of it."""
        batch = [self.make(key) for _ in range(records)]
        least = 1 if pieces else records
        self.begin(*(self.grown(batch[:count]) for count in range(least, records + 1)))
        log.append_batch(table(batch))
        self.done(log)

    def sync(self, log: Log) -> None:
        """Sync: afterwards all that is known is durable."""
        log.sync()
        self.done(log, durable=True)

    def close(self, log: Log) -> None:
        """Close: as after a sync, and the next opening finds the same."""
        self.begin(self.known)
        log.close()
        self._note(Standing((self.known,), self.next_offset))

    def truncate(self, log: Log, offset: int) -> None:
        """Truncate; the rest is durable."""
        cuts, kept = offset < self.next_offset, tuple(one for one in self.known.records if one.offset < offset)
        self.begin(replace(self.known, records=kept, next_offset=offset, start=min(self.known.start, offset)))
        log.truncate(offset)
        self.done(log, durable=cuts)

    def expire(self, log: Log) -> None:
        """Expire any number of whole segments."""
        self.begin(self.known)
        log.expire()
        self.done(log)

    def delete_before(self, log: Log, offset: int) -> None:
        """Delete the first records; all before the offset, and those kept are durable."""
        self.begin(self.known.later(offset) if offset > self.known.start else self.known)
        log.delete_before(offset)
        self.done(log)

    def compact(self, log: Log, *, roll: bool = False) -> None:
        """Compact: superseded records and tombstones may be removed; once removed they must not return."""
        latest = {record.key: record.offset for record in self.known.records}
        loose = {
            record.offset
            for record in self.known.records
            if record.key is not None and (record.value is None or latest[record.key] != record.offset)
        }
        self.begin(replace(self.known, loose=frozenset(loose)))
        log.compact(roll=roll)
        self.settle(log)

    def compress(self, log: Log, codec: Compression | None = None) -> None:
        """Compress, or decompress: the content stays the same."""
        self.begin(self.known)
        log.compress(codec)
        self.done(log)

    def publish(self, log: Log, staged: Sequence[object], records: Sequence[Record], batch: int = 0) -> None:
        """Publish the staged segments of some records: all or nothing."""
        self.begin(self.grown(records))
        log.publish(staged, query="q", batch=batch)  # type: ignore[arg-type] # StagedSegment; not read here
        self.done(log, durable=True)


def table(records: Sequence[Record]) -> pa.Table:
    """Return records as a batch."""
    columns = {"value": pa.binary(), "key": pa.binary(), "timestamp": pa.int64()}
    return pa.table({name: pa.array([getattr(one, name) for one in records], kind) for name, kind in columns.items()})
