"""Archive a log, a topic or a directory of topics while other processes write to it.

`step` makes one commit with the state of all logs: committed group offsets first, so that they never exceed the
records; the partitions of a topic at one moment. Only one archiver works on a directory (a lock there), and only one
on an archive (`history`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from time import monotonic
from types import TracebackType
from typing import Self

from seglog.archive import segments
from seglog.archive.arguments import checked_seconds
from seglog.archive.background import INTERVAL_SECONDS, BackgroundArchiver
from seglog.archive.claiming import claim
from seglog.archive.commit import ArchivedLog, Commit
from seglog.archive.garbage import Garbage
from seglog.archive.history import Writer
from seglog.archive.holding import Holding
from seglog.archive.lineage import Lineage
from seglog.archive.objects import ObjectStore
from seglog.archive.report import ArchiveReport
from seglog.archive.upload import ArchivedState, LogUpload, check_continues, continues, figures_of
from seglog.archive.urls import object_store
from seglog.clock import Clock, checked_clock, system_clock
from seglog.errors import (
    ArchiveFenced,
    ArchiveMismatch,
    LogLocked,
    LogNotFound,
    LogReplaced,
    SeglogError,
    StorageError,
)
from seglog.format.manifest import SegmentEntry
from seglog.log.log import Log
from seglog.log.opening import open_log, storage_at
from seglog.log.view import View
from seglog.storage import Lock, Storage, Subdirectory
from seglog.topic.backup import consistent_views
from seglog.topic.layout import description
from seglog.topic.layout.root import OFFSETS
from seglog.topic.repair.discover import Site, site_at

LOCK = ".archive.lock"
PUTS_AT_ONCE = 8
GRACE_SECONDS = 3600.0
COMMIT_BYTES = 64 * 1024 * 1024
"""A long upload is committed each time that this has been uploaded."""
DELETE_AGAIN_SECONDS = 60.0
MICROSECONDS = 1_000_000


class Archiver:
    """Archives one directory to one URL. A context manager; not for use by several threads at once, except `close`."""

    def __init__(
        self,
        place: str | os.PathLike[str] | Storage,
        url: str | ObjectStore,
        *,
        keep: float | None = None,
        grace: float = GRACE_SECONDS,
        take_over: bool = False,
        hold: bool = True,
        clock: Clock = system_clock,
    ) -> None:
        """Become the writer of the archive.

        Args:
            place: A log, a topic or a directory of topics.
            url: The URL of the archive, or an object store.
            keep: Seconds to keep segments that the log itself has deleted, after they were sealed. None: forever.
            grace: Seconds to keep objects that are no longer part of the archive, for readers of earlier states.
            take_over: Continue the archive even if another directory was archived there last, and replace its content.
            hold: Let retention here wait for this archive: no segment is deleted before it is archived, also while no
                archiver runs. `release` ends that.
            clock: Microseconds since the epoch; decides only what may be deleted.

        Raises:
            LogLocked: Another archiver works on this directory.
            ArchiveMismatch: The archive does not belong to this directory.
            ArchiveFenced: Another writer took the archive over at the same moment.
        """
        self._root = storage_at(place)
        self._store = object_store(url)
        self._keep = None if keep is None else checked_seconds(keep, "keep")
        grace = checked_seconds(grace, "grace")
        self._take_over = take_over
        self._holding = Holding(self._store.url) if hold else None
        self._clock = clock = checked_clock(clock)
        self._logs: dict[str, Log] = {}
        self._states: dict[str, ArchivedState] = {}
        self._pending: dict[str, ArchivedState] = {}
        self._archived_views: dict[str, tuple[int, int, int]] = {}  # what of each log is archived
        self._texts: dict[str, str] = {}  # the description of each topic when its logs were viewed last
        self._uploaded = 0
        self._undeleted, self._delete_from = "", 0.0
        site = site_at(self._root)
        with ExitStack() as resources:
            lock = self._lock()
            resources.callback(lock.release)
            self._writer = self._claim(site.kind, take_over=take_over)
            if self._holding is not None:
                for log in self._places(site, {}).values():
                    self._holding.begin(log)
            self._load_states()
            used = {key for state in (*self._states.values(), *self._pending.values()) for key in state.objects()}
            self._garbage = Garbage(self._store, self._writer.term, grace, clock, used)
            resources.callback(self._garbage.close)
            resources.callback(self._close_logs)
            self._pool = resources.enter_context(ThreadPoolExecutor(PUTS_AT_ONCE, "seglog-archive"))
            self._resources = resources.pop_all()

    def _lock(self) -> Lock:
        lock = self._root.try_lock(LOCK)
        if lock is None:
            message = "another process archives this directory already; stop it first"
            raise LogLocked(errno.EWOULDBLOCK, message, self._root.path)
        return lock

    def _claim(self, kind: str, *, take_over: bool) -> Writer:
        def may_follow(newest: Commit | None, known: Lineage) -> None:
            if not take_over:
                known.check(newest)

        return claim(self._root, self._store, self._clock, kind=kind, may_follow=may_follow)

    def _load_states(self) -> None:
        self._states = {name: self._state_of(log) for name, log in self._writer.current.logs.items()}
        self._pending = {name: self._state_of(log) for name, log in self._writer.current.pending.items()}

    def _state_of(self, log: ArchivedLog) -> ArchivedState:
        path = f"{self._store.url.rstrip('/')}/{log.segments}"
        return ArchivedState(log, segments.decode(self._store.read(log.segments), log.check, path))

    # --- one round ------------------------------------------------------------------------------------------------

    def step(self) -> ArchiveReport:
        """Archive what is new since the last round, in one commit; no commit if there is nothing.

        Raises:
            ArchiveFenced: Another writer has taken the archive over; this one must stop.
            StorageError: The object store or a log cannot be read or written; the next round continues.
        """
        self._settle()
        self._uploaded, failed = 0, dict[str, str]()
        site = site_at(self._root)
        if site.kind != self._writer.current.kind:
            raise ArchiveMismatch(
                f"{self._root.path} is a {site.kind} now; it was archived as a {self._writer.current.kind}"
            )
        places = self._places(site, failed)
        if self._states and not places and not failed:
            raise LogNotFound(errno.ENOENT, "no log is left here; its archive was not changed", self._root.path)
        uploads = self._uploads(site, places, failed)
        for name, upload in uploads.items():
            self._upload_sealed(name, upload, failed)
        states = {name: state for name, state in self._states.items() if name in places or _fails(name, failed)}
        states.update(self._upload_tails({name: one for name, one in uploads.items() if name not in failed}))
        pending = {name: state for name, state in self._pending.items() if _fails(name, failed)}
        self._commit(states, self._topics(site, failed), pending)
        done = {name: one for name, one in uploads.items() if name not in failed}
        self._archived_views.update((name, one.figures) for name, one in done.items())
        if self._holding is not None:
            for name, upload in done.items():
                self._holding.move(places[name], upload.manifest)
        self._uploaded = sum(upload.uploaded for upload in uploads.values())
        gaps = {name: upload.gap for name, upload in uploads.items() if upload.gap is not None and name not in failed}
        return self._report(gaps, failed)

    def _settle(self) -> None:
        """Complete a commit of unknown outcome, then begin from what the archive has."""
        if self._writer.unsettled:
            self._writer.settle()
            self._archived_views.clear()
            self._load_states()

    def _places(self, site: Site, failed: dict[str, str]) -> dict[str, Storage]:
        """Return the logs by name, committed group offsets first."""
        if site.kind == "log":
            return {"": site.root}
        own = site.offsets
        places: dict[str, Storage] = {} if own is None else {OFFSETS: own}
        for directory, topic in site.topics.items():
            try:
                for number in range(description.read(topic).partitions):
                    places[f"{directory}/{number}".strip("/")] = Subdirectory(topic, str(number))
            except SeglogError as error:
                failed[directory] = str(error)
        return places

    def _topics(self, site: Site, failed: dict[str, str]) -> dict[str, str]:
        known = {name: text for name, text in self._writer.current.topics.items() if name in failed}
        return known | {name: self._texts[name] for name in site.topics if name not in failed}

    def _uploads(self, site: Site, places: dict[str, Storage], failed: dict[str, str]) -> dict[str, LogUpload]:
        """Take a view of every log and return what is to be done for those that changed."""
        for name in [name for name in self._logs if name not in places]:
            self._logs.pop(name).close()
            self._archived_views.pop(name, None)
        views: dict[str, View] = {}
        if site.kind == "log" or OFFSETS in places:
            name = "" if site.kind == "log" else OFFSETS
            self._try(name, failed, lambda: views.update({name: self._log(name, places[name]).view()}))
        for directory, topic in site.topics.items():
            self._try(directory, failed, partial(self._view_all, directory, topic, places, views))
        found: dict[str, LogUpload] = {}
        for name, view in views.items():
            if self._keep is None and self._archived_views.get(name) == figures_of(view):
                continue  # nothing is new
            self._try(name, failed, partial(self._prepare, name, places[name], view, found))
        return found

    def _prepare(self, name: str, place: Storage, view: View, found: dict[str, LogUpload]) -> None:
        found[name] = self._upload(name, place, view)

    def _view_all(self, directory: str, topic: Storage, places: dict[str, Storage], views: dict[str, View]) -> None:
        """Take a view of each partition of a topic, all at one moment, and its description at that moment."""
        own = [name for name in places if name.rpartition("/")[0] == directory and name != OFFSETS]
        logs = [self._log(name, places[name]) for name in own]
        before, text = None, _text_of(topic)
        while text != before:
            found, before = consistent_views(topic, logs), text
            text = _text_of(topic)
        views.update(zip(own, found, strict=True))
        self._texts[directory] = text

    def hold(self, places: Iterable[Storage]) -> None:
        """Let retention of new logs wait for this archive from their first record on. From any thread."""
        if self._holding is not None:
            for place in places:
                self._holding.begin(place)

    def _log(self, name: str, place: Storage) -> Log:
        log = self._logs.get(name)
        if log is not None:
            try:
                log.view()
            except (LogReplaced, LogNotFound):
                self._logs.pop(name).close()
                log = None
        if log is None:
            log = open_log(place, mode="r")
            try:
                self.hold([place])
            except BaseException:
                log.close()
                raise
            self._logs[name] = log  # only now: else the next round would find it, and begin no hold
        return log

    def _upload(self, name: str, place: Storage, view: View) -> LogUpload:
        return LogUpload(
            self._store,
            place,
            view,
            self._earlier(name, place, view),
            self._pending.get(name),
            term=self._writer.term,
            number=self._writer.current.number + 1,
            clock=self._clock,
            expired=self._is_expired,
        )

    def _earlier(self, name: str, place: Storage, view: View) -> ArchivedState | None:
        """Return the archived state that a log continues. Raises ArchiveMismatch if it cannot be that log's."""
        state, present = self._states.get(name), view.manifest
        if state is None or (self._take_over and not continues(state, present)):
            return None
        archived = state.segments.manifest
        if archived.log_id == present.log_id or archived.home == present.home:
            check_continues(state, present, place.path)
            return state
        return None  # the topic was deleted, and another one has its name now

    def _is_expired(self, entry: SegmentEntry) -> bool:
        if self._keep is None or entry.sealed_at is None:
            return False
        return entry.sealed_at + self._keep * MICROSECONDS < self._clock()

    def _upload_sealed(self, name: str, upload: LogUpload, failed: dict[str, str]) -> None:
        def run() -> None:
            committed = 0
            for count in upload.missing():
                if upload.uploaded - committed >= COMMIT_BYTES:
                    committed = upload.uploaded
                    self._commit(
                        self._states, self._writer.current.topics, {**self._pending, name: upload.progress(count)}
                    )

        self._try(name, failed, run)

    def _upload_tails(self, uploads: dict[str, LogUpload]) -> dict[str, ArchivedState]:
        found = zip(uploads, self._pool.map(LogUpload.whole, uploads.values()), strict=True)
        return {name: state for name, state in found if state is not None}

    def _try(self, name: str, failed: dict[str, str], action: Callable[[], object]) -> None:
        """Call it; an error of one log, other than of the object store, does not stop the others."""
        try:
            action()
        except (ArchiveFenced, StorageError):
            raise
        except SeglogError as error:
            failed[name] = str(error)

    def _commit(
        self, states: dict[str, ArchivedState], topics: dict[str, str], pending: dict[str, ArchivedState]
    ) -> None:
        """Commit these states, if they differ from the present ones."""
        current, logs = self._writer.current, {name: state.log for name, state in states.items()}
        waiting = {name: state.log for name, state in pending.items()}
        if (logs, topics, waiting) == (current.logs, current.topics, current.pending):
            return
        names = {*self._states, *self._pending}
        dropped = {key for name in names for key in _dropped(self._states.get(name), states.get(name))}
        for name, state in self._pending.items():
            if pending.get(name) is not state:
                dropped |= set(state.objects()) - self._objects_of(name, states, pending)
        self._states, self._pending = states, pending
        self._writer.commit(logs=logs, topics=topics, pending=waiting)
        self._garbage.add(dropped)  # only now is it certain that they are

    @staticmethod
    def _objects_of(name: str, *kinds: dict[str, ArchivedState]) -> set[str]:
        return {key for states in kinds if name in states for key in states[name].objects()}

    def _report(self, gaps: dict[str, tuple[int, int]], failed: dict[str, str]) -> ArchiveReport:
        records = sum(state.log.next_offset - state.segments.manifest.start for state in self._states.values())
        deleted, undeleted = self._delete_garbage()
        return ArchiveReport(
            commit=self._writer.current.number,
            logs=len(self._states),
            records=records,
            uploaded=self._uploaded,
            deleted=deleted,
            gaps=gaps,
            failed=failed,
            undeleted=undeleted,
        )

    def _delete_garbage(self) -> tuple[int, str]:
        """Delete objects that left the archive longer than the grace period ago, and old commits.

        Return how many objects, and the error of a store that denies it; after one it is tried again later.
        """
        if monotonic() < self._delete_from:
            return 0, self._undeleted
        try:
            self._writer.delete_old()
            self._undeleted, deleted = "", self._garbage.delete_due()
        except StorageError as error:
            self._undeleted, deleted, self._delete_from = str(error), 0, monotonic() + DELETE_AGAIN_SECONDS
        return deleted, self._undeleted

    # --- many rounds ----------------------------------------------------------------------------------------------

    def background(
        self,
        interval: float = INTERVAL_SECONDS,
        said: Callable[[str], None] | None = None,
        fenced: Callable[[], object] | None = None,
    ) -> BackgroundArchiver:
        """Archive every `interval` seconds in a thread from now on; the result's `wait` waits for the archive.

        said: called with each new problem, as text. fenced: called once another writer has the archive, to stop
        accepting records. The thread uses this object from here on, and closes it.
        """
        return BackgroundArchiver(self, interval, said, fenced)

    def close(self) -> None:
        """Release the lock and the logs. A second call does nothing."""
        self._resources.close()

    def _close_logs(self) -> None:
        for log in self._logs.values():
            log.close()
        self._logs.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _text_of(topic: Storage) -> str:
    """Return what topic.json holds now."""
    file = topic.open(description.FILE_NAME)
    return file.pread(file.size(), 0).decode()


def _fails(name: str, failed: dict[str, str]) -> bool:
    """Whether a log, or its topic, is among those that failed."""
    return name in failed or name.rpartition("/")[0] in failed


def _dropped(before: ArchivedState | None, after: ArchivedState | None) -> set[str]:
    """Return the keys of the objects of one state of a log that another one does not have."""
    if before is None or before is after:
        return set()
    if after is not None and before.segments is after.segments:
        return {piece.key for piece in before.log.tail} - {piece.key for piece in after.log.tail}
    return set(before.objects()) - (set() if after is None else set(after.objects()))
