"""The contract of all that can be done with a log. `Log` is what `seglog.open` returns; reading it is in `reading`.

A log that was opened for reading refuses what changes it; `writer.LogWriter` does it.
"""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from seglog.errors import (
    LogReadOnly,
    OffsetOutOfRange,
)
from seglog.log.pins import drop_pin, read_pins, set_pin
from seglog.log.reading import ReadableLog
from seglog.record import Header, Record, checked_bytes, checked_offset, checked_text

if TYPE_CHECKING:
    import os

    from seglog.config import Retention
    from seglog.errors import LogPoisoned
    from seglog.keyed.plan import CompactionPlan
    from seglog.keyed.rewrite import Outcome
    from seglog.keyed.schedule import Standing
    from seglog.log.backup import BackupReport
    from seglog.log.check import Progress
    from seglog.log.compaction import CompactionReport
    from seglog.log.explain import Explainer, Explanation
    from seglog.log.group import Appended, Draft
    from seglog.log.repair import RepairReport
    from seglog.log.staging import StagedSegment


class Log(ReadableLog):
    """An ordered, durable sequence of records, addressed by offset. A context manager; safe for threads."""

    # --- followers, and why a record is there ---------------------------------------------------------------------

    @property
    def pins(self) -> dict[str, int]:
        """The followers registered by `pin`: name -> the next offset each will read; 0 where a pin is damaged."""
        self._check_open()
        return read_pins(self._storage)

    def pin(self, name: str, offset: int) -> None:
        """Register a follower, or note how far it is: it has read every record before `offset`, none from there on.

        Compactions planned from now on leave the tombstones from there on where they are, until the pin has passed them
        or `unpin`. In both modes, from any process; durable when it returns. It may move back, as a consumer may seek.
        OffsetOutOfRange unless 0 <= offset <= next_offset; StorageError: the pin is the old one or the new one.
        """
        view, offset = self.view(), checked_offset(offset)
        if not 0 <= offset <= view.next_offset:
            raise OffsetOutOfRange(offset, view.lowest_offset, view.next_offset)
        self._check_place()
        set_pin(self._storage, name, offset, clock=self._clock)

    def _check_place(self) -> None:
        """Raise where another log, or none, is in the directory by now: its pins must not be changed."""
        self.view()

    def unpin(self, name: str) -> None:
        """Forget a follower; one that is not registered is no error."""
        self._check_place()
        drop_pin(self._storage, name)

    def backup(self, place: str | os.PathLike[str], *, share: bool = True) -> BackupReport:
        """Copy the log, as it is at this moment, to a directory; beside a writer and in both modes.

        The copy opens and verifies, with all records that `scan` would return now. Called again with the same place it
        brings what is new: sealed segments that are there are not copied again. share: where both are on one file
        system, sealed segments share their bytes (a reflink, else a hard link); False copies them, which also protects
        from a disk that damages them. A crash leaves the earlier backup, or none. InvalidArgument if another log, or a
        backup that was written to, is there; LogLocked while another backup to the place is under way.
        """
        from seglog.log.backup import backup_log  # noqa: PLC0415 - an operator's call

        return backup_log(self._storage, self.view(), place, share=share)

    def explain(self, offset: int) -> Explanation:
        """Return why a record is still in the log, and what would let go of it; of one that is gone, why.

        May read every segment behind it, to find a later record of its key. CorruptRecord where it does not verify.
        """
        offset = checked_offset(offset)
        if offset < 0:
            raise OffsetOutOfRange(offset, self.lowest_offset, self.next_offset)
        return self._explainer().explain(offset)

    def explain_key(self, key: bytes) -> tuple[Explanation, ...]:
        """Return the same for every record of a key that is still in the log, the oldest first; reads all of it."""
        return self._explainer().explain_key(checked_bytes(key, "key"))

    def _explainer(self) -> Explainer:
        from seglog.log.explain import Explainer  # noqa: PLC0415 - pyarrow and numba load when first used
        from seglog.log.reasons import Situation  # noqa: PLC0415 - an operator's call

        view = self.view()
        situation = Situation(view.manifest, self._clock(), view.active.size, view.next_offset, self.pins)
        return Explainer(view, situation)

    # --- writing: what a log that was opened for reading answers --------------------------------------------------

    def _refuse(self, what: str) -> NoReturn:
        self._check_open()
        raise LogReadOnly(errno.EROFS, f'{what} needs a log opened with mode="a"', self.path)

    def append(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        expected_offset: int | None = None,
    ) -> int:
        """Append one record and return its offset. value None is a tombstone; timestamp (us) defaults to now.

        It survives kill -9 once this has returned, and power loss after `sync` or under a flush policy.
        expected_offset: OffsetConflict, and nothing written, unless this is the offset it gets. RecordTooLarge before a
        byte is written; StorageError where the medium refuses, rolled back.
        """
        self._refuse("append")

    def append_each(self, drafts: Sequence[Draft]) -> list[Appended]:
        """Append each of many records as `append` does, with one write and one sync for all that it can.

        Returns for each its offset, or the error that `append` would raise; a write that fails takes all that were in
        it. LogPoisoned where writing is over: then none is acknowledged.
        """
        self._refuse("append")

    def is_ready(self, length: int) -> bool:
        """Whether an append of so many bytes could begin at once, and would neither roll a segment nor sync.

        A hint for a caller that must not wait, such as an event loop; by the time it appends it may be otherwise.
        """
        self._check_open()
        return False

    @property
    def failure(self) -> LogPoisoned | None:
        """What stopped the writing until the log is opened anew, a failed sync or rollback; None if nothing did."""
        return None

    def append_at(self, offset: int, record: Record) -> int:
        """Append a record of another log at its own offset (next_offset or later, leaving a gap); for followers."""
        self._refuse("append_at")

    def append_stream(
        self,
        chunks: Iterable[bytes],
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        limit: int | None = None,
        length: int | None = None,
    ) -> int:
        """Append one record whose value comes in pieces, never held whole, and return its offset.

        limit: the most bytes of value. length: its bytes, where known. Then the record goes to another segment if
        it does not fit the present one, as with `append`; RecordTooLarge, before any piece is taken, if it fits none;
        InvalidArgument if the pieces have another length. Without it the record may write `segment_bytes - store size +
        segment_overflow_bytes` (laminarmq's append_threshold); past either StreamOverflow. After any error nothing of
        it is visible.
        """
        self._refuse("append_stream")

    def append_batch(self, data: Any) -> range:
        """Append Arrow data (columns value, and optionally key, timestamp, headers) and return its offsets.

        data: a pyarrow Table or RecordBatch, or any object with `__arrow_c_stream__` or `__arrow_c_array__`: a data
        frame of polars or pandas, a relation of DuckDB, a RecordBatchReader. Readers see all of it or nothing where it
        fits one segment and is at most 16 MiB or no stream. Longer data is committed in steps, and removed again on
        an error; readers may have seen a part by then. A stream is read while it is appended, in bounded memory, and
        other writers of the log wait until it ends.
        """
        self._refuse("append_batch")

    def publish(self, staged: Sequence[StagedSegment], *, query: str, batch: int) -> range | None:
        """Add segments that a `Stage` wrote behind the last record, all in one step; return the offsets they got.

        query, batch: which run of which query this is. None, and nothing is done, if that batch (or a later one of the
        query) was published before: a batch may be handed in again after any failure. The stage stays; remove it after.
        CorruptLog if a staged file is missing or damaged.
        """
        self._refuse("publish")

    def check_staged(self, staged: Sequence[StagedSegment]) -> None:
        """Raise CorruptLog, without any change, if one of these segments could not be published."""
        self._refuse("check_staged")

    def published(self, query: str) -> int | None:
        """Return the number of the last batch that was published for a query, None before the first."""
        return self.view().manifest.published.get(checked_text(query, "query"))

    def truncate(self, offset: int) -> None:
        """Remove the records from `offset` on; the next append gets `offset`."""
        self._refuse("truncate")

    def sync(self) -> None:
        """Return once every appended record survives power loss. Concurrent callers share one sync."""
        self._refuse("sync")

    def expire(self) -> int:
        """Let go of what retention by time and size no longer keeps; return how many segments went."""
        self._refuse("expire")

    def alter_retention(self, retention: Retention) -> None:
        """Keep records by another retention from now on, also after the next opening; durable when it returns.

        Fields that are not given keep their values: Retention(age=60) changes the age alone.

        What it lets go of goes at the next roll, `expire` or `compact`. A compaction under way, begun by another one,
        ends with PlanStale. StorageError: the retention is the old one.
        """
        self._refuse("alter_retention")

    def standing(self) -> Standing:
        """Return where the log stands with compaction by key: what is dirty, what is due and why, by segment."""
        from seglog.keyed.schedule import standing  # noqa: PLC0415 - an operator's call

        view = self.view()
        active = view.active.next_offset - view.active.base_offset
        return standing(
            view.manifest, self._clock(), active_bytes=view.active.size, active_records=active, pins=self.pins
        )

    def compact(
        self,
        *,
        roll: bool = False,
        generational: bool = False,
        progress: Progress | None = None,
        abort: Callable[[], bool] | None = None,
        bytes_per_second: float | None = None,
    ) -> CompactionReport:
        """Keep of every key its latest record, in the sealed segments; a log needs Retention(compact=True) for it.

        Offsets stay, so gaps come to be; the end stays as well. Tombstones go `delete_retention` after the first
        compaction that saw them. Appends and readers go on meanwhile. roll: end the active segment first, which is not
        touched otherwise. generational: look only at the segments that are expected to yield enough (see
        `seglog.keyed.schedule`), as the `Cleaner` does; else at all of them. progress(bytes done, bytes in all); abort:
        asked often, True ends it with CompactionAborted; bytes_per_second: of reading and writing together. After any
        error the log is as it was: PlanStale where it was truncated or expired meanwhile, StorageError (ENOSPC) where
        the space does not suffice. A segment with a damaged record is left as it is, and named in the report.
        """
        self._refuse("compact")

    def plan_compaction(self, *, generational: bool = False) -> CompactionPlan:
        """Return what `compact` would do now, for `seglog.keyed.rewrite.rewrite` in another process."""
        self._refuse("plan_compaction")

    def finish_compaction(self, plan: CompactionPlan, outcome: Outcome, directory: str) -> CompactionReport:
        """Let what `rewrite` wrote into `directory` (a stage of this log) take its place in the log, in one step.

        PlanStale where the plan's segments are no longer the log's. The stage stays; remove it after.
        """
        self._refuse("finish_compaction")

    def repair(self, progress: Progress | None = None) -> RepairReport:
        """Set damage aside (quarantine) and go on with all that is readable."""
        self._refuse("repair")

    def _keep_files(self) -> None:
        """Keep all files open from now on: the directory is about to be moved or removed, and readers go on."""

    def remove(self) -> None:
        """Close the log and remove its directory with all that is in it."""
        self._refuse("remove")
