"""Compress the sealed segments of a log that is open for writing, one at a time, as its config requires.

As a compaction does it: choose under the mutex, write a stage without it, swap with one manifest. Appends, readers and
followers continue meanwhile. Until that manifest is installed the old store is the live one; after it the old store is
retired, and unlinked once no reader uses it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate, chain
from typing import TYPE_CHECKING

from seglog.clock import Clock
from seglog.compaction.rate_limit import Pace
from seglog.compaction.schedule import to_compress
from seglog.errors import CompactionAborted, CorruptRecord, StorageError
from seglog.format import filename
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.log.compaction import checked_rate, remove_stage
from seglog.log.info import CompressionReport
from seglog.log.staging import StagedSegment, compaction_batch, stage_directory
from seglog.log.view import View
from seglog.log.writer_state import OPEN, WriterState, change
from seglog.record import checked_callable, checked_offset
from seglog.segment.sealed import open_store, read_whole
from seglog.storage import Storage, Subdirectory

if TYPE_CHECKING:
    from seglog.compaction.rate_limit import Progress
    from seglog.config import Compression

READS = 2  # a pass reads a segment, and then its result


class Compressor:
    """Compresses one log. running: held while a compaction or a compression of it runs."""

    def __init__(self, state: WriterState, storage: Storage, clock: Clock, running: threading.Lock) -> None:
        self._state = state
        self._storage = storage
        self._clock = clock
        self._running = running
        self._damaged: dict[int, tuple[SegmentEntry, CorruptRecord]] = {}  # by file number; not read again

    def compress(
        self,
        codec: Compression | None,
        *,
        max_bytes: int | None,
        progress: Progress | None,
        abort: Callable[[], bool] | None,
        bytes_per_second: float | None,
    ) -> CompressionReport:
        """Store every sealed segment as the config requires; see Log.compress."""
        checked_rate(bytes_per_second)
        if max_bytes is not None:
            max_bytes = checked_offset(max_bytes, "max_bytes")
        checked_callable(progress, "progress")
        checked_callable(abort, "abort")
        if not self._running.acquire(blocking=False):
            raise CompactionAborted("a compaction or compression of this log is running; wait for its end")
        try:
            if codec is not None:
                self._alter(codec)
            return self._run(max_bytes, progress, abort, bytes_per_second)
        finally:
            self._running.release()

    @change
    def _alter(self, codec: Compression) -> None:
        self._state.live.configure(self._state.live.config.altered({"compression": codec}))

    def _run(
        self,
        max_bytes: int | None,
        progress: Progress | None,
        abort: Callable[[], bool] | None,
        bytes_per_second: float | None,
    ) -> CompressionReport:
        def stopped() -> bool:
            self._refuse_if_gone()
            return abort is not None and abort()

        manifest = self._manifest()
        wanted, found = manifest.config.compression, to_compress(manifest.segments, manifest.config)
        sound = self._sound(found)
        due = _first(sound, max_bytes)
        total = READS * sum(entry.bytes or 0 for entry in due)
        pace = Pace(total, progress=progress, abort=stopped, bytes_per_second=bytes_per_second)
        after: list[tuple[SegmentEntry, SegmentEntry]] = []
        for entry in due:
            try:
                changed = self._rewrite(entry, wanted, pace)
            except CorruptRecord as error:
                # without its traceback, which holds a view: that would keep replaced files
                self._damaged[entry.file] = (entry, error.with_traceback(None))
                continue
            except CompactionAborted:
                done = f"{len(after)} of {len(due)} segments are stored with {wanted}, the others as before"
                raise CompactionAborted(f"the compression was stopped before its end: {done}") from None
            if changed is not None:
                after.append((entry, changed))
        damaged = [error for _, error in self._damaged.values()]
        if wanted == "none" and not damaged and len(due) == len(sound) and self._is_traced():
            self._forget_codecs()
        return CompressionReport(
            segments=len(due) + len(found) - len(sound),
            rewritten=sum(old.file != new.file for old, new in after),
            bytes_before=sum(old.disk_bytes for old, _ in after),
            bytes_after=sum(new.disk_bytes for _, new in after),
            damaged=tuple(damaged),
        )

    @change
    def _manifest(self) -> Manifest:
        """Return the present manifest. Segments are chosen without the mutex: there may be 100,000."""
        return self._state.live.catalog.current

    def _sound(self, found: list[SegmentEntry]) -> list[SegmentEntry]:
        """Return the segments without known damage, and forget the damage of segments that are not among them."""
        known = self._damaged
        self._damaged = {one.file: known[one.file] for one in found if one.file in known and known[one.file][0] == one}
        return [entry for entry in found if entry.file not in self._damaged]

    def _is_traced(self) -> bool:
        """Whether MANIFEST or MANIFEST.prev may name a codec; also true after a pass that died before it wrote them."""
        known = [read_whole(self._storage, name) for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS)]
        return any(trace in data for data in known for trace in (b'"codec":', b'"compression":'))

    @change
    def _forget_codecs(self) -> None:
        """Leave no codec in MANIFEST and MANIFEST.prev, so that earlier versions read them again."""
        for _ in (filename.MANIFEST_PREVIOUS, filename.MANIFEST):
            self._state.live.write_base()

    def _rewrite(self, entry: SegmentEntry, wanted: Compression, pace: Pace) -> SegmentEntry | None:
        """Store one segment with this codec and return its entry; None if it has left the log, or changed, meanwhile.

        Raises CorruptRecord if it is damaged; it stays as it is then.
        """
        if wanted == "none" and not entry.compressed:
            return self._install(entry, replace(entry, codec=None), None)
        batch = compaction_batch(own=True)
        directory = stage_directory(batch, self._clock())
        output = Subdirectory(self._storage, directory)
        try:
            view = self._begin(entry, output)
            if view is None:
                return None
            staged = self._staged(entry, wanted, view.manifest, output, pace)
            del view  # else what it holds is not unlinked when it is retired
            if staged is not None:
                return self._install(entry, staged, StagedSegment(directory=directory, entry=staged))
        except (StorageError, CorruptRecord) as error:
            self._refuse_if_gone()  # raises the cause, if the log was closed or removed meanwhile
            raise error
        finally:
            remove_stage(self._state, self._storage, batch)
        return self._leave_plain(entry, wanted, pace)

    def _leave_plain(self, entry: SegmentEntry, wanted: Compression, pace: Pace) -> SegmentEntry | None:
        """Store a segment plain that this codec does not make smaller, and note that, so that it is not tried again."""
        plain = self._rewrite(entry, "none", pace) if entry.compressed else entry
        return None if plain is None else self._install(plain, replace(plain, codec=wanted), None)

    def _refuse_if_gone(self) -> None:
        """Raise if the log was closed or removed."""
        if self._state.phase is not OPEN:
            raise self._state.refusal()

    @change
    def _begin(self, entry: SegmentEntry, output: Subdirectory) -> View | None:
        """Create the output directory; return the present view, which keeps the segment's files. None if it is gone."""
        live = self._state.live
        segments = live.catalog.current.segments
        if segments[segments.find(entry.base_offset)] != entry:
            return None
        output.make([])
        return live.present

    def _staged(
        self, entry: SegmentEntry, wanted: Compression, manifest: Manifest, output: Subdirectory, pace: Pace
    ) -> SegmentEntry | None:
        """Write the segment into a stage; return its entry, None if compression does not make it smaller."""
        from seglog.compaction.compress import Rewrite  # noqa: PLC0415 - numpy and pyarrow load when first used

        rewrite = Rewrite(
            open_store(self._storage, entry),
            entry,
            output,
            codec=None if wanted == "none" else wanted,
            interval=manifest.config.index_interval_bytes,
            log_id=manifest.log_id,
            pace=pace,
        )
        staged = rewrite.run()
        output.sync_directory()
        return staged

    @change
    def _install(self, entry: SegmentEntry, new: SegmentEntry, staged: StagedSegment | None) -> SegmentEntry | None:
        """Put `new` in the place of a segment with one manifest; return it as it is there, None if that has changed.

        staged: its files; None if only the figures change.
        """
        live = self._state.live
        segments = live.catalog.current.segments
        number = segments.find(entry.base_offset)
        if segments[number] != entry:
            return None
        joining, retire = [], []
        if staged is not None:
            new = replace(new, file=live.catalog.new_file_number())
            joining, retire = [(staged, new)], [entry]
        live.swap(segments.spliced(number, 1, [new])[:-1], joining, retire=retire)
        return new


def _first(due: list[SegmentEntry], max_bytes: int | None) -> list[SegmentEntry]:
    """Return the first segments: one, and further ones while those before them have fewer bytes than max_bytes."""
    if max_bytes is None:
        return due
    ends = accumulate(entry.bytes or 0 for entry in due)
    before = chain([0], ends)  # bytes of the segments before each
    return [entry for entry, size in zip(due, before, strict=False) if size == 0 or size < max_bytes]
