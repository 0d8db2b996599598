"""An archive as a Storage: a directory of logs that can only be read, so all reading works on it as on a disk.

It shows one commit. `identity` of a manifest looks for a newer one, at most once a second, so an open log follows the
archive as it follows a log that another process writes.
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Sequence
from typing import NamedTuple, NoReturn
from weakref import WeakValueDictionary

from seglog.archive import segments
from seglog.archive.cache import CACHE_BYTES, Cache
from seglog.archive.commit import ArchivedLog, Commit, Piece
from seglog.archive.history import newest, read_commit
from seglog.archive.layout import COMMITS
from seglog.archive.objects import ObjectStore
from seglog.archive.segments import ArchivedSegments
from seglog.archive.urls import store_at
from seglog.errors import LogNotFound, LogReadOnly, NotALog, SnapshotExpired, StorageError
from seglog.format import filename
from seglog.format.manifest import SegmentEntry
from seglog.storage import File, Lock, Storage, Subdirectory
from seglog.storage.unchanged import UnchangedFile
from seglog.topic.layout import description

LOOK_SECONDS = 1.0
LIST_SECONDS = 60.0
"""A reader looks for the next commit by its number, and this often for newer ones whose predecessors were deleted."""


class Source(NamedTuple):
    """Where the bytes of an archived file are. key: names its content forever, apart from growing; data: if known.

    entry: the segment that it is a file of.
    """

    key: object
    size: int
    pieces: tuple[Piece, ...] = ()
    data: bytes | None = None
    entry: SegmentEntry | None = None


class ArchivedFile(UnchangedFile):
    """A file of an archive, read in blocks through the cache. An active store grows with the archive."""

    def __init__(self, storage: ArchiveStorage, name: str, source: Source) -> None:
        self.path = f"{storage.path}/{name}"
        self._storage = storage
        self._name = name
        self._source = source

    def _present(self) -> Source:
        """Return the present source: it may have grown, or its pieces may have been joined."""
        found = self._storage.source(self._name)
        if found is not None and found.key == self._source.key and found.size >= self._source.size:
            self._source = found
        return self._source

    def size(self) -> int:
        """Return the size in bytes."""
        return self._present().size

    def pread(self, length: int, position: int) -> bytes:
        """Return the bytes at a position; fewer only at the end of the file."""
        source = self._present()
        stop = min(position + length, source.size)
        if stop <= position:
            return b""
        if source.data is not None:
            return source.data[position:stop]
        return self._storage.cache.get(source.key).read(position, stop, source.size, self._fetch)

    def _fetch(self, start: int, stop: int) -> bytes:
        """Return bytes of the objects. SnapshotExpired if these were deleted because the archive has others now."""
        pieces = self._source.pieces
        try:
            return self._fetch_from(pieces, start, stop)
        except StorageError as error:
            if error.errno != errno.ENOENT:
                raise
            self._storage.refresh(at_once=True)
            if self._present().pieces != pieces:  # they were joined
                return self._fetch(start, stop)
            entry = self._source.entry
            if entry is not None:
                directory, end = self._name.rpartition("/")[0], entry.next_offset or entry.base_offset + 1
                keys = [piece.key for piece in pieces]
                self._storage.check_missing(error, keys, directory, entry.base_offset, end)
            raise

    def _fetch_from(self, pieces: Sequence[Piece], start: int, stop: int) -> bytes:
        found = []
        for piece in pieces:
            low, high = max(start, piece.start), min(stop, piece.stop)
            if low < high:
                found.append(self._storage.store.read(piece.key, low - piece.start, high - piece.start))
        data = b"".join(found)
        if len(data) != stop - start:
            raise StorageError(
                errno.EIO, f"the archive returned {len(data)} bytes instead of {stop - start}", self.path
            )
        return data

    def map(self) -> memoryview:
        """Return the whole file, fetched into the cache, as a memory map."""
        return self.map_range(0, self.size())

    def map_range(self, start: int, stop: int) -> memoryview:
        """Return a memory map of the file in the cache, with start..stop fetched; see RangedFile."""
        source = self._present()
        if source.data is not None:
            return memoryview(source.data)
        cached = self._storage.cache.get(source.key)
        cached.fill(start, stop, source.size, self._fetch)
        return cached.map(source.size)

    def _refuse(self) -> NoReturn:
        raise LogReadOnly(errno.EROFS, "an archive is changed by archiving only", self.path)

    def datasync(self) -> None:
        """Do nothing: what an archive has is durable."""

    def close(self) -> None:
        """Do nothing: the cache owns the descriptor."""


class ArchiveStorage:
    """The directory that an archive holds, as of its newest commit."""

    def __init__(
        self,
        store: ObjectStore,
        *,
        cache_bytes: int = CACHE_BYTES,
        cache_directory: str | None = None,
        follow: bool = True,
    ) -> None:
        """cache_bytes: bound of the cache on disk; follow: look for newer commits.

        Raises LogNotFound if there is no archive.
        """
        self.store = store
        self.path = store.url.rstrip("/")
        self.cache = Cache(cache_bytes, cache_directory)
        self._follow = follow
        self._guard = threading.RLock()
        self._lists: dict[str, ArchivedSegments] = {}
        self._sealed: dict[str, dict[str, Source]] = {}
        found = newest(store)
        if found is None:
            raise LogNotFound(errno.ENOENT, "there is no archive here", self.path)
        self._show(found)
        self._looked = self._listed = time.monotonic()

    @property
    def commit(self) -> Commit:
        """The commit that is shown."""
        return self._commit

    def archived(self, name: str) -> ArchivedSegments:
        """Return the segments of a log of the shown commit."""
        log = self._commit.logs[name]
        with self._guard:
            found = self._lists.get(log.segments)
            if found is None:
                data = self._read_list(name, log)
                found = self._lists[log.segments] = segments.decode(data, log.check, f"{self.path}/{log.segments}")
            return found

    def _read_list(self, name: str, log: ArchivedLog) -> bytes:
        try:
            return self.store.read(log.segments)
        except StorageError as error:
            self.check_missing(error, [log.segments], name, 0, log.next_offset)
            raise

    def check_missing(self, error: StorageError, keys: Sequence[str], name: str, offset: int, next_offset: int) -> None:
        """Raise SnapshotExpired if objects of a log cannot be read because the archive has others now.

        error: of reading one. name: of the log. offset, next_offset: of the records that they are needed for.
        """
        if error.errno == errno.ENOENT and not self._names_still(keys, name):
            raise SnapshotExpired(offset, next_offset, f"{self.path}/{name}".rstrip("/")) from error

    def _names_still(self, keys: Sequence[str], name: str) -> bool:
        """Whether the newest commit names objects of a log."""
        commit = newest(self.store, self._commit.number) or self._commit
        log = commit.logs.get(name)
        if log is None:
            return False
        named = {log.segments, *(piece.key for piece in log.tail)}
        if not named.issuperset(keys):
            named.update(segments.decode(self.store.read(log.segments), log.check, self.path).keys())
        return named.issuperset(keys)

    def _show(self, commit: Commit) -> None:
        self._commit = commit
        self._sources: dict[str, dict[str, Source]] = {}
        used = {log.segments for log in commit.logs.values()}
        self._lists = {key: one for key, one in self._lists.items() if key in used}
        self._sealed = {key: one for key, one in self._sealed.items() if key in used}

    def refresh(self, *, at_once: bool = False) -> None:
        """Show the newest commit, if the last look is long enough ago. at_once: in any case."""
        now = time.monotonic()
        with self._guard:
            if not self._follow or (now - self._looked < LOOK_SECONDS and not at_once):
                return
            self._looked = now
            if at_once or now - self._listed > LIST_SECONDS:
                self._listed, found = now, newest(self.store, self._commit.number)
            else:
                found = self._following()
            if found is not None:
                self._show(found)

    def _following(self) -> Commit | None:
        """Return the newest commit after the shown one, by their numbers: one read finds that there is none."""
        found, following = None, read_commit(self.store, self._commit.number + 1)
        while following is not None:
            found, following = following, read_commit(self.store, following.number + 1)
        return found

    # --- files ----------------------------------------------------------------------------------------------------

    def source(self, name: str) -> Source | None:
        """Return where a file's bytes are; None if there is no such file."""
        directory, _, last = name.rpartition("/")
        with self._guard:
            return self._files(directory).get(last)

    def _files(self, directory: str) -> dict[str, Source]:
        """Return the files in a directory."""
        found = self._sources.get(directory)
        while found is None:
            shown = self._commit
            try:
                found = self._sources[directory] = self._files_of(directory)
            except SnapshotExpired:
                self.refresh(at_once=True)
                if self._commit is shown:
                    raise
        return found

    def _files_of(self, directory: str) -> dict[str, Source]:
        """Return the files in a directory of the shown commit."""
        found = {}
        if directory in self._commit.topics:
            text = self._commit.topics[directory].encode()
            found[description.FILE_NAME] = Source(text, len(text), data=text)
        if directory in self._commit.logs:
            found |= self._log_files(directory, self._commit.logs[directory])
        return found

    def _log_files(self, name: str, log: ArchivedLog) -> dict[str, Source]:
        archived = self.archived(name)
        found = self._sealed.get(log.segments)
        if found is None:
            data = archived.manifest.encode()
            found = self._sealed[log.segments] = {filename.MANIFEST: Source(log.segments, len(data), data=data)}
            for entry in archived.manifest.segments[:-1]:
                sizes = archived.sizes_of(entry)
                for kind, key in archived.keys_of(entry).items():
                    found[entry.name(kind)] = Source(key, sizes[kind], (Piece(key, 0, sizes[kind], ""),), entry=entry)
        active = Source((log.log_id, log.tail_id), log.tail[-1].stop, log.tail, entry=archived.manifest.active)
        return {**found, archived.manifest.active.name(): active}

    def exists(self, directory: str = "") -> bool:
        """See Storage.exists."""
        if not directory:
            return True
        parent, _, last = directory.rpartition("/")
        if last in self._files(parent):
            raise NotALog(errno.ENOTDIR, "this is a file", f"{self.path}/{directory}")
        within = (*self._commit.topics, *self._commit.logs)
        return any(name == directory or name.startswith(f"{directory}/") for name in within)

    def names(self, directory: str = "") -> list[str]:
        """See Storage.names."""
        with self._guard:
            prefix = f"{directory}/" if directory else ""
            within = [name for name in (*self._commit.topics, *self._commit.logs) if name.startswith(prefix) and name]
            below = {name[len(prefix) :].partition("/")[0] for name in within}
            return sorted({*below, *self._files(directory)} - {""})

    def sizes(self, directory: str = "", *, ending: str = "") -> dict[str, int]:
        """See Storage.sizes."""
        with self._guard:
            return {name: one.size for name, one in self._files(directory).items() if name.endswith(ending)}

    def open(self, name: str, *, writable: bool = False) -> File:
        """See Storage.open."""
        if writable:
            self._refuse(name)
        source = self.source(name)
        if source is None:
            raise StorageError(errno.ENOENT, os.strerror(errno.ENOENT), f"{self.path}/{name}")
        return ArchivedFile(self, name, source)

    def identity(self, name: str) -> object:
        """See Storage.identity. That of a log's directory changes with its segments; nothing is looked for."""
        log = self._commit.logs.get(name)
        if log is not None:
            return log.segments
        if name.endswith(filename.MANIFEST):
            self.refresh()
        source = self.source(name)
        return None if source is None else source.key

    def try_lock(self, name: str, *, shared: bool = False) -> Lock | None:
        """Return None for a shared lock, which no reader needs here: objects stay for the grace period."""
        if not shared:
            self._refuse(name)
        return None

    def free_bytes(self, directory: str = "") -> int:
        """Raise StorageError: an object store has no such figure."""
        raise StorageError(errno.ENOTSUP, "an object store has no free space", f"{self.path}/{directory}")

    # --- refused --------------------------------------------------------------------------------------------------

    def _refuse(self, name: str = "") -> NoReturn:
        raise LogReadOnly(
            errno.EROFS,
            'an archive is changed by archiving only; open it with mode="r", or restore it',
            f"{self.path}/{name}",
        )

    def make(self, directories: Sequence[str]) -> None:  # noqa: ARG002 - refused
        """Raise LogReadOnly."""
        self._refuse()

    def create(self, name: str, *, replace: bool = False) -> File:  # noqa: ARG002 - refused
        """Raise LogReadOnly."""
        self._refuse(name)

    def rename(self, old: str, new: str) -> None:  # noqa: ARG002 - refused
        """Raise LogReadOnly."""
        self._refuse(old)

    def link(self, old: str, new: str) -> None:  # noqa: ARG002 - refused
        """Raise LogReadOnly."""
        self._refuse(old)

    def unlink(self, name: str) -> None:
        """Raise LogReadOnly."""
        self._refuse(name)

    def sync_directory(self, directory: str = "") -> None:
        """Raise LogReadOnly."""
        self._refuse(directory)

    def remove_directory(self, directory: str) -> None:
        """Raise LogReadOnly."""
        self._refuse(directory)

    def remove_if_empty(self, directory: str) -> None:
        """Raise LogReadOnly."""
        self._refuse(directory)

    def remove(self) -> None:
        """Raise LogReadOnly."""
        self._refuse()


_shown: WeakValueDictionary[tuple[int, str], ArchiveStorage] = WeakValueDictionary()
_opening = threading.Lock()


def storage_at_url(url: str) -> Storage:
    """Return the archive at a URL, or the part of an archive: s3://bucket/prefix/orders/0 is a log of a topic.

    Storages of one archive share its state and cache. Raises LogNotFound if there is no archive.
    """
    base, inner = url.rstrip("/"), ""
    while True:
        with _opening:
            found = _shown.get((os.getpid(), base))
        if found is not None:
            found.refresh(at_once=True)
        elif _is_archive(base):
            with _opening:
                found = _shown.setdefault((os.getpid(), base), ArchiveStorage(store_at(base)))
        if found is not None:
            return Subdirectory(found, inner) if inner else found
        parent, slash, last = base.rpartition("/")
        if not slash or parent.endswith(("/", ":")) or inner.count("/") == 1:
            raise LogNotFound(errno.ENOENT, "there is no archive here", url)
        base, inner = parent, f"{last}/{inner}".rstrip("/")


def _is_archive(url: str) -> bool:
    return next(iter(store_at(url).keys(COMMITS)), None) is not None
