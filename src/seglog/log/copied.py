"""Write a copy of another log: its records at their offsets, its cuts, its settings, its role.

Only a mirror (`seglog.replication`) uses this, on a log from `opening.open_copy`. A copy has the id and the epochs of
its leader, so positions of consumers are valid in both. Records keep their offsets; segments, files and salts are the
copy's own, as are expiry and compaction.

Invariant: a record of a new epoch enters the copy only after the manifest has the leader's cuts up to that epoch.
So after a crash at any moment, `next_offset` and the cuts in the manifest say what the copy holds.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from seglog.compaction.copying import Room
from seglog.compaction.output import Survivors
from seglog.compaction.window_reader import WINDOW_BYTES, Window
from seglog.config import LogConfig
from seglog.errors import CorruptRecord
from seglog.format.codec import HEAD_BYTES, NATIVE, InvalidRecord
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.kernels.layout import BEYOND, OK, REASONS, SHORT, MarksState
from seglog.kernels.scan import as_bytes
from seglog.kernels.survivors import Target, place_survivors
from seglog.log.writer_state import change
from seglog.segment.stats import Block

if TYPE_CHECKING:
    from seglog.log.live_segments import LiveSegments
    from seglog.log.writer import LogWriter

NONE_DEAD = np.empty(0, np.uint8)


class EncodedRecords(NamedTuple):
    """Records of one store, end to end as they are there; the last one may be incomplete.

    base_offset, salt, dense: those of the segment. first: lowest offset that the first record may have, exactly that
    one if dense. until: the records up to this offset must be here, if the segment is dense. path, position: where they
    were read, for errors.
    """

    base_offset: int
    salt: int
    dense: bool
    first: int
    until: int
    path: str
    position: int
    data: Any


class CopyWriter:
    """Writes one copy. Not safe for threads; others may read `log` meanwhile."""

    def __init__(self, log: LogWriter) -> None:
        self.log = log
        self._state = log._state
        self._room = Room()
        self._marks = np.empty((WINDOW_BYTES // HEAD_BYTES, 2), np.int64)

    @property
    def manifest(self) -> Manifest:
        """The present manifest."""
        return self._live.catalog.current

    @property
    def _live(self) -> LiveSegments:
        return self._state.live

    # --- records --------------------------------------------------------------------------------------------------

    def append(self, records: EncodedRecords) -> int:
        """Verify records and append the complete ones; return the offset after the last one.

        Readers may see some of them before others. Call `sync` for durability.

        Raises:
            CorruptRecord: If a record is damaged; those before it are appended.
        """
        self._append(records)
        return self._live.active.next_offset

    @change
    def _append(self, records: EncodedRecords) -> None:
        data, entry = (
            as_bytes(records.data),
            SegmentEntry(base_offset=records.base_offset, file=0, salt=records.salt, created=0, dense=records.dense),
        )
        position, expected = 0, records.first - records.base_offset
        size = WINDOW_BYTES
        while position < data.size:
            window = Window(data[position : position + size], position, expected, entry)
            self._take(window, records)
            if window.position == position:
                size = _length_of_long(window, data.size, records)
                if not size:
                    break  # the rest is a part of a record
                continue
            position, expected, size = window.position, window.expected, WINDOW_BYTES
        self._live.note_append()
        if records.dense and records.base_offset + expected < records.until:
            raise CorruptRecord(
                records.path, records.base_offset + expected, records.position + position, REASONS[SHORT]
            )

    def _take(self, window: Window, records: EncodedRecords) -> None:
        """Append the complete records of a window, and move its cursor after them."""
        while True:
            self._make_room(records, records.base_offset + window.expected)
            active = self._live.active
            target = Target(
                records.base_offset - active.entry.base_offset,
                np.uint64(active.entry.salt),
                active.records,
                self._live.segment_bytes - active.size,
            )
            survivors = self._room.copy(window, NONE_DEAD, 0, target)
            self._write(survivors, records.base_offset + window.expected)
            copied = survivors.copied
            if copied.reason not in (OK, SHORT, BEYOND):
                offset = records.base_offset + window.expected if records.dense else None
                raise CorruptRecord(records.path, offset, records.position + copied.position, REASONS[copied.reason])
            if copied.blocked < 0:
                return
            self._live.roll(base_offset=records.base_offset + copied.blocked)

    def _make_room(self, records: EncodedRecords, first: int) -> None:
        """Roll if the active segment is too old, or cannot hold these records because of gaps in the offsets."""
        active = self._live.active
        fits = active.next_offset == first if records.dense else first >= active.next_offset
        if active.dense != records.dense or not fits:
            self._live.roll(base_offset=max(first, active.next_offset), dense=records.dense)
        elif self._live.age_is_due():
            self._live.roll()

    def _write(self, survivors: Survivors, next_offset: int) -> None:
        copied, active = survivors.copied, self._live.active
        if not copied.rows:
            return
        marks = active.tally.marks
        state = MarksState(marks.interval, *marks.state)
        count, next_position = place_survivors(
            active.size, survivors.out, survivors.entries, survivors.newest, state, self._marks
        )
        block = Block(
            copied.rows,
            active.size + copied.length,
            next_offset,
            b"",
            self._marks[:count].astype("<i8", copy=False).tobytes(),
            (next_position, max(marks.max_timestamp, copied.summary.max_timestamp)),
            copied.summary.tombstones,
            copied.summary.min_timestamp,
            copied.summary.max_timestamp,
            None,
        )
        active.append_encoded(survivors.out.data, survivors.entries.reshape(-1).view(np.uint8).data, block)

    def skip_to(self, offset: int) -> None:
        """Make `offset` the next one, without records before it: the end of the leader may be a gap."""
        if offset > self._live.active.next_offset:
            self._roll_to(offset)

    @change
    def _roll_to(self, offset: int) -> None:
        self._live.roll(base_offset=offset, dense=True)

    def sync(self) -> None:
        """Return once everything appended is on the disk."""
        self.log.sync()

    # --- structure ------------------------------------------------------------------------------------------------

    @change
    def cut(self, offset: int, history: dict[str, Any]) -> None:
        """Remove the records from `offset` on and take the leader's history (epoch, cuts, role), with one manifest."""
        self._live.truncate(offset, history)

    @change
    def start_over(self, offset: int, history: dict[str, Any]) -> None:
        """Remove all records, take the leader's history, and make `offset` the first and next one."""
        self._live.start_over(offset, history)

    def take(self, **changes: Any) -> None:
        """Store changed fields of the manifest, such as the leader's history, durably."""
        if any(getattr(self.manifest, name) != value for name, value in changes.items()):
            self._install(changes)

    @change
    def _install(self, changes: dict[str, Any]) -> None:
        catalog = self._live.catalog
        catalog.install(catalog.following(catalog.current.segments, **changes))
        self._live._show()

    @change
    def drop_before(self, offset: int) -> int:
        """Delete the segments before `offset`, which the leader has deleted; return how many."""
        return self._live.drop_before(offset)

    @change
    def configure(self, config: LogConfig) -> None:
        """Take the leader's settings that can be altered."""
        self._live.configure(replace(self._live.config.altered(config.alterable()), retention=config.retention))
        self.log._take(self._live.config)


def _length_of_long(window: Window, available: int, records: EncodedRecords) -> int:
    """Return the length of a record that is longer than a window; 0 if its end is not there yet."""
    left = available - window.position
    if left < HEAD_BYTES:
        return 0
    try:
        needed = NATIVE.length_at(bytes(window.data[:HEAD_BYTES]), 0)
    except InvalidRecord as error:
        raise CorruptRecord(records.path, None, records.position + window.position, str(error)) from error
    if needed > left:
        return 0
    if needed <= window.data.size:
        raise CorruptRecord(records.path, None, records.position + window.position, REASONS[BEYOND])
    return needed
