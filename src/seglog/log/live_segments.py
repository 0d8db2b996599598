"""The segments of a log that is open for writing: roll, cut and drop them, each with one manifest.

Used under the writer's mutex: one thread at a time changes them. Knows nothing of callers, acknowledgement or
poisoning. After StorageError the old structure is valid; after LogPoisoned the disk may hold either one.
"""

from __future__ import annotations

import secrets
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NoReturn

from seglog.clock import Clock, has_passed, ticks_for
from seglog.config import LogConfig
from seglog.errors import CorruptLog, FormatVersionError, OffsetOutOfRange, RecordTooLarge, StorageError
from seglog.format.manifest import SegmentEntry, Segments
from seglog.format.store import HEADER_BYTES
from seglog.log.catalog import Catalog
from seglog.log.durability import Durability
from seglog.log.holds import deletable_to, held_from
from seglog.log.info import SegmentInfo, SegmentInfos, active_info
from seglog.log.pins import pull_back_pins
from seglog.log.retention import select_expired
from seglog.log.segment_cache import SegmentCache
from seglog.log.staging import StagedSegment, adopt, placed
from seglog.log.view import View
from seglog.record import MIN_TIMESTAMP
from seglog.segment.active import ActiveSegment, Growth, create_segment
from seglog.segment.manifest_entries import compared_before, cut_entry
from seglog.segment.recovery import TailRecovery
from seglog.storage import Storage, must_sync

MAX_RELATIVE = 2**32 - 1
MAX_STORE_RECORDS = 2**27  # 4 GiB of the shortest records: what may follow a gap in the same segment


class LiveSegments:
    """The sealed segments and the active one. `present` is the view that readers of this process use."""

    def __init__(
        self,
        storage: Storage,
        catalog: Catalog,
        active: ActiveSegment,
        cache: SegmentCache,
        clock: Clock,
        config: LogConfig,
    ) -> None:
        self.catalog = catalog
        self.cache = cache
        self.active = active
        self.ticks = ticks_for(clock)
        self.last_append = self.ticks()
        self.durability = Durability(active.next_offset)
        self.deleted: Callable[[View, int], None] | None = None  # called with the view before a deletion, and the start
        self._storage = storage
        self._clock = clock
        self._epoch_waits = catalog.must_note_epoch  # to be noted before the next record comes
        self._take(config)
        self._show()
        self.configure(config)

    def configure(self, config: LogConfig) -> None:
        """Store this config with the log, if it is another; see `Log` for what may change of it."""
        if config == self.catalog.current.config:
            return
        self.catalog.install(self.catalog.following(self.catalog.current.segments, config=config))
        self._take(config)
        self.active.limit(config.segment_bytes)
        self._show()

    def write_base(self) -> None:
        """Write the manifest as a base without changes; the one before becomes MANIFEST.prev."""
        self.catalog.install(self.catalog.following(self.catalog.current.segments), as_base=True)
        self._show()

    def _take(self, config: LogConfig) -> None:
        self.config = config
        self.segment_bytes = config.segment_bytes
        self.record_limit = config.store_limit - HEADER_BYTES
        self._age_us = config.roll_age_us
        self.ages = self._age_us is not None or config.retention.most_age is not None or self._epoch_waits
        self.may_wait = config.buffer_bytes > 0 and config.flush_records is None and not self.ages  # buffered

    @property
    def settled(self) -> bool:
        """Whether memory and disk agree: False if an interrupt occurred in the middle of a change."""
        manifest, active = self.catalog.current, self.active
        # the second is slow; it is False between a repair's install and `refresh`
        return active.settled and (manifest is self.present.manifest or manifest.active == active.entry)

    # --- figures ------------------------------------------------------------------------------------------------

    @property
    def start(self) -> int:
        """The first offset of the log."""
        return self.catalog.current.start

    def infos(self) -> Sequence[SegmentInfo]:
        """Return the figures of every segment, the active one last."""
        active = active_info(self.active.entry, self.active.reader, self.active.tally)
        return SegmentInfos(self.catalog.current.segments, active)

    def check_size(self, length: int, *, row: int | None = None) -> None:
        """Raise RecordTooLarge for a record that fits no segment."""
        if length > self.record_limit:
            raise RecordTooLarge(length, self.record_limit, row=row)

    def refuse_offset(self, offset: int) -> NoReturn:
        """Raise OffsetOutOfRange for an offset of a new record: it is beyond the maximum, or outside the log."""
        raise OffsetOutOfRange(offset, self.start, self.active.next_offset)

    def fits(self, length: int) -> bool:
        """Whether the active segment has space for `length` bytes. An empty one takes any record with its overflow."""
        return self.active.empty or self.active.size + length <= self.segment_bytes

    def age_is_due(self) -> bool:
        """Whether the active segment holds records and has reached the age to roll."""
        if self._age_us is None or self.active.empty:
            return False
        return has_passed(self.active.entry.created, self._age_us, self._clock())

    def note_append(self) -> None:
        """Record the moment of the last append; it has succeeded, even if the clock fails."""
        with suppress(Exception):
            self.last_append = self.ticks()

    # --- changes ------------------------------------------------------------------------------------------------

    def make_room(self, length: int) -> None:
        """Roll if a record of `length` bytes does not fit, or the segment is too old."""
        self.check_size(length)
        self.note_epoch()
        if not self.fits(length) or self.age_is_due():
            self.roll()

    def note_epoch(self) -> None:
        """Install an epoch that the opening could not; see Catalog.begin_epoch.

        Comes before anything is appended or counted as durable: until then the next opening must begin the epoch again.
        """
        if self._epoch_waits:
            self.catalog.note_epoch()
            self._epoch_waits = False
            self._take(self.config)
            self._show()

    def admit_gap(self, offset: int) -> None:
        """Make sure that the active segment may have gaps and can hold `offset`."""
        if self.active.dense or offset - self.active.entry.base_offset > MAX_RELATIVE - MAX_STORE_RECORDS:
            self.roll(base_offset=offset, dense=False)

    def roll(self, *, base_offset: int | None = None, dense: bool | None = None, sealed_at: int | None = None) -> int:
        """Seal the active segment and begin the next, dense as the old one by default; return how many expired."""
        self.catalog.ownership.check()
        self.note_epoch()
        old, now = self.active, self._clock()
        # Of its age it rolls also if the clock is behind for a moment, which must not let retention delete it early.
        least = old.entry.created if sealed_at is None and self.age_is_due() else MIN_TIMESTAMP
        sealed = old.seal(max(least, now if sealed_at is None else sealed_at))
        kept = self.catalog.current.segments[:-1]
        entry = self._new_entry(
            old.next_offset if base_offset is None else base_offset, now, dense=old.dense if dense is None else dense
        )
        if old.empty:
            self._begin(entry, kept, retire=[old.entry])
        else:
            self._begin(entry, kept.followed_by([sealed]))
        self.durability.advance(old.next_offset)
        return self.drop_expired(now)

    def publish(self, staged: Sequence[StagedSegment], published: dict[str, int]) -> range:
        """Add staged segments after the last record, with one manifest; return their offsets."""
        self.catalog.ownership.check()
        self.note_epoch()
        old, now = self.active, self._clock()
        sealed, kept = old.seal(now), self.catalog.current.segments[:-1]
        joining, end = [], old.next_offset
        for one in staged:
            number = self.catalog.new_file_number()
            joining.append(placed(one, base_offset=end, file=number, sealed_at=now))
            end += one.records
        try:
            for one, entry in zip(staged, joining, strict=True):
                adopt(self._storage, one, entry)
            before = kept if old.empty else kept.followed_by([sealed])
            retired = [old.entry] if old.empty else []
            new = self._new_entry(end, now, dense=True)
            self._begin(new, before.followed_by(joining), retire=retired, published=published)
        except (StorageError, CorruptLog, FormatVersionError):
            for entry in joining:
                self._forget(entry)
            raise
        self.durability.advance(end)
        self.note_append()
        with suppress(StorageError):  # the batch is stored; expired segments are dropped at the next roll
            self.drop_expired(now)
        return range(old.next_offset, end)

    def swap(
        self,
        sealed: Sequence[SegmentEntry],
        joining: Sequence[tuple[StagedSegment, SegmentEntry]],
        *,
        retire: Sequence[SegmentEntry],
    ) -> None:
        """Replace sealed segments by staged ones, with one manifest; the active segment stays."""
        self.catalog.ownership.check()
        manifest = self.catalog.following(Segments.of(sealed).followed_by([self.active.entry]), retire=retire)
        self.active.settled = False
        try:
            for staged, entry in joining:
                adopt(self._storage, staged, entry)
            must_sync(self._storage.sync_directory)
            self.catalog.install(manifest)
        except (StorageError, CorruptLog, FormatVersionError):
            for _, entry in joining:
                self._forget(entry)
            self.active.settled = True
            raise
        self.cache.drop(retire)
        self._show()
        self.active.settled = True

    def truncate(self, offset: int, history: dict[str, Any] | None = None) -> None:
        """Remove the records from `offset` on; pins that are after it move back to it.

        history: the fields of the manifest that record the cut; None: a cut of this log's own.
        """
        self._remove_from(offset, partial(self._cut, offset, history))

    def start_over(self, offset: int, history: dict[str, Any]) -> None:
        """Remove all records and begin at `offset`, with one manifest; history: as in `truncate`."""
        self._remove_from(offset, partial(self._replace_all, offset, history))

    def _remove_from(self, offset: int, remove: Callable[[], None]) -> None:
        self.catalog.ownership.check()
        self.note_epoch()
        pull_back_pins(self._storage, offset, clock=self._clock)
        durable = self.durability.durable_offset
        self.durability.retreat(offset)  # first, so that an interrupt cannot leave it beyond the log's end
        try:
            remove()
        except StorageError:
            self.durability.advance(durable)  # nothing was removed
            raise
        self.durability.advance(offset)

    def _replace_all(self, offset: int, history: dict[str, Any]) -> None:
        gone = self.catalog.current.segments
        self._begin(self._new_entry(offset, self._clock(), dense=True), (), retire=gone, start=offset, **history)
        self.cache.drop(gone)

    def _cut(self, offset: int, history: dict[str, Any] | None) -> None:
        """Cut the segment that holds `offset`, drop the later ones."""
        self.active.complete()
        self.active.mark_durable(self.active.next_offset)
        self.active.write_marks()
        now, segments = self._clock(), self.catalog.current.segments
        kept = [compared_before(entry, offset) for entry in segments if entry.base_offset < offset]
        retired = segments[len(kept) :]
        if kept and (kept[-1].next_offset is None or kept[-1].next_offset > offset):
            kept[-1] = cut_entry(kept[-1], self.present.reader_of(kept[-1].base_offset), offset, now)
        entry = self._new_entry(offset, now, dense=self.active.dense)
        start = min(self.start, offset)  # rolling back a batch may follow an expiry that dropped its own first segments
        history = self.catalog.current.after_cut(offset) if history is None else history
        self._begin(entry, kept, retire=retired, start=start, **history)
        self.cache.drop(retired)

    def drop_before(self, offset: int) -> int:
        """Drop the sealed segments that end at or before `offset` and are not held; return how many.

        For copies: what their leader has deleted did not have to wait for the tables of the copy.
        """
        count = self._ending_by(offset)
        return self._drop_first(self._released(count, held_from(self._storage, self.catalog.current)) if count else 0)

    def _ending_by(self, offset: int) -> int:
        """Return how many sealed segments end at or before `offset`."""
        sealed = self.catalog.current.segments[:-1]
        return bisect_right(sealed, offset, key=lambda entry: entry.next_offset or 0)

    def _released(self, count: int, held: int | None) -> int:
        """Return how many of the first `count` segments may be deleted. held: the offset from which on none may."""
        return count if held is None else min(count, self._ending_by(held))

    def expire(self) -> int:
        """Delete segments that retention no longer keeps; return how many."""
        now, gone = self._clock(), 0
        quiet = self._quiet_since(now)
        if not self.active.empty and (quiet is not None or self.age_is_due() or self._has_old_records(now)):
            gone = self.roll(sealed_at=quiet)
        gone += self.drop_expired(now)
        self.catalog.collect()
        return gone

    def _quiet_since(self, now: int) -> int | None:
        """Return the time of the last append if it is longer ago than the retention age; else None."""
        age = self.config.retention.age_us
        quiet = self.ticks() - self.last_append
        return None if age is None or quiet < age else now - quiet

    def _has_old_records(self, now: int) -> bool:
        """Whether the active segment would be deleted if it was sealed, since its newest record is too old."""
        retention, newest = self.config.retention, self.active.tally.max_timestamp
        if retention.age_from != "records" or retention.age_us is None or newest is None:
            return False
        sealed = self.catalog.current.segments[:-1]
        return (
            now - newest >= retention.age_us
            and select_expired(sealed, self.active.size, retention, now) == len(sealed)
            and deletable_to(self._storage, self.catalog.current) is None
        )

    def drop_expired(self, now: int) -> int:
        """Drop the sealed segments that retention selects and that are not held; return how many."""
        segments = self.catalog.current.segments
        count = select_expired(segments[:-1], self.active.size, self.config.retention, now)
        held = deletable_to(self._storage, self.catalog.current) if count else None
        return self._drop_first(self._released(count, held))

    def delete_before(self, offset: int) -> int:
        """Begin the log at `offset`, which is on disk, and drop the segments before it; return where it begins.

        What is held is kept, and then only whole segments go.
        """
        if offset == self.active.next_offset and not self.active.empty:
            self.roll()
        held = deletable_to(self._storage, self.catalog.current)
        count = self._released(self._ending_by(offset), held)
        if offset > self.start:
            self._drop_first(count, offset if held is None else None)
        self.catalog.collect()
        return self.start

    def _drop_first(self, count: int, start: int | None = None) -> int:
        """Drop the first segments with one manifest; return how many. start: where the log begins after that."""
        segments = self.catalog.current.segments
        if count or start is not None:
            start = segments[count].base_offset if start is None else start
            self.catalog.install(self.catalog.following(segments[count:], retire=segments[:count], start=start))
            if self.deleted is not None:
                self.deleted(self.present, start)
            self.cache.drop(segments[:count])
            self._show()
        return count

    def refresh(self, gone: Iterable[SegmentEntry]) -> None:
        """Load a manifest that another operation under the same mutex (a repair) has installed."""
        self.cache.drop(gone)
        entry = self.catalog.current.active
        if entry != self.active.entry:  # the old store was retired: appends must go to the new one
            config = self.config
            recovery = TailRecovery(
                self._storage, entry, config.index_interval_bytes, allocates=config.allocate_bytes > 0
            )
            self.active = recovery.run(Growth.of(config))
        self._show()

    # --- the next active segment --------------------------------------------------------------------------------

    def _new_entry(self, base_offset: int, now: int, *, dense: bool) -> SegmentEntry:
        number = self.catalog.new_file_number()
        return SegmentEntry(base_offset=base_offset, file=number, salt=secrets.randbits(64), created=now, dense=dense)

    def _begin(
        self,
        entry: SegmentEntry,
        sealed: Iterable[SegmentEntry],
        *,
        retire: Iterable[SegmentEntry] = (),
        **changes: object,
    ) -> None:
        """Begin a new active segment after `sealed`.

        Invariant: no record enters a store before the manifest that names the store is installed. Therefore the order
        is: store with header, synced; directory, synced; manifest; and only then memory. Until then `old` stays the
        active segment, unsettled: an interrupt in between poisons the log, because disk and memory may differ.
        """
        segments = Segments.of(sealed).followed_by([entry])
        manifest, old = self.catalog.following(segments, retire=retire, **changes), self.active
        old.settled = False
        try:
            store = create_segment(self._storage, entry, self.catalog.current.log_id)
            interval, growth = self.config.index_interval_bytes, Growth.of(self.config)
            active = ActiveSegment.start(self._storage, entry, store, interval=interval, growth=growth)
            must_sync(self._storage.sync_directory)
            self.catalog.install(manifest)
        except StorageError:
            self._forget(entry)
            old.settled = True
            raise
        self._show(active)

    def _forget(self, entry: SegmentEntry) -> None:
        """Remove the files of a segment whose creation failed; the next opening sets the rest aside."""
        if not self.catalog.ownership.is_certain():  # another log's files may have these names
            return
        for kind in entry.kinds:
            try:
                self._storage.unlink(entry.name(kind))
            except StorageError:
                return

    def _show(self, active: ActiveSegment | None = None) -> None:
        """Make the present structure visible to readers of this process, and release what no reader uses any more.

        active: the new active segment. It and its view change in one statement, so no interrupt comes between.
        """
        active = active or self.active
        view = self.catalog.views.add(View(self.catalog.current, active.reader, self.cache))
        self.active, self.present = active, view
        self.catalog.collect()
