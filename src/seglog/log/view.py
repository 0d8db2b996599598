"""A view: one manifest and its segments. Reading a view is consistent.

Its files are not unlinked as long as it is referenced.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial, wraps
from typing import TYPE_CHECKING, Any, Concatenate, Literal, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from seglog.errors import CorruptRecord, SnapshotExpired
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.log.history import KNOWN, Snapshot, Trace, files_in
from seglog.record import Record
from seglog.segment.batches import Decoder, decode_ahead
from seglog.segment.blocks import BlockFile
from seglog.segment.reader import OnCorrupt, SegmentReader
from seglog.storage import RangedFile

if TYPE_CHECKING:
    import pyarrow as pa


Self = TypeVar("Self")
P = ParamSpec("P")
T = TypeVar("T")
LOOKS = 100  # at a log that changes all the time, before SnapshotExpired is raised


def at_one_moment(read: Callable[Concatenate[Self, P], T], /) -> Callable[Concatenate[Self, P], T]:
    """Decorate what takes the present view of its first argument, a log, and returns all that it reads: if the log has
    deleted files of that view meanwhile, it reads the next one.
    """

    @wraps(read)
    def read_again(self: Self, /, *args: P.args, **options: P.kwargs) -> T:
        try:
            return read(self, *args, **options)
        except SnapshotExpired:
            if isinstance(self, View):  # a given one
                raise
            for _ in range(LOOKS):
                with suppress(SnapshotExpired):
                    return read(self, *args, **options)
            raise

    return read_again


class Readers(Protocol):
    """Opens the sealed segments of a view: a SegmentCache, or several of them."""

    def get(self, entry: SegmentEntry) -> SegmentReader:
        """Return the reader of a sealed segment."""
        ...


class View:
    """The segments of one manifest. `active` grows while this is the log's present view.

    extended: what this view with what only an archive has was made from, and that; None: it has nothing more. Kept
    here by `tiers`.
    """

    __slots__ = ("__weakref__", "active", "cache", "extended", "lease", "manifest")

    def __init__(
        self,
        manifest: Manifest,
        active: SegmentReader,
        cache: Readers,
        lease: object = None,
    ) -> None:
        """lease: what keeps the files, in another process than the writer's, at least until its log is closed."""
        self.manifest = manifest
        self.active = active
        self.cache = cache
        self.extended: tuple[object, View | None] | None = None
        self.lease = lease

    @property
    def lowest_offset(self) -> int:
        """The first offset."""
        return self.manifest.start

    @property
    def next_offset(self) -> int:
        """One after the last visible offset."""
        return self.active.next_offset

    def reader_of(self, offset: int) -> SegmentReader:
        """Return the segment whose range includes the offset."""
        active = self.active
        if offset >= active.base_offset:
            return active
        segments = self.manifest.segments
        return self.cache.get(segments[segments.find(offset)])

    def readers(self, start: int, stop: int) -> Iterator[SegmentReader]:
        """Yield the segments that hold offsets of start..stop, in order, opening each when it is reached.

        Raises SnapshotExpired at the first one whose file the log has deleted; only a view without a lease meets that.
        """
        segments = self.manifest.segments
        for entry in segments[segments.find(start) :]:
            if entry.base_offset >= stop:
                return
            if entry is segments[-1]:
                yield self.active
            elif (entry.next_offset or 0) > start:
                with self._naming(start, stop):
                    reader = self.cache.get(entry)
                yield reader

    def scan(
        self, start: int, stop: int, on_corrupt: OnCorrupt | None = None, keep: int | None = None
    ) -> Iterator[Record]:
        """Yield the records start <= offset < stop. keep: maximum bytes of a large value, as a `Cut`; None: all."""
        for reader in self.readers(start, stop):
            with self._naming(start, stop):
                yield from reader.scan(max(start, reader.base_offset), min(stop, reader.next_offset), on_corrupt, keep)

    @contextmanager
    def _naming(self, start: int, stop: int) -> Iterator[None]:
        """Let an error of one segment name the offsets of a whole read."""
        try:
            yield
        except SnapshotExpired as error:
            raise error.of(max(start, error.offset), min(stop, self.next_offset)) from error.__cause__

    def span_bytes(self, start: int, stop: int, enough: int | None = None) -> int:
        """Return the size in bytes of the records start <= offset < stop, by the lookups: up to a few KiB too much.

        enough: bytes from which on later segments are not counted.
        """
        size = 0
        for reader in self.readers(start, stop):
            size += reader.span_bytes(max(start, reader.base_offset), min(stop, reader.next_offset))
            if enough is not None and size >= enough:
                break
        return size

    def sound_batches(self, start: int, stop: int, on_corrupt: OnCorrupt, **options: Any) -> Iterator[pa.RecordBatch]:
        """Yield what `batches` does, with its options, and go on behind damaged records; on_corrupt: as in `scan`."""
        while start < stop:
            try:
                for batch in self.batches(start, stop, **options):
                    yield batch
                    start = batch.column("offset")[-1].as_py() + 1
            except CorruptRecord:
                readable = next(self.scan(start, stop, on_corrupt, keep=0), None)
                start = stop if readable is None else readable.offset
            else:
                return

    def batches(
        self, start: int, stop: int, *, max_records: int = 65536, values: Literal["view", "binary"] = "view"
    ) -> Iterator[pa.RecordBatch]:
        """Yield the same records in Arrow record batches, each record verified; see Log.batches."""
        from seglog.arrow.convert import decode_batches  # noqa: PLC0415 - pyarrow and numba load when first used

        decode = partial(decode_batches, max_records=max_records, values=values)
        return self.decoded(start, stop, decode, max_records=max_records)

    def decoded(
        self, start: int, stop: int, decode: Callable[..., Decoder], *, max_records: int | None = None
    ) -> Iterator[Any]:
        """Yield the same records in the batches of a decoder, each record verified.

        Args:
            start: Offset of the first record.
            stop: Offset after the last record.
            decode: Returns the decoder of a part of a store; takes what `arrow.store_decoder.StoreDecoder` takes.
            max_records: About how many records a batch has, to decode batches ahead on threads; None: in turn.
        """
        for reader in self.readers(start, stop):
            first, end = max(start, reader.base_offset), min(stop, reader.next_offset)
            with self._naming(start, stop):
                yield from _decoded(reader, decode, first, end, max_records)

    def check_gaps(self, start: int, records: Sequence[Record]) -> None:
        """Raise CorruptRecord unless it is certain that there is no other record from `start` to the last of these.

        For callers that end a scan early; a scan that runs to its end checks this itself.
        """
        reader = self.reader_of(records[-1].offset) if records else None
        if reader is not None and not reader.rules.dense:
            first, stop = max(start, reader.base_offset), records[-1].offset + 1
            reader.check_gaps(stop, lacking=stop - first - sum(record.offset >= first for record in records))

    def next_record(self, offset: int) -> int:
        """Return the offset of the first record at or after `offset`; the log's next offset if there is none."""
        for reader in self.readers(offset, self.next_offset):
            position, found = reader.seek(max(offset, reader.base_offset))
            if position < reader.size:
                return found
        return self.next_offset

    def records_from(self, offset: int) -> int:
        """Return the number of records at or after `offset`, by the segments' figures; see Log.records_from."""
        offset, segments = max(offset, self.lowest_offset), self.manifest.segments
        counted, end = self.active.counted, self.active.next_offset  # in this order: an append does the reverse
        left = _share(segments[-1].base_offset, end, None if self.active.rules.dense else counted, offset)
        number = segments.find(offset)
        if number == len(segments) - 1:
            return left
        entry = segments[number]
        share = _share(entry.base_offset, entry.next_offset or 0, None if entry.dense else entry.records or 0, offset)
        return share + segments[number + 1 :].total_records + left

    def trace_of(self, offset: int) -> Trace:
        """Return the trace of an offset; take the view before reading, so that a later truncate is noticed."""
        cuts, last = self.manifest.cuts, offset - 1
        if cuts.is_known_at(offset):
            file: int | None = KNOWN
        else:
            file = self.file_of(last) if last >= self.lowest_offset else None
        return Trace(f"{self.manifest.log_id:016x}", cuts.epoch_at(offset), file)

    def _snapshot_of(self, start: int, stop: int) -> Snapshot:
        """Return what the offsets start..stop hold in this view; see `Snapshot`. A stop after the end is the end."""
        segments, stop = self.manifest.segments, max(start, min(stop, self.next_offset))
        ours = segments[segments.find(start) : segments.find(stop) + 1]
        stores = ((one.base_offset, one.next_offset, one.file) for one in ours)
        return Snapshot(stop, self.trace_of(stop), self.manifest.version, files_in(stores, start, stop))

    def file_of(self, offset: int) -> int:
        """Return the number of the file that holds the offset; negated in a gap after a segment's end."""
        entry = self.manifest.segments[self.manifest.segments.find(offset)]
        return entry.file if entry.next_offset is None or offset < entry.next_offset else -entry.file


def _decoded(
    reader: SegmentReader, decode: Callable[..., Decoder], start: int, stop: int, max_records: int | None
) -> Iterator[Any]:
    """Yield the batches of start..stop of one segment; see `View.decoded`."""
    position, expected = reader.seek(start)
    if expected >= stop:
        reader.check_range(stop, position, expected, lacking=stop - start)
        return
    base, salt, dense = reader.base_offset, reader.rules.salt, reader.rules.dense
    passed, (relative, position) = yield from decode_ahead(
        reader,
        _Decode(
            reader,
            partial(decode, path=reader.store.path, salt=salt, base_offset=base, dense=dense),
            position,
            stop,
        ),
        relative=expected - base,
        position=position,
        stop=stop - base + (not dense and stop == reader.next_offset),  # includes the last byte there
        max_records=max_records,
        by_windows=isinstance(reader.store, BlockFile),
    )
    reader.check_range(stop, position, base + relative, lacking=stop - start - passed)


class _Decode:
    """Makes decoders for the records from `position` up to offset `end`, with as much of the store as they need.

    A store is mapped as a whole. If its bytes are fetched from elsewhere, they are fetched for all decoders together.
    Of a compressed store each decoder gets its own stretch, decompressed by the thread that makes it.
    """

    def __init__(self, reader: SegmentReader, decode: Callable[..., Decoder], position: int, end: int) -> None:
        self._store, self._decode, self._size, self._base = reader.store, decode, reader.size, reader.base_offset
        self._mapped = None
        if isinstance(reader.store, BlockFile):
            self._size = _end_of(reader, end)
        elif isinstance(reader.store, RangedFile):
            self._size = _end_of(reader, end)  # what follows is not there
            self._mapped = reader.store.map_range(position, self._size)
        else:
            self._mapped = reader.store.map()

    def __call__(self, *, relative: int, position: int, stop: int, end: int | None) -> Decoder:
        """Return a decoder; see `Decode`."""
        span = {"relative": relative, "position": position, "stop": stop}
        if self._mapped is not None:
            return self._decode(self._mapped, **span, end=self._size, origin=0, tail=False)
        limit = self._size if end is None else min(end, self._size)
        try:
            data = self._store.pread(limit - position, position)
        except SnapshotExpired as error:
            raise error.of(self._base + relative, error.next_offset) from error.__cause__
        return self._decode(data, **span, end=limit, origin=position, tail=end is not None)


def _end_of(reader: SegmentReader, end: int) -> int:
    """Return the position of the first record from offset `end` on; the end of all if damage hides where that is."""
    position, found = (reader.size, end) if end >= reader.next_offset else reader.seek(end)
    return position if found >= end else reader.size


def _share(base: int, end: int, records: int | None, offset: int) -> int:
    """Estimate how many of a segment's records are at or after `offset`, assuming an even distribution.

    records: None if every offset has one. Rounded up, so that the result is 0 only if there can be none.
    """
    left = max(0, end - max(offset, base))
    return left if records is None or not left else -(-records * left // (end - base))


class Views:
    """The views in use in this process."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._held: WeakSet[View] = WeakSet()

    def add(self, view: View) -> View:
        """Register a view; it counts as long as it is referenced."""
        with self._guard:
            self._held.add(view)
        return view

    def oldest_version(self) -> int | None:
        """Return the oldest manifest version in use; None without views."""
        with self._guard:
            return min((view.manifest.version for view in self._held), default=None)

    def renew_guards(self) -> None:
        """Replace the guard in a forked child: another thread of the parent may have held it."""
        self._guard = threading.Lock()
