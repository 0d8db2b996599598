"""Open a log: the composition root that connects storage, manifest, recovery and the two kinds of log.

For writing (docs/reliability.md describes the procedure): take LOCK, read MANIFEST or rebuild it, clear tmp/, check
that every sealed store exists, recover the active one, set aside files that no manifest names.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

from seglog.clock import Clock, checked_clock, system_clock
from seglog.config import Expose, LogConfig
from seglog.errors import (
    ConfigError,
    CorruptLog,
    InvalidArgument,
    InvalidType,
    LogLocked,
    LogNotFound,
    LogReadOnly,
    NotALog,
    StorageError,
)
from seglog.format import filename
from seglog.format.manifest import Manifest, Role, SegmentEntry, Segments
from seglog.format.manifest_changes import ManifestFile
from seglog.format.store import HEADER_BYTES
from seglog.log.boot_id import boot_id
from seglog.log.catalog import Catalog, read_manifest, write_manifest
from seglog.log.follower import LogFollower
from seglog.log.journal import confirm
from seglog.log.live_segments import LiveSegments
from seglog.log.locks.wait import patiently
from seglog.log.locks.write_lock import holder_of, try_lock_log
from seglog.log.log import Log
from seglog.log.repair.rebuild_manifest import examine, read_or_rebuild
from seglog.log.role_file import read_role, settle_role, write_role
from seglog.log.segment_cache import SegmentCache
from seglog.log.stage_names import staged_identities
from seglog.log.staging import COMPACTION, age_out, remove_own
from seglog.log.store_sizes import store_sizes
from seglog.log.writer import LogWriter
from seglog.log.writer_state import fenced
from seglog.segment.active import Growth, create_segment
from seglog.segment.recovery import TailRecovery
from seglog.segment.recovery_report import RecoveryEvent, RecoveryReport
from seglog.storage import LocalStorage, Lock, Storage, must_sync
from seglog.storage.local import checked_directory
from seglog.storage.urls import is_storage_url, storage_at_url

Mode = Literal["a", "r"]
Home = tuple[str, int]
"""The id of a topic, and the number of one of its partitions."""


def storage_at(place: str | os.PathLike[str] | Storage) -> Storage:
    """Return the storage of a path or of the URL of an archive, or the storage itself."""
    if isinstance(place, str) and is_storage_url(place):
        return storage_at_url(place)
    if isinstance(place, (str, os.PathLike)):
        return LocalStorage(checked_directory(os.fspath(place)))
    if hasattr(place, "try_lock"):
        return place
    raise InvalidType(f"a log is opened with a path or a Storage, not {type(place).__name__}")


def open_log(
    place: str | os.PathLike[str] | Storage,
    config: LogConfig | None = None,
    *,
    mode: Mode = "a",
    expose: Expose = "appended",
    clock: Clock = system_clock,
    wait: float | None = None,
    archive: str | None = None,
) -> Log:
    """Open the log in a directory. After any error everything is unchanged.

    Args:
        place: Path of the directory, a storage, or the URL of an archive, which can only be read.
        config: Stored with the log; fields that are not given keep their stored values. Only with mode "a".
        mode: "a" creates the log or opens it for writing, one process at a time; "r" opens it for reading, also beside
            a writer.
        expose: With mode "r": "appended" shows every record, "durable" only those that the writer has synced.
        clock: Returns microseconds since the epoch.
        wait: Seconds to wait while another process has the log open for writing. None: do not wait.
        archive: The URL of the log's archive: what retention has deleted here is read from there.

    Raises:
        LogLocked: If the log is open for writing already, here or in another process.
        LogNotFound: If mode is "r" and there is no log.
        NotALog: If the place is a file, or a directory that holds something else.
        FormatVersionError: If a newer version of seglog wrote the log.
        CorruptLog: If its structure cannot be used; `seglog repair` may help.
        ConfigError: If the config contradicts the stored one.
    """
    log = patiently(lambda: open_partition(place, None, config, mode=mode, expose=expose, clock=clock), wait)
    return with_archive(log, archive)


def with_archive(log: Log, archive: str | None) -> Log:
    """Return the log, which reads what it has deleted from an archive, if there is a URL. Closes it after an error."""
    if archive is not None:
        try:
            if not (isinstance(archive, str) and is_storage_url(archive)):
                raise InvalidArgument(f"archive is {archive!r}; it must be a URL such as s3://BUCKET/PREFIX")
            log._read_below(archive)
        except BaseException:
            log.close()
            raise
    return log


def open_partition(
    place: str | os.PathLike[str] | Storage,
    home: Home | None,
    config: LogConfig | None = None,
    *,
    mode: Mode = "a",
    expose: Expose = "appended",
    clock: Clock = system_clock,
) -> Log:
    """Open the log of a partition as `open_log` does. home: topic id and number; None for a log without a topic.

    A new log stores it, and so does one of an earlier version, which has none. Raises CorruptLog if the log belongs to
    another partition: directories were exchanged or copied, and its records would be read as those of this one.
    """
    if mode not in ("a", "r"):
        raise InvalidArgument(f'mode is {mode!r}; it must be "a" (read and write) or "r" (read only)')
    check_expose(expose, mode)
    if config is not None and not isinstance(config, LogConfig):
        raise InvalidType(f"config must be a seglog.LogConfig, not {type(config).__name__}")
    storage, clock = storage_at(place), checked_clock(clock)
    if mode == "r":
        if config is not None:
            raise ConfigError("a reader uses the log's stored config; omit config, or open with mode 'a'")
        return _open_follower(storage, clock, home, durable=expose == "durable")
    return _open_writer(storage, config, clock, home)


@dataclass(frozen=True, kw_only=True)
class Seed:
    """What a new copy takes from its leader. history: fields of its manifest (epoch, cuts, role)."""

    log_id: int
    start: int
    config: LogConfig
    history: dict[str, Any]


def open_copy(place: str | os.PathLike[str] | Storage, seed: Seed, home: Home | None, clock: Clock) -> LogWriter:
    """Open a log for a mirror, which may write copies; create it from `seed` if there is none. Errors as `open_log`.

    The leader decides the epochs of a copy: opening it begins none, also after a power loss. Records that are read
    again from the leader are the same, or the leader has begun an epoch.
    """
    return _open_writer(storage_at(place), None, clock, home, seed)


def check_leads(role: Role, path: str) -> None:
    """Raise LogReadOnly if the log is a copy, LogFenced if another log was promoted in its place."""
    if role.copy:
        raise LogReadOnly(
            errno.EROFS,
            'this log is a copy that a mirror writes; mode="r" reads it, `seglog promote` makes it a leader',
            path,
        )
    if role.fenced > role.term:
        raise fenced(role, path)


def check_expose(expose: object, mode: Mode) -> None:
    """Raise InvalidArgument unless this is one of Expose, and "durable" only for reading."""
    if expose not in ("appended", "durable"):
        raise InvalidArgument(f'expose is {expose!r}; it must be "appended" or "durable"')
    if expose == "durable" and mode == "a":
        raise InvalidArgument('expose="durable" is for readers: open with mode="r"')


# --- reading ------------------------------------------------------------------------------------------------------


def _open_follower(storage: Storage, clock: Clock, home: Home | None, *, durable: bool) -> LogFollower:
    existing(storage)
    manifest, event = read_or_rebuild(storage, clock)
    check_home(manifest, home, storage.path)
    report = RecoveryReport(() if event is None else (event,))
    return LogFollower(storage, manifest, clock, report, durable=durable)


def check_home(manifest: Manifest, home: Home | None, path: str) -> None:
    """Raise CorruptLog if a manifest belongs to another partition than `home`; None accepts any."""
    if home is not None and manifest.home not in (None, home):
        raise CorruptLog(
            f"{path}: {foreign_partition(manifest, home)}; move it back to its place, or accept it here with "
            "`seglog repair`"
        )


def foreign_partition(manifest: Manifest, home: Home) -> str | None:
    """Describe the other partition that a log was created as; None if it is this one, or unknown."""
    if manifest.home is None or manifest.home == home:
        return None
    topic, number = manifest.home
    whose = "of this topic" if topic == home[0] else f"of another topic (id {topic})"
    return f"this is partition {number} {whose}, in the directory of partition {home[1]}"


def existing(storage: Storage) -> Storage:
    """Return the storage if it holds a log in any state. Raises LogNotFound or NotALog if not."""
    if storage.exists():
        _refuse_foreign(storage)
        if storage.identity(filename.MANIFEST) is not None or _stores(storage.names()):
            return storage
    raise LogNotFound(errno.ENOENT, "there is no log here", storage.path)


def _stores(names: Iterable[str]) -> list[str]:
    return [name for name in names if name.endswith("." + filename.STORE) and filename.belongs_to_log(name)]


def _refuse_foreign(storage: Storage) -> None:
    if storage.identity(filename.MANIFEST) is not None:
        return  # the common case needs no list of all names
    names = storage.names()
    if filename.MANIFEST in names or filename.MANIFEST_PREVIOUS in names or _stores(names):
        return
    foreign = [name for name in names if not filename.belongs_to_log(name)]
    if foreign:
        raise NotALog(
            errno.ENOTDIR,
            f"this directory is not a log, it contains {foreign[0]!r}; choose another path",
            storage.path,
        )


# --- writing ------------------------------------------------------------------------------------------------------


def _open_writer(
    storage: Storage, config: LogConfig | None, clock: Clock, home: Home | None, seed: Seed | None = None
) -> LogWriter:
    seen = None
    if storage.exists():
        _refuse_foreign(storage)
        with suppress(CorruptLog):  # checked again under the lock
            seen = read_manifest(storage)  # raises for a newer format before anything is changed
    storage.make(filename.DIRECTORIES)
    lock = try_lock_log(storage)
    if lock is None:
        held = f"the log is open for writing already, {holder_of(storage)}"
        raise LogLocked.by(held, 'mode="r" reads beside it, wait=10 waits 10 seconds for it', storage.path)
    try:
        return _Opening(storage, config, clock, seen, home, seed).run(lock)
    except BaseException:
        lock.release()
        raise


class _Opening:
    """The steps of opening for writing, in order; `events` collects what they report."""

    def __init__(
        self,
        storage: Storage,
        config: LogConfig | None,
        clock: Clock,
        seen: Manifest | None,
        home: Home | None,
        seed: Seed | None = None,
    ) -> None:
        """seen: the manifest before the lock was taken; another process may have changed it since then.

        seed: for a mirror, see `open_copy`.
        """
        self.home = home
        self.seed = seed
        self.storage = storage
        self.config = config
        self.clock = clock
        self.seen = seen
        self.names: list[str] = []
        self.strays: Sequence[str] | None = None  # see `Examined`
        self.file: ManifestFile | None = None  # what MANIFEST holds
        self.events: list[RecoveryEvent] = []
        self._staged_stores: set[object] | None = None

    def run(self, lock: Lock) -> LogWriter:
        """Open under the lock."""
        for name in self.storage.names(filename.TMP):
            self.storage.unlink(f"{filename.TMP}/{name}")
        self.names = self.storage.names()  # only once: 10,000 segments have 30,000 names
        manifest = self._manifest()
        wanted = self._wanted_config(manifest.config)
        self._check_sealed(manifest.segments[:-1])
        allocates = wanted.allocate_bytes > 0 or manifest.config.allocate_bytes > 0
        recovery = TailRecovery(self.storage, manifest.active, wanted.index_interval_bytes, allocates=allocates)
        active = recovery.run(Growth.of(wanted))
        self.events += recovery.events
        next_file = self._set_orphans_aside(manifest)
        remove_own(self.storage)
        age_out(self.storage, self.clock(), batches=COMPACTION)
        catalog = Catalog(self.storage, lock, manifest, self.clock, next_file=next_file, file=self.file)
        if manifest.backup and not manifest.role.copy:
            catalog.begin_separate_epoch(active.next_offset)
            active.mark_durable(active.next_offset)
        elif recovery.unsynced or manifest.boot != boot_id():
            if not manifest.role.copy:
                catalog.begin_epoch(active.next_offset)
            if not catalog.must_note_epoch:  # else the next opening must find what was not synced, and begin it again
                active.mark_durable(active.next_offset)
        cache = SegmentCache(
            self.storage, limit=wanted.open_segments_max, interval=wanted.index_interval_bytes, heal=True
        )
        live = LiveSegments(self.storage, catalog, active, cache, self.clock, wanted)
        return LogWriter(self.storage, lock, live, self.clock, RecoveryReport(tuple(self.events)))

    def _manifest(self) -> Manifest:
        if self._never_written():
            if self.seed is None and (role := read_role(self.storage)) is not None:
                check_leads(role, self.storage.path)  # it was a copy, and lost everything
            return self._create()
        found = examine(self.storage, self.clock, self.config, like=self.seen, names=self.names)
        manifest, event = found.manifest, found.event
        check_home(manifest, self.home, self.storage.path)
        if self.seed is None:
            check_leads(manifest.role, self.storage.path)
        settle_role(self.storage, manifest.role, is_there=filename.ROLE in self.names)
        manifest = manifest if self.home is None else replace(manifest, home=self.home)
        if event is not None:
            self.events.append(event)
        if found.file is None:
            self.file = write_manifest(self.storage, manifest, replaces_damaged=True)
        else:  # the process that installed it may have died before its directory sync; appends rely on that
            must_sync(self.storage.sync_directory)
            manifest, self.strays = self._settled(manifest, found.file), found.strays
        return manifest

    def _settled(self, manifest: Manifest, file: ManifestFile) -> Manifest:
        """Make the last change of MANIFEST durable, or replace MANIFEST if it has a tear or a damaged change.

        On a full disk the tear stays until the next install, so that the log can be opened, to delete what is not
        needed.
        """
        if not file.sound:
            later = replace(manifest, version=manifest.version + 1)
            try:
                self.file = write_manifest(self.storage, later)
                return later
            except StorageError as error:
                if error.errno not in (errno.ENOSPC, errno.EDQUOT):
                    raise
        confirm(self.storage, file)
        self.file = file
        return manifest

    def _never_written(self) -> bool:
        """Whether no manifest was ever installed: there is nothing but leftovers of an interrupted creation."""
        if filename.MANIFEST in self.names or filename.MANIFEST_PREVIOUS in self.names:
            return False
        return all(self._is_first_and_empty(name) for name in _stores(self.names))

    def _is_first_and_empty(self, name: str) -> bool:
        """Whether a store is the log's first one and holds no record; a later one shows that a log existed."""
        parsed = filename.parse_segment_file(name)
        return parsed is not None and parsed.number == 1 and self.storage.open(name).size() <= HEADER_BYTES

    def _create(self) -> Manifest:
        """Create directory and first store, both synced, then the manifest: from then on the log exists."""
        config = (self.config or LogConfig()).without_moved()
        seed = self.seed or Seed(
            log_id=secrets.randbits(64), start=config.initial_offset, config=config, history={"epoch": 0}
        )
        entry = SegmentEntry(base_offset=seed.start, file=1, salt=secrets.randbits(64), created=self.clock())
        for name in _stores(self.names):
            self.storage.unlink(name)
        create_segment(self.storage, entry, seed.log_id)
        must_sync(self.storage.sync_directory)
        manifest = Manifest(
            log_id=seed.log_id,
            version=1,
            next_file=2,
            start=seed.start,
            config=seed.config,
            segments=Segments.of([entry]),
            boot=boot_id(),
            home=self.home,
            **seed.history,
        )
        if not manifest.role.accepts:
            write_role(self.storage, manifest.role)
        self.file = write_manifest(self.storage, manifest)
        return manifest

    def _wanted_config(self, stored: LogConfig) -> LogConfig:
        if self.config is None:
            return stored
        if self.config.initial_offset not in (0, stored.initial_offset):
            raise ConfigError(
                f"initial_offset is {self.config.initial_offset}, but the log began at {stored.initial_offset}; "
                "it can only be chosen when a log is created"
            )
        return self.config.over(stored)

    def _check_sealed(self, sealed: Segments) -> None:
        """Check that every sealed store exists with its full size: neither can be repaired by an opening."""
        stores = list(sealed.stores())
        names = [filename.segment_file(base_offset, file, filename.STORE) for base_offset, file, _ in stores]
        sizes = store_sizes(self.storage, names)
        full = [least for _, _, least in stores]
        wrong = [one for one, (size, least) in enumerate(zip(sizes, full, strict=True)) if size is None or size < least]
        for number in wrong:
            path, size = f"{self.storage.path}/{names[number]}", sizes[number]
            if size is None:
                raise CorruptLog(
                    f"{path}: the store of offsets {stores[number][0]} up to {sealed[number].next_offset} is missing; "
                    'mode="r" still reads the rest, `seglog repair` goes on without it'
                )
            detail = f"the store has {size} bytes, the manifest knows {full[number]}: records at its end are lost"
            self.events.append(RecoveryEvent(kind="damage", path=path, detail=detail, position=size))

    def _staged(self) -> set[object]:
        """Return the identities of staged stores; read only for an orphan, so most openings do not need it."""
        if self._staged_stores is None:
            self._staged_stores = staged_identities(self.storage)
        return self._staged_stores

    def _set_orphans_aside(self, manifest: Manifest) -> int:
        """Move segment files that no manifest names to quarantine/; return a file number above all of theirs."""
        retired = {name for gone in manifest.retired for name in gone.names}
        others = filename.not_numbered(self.names, manifest.segments.files()) if self.strays is None else self.strays
        parsed = {name: file for name in others if (file := filename.parse_segment_file(name)) is not None}
        orphans = [name for name in parsed if name not in retired]
        sizes = self.storage.sizes() if orphans else {}
        for name in orphans:
            if name in sizes:  # else it is no file, or `_create` has removed it
                self._set_aside(name, sizes[name] if parsed[name].kind == filename.STORE else 0)
        numbers = chain(manifest.segments.files(), (file.number for file in parsed.values()))
        return max(manifest.next_file, max(numbers) + 1)

    def _set_aside(self, name: str, size: int) -> None:
        """Move a store of `size` bytes to quarantine/; unlink one without records, or a derived file (size 0)."""
        if size <= HEADER_BYTES or self.storage.identity(name) in self._staged():
            self.storage.unlink(name)  # it has no content, or its stage still has it
            return
        self.storage.rename(name, f"{filename.QUARANTINE}/{name}")
        detail = f"no manifest names this store; moved to {filename.QUARANTINE}/"
        path = f"{self.storage.path}/{name}"
        self.events.append(RecoveryEvent(kind="orphan", path=path, detail=detail, bytes=size))
