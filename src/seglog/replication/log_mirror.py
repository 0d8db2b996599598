"""Copy one log: follow its cuts, append its records, take its settings, pin its tombstones.

A round is: fetch history and records from one view of the source; decide where the copy continues (`lineage`); take the
source's history; check that the records before are the same (`sameness`); append, sync, and move the pin. The position
of a copy is its own `next_offset` with the history in its manifest, so a round may be interrupted anywhere and is
repeated.
"""

from __future__ import annotations

import secrets
import time
import weakref
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seglog.clock import Clock, system_clock
from seglog.errors import CopyExpired, CopyStopped, CorruptLog, CorruptRecord, OffsetOutOfRange, SeglogError
from seglog.format.manifest import Manifest, Role
from seglog.log.copied import CopyWriter
from seglog.log.log import Log
from seglog.log.opening import Home, Seed, open_copy
from seglog.replication.lineage import Lineage, continue_at, history_of, put_back, shared_offset
from seglog.replication.sameness import Digests, first_difference
from seglog.replication.source import Held
from seglog.storage import Storage

if TYPE_CHECKING:
    from seglog.log.view import View
    from seglog.replication.source import Fetched, LogSource

ROUND_BYTES = 64 * 1024 * 1024  # copied between two syncs
DAMAGE = (CorruptRecord, CorruptLog)
PIN_SECONDS = 1.0  # a pin costs the source two syncs


@dataclass(frozen=True, slots=True)
class Lag:
    """What a copy lacks of its source.

    Attributes:
        records: Records that the source has and the copy does not; an estimate where offsets have gaps.
        bytes: Their size in the source's stores, estimated.
        seconds: Time since the copy last had every record of its source; 0 if it has now.
    """

    records: int = 0
    bytes: int = 0
    seconds: float = 0.0


def _before_own_compaction(manifest: Manifest, cut: int) -> int:
    """Return where to cut instead of at `cut`: before segments from which the copy itself removed records because of
    later ones that are now cut. The source may still hold them, as the latest of their keys.
    """
    bases = (
        entry.base_offset
        for entry in manifest.segments
        if entry.base_offset < cut and entry.cleaned_to is not None and entry.taken_for > cut
    )
    return next(bases, cut)


class LogMirror:
    """Copies one log. Not safe for threads. A context manager."""

    def __init__(
        self,
        source: LogSource,
        target: Storage,
        *,
        home: Home | None = None,
        restart: bool = False,
        pin: bool = True,
        name: str = "",
        clock: Clock = system_clock,
    ) -> None:
        """home: topic id and partition, for a log of a topic. restart, pin: see Mirror. name: of the whole copy."""
        self.source = source
        self.path = target.path
        self._restart = restart
        self._pins = pin
        self._name = name
        self._pinned: Held | None = None
        self._pinned_at = float("-inf")
        self._behind_since = time.monotonic()
        self._left = (0, 0)
        self._ahead: Fetched | None = None
        self._held: Held | None = None  # what is known to be on the copy's disk
        self._same: tuple[weakref.ref[View], Digests] | None = None  # what was compared last, without a difference
        first = source.fetch(None)
        seed = Seed(
            log_id=first.lineage.log_id,
            start=first.lineage.start,
            config=first.config,
            history=history_of(first.lineage, Role(term=first.lineage.term, copy=secrets.token_hex(8))),
        )
        log = open_copy(target, seed, home, clock)
        if restart and log.view().manifest.log_id != seed.log_id:
            log.remove()
            log = open_copy(target, seed, home, clock)
        self._writer = CopyWriter(log)
        try:
            self._begin(first)
        except BaseException:
            self._writer.log.close()
            raise

    def _begin(self, first: Fetched) -> None:
        """Check that the copy can follow, before anything is pinned or deleted."""
        self._reconcile(first)
        offset = self.position
        is_new = offset == self._writer.manifest.start
        if not is_new:
            fetched = self.source.fetch(offset, 1)
            self._reconcile(fetched)  # the source may have been cut since
            is_new = self.position != offset or self._compare(fetched)
        if not self._pins:
            return
        self._note_held()  # the opening has synced what it found
        if not is_new and not self.source.pinned(self._writer.manifest.role.copy):
            self._check_unpinned(fetched, offset)
        self._note_held()
        self._move_pin(now=True)

    def _note_held(self) -> None:
        """Note that everything in the copy is on its disk."""
        manifest, offset = self._writer.manifest, self.position
        epoch = manifest.cuts.epoch_at(offset)
        self._held = Held(manifest.role.copy, offset, epoch, self._name) if self._pins else None

    def _check_unpinned(self, fetched: Fetched, offset: int) -> None:
        """Raise CopyExpired if the source, without this copy's pin, may have removed tombstones that it needs."""
        if not fetched.compacted or not fetched.config.retention.compact:
            return
        if self._restart:
            self._start_over(fetched.lineage)
            return
        raise CopyExpired(
            f"{self.source.name} has no pin of {self.path}, and has compacted records from offset {offset} on: "
            "tombstones of keys that the copy holds may be gone. restart=True (--restart) copies again"
        )

    @property
    def log(self) -> Log:
        """The copy. Read it only."""
        return self._writer.log

    @property
    def position(self) -> int:
        """The next offset to copy."""
        return self._writer.log.next_offset

    @property
    def lag(self) -> Lag:
        """What the copy lacked at the end of the last round."""
        records, size = self._left
        seconds = 0.0 if self._behind_since == 0 else time.monotonic() - self._behind_since
        return Lag(records, size, seconds)

    # --- one round ------------------------------------------------------------------------------------------------

    def step(self, *, most: int = ROUND_BYTES) -> int:
        """Copy up to `most` bytes, make them durable, and return how many were copied; 0: there is nothing new.

        Raises:
            CopyStopped: If the copy cannot follow its source.
            CorruptRecord: If a record of the source is damaged; the records before it are copied.
        """
        copied, writer = 0, self._writer
        try:
            while copied < most:
                fetched = self._fetch_next()
                if self._reconcile(fetched) or self._compare(fetched):
                    continue  # the records were requested from another offset
                for records in fetched.records:
                    writer.append(records)
                    copied += len(records.data)
                if fetched.complete:
                    self._finish(fetched)
                    break
        except DAMAGE:
            self._left = max(self._left[0], 1), max(self._left[1], 1)  # at least the damaged record
            self._behind_since = self._behind_since or time.monotonic()
            raise
        finally:
            if writer.log.durable_offset < self.position:
                writer.sync()
            self._note_held()
        self._measure(fetched)
        self._move_pin()
        return copied

    def fetch_ahead(self) -> None:
        """Fetch what the next round begins with, so that it has nothing newer than that."""
        self._ahead = self.source.fetch(self.position, held=self._held)

    def _fetch_next(self) -> Fetched:
        fetched, self._ahead = self._ahead, None
        return fetched or self.source.fetch(self.position, held=self._held)

    def _finish(self, fetched: Fetched) -> None:
        """Take what is true of the source's whole log, once the copy has all of it."""
        self._writer.skip_to(fetched.lineage.end)
        retention = fetched.config.retention
        expires = retention.most_age is not None or retention.most_bytes is not None
        if expires and not fetched.lineage.rebuilt:  # else damage may have taken the source's first segments
            self._writer.drop_before(fetched.lineage.start)
        self._writer.configure(fetched.config)
        if fetched.published != self._writer.manifest.published:
            self._writer.sync()  # a published batch must not be durable before its records
            self._writer.take(published=fetched.published)

    def _reconcile(self, fetched: Fetched) -> bool:
        """Follow the source's cuts and take its history; return whether the copy's position has changed."""
        theirs, manifest = fetched.lineage, self._writer.manifest
        ours = Lineage.from_manifest(manifest, self.position)
        agree = (ours.log_id, ours.epoch, ours.cuts) == (theirs.log_id, theirs.epoch, theirs.cuts)
        if agree and theirs.start <= ours.end <= theirs.end and manifest.role.copy:
            return False
        try:
            offset = continue_at(ours, theirs, is_copy=bool(manifest.role.copy), names=(self.path, self.source.name))
        except CopyStopped:
            if not self._restart or ours.log_id != theirs.log_id:
                raise
            shared = shared_offset(ours, theirs)
            if shared is None:
                return self._start_over(theirs)
            offset = shared
        if offset < ours.end:
            offset = _before_own_compaction(manifest, offset)
            if offset < theirs.start:
                return self._start_over(theirs)
        role = Role(term=theirs.term, copy=manifest.role.copy or secrets.token_hex(8), fenced=manifest.role.fenced)
        history = history_of(theirs, role)
        self._held = None
        if offset < ours.start:
            self._writer.start_over(offset, history)
        elif offset < ours.end:
            self._writer.cut(offset, history)
        else:
            self._writer.take(**history)
        return offset != ours.end

    def _compare(self, fetched: Fetched) -> bool:
        """Check that both hold the same records before the copy's position; return whether the copy was emptied.

        They do not if the source was put back to an earlier state without a new epoch.

        Raises:
            CopyDiverged: If a record differs, unless the copy may start over.
        """
        view = self._writer.log.view()
        state = weakref.ref(view), fetched.before
        if state == self._same:
            return False
        offset = first_difference(view, fetched.before)
        if offset is None:
            self._same = state
            return False
        if self._restart:
            return self._start_over(fetched.lineage)
        raise put_back(offset, self.path, self.source.name)

    def _start_over(self, theirs: Lineage) -> bool:
        """Delete everything that the copy holds, and begin at the source's first record."""
        role = Role(term=theirs.term, copy=self._writer.manifest.role.copy or secrets.token_hex(8))
        self._withdraw(theirs)
        self._writer.start_over(theirs.start, {**history_of(theirs, role), "published": {}, "rebuilt": False})
        self._restart = False
        return True

    def _withdraw(self, theirs: Lineage) -> None:
        """Report to the source, before records are deleted, that the copy has none of them."""
        copy, self._held = self._writer.manifest.role.copy, None
        if self._pins and copy and self.source.pinned(copy):
            self.source.pin(Held(copy, theirs.start, theirs.cuts.epoch_at(theirs.start), self._name))
            self._pinned = None

    def _measure(self, fetched: Fetched) -> None:
        if fetched.complete:
            self._left, self._behind_since = (0, 0), 0.0
            return
        copied = sum(len(records.data) for records in fetched.records)
        left = max(fetched.bytes_left - copied, 1)
        self._left = fetched.records_left * left // max(fetched.bytes_left, 1), left
        self._behind_since = self._behind_since or time.monotonic()

    def _move_pin(self, *, now: bool = False) -> None:
        due = now or time.monotonic() - self._pinned_at >= PIN_SECONDS
        if self._held is not None and due and self._held != self._pinned:
            with suppress(OffsetOutOfRange):  # the source was cut just now; the next round follows
                self.source.pin(self._held)
                self._pinned, self._pinned_at = self._held, time.monotonic()

    # --- housekeeping and the end ---------------------------------------------------------------------------------

    def close(self) -> None:
        """Move the pin to the copy's position, and close the copy. A second call does nothing."""
        if self._writer.log.closed:
            return
        try:
            with suppress(SeglogError):  # a pin that is too low keeps more than necessary
                self._move_pin(now=True)
        finally:
            self._writer.log.close()
