"""Writes the segments that come of a pass: sparse, sealed, each at its final base offset. Durable once sealed.

The header goes in last, since it says how many offsets a segment covers. A refused write or sync ends the pass with
StorageError: nothing was promised of these files, so it does the log no harm.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING

import numpy as np

from seglog.format import filename
from seglog.format.index import MARK, encode_offsets, encode_times
from seglog.format.manifest import SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.kernels.layout import MarksState
from seglog.kernels.survivors import Target
from seglog.keyed.plan import Runs, runs_between
from seglog.segment.survey import Block, Tally
from seglog.storage import Storage

if TYPE_CHECKING:
    from seglog.keyed.copying import Survivors


class Output:
    """One segment that is being written. `position`: where the next record goes.

    What the kernel copied is admitted in order, so that the next copy can begin, and written in the same order.
    """

    def __init__(
        self, storage: Storage, *, base_offset: int, number: int, log_id: int, created: int, interval: int, limit: int
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

    def target(self, source_base: int) -> Target:
        """Return where the survivors of a source go, as the kernel takes it."""
        shift, salt = source_base - self.entry.base_offset, np.uint64(self.entry.salt)
        return Target(shift, self.position, self._tally.records, self._limit, salt)

    @property
    def marks_state(self) -> MarksState:
        """How far the marks have come, as the kernel takes it."""
        return MarksState(self._tally.marks.interval, *self._tally.marks.state)

    def admit(self, survivors: Survivors) -> int:
        """Take in what the kernel says of the records it copied; return the position of the first one."""
        copied, state = survivors.copied, survivors.copied.state
        self.position += copied.length
        self._tally.absorb(
            Block(
                copied.rows,
                self.position,
                0,
                b"",
                survivors.marks.astype("<i8", copy=False).tobytes(),
                (state.next_position, state.max_timestamp),
                copied.summary.tombstones,
                copied.summary.min_timestamp,
                copied.summary.max_timestamp,
                None,
            )
        )
        return self.position - copied.length

    def write(self, data: memoryview, position: int, entries: memoryview) -> None:
        """Write records at `position`; entries: as a dense index would hold them, for the digest, in order."""
        self._store.pwrite(data, position)
        self._tally.digest.update(entries)

    def seal(self, next_offset: int, *, sealed_at: int, cleaned_to: int | None, runs: Runs) -> SegmentEntry:
        """End the segment before `next_offset`; return its entry once store and header are on the medium.

        sealed_at: of the newest source; runs: of the sources, cut to what this segment covers.
        """
        base, tally = self.entry.base_offset, self._tally
        header = StoreHeader(self.entry.salt, self._log_id, self.entry.created, next_offset - base)
        self._store.pwrite(header.encode(), 0)
        self._store.datasync()
        marks = bytes(tally.marks.marks)
        for kind, encode in ((filename.OFFSETS, encode_offsets), (filename.TIMES, encode_times)):
            self._storage.create(self.entry.name(kind)).pwrite(encode(marks, tally.marks.interval), 0)
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


def lookup_bytes(store_bytes: int, interval: int) -> int:
    """Return about how many bytes the lookups of so many bytes of store take, rather too many than too few."""
    return (store_bytes // interval + 2) * (MARK.size + 8)
