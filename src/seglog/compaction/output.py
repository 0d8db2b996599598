"""Write the segments that result from a pass: sparse, sealed, each at its final base offset.

The header is written last, because it contains the number of offsets that a segment covers. A failed write or sync ends
the pass with StorageError and does not affect the log: nothing was acknowledged for these files.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, NamedTuple

import numpy as np

from seglog.compaction.plan import CompactionPlan, Runs, runs_between
from seglog.format import filename
from seglog.format.index import MARK, encode_offsets, encode_times
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.kernels.layout import MarksState
from seglog.kernels.survivors import Copied, Target, place_survivors
from seglog.segment.stats import Block, Tally
from seglog.storage import Storage

SYNC_BYTES = 8 * 1024 * 1024  # a store is synced while it grows, so that the sync at its end is short

Aside = Callable[[Callable[[], None]], "Future[None]"]


Array = np.ndarray[Any, Any]


class Survivors(NamedTuple):
    """What the kernel copied, and the arrays that it filled."""

    copied: Copied
    out: Array
    entries: Array
    newest: Array


class Output:
    """One segment being written. `position`: of the next record."""

    def __init__(
        self,
        storage: Storage,
        *,
        base_offset: int,
        number: int,
        log_id: int,
        created: int,
        interval: int,
        limit: int,
        aside: Aside,
    ) -> None:
        self.entry = SegmentEntry(
            base_offset=base_offset, file=number, salt=secrets.randbits(64), created=created, dense=False
        )
        self.position = HEADER_BYTES
        self._storage = storage
        self._log_id = log_id
        self._limit = limit
        self._tally = Tally(interval)
        self._store = storage.create(self.entry.name())
        self._aside = aside
        self._unsynced = 0
        self._syncs: list[Future[None]] = []

    def target(self, source_base: int) -> Target:
        """Return the target of a source's survivors, for the kernel."""
        shift, salt = source_base - self.entry.base_offset, np.uint64(self.entry.salt)
        return Target(shift, salt, self._tally.records, self._limit - self.position)

    def has_room(self, survivors: Survivors) -> bool:
        """Whether survivors that were copied for this segment, perhaps when it held fewer records, still fit."""
        return not self._tally.records or survivors.copied.length <= self._limit - self.position

    def write(self, survivors: Survivors, room: Any) -> None:
        """Append records. room: int64[*, 2], one row per mark."""
        copied, marks = survivors.copied, self._tally.marks
        if not copied.rows:
            return
        state = MarksState(marks.interval, *marks.state)
        count, next_position = place_survivors(
            self.position, survivors.out, survivors.entries, survivors.newest, state, room
        )
        self._store.pwrite(survivors.out.data, self.position)
        self._tally.digest.update(survivors.entries.data)  # the entries of a dense index
        self.position += copied.length
        self._tally.absorb(
            Block(
                copied.rows,
                self.position,
                0,
                b"",
                room[:count].astype("<i8", copy=False).tobytes(),
                (next_position, max(marks.max_timestamp, copied.summary.max_timestamp)),
                copied.summary.tombstones,
                copied.summary.min_timestamp,
                copied.summary.max_timestamp,
                None,
            )
        )
        self._unsynced += copied.length
        if self._unsynced >= SYNC_BYTES:
            self._sync_aside()

    def _sync_aside(self) -> None:
        self._syncs.append(self._aside(self._store.datasync))
        self._unsynced = 0

    def wait(self) -> None:
        """Return once a sealed segment is on the disk. Raises StorageError if a sync failed."""
        for sync in self._syncs:
            sync.result()

    def seal(self, next_offset: int, *, sealed_at: int, cleaned_to: int | None, runs: Runs) -> SegmentEntry:
        """Seal the segment, which covers offsets before `next_offset`; return its entry, valid once `wait` has
        returned.

        sealed_at: of the newest source; runs: those of the sources, cut to the range of this segment.
        """
        base, tally = self.entry.base_offset, self._tally
        header = StoreHeader(self.entry.salt, self._log_id, self.entry.created, next_offset - base)
        self._store.pwrite(header.encode(), 0)
        self._sync_aside()
        marks = bytes(tally.marks.marks)
        for kind, encode in ((filename.OFFSETS, encode_offsets), (filename.TIMES, encode_times)):
            self._storage.create(self.entry.name(kind)).pwrite(encode(marks, tally.marks.interval, self.entry.salt), 0)
        return SegmentEntry(
            base_offset=base,
            file=self.entry.file,
            salt=self.entry.salt,
            created=self.entry.created,
            dense=False,
            next_offset=next_offset,
            bytes=self.position,
            records=tally.records,
            tombstones=tally.tombstones,
            min_timestamp=tally.min_timestamp,
            max_timestamp=tally.max_timestamp,
            sealed_at=sealed_at,
            digest=tally.digest.intdigest(),
            cleaned_to=cleaned_to,
            horizons=runs_between(runs, base, next_offset) if tally.tombstones else (),
        )


class Outputs:
    """The outputs of a pass, filled one after another. Up to one is synced while the next is filled."""

    def __init__(self, plan: CompactionPlan, storage: Storage, aside: Aside) -> None:
        self._plan = plan
        self._storage = storage
        self._aside = aside
        self._number = 0
        self._filled: Output
        self._sealed: Output | None = None

    def begin(self, base_offset: int) -> Output:
        """Begin the next output."""
        self._number += 1
        self._filled = Output(
            self._storage,
            base_offset=base_offset,
            number=self._number,
            log_id=self._plan.log_id,
            created=self._plan.made_at,
            interval=self._plan.config.index_interval_bytes,
            limit=self._plan.config.segment_bytes,
            aside=self._aside,
        )
        return self._filled

    def seal(self, next_offset: int, *, sealed_at: int, cleaned_to: int | None, runs: Runs) -> SegmentEntry:
        """Seal the current output; see Output.seal. Its entry is valid once `wait` has returned."""
        self.wait()
        self._sealed = self._filled
        return self._filled.seal(next_offset, sealed_at=sealed_at, cleaned_to=cleaned_to, runs=runs)

    def wait(self) -> None:
        """Return once everything sealed is on the disk, except for the names. Raises StorageError if a sync failed."""
        if self._sealed is not None:
            self._sealed.wait()


def lookup_bytes(store_bytes: int, interval: int) -> int:
    """Estimate, rather too high, the size of the lookups for `store_bytes` bytes of store."""
    return (store_bytes // interval + 2) * (MARK.size + 8)
