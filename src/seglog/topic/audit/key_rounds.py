"""Read the keys of one log from one view, in as many rounds as needed to fit a range of keys in the memory.

A round collects the keys from `low` on. If they become too many, the upper half is dropped and the round ends before
it: the next round starts there. So every key is complete in one round, and the rounds follow the order of the keys.
Keys are compared themselves, not their hashes.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from seglog.errors import LogTruncated
from seglog.log.log import Log
from seglog.topic.audit.rows import KeyRows, condensed, delivered_to, no_rows
from seglog.topic.columns import plain_binary

Array = np.ndarray[Any, Any]

SHARES = 8  # of the memory: one for held keys, one for new ones, the others for joining them
JOIN_BYTES = 48  # about what joining takes per row, besides copies
RECORD_BYTES = 400  # about what a short record takes in batches decoded ahead
MOST_RECORDS, LEAST_RECORDS = 65_536, 16  # of a batch that is read
SAMPLE = 1024  # keys sampled to find the middle of a range


class Round(NamedTuple):
    """The keys of one range; and, the same in every round, the log's records, tombstones, undelivered[groups]."""

    rows: KeyRows
    records: int
    tombstones: int
    undelivered: Array


class KeySweep:
    """The keys of a log in its present state: later appends, compactions and expiry change nothing.

    start, stop: its offsets, stop exclusive.
    """

    def __init__(self, log: Log, memory_bytes: int) -> None:
        self._log = log
        self._view = log.view()  # keeps its files
        self._share = memory_bytes // SHARES
        self._records: int | None = None
        self.start = self._view.lowest_offset
        self.stop = self._view.next_offset

    def rounds(self, cuts: Array) -> Iterator[Round]:
        """Yield every range of keys, in order. cuts: int64[groups], the offsets before which everything was delivered.

        Raises CorruptRecord for a damaged record, CorruptLog for a missing store, LogTruncated if records disappeared
        between two rounds.
        """
        low: bytes | None = None
        while True:
            held, records, tombstones = HeldKeys(low, self._share, cuts.size), 0, 0
            undelivered = np.zeros(cuts.size, np.int64)
            for batch in self._batches():
                offsets = batch.column("offset").to_numpy()
                dead = batch.column("value").is_null().to_numpy(zero_copy_only=False)
                records += offsets.size
                tombstones += int(np.count_nonzero(dead))
                undelivered += np.count_nonzero(offsets >= cuts[:, None], axis=1)
                held.add(_keyed(batch.column("key"), offsets, dead, cuts))
            self._check(records)
            yield Round(held.all(), records, tombstones, undelivered)
            if held.high is None:
                return
            low = held.high

    def _batches(self) -> Iterator[pa.RecordBatch]:
        rows = min(MOST_RECORDS, max(LEAST_RECORDS, self._share // max(RECORD_BYTES, 4 * self._record_bytes())))
        return self._view.batches(self.start, self.stop, max_records=rows)

    def _record_bytes(self) -> int:
        """Return the average record size of the segment where it is largest: an upper estimate of a key's size."""
        sealed = [(entry.bytes or 0) // max(entry.records or 0, 1) for entry in self._view.manifest.segments[:-1]]
        active = self._view.active
        return max(*sealed, active.size // max(active.next_offset - active.base_offset, 1), 1)

    def _check(self, records: int) -> None:
        """Raise if a round found other records than the one before: a truncate removes them from any view."""
        if self._records not in (None, records):
            raise LogTruncated(f"{self._log.path} was truncated during the audit; repeat the audit")
        self._records = records


def _keyed(keys: pa.Array, offsets: Array, dead: Array, cuts: Array) -> KeyRows:
    """Return the records with a key."""
    valid = keys.is_valid().to_numpy(zero_copy_only=False)
    if not valid.all():
        offsets, dead = offsets[valid], dead[valid]
    return KeyRows(plain_binary(keys, "key", valid), offsets, dead, delivered_to(offsets, cuts))


class HeldKeys:
    """The keys found so far from `low` to `high` (exclusive, None: unbounded), one row each.

    `high` is lowered if they would exceed `most_bytes`; a single key is held whatever its length.
    """

    def __init__(self, low: bytes | None, most_bytes: int, groups: int) -> None:
        self._low = low
        self._most_bytes = most_bytes
        self._rows = no_rows(groups)
        self._new: list[KeyRows] = []
        self._new_bytes = 0
        self.high: bytes | None = None

    def add(self, rows: KeyRows) -> None:
        """Add records that follow all earlier ones; ignore those outside the range."""
        rows = self._inside(rows)
        if not len(rows.keys):
            return
        self._new.append(rows)
        self._new_bytes += _cost(rows)
        if self._new_bytes > self._most_bytes:
            self._join()

    def all(self) -> KeyRows:
        """Return the row of every key."""
        self._join()
        return self._rows

    def _inside(self, rows: KeyRows) -> KeyRows:
        for bound, compare in ((self._low, pc.greater_equal), (self.high, pc.less)):
            if bound is not None:
                inside = compare(rows.keys, pa.scalar(bound, pa.binary()))
                rows = rows.where(inside.to_numpy(zero_copy_only=False))
        return rows

    def _join(self) -> None:
        if self._new:
            self._rows = condensed([self._rows, *self._new])
            self._new, self._new_bytes = [], 0
        while _cost(self._rows) > self._most_bytes and len(self._rows.keys) > 1:
            self._narrow()

    def _narrow(self) -> None:
        """Drop about the upper half of the keys: at least one, never the least."""
        keys = self._rows.keys
        sample = keys.take(pa.array(np.arange(0, len(keys), max(len(keys) // SAMPLE, 1))))
        middle = pc.array_sort_indices(sample)[len(sample) // 2]
        self.high = sample[middle.as_py()].as_py()
        self._rows = self._inside(self._rows)


def _cost(rows: KeyRows) -> int:
    """Return the bytes of rows, including what joining them takes."""
    return rows.nbytes + JOIN_BYTES * len(rows.keys)
