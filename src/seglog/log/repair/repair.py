"""Repair a log: set damage aside and keep everything readable. Deletes nothing; replaced files go to quarantine/.

The readable records of a damaged store are copied to a new one. Offsets do not change; damaged ones become gaps.
"""

from __future__ import annotations

import secrets
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from seglog.clock import Clock, system_clock
from seglog.errors import LogLocked, StorageError
from seglog.format import filename
from seglog.format.codec import HEAD_BYTES, ZERO_HEAD, Rules, encode_headers
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES
from seglog.log.catalog import Catalog, read_manifest, write_manifest
from seglog.log.locks.write_lock import holder_of, try_lock_log
from seglog.log.quarantine import copy_aside, link_aside
from seglog.log.repair.rebuild_manifest import read_or_rebuild
from seglog.log.repair.reports import Problem, VerifyReport
from seglog.log.repair.verify import Progress, verify_storage
from seglog.segment.active import ActiveSegment, Growth, create_segment
from seglog.segment.blocks import header_of, plain_store
from seglog.segment.recovery import TailRecovery
from seglog.segment.resync import find_record
from seglog.segment.sealed import read_whole, rules_of, write_lookups
from seglog.segment.walk import StoreWalk
from seglog.storage import File, Lock, Storage, must_sync


@dataclass(frozen=True, kw_only=True)
class RepairAction:
    """One action of a repair.

    Attributes:
        kind: "drop" (a store that is missing, or another file, leaves the log), "salvage" (readable records are
            copied), "reindex" (a lookup is rebuilt), "accept" (a rebuilt manifest), or "leave" (nothing is done: a file
            that the system cannot read may be intact).
        path: The file.
        detail: What is wrong.
        outcome: What is done about it.
    """

    kind: str
    path: str
    detail: str
    outcome: str


@dataclass(frozen=True, kw_only=True)
class RepairReport:
    """The result of a repair, done or planned.

    Attributes:
        actions: The actions.
        records_lost: Number of records known to be lost.
        quarantined: Names of the files that keep what was replaced, most of them in quarantine/.
    """

    actions: tuple[RepairAction, ...]
    records_lost: int
    quarantined: tuple[str, ...]

    @property
    def left(self) -> bool:
        """Whether a problem remains that an operator has to solve."""
        return any(action.kind == "leave" for action in self.actions)


def repair_storage(
    storage: Storage, *, dry_run: bool = False, progress: Progress | None = None, clock: Clock = system_clock
) -> RepairReport:
    """Repair a log, even if it cannot be opened. Raises LogLocked if a writer has it open. dry_run changes nothing."""
    if dry_run:
        read_or_rebuild(storage, clock)  # a dry run also fails if the newest store cannot be read
        report = verify_storage(storage, progress, go_on=True)
        actions, lost = plan(report)
        return RepairReport(actions=actions, records_lost=lost, quarantined=())
    storage.make(filename.DIRECTORIES)
    lock = try_lock_log(storage)
    if lock is None:
        held = f"the log is open for writing, {holder_of(storage)}"
        raise LogLocked.by(held, "close it, call its repair(), or wait for it with wait=10", storage.path)
    try:
        for name in storage.names(filename.TMP):  # from an interrupted repair: may be a second name of a live file
            storage.unlink(f"{filename.TMP}/{name}")
        report, kept = verify_storage(storage, progress, go_on=True), list[str]()
        repair = Repair(storage, _catalog(storage, lock, clock, kept), clock, report)
        repair.quarantined += kept
        return repair.run()
    finally:
        lock.release()


def accept_home(storage: Storage, home: tuple[str, int], *, is_held: bool) -> None:
    """Make a log the partition `home` (topic id and number), whatever it was created as.

    Raises LogLocked while it is open for writing. is_held: whether the caller holds its lock.
    """
    lock = None if is_held else try_lock_log(storage)
    if lock is None and not is_held:
        held = f"the log is open for writing, {holder_of(storage)}"
        raise LogLocked.by(held, "close it, then repair again", storage.path)
    try:
        manifest = read_manifest(storage)
        if manifest is not None:
            write_manifest(storage, replace(manifest, version=manifest.version + 1, home=home))
    finally:
        if lock is not None:
            lock.release()


def plan(report: VerifyReport) -> tuple[tuple[RepairAction, ...], int]:
    """Return what a repair would do about the problems, and the number of records known to be lost."""
    actions, lost = [], 0
    shared = any(problem.kind == "other log" for problem in report.problems)
    for path, problems in _by_path(report.problems).items():
        kind = _kind_of({problem.kind for problem in problems}) if not shared else "other log"
        shown = "leave" if kind == "other log" else kind
        details = "; ".join(problem.detail for problem in problems)
        gaps = ", ".join(str(gap) for gap in report.unreadable if gap.path == path)
        outcome = _OUTCOMES[kind].format(gaps=f"; {gaps} can no longer be read" if gaps else "")
        count = "" if len(problems) == 1 else f"{len(problems)} problems: "
        actions.append(RepairAction(kind=shown, path=path, detail=f"{count}{details}", outcome=outcome))
        lost += sum(problem.records for problem in problems) if kind in ("drop", "salvage") else 0
    return tuple(actions), lost


_OUTCOMES = {
    "leave": "it is not changed; fix the permissions or the device, or restore the file, then repair again",
    "other log": (
        "nothing is done while the directory holds stores of two logs. Decide which one it is before you open it for "
        "writing, which moves the stores of the other to quarantine/. If it is not that of MANIFEST, move MANIFEST, "
        "MANIFEST.prev and the stores of their log away and repair again, which rebuilds the other manifest"
    ),
    "drop": "the log continues without it; what exists of it goes to quarantine/{gaps}",
    "salvage": "readable records are copied to a new store, the old one goes to quarantine/{gaps}",
    "accept": "the rebuilt manifest is accepted",
    "reindex": "it is rebuilt from the store, the old one goes to quarantine/",
}


def _kind_of(kinds: set[str]) -> str:
    """Return the kind of action for a file with these kinds of problems."""
    if "refused" in kinds:
        return "leave"
    if kinds & {"foreign", "missing"}:
        return "drop"
    if kinds & {"short", "header", "block", "record", "figures"}:
        return "salvage"
    return "accept" if "manifest" in kinds else "reindex"


def _by_path(problems: tuple[Problem, ...]) -> dict[str, list[Problem]]:
    grouped: dict[str, list[Problem]] = {}
    for problem in problems:
        grouped.setdefault(problem.path, []).append(problem)
    return grouped


def _catalog(storage: Storage, lock: Lock, clock: Clock, kept: list[str]) -> Catalog:
    """Return the catalog of a log; if its manifest has to be rebuilt, add the names of replaced files to `kept`."""
    manifest, event = read_or_rebuild(storage, clock)
    if event is not None:
        before = set(storage.names(filename.QUARANTINE))
        write_manifest(storage, manifest, replaces_damaged=True)
        kept += [f"{filename.QUARANTINE}/{name}" for name in storage.names(filename.QUARANTINE) if name not in before]
    numbers = [parsed.number for name in storage.names() if (parsed := filename.parse_segment_file(name)) is not None]
    return Catalog(storage, lock, manifest, clock, next_file=max(numbers, default=0) + 1)


class Repair:
    """One repair under the log's lock."""

    def __init__(self, storage: Storage, catalog: Catalog, clock: Clock, report: VerifyReport) -> None:
        self.storage = storage
        self.catalog = catalog
        self.clock = clock
        self.actions, _ = plan(report)
        self._kinds = {action.path: action.kind for action in self.actions}
        self._salvaged_end = 0
        self.lost = 0
        self.quarantined: list[str] = []

    def run(self) -> RepairReport:
        """Repair: first the new stores, then one manifest."""
        if any(action.kind != "leave" for action in self.actions):
            manifest, torn = self.catalog.current, self._torn()
            self._keep_lookups(manifest)
            segments = [*self._sealed(manifest), self._active(manifest.active)]
            replaced = {entry.file for entry in manifest.segments} - {entry.file for entry in segments}
            retired = [entry for entry in manifest.segments if entry.file in replaced]
            must_sync(self.storage.sync_directory)
            self._quarantine(retired)
            self.quarantined += sorted(self._torn() - torn)
            self.catalog.install(self.catalog.following(segments, retire=retired, rebuilt=False), as_base=True)
            self.catalog.collect()
        return RepairReport(actions=self.actions, records_lost=self.lost, quarantined=tuple(self.quarantined))

    def _kind(self, entry: SegmentEntry) -> str | None:
        return self._kinds.get(f"{self.storage.path}/{entry.name()}")

    def _sealed(self, manifest: Manifest) -> Iterator[SegmentEntry]:
        for entry in manifest.segments[:-1]:
            kind = self._kind(entry)
            if kind == "drop":
                self.lost += entry.records or 0
            elif kind == "salvage":
                yield from self._salvage(entry)
            else:
                if kind == "reindex":
                    write_lookups(self.storage, entry, interval=manifest.config.index_interval_bytes)
                yield entry
        if self._kind(manifest.active) == "salvage":
            yield from self._salvage(self._as_sealed(manifest.active))

    def _active(self, entry: SegmentEntry) -> SegmentEntry:
        """Return the active entry, or that of a new one if the old store is missing or was salvaged."""
        kind = self._kind(entry)
        if kind == "reindex":  # recovery rewrites the index of an active segment
            config = self.catalog.current.config
            allocates = config.allocate_bytes > 0
            active = TailRecovery(self.storage, entry, config.index_interval_bytes, allocates=allocates).run()
            active.mark_durable(active.next_offset)
        if kind not in ("drop", "salvage"):
            return entry
        end = self._end_of_active(entry)
        if kind == "drop":
            self.lost += end - entry.base_offset
        fresh = self._new_entry(end, dense=True)
        store = create_segment(self.storage, fresh, self.catalog.current.log_id)
        ActiveSegment.start(self.storage, fresh, store, interval=4096)
        return fresh

    def _as_sealed(self, entry: SegmentEntry) -> SegmentEntry:
        """Return the active entry as if sealed with everything readable; recovery would cut it at damage."""
        store, rules = self.storage.open(entry.name()), rules_of(entry)._replace(dense=False)
        known = self._end_of_active(entry)
        end = _end_of_written(store, rules, known)
        places = _readable(store, rules, end)
        known = max([known, *(offset + 1 for offset in places)])
        return replace(entry, next_offset=known, bytes=end, records=len(places), sealed_at=self.clock())

    def _end_of_active(self, entry: SegmentEntry) -> int:
        """Return the first offset that was certainly never assigned, according to store and index."""
        try:
            indexed = max(self.storage.open(entry.name(filename.INDEX)).size() - 16, 0) // 16
        except StorageError:
            indexed = 0
        return max(entry.base_offset + indexed, self._salvaged_end)

    def _new_entry(self, base_offset: int, *, dense: bool) -> SegmentEntry:
        return SegmentEntry(
            base_offset=base_offset,
            file=self.catalog.new_file_number(),
            salt=secrets.randbits(64),
            created=self.clock(),
            dense=dense,
        )

    def _keep_lookups(self, manifest: Manifest) -> None:
        """Copy the lookups of every segment that changes to quarantine/; of a lost store nothing else is left.

        Copies rather than links, because recovery may write to the index of an active store in place.
        """
        for entry in manifest.segments:
            if self._kind(entry) in ("drop", "salvage", "reindex"):
                for kind in filename.LOOKUPS:
                    data = read_whole(self.storage, entry.name(kind))
                    if data:
                        self.quarantined.append(copy_aside(self.storage, entry.name(kind), data))
        must_sync(lambda: self.storage.sync_directory(filename.QUARANTINE))

    def _quarantine(self, retired: list[SegmentEntry]) -> None:
        """Give every replaced store a second name in quarantine/, so that retiring it deletes nothing.

        The manifests are kept there, too, unless only lookups change: they describe the stores.
        """
        names = [entry.name() for entry in retired]
        if any(action.kind not in ("leave", "reindex") for action in self.actions):
            names += [filename.MANIFEST, filename.MANIFEST_PREVIOUS]
        there = [name for name in names if self.storage.identity(name) is not None]
        self.quarantined += [link_aside(self.storage, name) for name in there]
        must_sync(lambda: self.storage.sync_directory(filename.QUARANTINE))

    def _torn(self) -> set[str]:
        return {name for name in self.storage.names() if name.endswith(".torn")}

    # --- salvage ------------------------------------------------------------------------------------------------

    def _salvage(self, entry: SegmentEntry) -> Iterator[SegmentEntry]:
        """Copy the readable records of a sealed segment to a new store; yield its entry unless no record is left."""
        found = self.storage.open(entry.name())
        old = plain_store(self.storage, entry, found, header_of(found))
        fresh = self._new_entry(entry.base_offset, dense=False)
        end_offset = entry.next_offset or entry.base_offset
        self._salvaged_end = end_offset
        span = end_offset - entry.base_offset
        store = create_segment(self.storage, fresh, self.catalog.current.log_id, span=span)
        target = ActiveSegment.start(self.storage, fresh, store, interval=4096, growth=Growth(buffer_bytes=1024 * 1024))
        copied = self._copy(old, rules_of(entry), min(old.size(), entry.bytes or 0), end_offset, target)
        known = span if entry.dense else entry.records or 0
        self.lost += max(known - copied, 0)
        sealed = target.seal(entry.sealed_at or self.clock())
        if copied:
            yield replace(sealed, next_offset=end_offset)

    @staticmethod
    def _copy(old: File, rules: Rules, end: int, stop: int, target: ActiveSegment) -> int:
        """Copy the valid records below offset `stop` and position `end` in order of offset; return how many."""
        loose = rules._replace(dense=False)
        places = {at: where for at, where in _readable(old, loose, end).items() if at < stop}
        for offset, position in sorted(places.items()):
            record, _, _ = next(iter(StoreWalk(old, loose, position=position, end=end, expected=offset)))
            target.append(record.offset, record.timestamp, record.key, record.value, encode_headers(record.headers))
        return len(places)


def _walks(store: File, loose: Rules, end: int) -> Iterator[StoreWalk]:
    """Yield a walk over every run of valid records; each must be walked before the next one is requested."""
    position = HEADER_BYTES
    while position + HEAD_BYTES <= end:
        walk = StoreWalk(store, loose, position=position, end=end, expected=loose.base_offset, keep=0)
        yield walk
        if walk.reason is None:
            return
        found = find_record(store, loose, position=walk.position, end=end, least=loose.base_offset)
        if found is None:
            return
        position = found.position


def _end_of_written(store: File, loose: Rules, known: int) -> int:
    """Return the end of a store, or the position of its first unfinished write: its head is zero, so no reader saw it.

    known: the offset up to which the index has records; a zero head before that is damage.
    """
    end = store.size()
    for walk in _walks(store, loose, end):
        deque(walk, maxlen=0)
        unfinished = walk.expected >= known and store.pread(HEAD_BYTES, walk.position) == ZERO_HEAD
        if walk.reason is None or unfinished:
            return walk.position
    return end


def _readable(store: File, loose: Rules, end: int) -> dict[int, int]:
    """Return offset -> position of every valid record, in any order of position: a record may have been moved."""
    places: dict[int, int] = {}
    for walk in _walks(store, loose, end):
        for record, _, length in walk:
            places.setdefault(record.offset, walk.position - length)
    return places
