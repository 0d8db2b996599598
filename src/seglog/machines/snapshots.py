"""Snapshots of replays: where they are stored, which one a replay continues from, which ones are removed.

A snapshot is written to a new file, synced, renamed, and the directory is synced: it is there completely or not at all.
A file that is being written is locked, so that a later process recognizes, by the missing lock, what a killed one left.
Snapshots can always be computed again unless the log has expired its first records; what cannot be used is removed only
after a newer one is durable.
"""

from __future__ import annotations

import errno
import os
import secrets
from dataclasses import dataclass
from typing import NamedTuple

from seglog.clock import system_clock
from seglog.errors import InvalidArgument, LogReplaced, StorageError
from seglog.format import filename
from seglog.format import snapshot as snapshot_format
from seglog.format.snapshot import UNFINISHED, DamagedSnapshot, Last, SnapshotHeader, parse_snapshot_file
from seglog.log.history import Trace, was_cut
from seglog.log.opening import storage_at
from seglog.machines.machine import identity_of
from seglog.machines.part import Part
from seglog.record import checked_offset
from seglog.storage import File, Lock, Storage
from seglog.topic.layout import description

EVERY_RECORDS = 1_000_000
KEPT = 2
ATTEMPTS = 16


@dataclass(frozen=True)
class Snapshots:
    """A directory for the snapshots of one machine and one log or topic, and how many there are.

    Attributes:
        place: A path or a Storage; created if it is missing. Not a log or a topic itself.
        every: Records between two snapshots of a long replay; one more is written at its end.
        keep: How many snapshots of each partition are kept, the newest ones; at least 1. With 2 or more, a damaged
            one costs only the records since the one before. Keep many to get states as of earlier offsets quickly.
    """

    place: str | os.PathLike[str] | Storage
    every: int = EVERY_RECORDS
    keep: int = KEPT

    def __post_init__(self) -> None:
        """Raise InvalidType or InvalidArgument for invalid values."""
        for name in ("every", "keep"):
            number = checked_offset(getattr(self, name), name)
            if number < 1:
                raise InvalidArgument(f"{name} is {number}; it must be at least 1")
        if not isinstance(self.place, str) and not hasattr(self.place, "__fspath__"):
            storage_at(self.place)

    def offsets(self, partition: int = 0) -> list[int]:
        """Return the offsets of the snapshots of a partition, ascending, damaged ones included.

        Args:
            partition: Its number; 0 for a log without a topic.
        """
        return sorted(_offsets(storage_at(self.place), partition))


def checked_snapshots(value: object) -> Snapshots | None:
    """Return a path or Storage as Snapshots. Raises InvalidType; InvalidArgument for a log's or topic's directory."""
    if value is None:
        return None
    found = value if isinstance(value, Snapshots) else Snapshots(value)  # type: ignore[arg-type] # checked there
    storage = storage_at(found.place)
    if description.is_topic(storage) or storage.identity(filename.MANIFEST) is not None:
        raise InvalidArgument(f"{storage.path} is a log or a topic; store its snapshots in another directory")
    return found


class Loaded(NamedTuple):
    """A snapshot that a replay can continue from."""

    header: SnapshotHeader
    body: bytes


class SnapshotShelf:
    """The snapshots of one partition, for one machine. unusable: names of those that were not used, and why."""

    def __init__(self, snapshots: Snapshots, partition: int, machine: object) -> None:
        self.every = snapshots.every
        self._keep = snapshots.keep
        self._storage = storage_at(snapshots.place)
        self._partition = partition
        self._machine = identity_of(machine)
        self.unusable: dict[str, str] = {}

    # --- reading --------------------------------------------------------------------------------------------------

    def newest(self, part: Part, stop: int) -> Loaded | None:
        """Return the newest snapshot up to `stop` that belongs to this history of the log; None without one.

        Raises:
            LogReplaced: If there is a snapshot of another log.
            InvalidArgument: If there is one of another machine.
            FormatVersionError: If a newer version of seglog wrote one.
        """
        for _attempt in range(ATTEMPTS):
            try:
                return self._newest(part, stop)
            except StorageError as error:
                if error.errno != errno.ENOENT:
                    raise  # else another process has removed it, after it had written a newer one
        return None

    def _newest(self, part: Part, stop: int) -> Loaded | None:
        self.unusable = {}
        for offset in sorted(_offsets(self._storage, self._partition), reverse=True):
            name = snapshot_format.snapshot_file(self._partition, offset)
            if part.end >= offset > stop:
                continue
            try:
                found = self._load(name)
            except DamagedSnapshot as error:
                self.unusable[name] = str(error)
                continue
            except StorageError as error:
                if error.errno != errno.EIO:
                    raise
                self.unusable[name] = f"it cannot be read: {error.strerror}"
                continue
            why = self._why_not(found.header, part)
            if why is None:
                return found
            self.unusable[name] = why
        return None

    def _load(self, name: str) -> Loaded:
        file = self._storage.open(name)
        try:
            found = Loaded(*snapshot_format.decode(file.pread(file.size(), 0)))
        finally:
            file.close()
        if found.header.name != name:
            raise DamagedSnapshot(f"it was written as {found.header.name}")
        return found

    def _why_not(self, header: SnapshotHeader, part: Part) -> str | None:
        """Return why a replay of `part` cannot continue from a snapshot; None if it can."""
        where = f"the snapshots at {self._storage.path} are"
        if header.machine != self._machine.name:
            raise InvalidArgument(
                f"{where} of {header.machine}, not of {self._machine.name}; use another directory for each machine"
            )
        if header.log != part.trace_of(part.lowest).log:
            raise LogReplaced(
                f"{where} of another log (id {header.log}) than {part.name}; use another directory, or delete them"
                " if that log was deleted and created again"
            )
        if header.version != self._machine.version:
            return f"it is of another version of the machine: {header.version or 'none'}"
        if header.offset > part.end:
            return f"the log ends at offset {part.end} now: it was truncated, or lost records in a power failure"
        if was_cut(Trace(header.log, header.epoch, header.file), part.trace_of(header.offset)):
            return "the log was truncated below its offset, and has other records there"
        if header.offset < part.lowest:
            return f"records since then have expired: the log begins at offset {part.lowest}"
        last = None if header.last is None else part.read(header.last)
        if last is not None and Last.of(last) != header.last_record:
            return f"the log has another record at offset {last.offset}"
        return None

    def greatest(self) -> int:
        """Return the greatest offset of a snapshot that may be usable; -1 without one."""
        names = _offsets(self._storage, self._partition)
        return max((offset for offset, name in names.items() if name not in self.unusable), default=-1)

    # --- writing --------------------------------------------------------------------------------------------------

    def write(self, trace: Trace, offset: int, last: Last | None, body: bytes) -> None:
        """Store the state before `offset` durably; then remove the oldest snapshots, and those that are unusable.

        last: the last applied record. Raises StorageError: the earlier snapshots are unchanged then.
        """
        header = SnapshotHeader(
            machine=self._machine.name,
            version=self._machine.version,
            partition=self._partition,
            offset=offset,
            log=trace.log,
            epoch=trace.epoch,
            file=trace.file,
            last=None if last is None else last.offset,
            last_check="" if last is None else last.check,
            written=system_clock(),
        )
        self._storage.make([])
        file, lock, temporary = self._unfinished()
        try:
            file.pwritev([snapshot_format.encode_header(header, body), body], 0)
            file.datasync()
            self._storage.rename(temporary, header.name)
        except StorageError:
            self._storage.unlink(temporary)
            raise
        finally:
            file.close()
            lock.release()
        self._storage.sync_directory()
        self.unusable.pop(header.name, None)  # replaced
        self._remove_old()

    def _unfinished(self) -> tuple[File, Lock, str]:
        """Create a file with a lock, which no other process removes as a leftover."""
        for _attempt in range(ATTEMPTS):
            name = f"{secrets.token_hex(8)}{UNFINISHED}"
            lock = self._storage.try_lock(name)
            if lock is None:
                continue
            try:
                file = self._storage.open(name, writable=True)
                if lock.is_current():
                    return file, lock, name
                file.close()
            except StorageError as error:
                if error.errno != errno.ENOENT:
                    lock.release()
                    raise
            lock.release()  # another process removed it before it was locked
        raise StorageError(errno.EBUSY, "cannot create a file for a snapshot", self._storage.path)

    def _remove_old(self) -> None:
        names = _offsets(self._storage, self._partition)
        usable = sorted(offset for offset, name in names.items() if name not in self.unusable)
        for name in [*self.unusable, *(names[offset] for offset in usable[: -self._keep])]:
            self._storage.unlink(name)
        self.unusable = {}
        _remove_leftovers(self._storage)


def _offsets(storage: Storage, partition: int) -> dict[int, str]:
    """Return offset -> name of the snapshots of a partition."""
    parsed = {name: parse_snapshot_file(name) for name in storage.names()}
    return {found[1]: name for name, found in parsed.items() if found is not None and found[0] == partition}


def _remove_leftovers(storage: Storage) -> None:
    """Remove the unfinished files of processes that ended."""
    for name in storage.names():
        if name.endswith(UNFINISHED):
            lock = storage.try_lock(name)
            if lock is not None:
                storage.unlink(name)
                lock.release()
