"""Read a log that another process may be writing: follow appends, rolls, expiry and truncates live.

Never cuts, syncs or creates a log, and never blocks the writer. A lease prevents files in use from being unlinked.
"""

from __future__ import annotations

import errno
import functools
import os
import threading
from collections.abc import Callable, Sequence
from typing import ClassVar, NoReturn
from weakref import WeakSet

from seglog.clock import Clock, system_clock
from seglog.errors import (
    CorruptLog,
    LogNotFound,
    LogReadOnly,
    LogReplaced,
    NotDurableYet,
    SeglogError,
    SnapshotExpired,
)
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.manifest_changes import ManifestFile
from seglog.log.history import Trace, was_cut
from seglog.log.info import SegmentInfo, SegmentInfos, active_info
from seglog.log.journal import read_file
from seglog.log.leases import Lease, keep_version
from seglog.log.log import Log
from seglog.log.manifest_watch import ManifestWatch
from seglog.log.segment_cache import SegmentCache
from seglog.log.view import View, Views
from seglog.record import Record
from seglog.segment.follower import ActiveFollower
from seglog.segment.kernel_read import Seen
from seglog.segment.reader import SegmentReader
from seglog.segment.recovery_report import RecoveryReport
from seglog.storage import Storage

RELOAD_ATTEMPTS = 100


def _rejected(what: str) -> Callable[..., NoReturn]:
    """Return a method that raises LogReadOnly."""

    @functools.wraps(getattr(Log, what), updated=())  # __dict__ would make it abstract
    def reject(log: LogFollower, *_: object, **__: object) -> NoReturn:
        log._check_open()
        raise LogReadOnly(errno.EROFS, f'{what} needs a log opened with mode="a"', log.path)

    return reject


class LogFollower(Log):
    """A log opened with mode "r". Every call first checks for changes: a read of a known offset with one system call,
    any other with two stat calls.

    `_known` is the present view, the identity of its manifest, and this as kernels take it: replaced together, so a
    read of a known offset needs no lock. None once the log is closed.
    """

    _open_followers: ClassVar[WeakSet[LogFollower]] = WeakSet()

    def __init__(
        self, storage: Storage, seen: Manifest, clock: Clock, recovery: RecoveryReport, *, durable: bool
    ) -> None:
        """seen: the manifest as read without a lease, or one that was rebuilt and replaces it (see `recovery`)."""
        super().__init__(storage, clock, recovery)
        self._durable = durable
        self._closed = False
        self._mutex = threading.RLock()
        self._closing = False  # `close` was called during another call, which closes the log when it ends
        self._lease = Lease(storage)
        self._views = Views()
        self._watch = ManifestWatch(storage)
        self._known: tuple[View, object, Seen | None] | None = None
        self._seen = seen
        self._file: ManifestFile | None = None  # what MANIFEST held at the last look
        self._fallback = None if recovery.clean else seen
        try:
            self._steadily(self._load)
        except BaseException:
            self._lease.release()
            raise
        LogFollower._open_followers.add(self)

    @classmethod
    def _leave_to_parent(cls) -> None:
        """Prepare for a forked child: no other thread runs there, and the lease belongs to the parent."""
        for log in list(cls._open_followers):
            log._mutex = threading.RLock()
            log._views.renew_guards()
            log._lease.leave_to_parent()

    @property
    def _present(self) -> View:
        """The present view as last known; only while the log is open."""
        assert self._known is not None  # noqa: S101 - see `_check_open`
        return self._known[0]

    def _load(self) -> None:
        """Load the present manifest as the known view, with a follower of its active segment."""
        identity = self._watch.identity()
        manifest = self._fallback
        if manifest is None:
            file = read_file(self._storage, known=self._file, like=self._seen)
            if file is None:
                raise LogNotFound(2, "the log was removed", self.path)
            if file.rest:  # a change that is being written: the file may not become longer any more
                identity = None
            self._file, manifest = file, file.manifest
        if manifest.log_id != self._seen.log_id:
            raise LogReplaced(
                f"{self.path}: the log that was opened here was removed, and another one was created in its place;"
                " open it again to read that one from its first record"
            )
        config = manifest.config
        cache = SegmentCache(
            self._storage, limit=config.open_segments_max, interval=config.index_interval_bytes, heal=False
        )
        active = ActiveFollower(
            self._storage, manifest.active, interval=config.index_interval_bytes, durable=self._durable
        )
        active.refresh()
        view = self._views.add(View(manifest, active.reader, cache, self._lease))
        self._active, self._seen = active, manifest
        self._known = (
            view,
            identity,
            self._watch.seen(identity),
        )  # last: an interrupt before it leaves a view that counts as outdated

    def _reload(self) -> None:
        """Load the present manifest; the lease names an older version only while older views are in use."""
        self._steadily(self._replace_present)
        self._hold_oldest()

    def _steadily(self, load: Callable[[], None]) -> None:
        """Load the manifest and what it names, again if the structure changes meanwhile."""
        for left in reversed(range(RELOAD_ATTEMPTS)):
            identity = self._watch.identity()
            try:
                return load()
            except CorruptLog:
                if left == 0 or self._watch.identity() == identity:
                    raise
        return None

    def _replace_present(self) -> None:
        """Load the present manifest in place of the last one, which nothing may refer to after this call."""
        before = self._present
        self._load()
        if self._tiers is not None and before.manifest.start < self._present.manifest.start:
            self._tiers.deleted(before, self._present.manifest.start)

    def _all_views(self) -> Views:
        return self._views

    def _own_view(self) -> View:
        """Return the present view; see Log._own_view. During another call of the same thread: the last known view."""
        return self._looked()[0]

    def _looked(self) -> tuple[View, ActiveFollower]:
        """Check for changes; return the present view and its active segment."""
        if self._reentered():
            self._check_open()
            return self._present, self._active
        try:
            with self._mutex:
                self._check_open()
                self._look()
                return self._present, self._active
        finally:
            if self._closing:
                self.close()

    def _look(self) -> None:
        if not self._is_current():
            self._fallback = None  # a writer has rebuilt the manifest
            self._reload()
        else:
            self._active.refresh()
            if self._lease.version != self._present.manifest.version:  # an older view may no longer be in use
                self._hold_oldest()

    def _is_current(self) -> bool:
        """Whether the known view is that of MANIFEST."""
        return self._known is not None and self._watch.is_same(self._known[1])

    def _view_at(self, offset: int) -> View:
        """Return the present view; look for later appends only if the offset is beyond it."""
        known = self._known
        if known is not None and offset < known[0].active.next_offset and self._watch.is_same(known[1]):
            return known[0] if self._tiers is None else self._tiers.extend(known[0])
        return self.view()

    def read(self, offset: int) -> Record:
        """Return the record at `offset`; see Log.read. A known offset takes one call of a kernel that looks at MANIFEST
        first.
        """
        known = self._known
        if known is not None and type(offset) is int:
            view, _, seen = known
            if seen is not None and view.manifest.start <= offset < view.active.next_offset:
                try:
                    record = view.reader_of(offset).read_if(seen, offset)
                except SeglogError:  # of a segment that may no longer be the log's
                    record = None
                if record is not None:
                    return record
        return self._read(offset, None)

    def _refuse_to_read(self, view: View, offset: int) -> NoReturn:
        if self._durable and offset >= view.next_offset and offset < self._followed(durable=False):
            raise NotDurableYet(offset, view.lowest_offset, view.next_offset)
        super()._refuse_to_read(view, offset)

    def _refuse_start(self, view: View, start: int) -> NoReturn:
        if self._durable and view.next_offset < start <= self._followed(durable=False):
            raise NotDurableYet(start, view.lowest_offset, view.next_offset)
        super()._refuse_start(view, start)

    def _followed(self, *, durable: bool) -> int:
        """Return the present next offset from the writer's files: of all records, or of the synced ones."""
        manifest = self._own_view().manifest
        active = ActiveFollower(
            self._storage, manifest.active, interval=manifest.config.index_interval_bytes, durable=durable
        )
        active.refresh()
        return active.reader.next_offset

    def _reentered(self) -> bool:
        """Whether this thread is inside another call on this log, for example interrupted by a signal handler."""
        return self._mutex._is_owned()  # type: ignore[attr-defined,no-any-return] # as Condition does

    def _hold_oldest(self) -> None:
        self._lease.hold(self._views.oldest_version() or 0)

    def _keep_version(self, version: int, seconds: float) -> None:
        """Keep the files of a manifest's version for some seconds, also after this log is closed; see `leases`.

        Raises StorageError if the directory cannot be written to.
        """
        keep_version(self._storage, version, system_clock() + int(seconds * 1_000_000))

    def _reader_of(self, entry: SegmentEntry, stop: int, trace: Trace) -> SegmentReader:
        """Return the reader of a segment as an earlier manifest names it, which the log may have replaced since.

        Args:
            entry: The segment, as it was then.
            stop: The end of what is to be read.
            trace: That of `stop`, as it was then.

        Raises:
            SnapshotExpired: If its file is gone; or, for one that was active, if the log was cut before `stop` since.
        """
        view = self.view()
        if entry.sealed:
            return view.cache.get(entry)
        if stop > view.next_offset or was_cut(trace, view.trace_of(stop)):
            raise SnapshotExpired(entry.base_offset, stop, self.path)
        segments = view.manifest.segments
        now = segments[segments.find(entry.base_offset)]
        if (now.file, now.salt) == (entry.file, entry.salt):
            return view.active if now is segments[-1] else view.cache.get(now)
        try:
            interval = view.manifest.config.index_interval_bytes
            follower = ActiveFollower(self._storage, entry, interval=interval, durable=False)
        except CorruptLog as error:
            raise SnapshotExpired(entry.base_offset, stop, self.path) from error
        follower.refresh()
        return follower.reader

    @property
    def durable_offset(self) -> int:
        """The offset up to which the writer is known to have synced, according to its index."""
        self._check_open()
        return self._followed(durable=True)

    @property
    def closed(self) -> bool:
        """Whether the log is closed."""
        return self._closed

    @property
    def failure(self) -> None:
        """None: what stops the writer does not stop a reader."""

    def is_ready(self, length: int) -> bool:  # noqa: ARG002 - the contract's parameter
        """Return False: nothing can be appended."""
        self._check_open()
        return False

    @property
    def segments(self) -> Sequence[SegmentInfo]:
        """Figures of every segment; those of the active one are counted at this call."""
        view, active = self._looked()
        return SegmentInfos(view.manifest.segments, active_info(active.entry, active.reader, active.tally()))

    def close(self) -> None:
        """Release the lease, and the files, which close when no iterator uses them. A second call does nothing.

        An iterator that goes on may raise SnapshotExpired: nothing keeps its files now.

        If it is called during another call of the same thread, it takes effect when that call ends.
        """
        if self._reentered():
            self._closing = True
            return
        with self._mutex:
            if not self._closed:
                self._closed = True
                if self._tiers is not None:
                    self._tiers.close()
                LogFollower._open_followers.discard(self)
                self._known = None
                del self._active
                self._lease.release()

    # --- changes ------------------------------------------------------------------------------------------------

    append = _rejected("append")
    append_each = _rejected("append_each")
    append_at = _rejected("append_at")
    append_stream = _rejected("append_stream")
    append_batch = _append_encodable = _rejected("append_batch")
    publish = _rejected("publish")
    check_staged = _rejected("check_staged")
    truncate = _rejected("truncate")
    sync = _rejected("sync")
    mirrored = _rejected("mirrored")
    _mirrored_since = _rejected("_mirrored_since")
    _copies_with = _rejected("_copies_with")
    expire = _rejected("expire")
    delete_before = _rejected("delete_before")
    alter = _rejected("alter")
    compact = _rejected("compact")
    plan_compaction = _rejected("plan_compaction")
    finish_compaction = _rejected("finish_compaction")
    compress = _rejected("compress")
    repair = _rejected("repair")
    fence = _rejected("fence")
    remove = _rejected("remove")


os.register_at_fork(after_in_child=LogFollower._leave_to_parent)
