"""A second tier: the segments that retention has deleted here, read from an archive of the log.

The archive is a Storage, as any other place. What is read of it comes through its own cache on the local disk.
"""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace

from seglog.errors import ArchiveMismatch, LogNotFound, SeglogError
from seglog.format.manifest import Manifest, SegmentEntry, Segments
from seglog.log.catalog import read_manifest
from seglog.log.segment_cache import SegmentCache
from seglog.log.view import Readers, View, Views
from seglog.segment.reader import SegmentReader
from seglog.storage import Storage
from seglog.storage.urls import storage_at_url

LOOK_SECONDS = 60.0  # between two looks at an archive that deletes old segments
RETRY_SECONDS = 1.0


class TieredView(View):
    """A view of a log with earlier segments that it has deleted. before: views that keep the files of these."""

    __slots__ = ("before",)

    def __init__(
        self, own: View, older: tuple[SegmentEntry, ...], start: int, readers: Readers, before: tuple[View, ...]
    ) -> None:
        """older: the segments before the log's own; start: the first offset."""
        segments = Segments.of(older).followed_by(own.manifest.segments)
        manifest = replace(own.manifest, segments=segments, start=start)
        super().__init__(manifest, own.active, readers, own.lease)
        self.before = before


class _Readers:
    """Opens each segment where it is: places are (first offset there, readers), the last one first."""

    def __init__(self, places: tuple[tuple[int, Readers], ...]) -> None:
        self._places = places

    def get(self, entry: SegmentEntry) -> SegmentReader:
        """Return the reader of a sealed segment."""
        return next(readers for first, readers in self._places if entry.base_offset >= first).get(entry)


class Tiers:
    """What an archive has of one log. Safe for threads.

    The archive is looked at in a thread once the log has deleted segments. Until then these are still read here: the
    view before keeps their files. So a writer never waits for the archive, except for records.
    """

    def __init__(self, url: str, views: Views) -> None:
        """url: of the log in the archive. views: of the log, so that extended views keep its files, too."""
        self._url = url
        self._views = views
        self._guard = threading.RLock()
        self._known: tuple[Manifest, SegmentCache, int] | None = None  # and the log's first offset before that look
        self._storage: Storage | None = None
        self._shown: object = None  # identity of the directory when its manifest was read
        self._looked = float("-inf")
        self._looking = False
        self._reached = 0  # the log's first offset
        self._closed = threading.Event()
        self._bridges: list[View] = []  # the views before segments were deleted that the archive is not known to have

    def check(self, own: View) -> None:
        """Look at the archive for the first time. Raises StorageError, or ArchiveMismatch if it is of another log."""
        self._reached = own.manifest.start
        self._load(self._reached)
        if self._known is not None and self._known[0].log_id != own.manifest.log_id:
            raise ArchiveMismatch(f"{self._url} is the archive of another log than {own.active.store.path}")

    def close(self) -> None:
        """Stop looking."""
        self._closed.set()
        self._bridges.clear()

    def deleted(self, before: View, start: int) -> None:
        """Note that the log has deleted the first segments of a view; start: its first offset now."""
        with self._guard:
            self._reached = max(self._reached, start)
            if self._archived_before(before.manifest, start) is None:
                self._bridges.append(before)
        self._look_later()

    def extend(self, own: View) -> View:
        """Return the view with the segments before it; `own` if there are none."""
        known = own.extended
        if known is not None and (known[1] is None or (known[0] is self._known and self._is_shown())):
            if time.monotonic() - self._looked >= LOOK_SECONDS:
                self._look_later()
            return known[1] or own
        if own.manifest.start <= own.manifest.config.initial_offset:
            own.extended = (None, None)
            return own
        with self._guard:
            if not self._is_shown():
                self._take_shown(own.manifest.start)
            extended = self._settled(own) or self._bridged(own)
            if extended is None and time.monotonic() - self._looked >= RETRY_SECONDS:
                self._try_to_load(own.manifest.start)
                extended = self._settled(own)
            return own if extended is None else extended

    def _settled(self, own: View) -> View | None:
        """Return the view with what the archive has before it; None if the archive may have more by now."""
        start, known = own.manifest.start, self._known
        older = self._archived_before(own.manifest, start)
        if older is None:
            return None
        self._bridges.clear()
        extended = self._tiered(own, older, ((start, own.cache),), ())
        if extended is not own:
            own.extended = (known, extended)
        return extended

    def _bridged(self, own: View) -> View | None:
        """Return the view with segments that were deleted just now; None if it is not known which."""
        places: list[tuple[int, Readers]] = [(own.manifest.start, own.cache)]
        between: tuple[SegmentEntry, ...] = ()
        stop, bridges = own.manifest.start, list(self._bridges)
        for view in reversed(bridges):
            first, epoch = view.manifest.start, view.manifest.epoch
            found = tuple(entry for entry in view.manifest.segments[:-1] if (entry.next_offset or 0) <= stop)
            if epoch != own.manifest.epoch or not found or found[-1].next_offset != stop:
                return None
            between, stop = (*found, *between), first
            places.append((first, view.cache))
        older = self._archived_before(own.manifest, stop)
        if not between or (older is None and self._known is not None):
            return None
        return self._tiered(own, (*(older or ()), *between), tuple(places), tuple(bridges))

    def _tiered(
        self,
        own: View,
        older: tuple[SegmentEntry, ...],
        places: tuple[tuple[int, Readers], ...],
        before: tuple[View, ...],
    ) -> View:
        if not older:
            return own
        start = older[0].base_offset
        if self._known is not None:
            start, places = max(start, self._known[0].start), (*places, (0, self._known[1]))
        return self._views.add(TieredView(own, older, start, _Readers(places), before))

    def _archived_before(self, own: Manifest, start: int) -> tuple[SegmentEntry, ...] | None:
        """Return the archived segments before an offset of the log; None if the archive may have more by now.

        Offsets that it has must not look like a gap.
        """
        if self._known is None or self._known[0].log_id != own.log_id:
            return None
        archived, _, looked_at = self._known
        older = tuple(entry for entry in archived.segments[:-1] if (entry.next_offset or 0) <= start)
        following = archived.segments[len(older)].base_offset
        reaches = following == start or (bool(older) and older[-1].next_offset == start)
        return older if reaches or (looked_at >= start and following >= start) else None

    # --- looking --------------------------------------------------------------------------------------------------

    def _look_later(self) -> None:
        """Look at the archive in a thread, again and again while segments here wait for that."""
        with self._guard:
            if self._looking or self._closed.is_set():
                return
            self._looking = True
        threading.Thread(target=self._look, name="seglog-tiers", daemon=True).start()

    def _look(self) -> None:
        while not self._closed.is_set():
            self._try_to_load(self._reached)
            with self._guard:
                last = self._bridges[-1] if self._bridges else None
                if last is None or self._archived_before(last.manifest, self._reached) is not None:
                    self._bridges.clear()
                    self._looking = False
                    return
            del last
            self._closed.wait(RETRY_SECONDS)

    def _try_to_load(self, start: int) -> None:
        with suppress(SeglogError):  # what is known stays
            self._load(start)
        self._looked = time.monotonic()

    def _load(self, start: int) -> None:
        """Read the archive's manifest. start: the first offset of the log."""
        with suppress(LogNotFound):  # nothing of it is archived yet
            self._read_manifest(storage_at_url(self._url), start)
        self._looked = time.monotonic()

    def _is_shown(self) -> bool:
        """Whether what is known is what the storage shows: a reader that missed a file has made it look again."""
        with suppress(SeglogError):
            return self._storage is None or self._storage.identity("") == self._shown
        return True

    def _take_shown(self, start: int) -> None:
        """Know what the storage shows by now."""
        with suppress(SeglogError):
            if self._storage is not None:
                self._read_manifest(self._storage, start)

    def _read_manifest(self, storage: Storage, start: int) -> None:
        like, shown = None if self._known is None else self._known[0], storage.identity("")
        archived = read_manifest(storage, like=like)
        if archived is not None and archived is not like:
            limit, interval = archived.config.open_segments_max, archived.config.index_interval_bytes
            cache = SegmentCache(storage, limit=limit, interval=interval, heal=False)
            self._known = (archived, cache if self._known is None else self._known[1], start)
        self._storage, self._shown = storage, shown
