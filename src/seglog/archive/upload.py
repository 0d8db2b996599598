"""One round for one log: upload what its archive lacks, and return the state to commit.

The local log decides: offsets from its first segment on are archived as they are now, whether they were appended,
truncated or compacted. Segments that only the archive still has come before them. An archived segment is verified
before it is uploaded, and the active one is synced: the archive never holds what the disk may lose.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from xxhash import xxh64, xxh64_hexdigest

from seglog.archive import segments
from seglog.archive.adopting import remainder, sealed_part
from seglog.archive.commit import ArchivedLog, Piece
from seglog.archive.layout import segment_key, segments_key, tail_key
from seglog.archive.segments import ArchivedSegments, Placed
from seglog.archive.verifying import check_sealed
from seglog.errors import ArchiveMismatch, StorageError
from seglog.format import filename
from seglog.format.manifest import Manifest, SegmentEntry, Segments
from seglog.segment.blocks import header_of, plain_store
from seglog.storage import File, Storage

if TYPE_CHECKING:
    from seglog.archive.objects import ObjectStore
    from seglog.clock import Clock
    from seglog.log.view import View

PIECE_BYTES = 8 * 1024 * 1024
"""Pieces of an active segment are joined up to this size."""
READ_BYTES = 1024 * 1024


@dataclass(frozen=True)
class ArchivedState:
    """A log in an archive: its place in the commit, and its list of segments."""

    log: ArchivedLog
    segments: ArchivedSegments

    def objects(self) -> Iterator[str]:
        """Yield the keys of all objects of this state."""
        yield self.log.segments
        yield from self.segments.keys()
        yield from (piece.key for piece in self.log.tail)


def continues(state: ArchivedState, present: Manifest) -> bool:
    """Whether a log may be a later state of an archived one. A leader of a higher term counts its own versions."""
    archived = state.segments.manifest
    later = archived.version <= present.version or archived.role.term < present.role.term
    return archived.log_id == present.log_id and later and archived.epoch <= present.epoch


def check_continues(state: ArchivedState, present: Manifest, path: str) -> None:
    """Raise ArchiveMismatch unless a log may be a later state of an archived one."""
    if not continues(state, present):
        archived = state.segments.manifest
        what = "another log" if archived.log_id != present.log_id else "a later state of this log"
        raise ArchiveMismatch(
            f"{path}: the archive holds {what} (id {archived.log_id:016x}, version {archived.version}; here "
            f"{present.log_id:016x}, {present.version}). Use another prefix, restore from the archive, or replace its "
            "content by this directory with `seglog archive --take-over`"
        )


def figures_of(view: View) -> tuple[int, int, int]:
    """Return figures that change with every change of a log: its id, version, and the size of its active segment."""
    return view.manifest.log_id, view.manifest.version, view.active.size


class LogUpload:
    """One round for one log. uploaded: bytes so far; manifest: of the view that is archived."""

    def __init__(
        self,
        store: ObjectStore,
        source: Storage,
        view: View,
        earlier: ArchivedState | None,
        pending: ArchivedState | None,
        *,
        term: int,
        number: int,
        clock: Clock,
        expired: Callable[[SegmentEntry], bool],
    ) -> None:
        """view: of the log, appended records included. number: of the coming commit.

        earlier: the archived state that the log continues. pending: what an interrupted round has uploaded.

        expired: whether a segment that the log no longer has may leave the archive.
        """
        self._store = store
        self._source = source
        self._view = view
        self.manifest = view.manifest
        self.figures = figures_of(view)
        self._earlier = earlier
        self._pending = pending
        self._placed: dict[str, Placed] = {}
        self._adopted: list[SegmentEntry] = []
        self._term = term
        self._number = number
        self._clock = clock
        self._expired = expired
        self.uploaded = 0

    # --- sealed segments ------------------------------------------------------------------------------------------

    def missing(self) -> Iterator[int]:
        """Upload the sealed segments that the archive lacks; yield after each the number of segments up to it."""
        known = self._known()
        sealed = self.manifest.segments[:-1]
        self._placed = {entry.name(): known[_identity(entry)] for entry in sealed if _identity(entry) in known}
        for count, entry in enumerate(sealed, 1):
            if entry.name() not in self._placed:
                self._placed[entry.name()] = self._upload(entry, self._source)
                yield count
        self._adopted = self._adopt()

    @property
    def gap(self) -> tuple[int, int] | None:
        """The offsets start <= offset < stop that the log deleted before they were archived."""
        first = self.manifest.segments[0].base_offset
        end = first if self._earlier is None else self._earlier.log.next_offset
        return (end, first) if end < first else None

    def _known(self) -> dict[tuple[object, ...], Placed]:
        """Return what the archive has, by the identity of the segment."""
        return {
            _identity(entry): state.segments.placed[entry.name()]
            for state in (self._earlier, self._pending)
            if state is not None
            for entry in state.segments.manifest.segments[:-1]
        }

    def _adopt(self) -> list[SegmentEntry]:
        """Upload the part that the log no longer has of the archived segment in which the log begins."""
        if self._earlier is None:
            return []
        log, archived = self._earlier.log, self._earlier.segments
        first = self.manifest.segments[0].base_offset
        entry = remainder(log, archived, first)
        if entry is None:
            return []
        with sealed_part(self._store, log, archived, entry, first, self._clock()) as (storage, part):
            if not part.records:
                return []
            self._placed[part.name()] = self._upload(part, storage)
        return [part]

    def _upload(self, entry: SegmentEntry, source: Storage) -> Placed:
        store = source.open(entry.name())
        check_sealed(plain_store(source, entry, store, header_of(store)), entry)
        lookups = []
        for kind in filename.LOOKUPS:  # derived files: reading works without them, but slower
            if source.identity(entry.name(kind)) is not None:
                file = source.open(entry.name(kind))
                self._put(segment_key(self.manifest.log_id, entry, self._term, kind), file, 0, file.size())
                lookups.append((kind, file.size()))
        key = segment_key(self.manifest.log_id, entry, self._term, filename.STORE)
        self._put(key, store, 0, entry.disk_bytes)
        return Placed(self._term, tuple(lookups))

    def _put(self, key: str, file: File, start: int, stop: int) -> str:
        """Upload a part of a file; return its check."""
        check = xxh64()

        def parts() -> Iterator[bytes]:
            for position in range(start, stop, READ_BYTES):
                part = file.pread(min(READ_BYTES, stop - position), position)
                if len(part) < min(READ_BYTES, stop - position):
                    raise StorageError(5, "the file became shorter while it was archived", file.path)
                check.update(part)
                yield part

        self._store.put(key, parts(), stop - start)
        self.uploaded += stop - start
        return check.hexdigest()

    # --- states ---------------------------------------------------------------------------------------------------

    def progress(self, count: int) -> ArchivedState:
        """Return the first `count` segments as a state that no reader sees, so that a later round can use them."""
        following = self.manifest.segments[count]
        active = SegmentEntry(
            base_offset=following.base_offset, file=following.file, salt=following.salt, created=following.created
        )
        sealed = tuple(entry for entry in self.manifest.segments[:count] if entry.name() in self._placed)
        return self._state(sealed, active, (), "", following.base_offset)

    def whole(self) -> ArchivedState | None:
        """Upload the active segment's new records and return the state; None if it is the archived one."""
        tail, tail_id = self._tail()
        sealed, end = self.manifest.segments[:-1], self._view.next_offset
        state = self._state(sealed, self.manifest.active, tail, tail_id, end)
        return None if state == self._earlier else state

    def _state(
        self, sealed: Iterable[SegmentEntry], active: SegmentEntry, tail: tuple[Piece, ...], tail_id: str, end: int
    ) -> ArchivedState:
        kept, sealed = self._kept(), tuple(sealed)
        before = {} if self._earlier is None else self._earlier.segments.placed
        placed = {entry.name(): self._placed[entry.name()] for entry in sealed}
        placed |= {entry.name(): self._placed.get(entry.name()) or before[entry.name()] for entry in kept}
        manifest = self._archived_manifest(kept, (*sealed, active))
        found = ArchivedSegments(manifest, placed)
        data, earlier = found.encode(), self._earlier
        if earlier is not None and data == earlier.segments.encode():
            return ArchivedState(replace(earlier.log, tail=tail, tail_id=tail_id, next_offset=end), earlier.segments)
        key = segments_key(manifest.log_id, self._number, self._term)
        self._store.put(key, [data], len(data))
        log = ArchivedLog(
            log_id=manifest.log_id,
            segments=key,
            check=segments.check_of(data),
            tail=tail,
            tail_id=tail_id,
            next_offset=end,
        )
        return ArchivedState(log, found)

    def _archived_manifest(self, kept: list[SegmentEntry], own: tuple[SegmentEntry, ...]) -> Manifest:
        """Return the manifest of the archived log: `kept` are segments that the log itself no longer has."""
        before = self._earlier.segments.manifest if self._earlier is not None else None
        start = max(before.start, kept[0].base_offset) if kept and before is not None else self.manifest.start
        return replace(
            self.manifest, segments=Segments.of([*kept, *own]), start=start, retired=(), boot="", backup=True
        )

    def _kept(self) -> list[SegmentEntry]:
        """Return the archived segments before the log's first one that are to stay."""
        if self._earlier is None:
            return []
        first = self.manifest.segments[0].base_offset
        sealed = self._earlier.segments.manifest.segments[:-1]
        older = [entry for entry in sealed if (entry.next_offset or 0) <= first] + self._adopted
        while older and self._expired(older[0]):
            del older[0]
        return older

    # --- the active segment ---------------------------------------------------------------------------------------

    def _tail(self) -> tuple[tuple[Piece, ...], str]:
        """Upload the new bytes of the active segment; return its pieces and their id."""
        active, size = self.manifest.active, self._view.active.size
        file = self._view.active.store
        pieces = self._known_pieces(size)
        if pieces and pieces[-1].stop != size and self._check(file, pieces[-1]) != pieces[-1].check:
            pieces = []  # the last append was rolled back after it was archived
        tail_id = self._earlier.log.tail_id if self._earlier is not None and pieces else new_tail_id()
        start = pieces[-1].stop if pieces else 0
        if start == size:
            return tuple(pieces), tail_id
        file.datasync()
        while pieces and size - start >= pieces[-1].stop - pieces[-1].start and size - pieces[-1].start <= PIECE_BYTES:
            start = pieces.pop().start
        return (*pieces, self._piece(active, file, start, size)), tail_id

    def _known_pieces(self, size: int) -> list[Piece]:
        """Return the archived pieces of the active segment that are still valid."""
        if self._earlier is None:
            return []
        archived, active = self._earlier.segments.manifest, self.manifest.active
        same = (archived.epoch, archived.active.file, archived.active.salt) == (
            self.manifest.epoch,
            active.file,
            active.salt,
        )
        pieces = list(self._earlier.log.tail) if same else []
        return pieces if pieces and pieces[-1].stop <= size else []

    def _piece(self, active: SegmentEntry, file: File, start: int, stop: int) -> Piece:
        key = tail_key(self.manifest.log_id, active, self._term, start)
        return Piece(key, start, stop, self._put(key, file, start, stop))

    @staticmethod
    def _check(file: File, piece: Piece) -> str:
        return xxh64_hexdigest(file.pread(piece.stop - piece.start, piece.start))


def new_tail_id() -> str:
    """Return an id for the content of an active segment, which it keeps while it only grows."""
    return secrets.token_hex(6)


def _identity(entry: SegmentEntry) -> tuple[object, ...]:
    """Return what names the content of a sealed segment's store."""
    return entry.file, entry.salt, entry.base_offset, entry.bytes, entry.digest
