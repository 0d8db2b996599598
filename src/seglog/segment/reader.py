"""Read one segment: points, ranges, times. Every record is verified; a lookup is used only if its record matches."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

from seglog.errors import CorruptRecord, OffsetCompacted, SnapshotExpired
from seglog.format.codec import Framed, InvalidRecord, Rules
from seglog.format.index import Mark, floor_mark
from seglog.record import Record
from seglog.segment.kernel_read import PointReader, Seen
from seglog.segment.long_record import LONG_BYTES, read_long, value_pieces
from seglog.segment.lookup import Lookup, Place
from seglog.segment.resync import find_record
from seglog.segment.walk import StoreWalk
from seglog.storage import File

OnCorrupt = Callable[[CorruptRecord], None]


class SegmentReader:
    """The records base_offset <= offset < next_offset, in the first `size` bytes of a store.

    marks: returns the time marks at first use. mend: replaces, once, a lookup that was wrong. An appender, or a
    follower of another process, advances `size` and then `next_offset`; reading is safe meanwhile. counted: number of
    records of an active segment with gaps, updated last.
    """

    def __init__(
        self,
        store: File,
        lookup: Lookup,
        rules: Rules,
        *,
        next_offset: int,
        size: int,
        marks: Callable[[], Sequence[Mark]],
        mend: Callable[[], Lookup] | None = None,
    ) -> None:
        self.store = store
        self.lookup = lookup
        self.rules = rules
        self.base_offset = rules.base_offset
        self.next_offset = next_offset
        self.size = size
        self.counted = 0
        self._marks = marks
        self._mend = mend
        self._mending = threading.RLock()  # a signal handler may read while this thread replaces the lookup
        self._point = PointReader(store, rules)
        self._decode = rules.codec.decode
        self._salt = rules.salt

    def read(self, offset: int, keep: int | None = None) -> Record:
        """Return the record. CorruptRecord if it is damaged, OffsetCompacted if there is none.

        keep: maximum bytes to return of a long value, as a `Cut`; None: all.
        """
        record = self._point.read(self.lookup, offset, self.size)
        if record is not None:
            return record
        place = self.lookup.exact(offset - self.base_offset)
        if place is not None:
            record = self._record_at(place, offset, keep)
            if record is not None:
                return record
        record = self._search(offset, keep)
        if place is not None:  # the store is intact, so its index was wrong: rebuild it
            with self._mending:
                if self._mend is not None:
                    self.lookup, self._mend = self._mend(), None
        return record

    def read_if(self, seen: Seen, offset: int) -> Record | None:
        """Return the record with one call of a kernel, if a file has not changed until then; None if not, or without
        the means for it.
        """
        return self._point.read(self.lookup, offset, self.size, seen)

    def value_pieces(self, offset: int) -> Iterator[bytes]:
        """Yield a record's value in pieces, verified as a whole: CorruptRecord in place of the last one."""
        place = self.lookup.exact(offset - self.base_offset)
        position = self.seek(offset)[0] if place is None else place[2]
        codec = self.rules.codec
        try:
            length = codec.length_at(self.store.pread(codec.head_bytes, position), 0)
            yield from value_pieces(self.store, self.rules, position=position, length=length, offset=offset)
        except InvalidRecord as error:
            raise CorruptRecord(self.store.path, offset, position, str(error)) from error

    def span_bytes(self, start: int, stop: int) -> int:
        """Return the size in bytes of the records start <= offset < stop, or a few KiB more, without reading a record.

        For callers that reserve memory before reading. Not verified: the lookup may be wrong.
        """
        floor = self.lookup.floor(start - self.base_offset)
        position = self.rules.codec.header_bytes if floor is None else floor[1]
        last = self.lookup.exact(stop - 1 - self.base_offset)
        if last is not None:
            return max(last[2] + last[1] - position, 0)
        after = None if self.rules.dense else self.lookup.after(stop - 1 - self.base_offset, position)
        return max((self.size if after is None else after[1]) - position, 0)

    def _record_at(self, place: Place, offset: int, keep: int | None = None) -> Record | None:
        _, length, position = place
        if position + length > self.size:
            return None
        try:
            if length > LONG_BYTES:
                record, _, found = read_long(self.store, self.rules, position=position, length=length, keep=keep)
            else:
                data = self.store.pread(length, position)
                record, _, found = self._decode(data, 0, len(data), self.base_offset, self._salt)
        except InvalidRecord:
            return None
        return record if record.offset == offset and found == length else None

    def _search(self, offset: int, keep: int | None) -> Record:
        """Find a record without a usable lookup entry: in sparse segments, and in dense ones with a damaged index."""
        failed: CorruptRecord | None = None
        for position, first in self._starts(offset):
            for walk in self._walks(position, first, offset, keep):
                met = _first_from(walk, offset)
                if met is not None and met[0].offset == offset:
                    return met[0]
                if met is not None:
                    at, later = walk.position - met[2], met[0].offset
                    if self._led_behind(position, at):
                        break
                    moved = self._behind_gap(offset, at, later)
                    if moved is not None:
                        return moved
                    raise OffsetCompacted(offset, later)
                if not self._breaks_off(walk, offset + 1):
                    if failed is None:
                        raise OffsetCompacted(offset, self.next_offset)
                    break  # it may be the damaged record
                failed = self._closest(failed, walk)
        assert failed is not None  # noqa: S101 - the store's start is always among the starts
        raise CorruptRecord(failed.path, offset, failed.position, failed.reason)

    def _behind_gap(self, offset: int, position: int, expected: int) -> Record | None:
        """Return the record of `offset` if it follows one of a later offset; None if it is certainly absent."""
        try:
            self._check_gap(offset, position, expected)
        except CorruptRecord:
            start = self.rules.codec.header_bytes
            while found := find_record(self.store, self.rules, position=start, end=self.size, least=offset):
                if found.offset == offset:
                    return next(record for record, _, _ in self._walk(found.position, offset))
                start = found.position + 1
            raise
        return None

    def check_range(self, stop: int, position: int, expected: int, *, lacking: int) -> None:
        """Raise CorruptRecord unless it is certain that a range is complete where reading it ended.

        position, expected: the first record that was not taken, and its lowest offset. lacking: offsets without a
        record.
        """
        if lacking and not self.rules.dense and stop < self.next_offset:
            try:
                self._check_gap(stop - 1, position, expected)
            except SnapshotExpired as error:
                raise error.of(stop - 1, stop) from error.__cause__

    def check_gaps(self, stop: int, *, lacking: int) -> None:
        """Raise CorruptRecord unless it is certain that `lacking` offsets before `stop` have no record here."""
        if lacking and not self.rules.dense:
            position, expected = self.seek(stop)
            self._check_gap(stop - 1, position, expected)

    def _check_gap(self, offset: int, position: int, expected: int) -> None:
        """Raise CorruptRecord unless the record at `position`, of offset `expected` or later, is the next after
        `offset`.

        A record that was moved or copied before its place verifies there, and it looks as if compaction had removed
        those in between. So the next place that the lookup knows must be met, or else the whole store must be in order.
        """
        mark = self.lookup.after(offset - self.base_offset, position - 1)
        if mark is not None and mark[1] >= self.size:  # of records that a truncate has cut off
            mark = None
        walk = self._walk(position, expected, keep=0)
        for record, _, length in walk:
            place = (record.offset - self.base_offset, walk.position - length)
            if place == mark:
                return
            if mark is not None and place[1] > mark[1]:
                break
        else:
            if mark is None and walk.reason is None:
                return
        walk = self._walk(self.rules.codec.header_bytes, self.base_offset, keep=0)
        for _ in walk:
            pass
        if walk.reason is not None:
            raise CorruptRecord(self.store.path, offset, walk.position, walk.reason)

    def _closest(self, failed: CorruptRecord | None, walk: StoreWalk) -> CorruptRecord:
        error = self._corrupt(walk)
        return error if failed is None or failed.position < error.position else failed

    def _breaks_off(self, walk: StoreWalk, stop: int) -> bool:
        """Whether a finished walk has omitted records before `stop`; a dense segment has one for every offset.

        With gaps, only reaching the last byte shows that none of the last offsets is omitted.
        """
        if walk.reason is None and self.rules.dense and walk.expected < stop:
            walk.reason = "the store ends before it"
        return walk.reason is not None and (walk.expected < stop or (not self.rules.dense and stop >= self.next_offset))

    def _corrupt(self, walk: StoreWalk) -> CorruptRecord:
        offset = walk.expected if self.rules.dense else None
        return CorruptRecord(self.store.path, offset, walk.position, walk.reason or "")

    def _starts(self, offset: int) -> Iterator[tuple[int, int]]:
        """Yield (position, first offset there) where a walk towards `offset` can begin: nearest first, safest last."""
        relative = offset - self.base_offset
        for near in (relative, relative - 1):
            floor = self.lookup.floor(near)
            if floor is not None and floor[1] < self.size:  # a walk from the end would prove nothing
                yield floor[1], self.base_offset + floor[0]
        yield self.rules.codec.header_bytes, self.base_offset

    def _walk(self, position: int, expected: int, keep: int | None = None) -> StoreWalk:
        return StoreWalk(self.store, self.rules, position=position, end=self.size, expected=expected, keep=keep)

    def _walks(self, position: int, first: int, offset: int, keep: int | None = 0) -> Iterator[StoreWalk]:
        """Yield a walk towards `offset`; in a segment with gaps, another one after each damage before it."""
        while True:
            walk = self._walk(position, first, keep)
            yield walk
            resume = None if self.rules.dense or walk.reason is None else self._resume(walk)
            if resume is None or resume[1] > offset:
                return
            position, first = resume

    def _resume(self, walk: StoreWalk) -> tuple[int, int] | None:
        """Return (position, offset) of a record after damage: by the lookup if dense, else the next valid record."""
        if not self.rules.dense:
            return find_record(self.store, self.rules, position=walk.position + 1, end=self.size, least=walk.expected)
        after = self.lookup.after(walk.expected - self.base_offset, walk.position)
        return None if after is None else (after[1], self.base_offset + after[0])

    def seek(self, offset: int) -> tuple[int, int]:
        """Return (position, offset) of the first record at or after `offset`, or of damage before it."""
        place = self.lookup.exact(offset - self.base_offset)
        if place is not None and self._record_at(place, offset, keep=0) is not None:
            return place[2], offset
        for position, first in self._starts(offset):
            found, sure = self._seek_from(position, first, offset)
            if sure:
                return found
        return (place[2], offset) if place is not None else found

    def _seek_from(self, position: int, first: int, offset: int) -> tuple[tuple[int, int], bool]:
        """Seek from a place that the lookup returned; also return whether that place was right."""
        damage: tuple[int, int] | None = None
        for walk in self._walks(position, first, offset):
            met = _first_from(walk, offset)
            if met is not None:
                found = walk.position - met[2], met[0].offset
                if found[1] == offset:
                    return found, True
                return damage or found, not self._led_behind(position, found[0])
            damage = damage or (None if walk.reason is None else (walk.position, walk.expected))
        proven = walk.position > position or (position, first) == (self.rules.codec.header_bytes, self.base_offset)
        return damage or (walk.position, walk.expected), proven and (walk.reason is None or walk.expected == offset)

    def _led_behind(self, start: int, met: int) -> bool:
        """Whether the lookup was wrong: it led to `met` as to an earlier offset, but a later one is there."""
        return met == start > self.rules.codec.header_bytes

    def scan(
        self, start: int, stop: int, on_corrupt: OnCorrupt | None = None, keep: int | None = None
    ) -> Iterator[Record]:
        """Yield the records start <= offset < stop. keep: as in `read`.

        Raises CorruptRecord at a damaged record. With `on_corrupt` it passes that error instead and resumes at the next
        record that the lookup knows, or, with gaps, at the next valid record.
        """
        position, expected = self.seek(start)
        passed = 0
        while expected < stop:
            walk = self._walk(position, expected, keep)
            for record, _, length in walk:
                if record.offset >= stop:
                    position, expected = walk.position - length, record.offset
                    break
                if record.offset >= start:
                    passed += 1
                    yield record
            else:
                if not self._breaks_off(walk, stop):
                    return
                _raise_or_tell(self._corrupt(walk), on_corrupt)
                resume = self._resume(walk)
                if resume is None:
                    return
                position, expected = resume
                continue
            break
        try:
            self.check_range(stop, position, expected, lacking=stop - start - passed)
        except CorruptRecord as error:
            _raise_or_tell(error, on_corrupt)

    def offset_at(self, timestamp: int) -> int | None:
        """Return the first offset with a timestamp of `timestamp` or later; None if every record is older."""
        stop, mark = self.next_offset, floor_mark(self._marks(), timestamp)
        relative, position = (0, self.rules.codec.header_bytes) if mark is None else (mark.relative, mark.position)
        expected = self.base_offset + relative
        walk = self._walk(position, expected, keep=0)
        for record, _, length in walk:
            if record.timestamp >= timestamp:
                if record.offset != expected:
                    self._check_gap(record.offset - 1, walk.position - length, record.offset)
                return record.offset if record.offset < stop else None
            expected = record.offset + 1
        if self._breaks_off(walk, stop):
            raise self._corrupt(walk)
        return None


def _first_from(walk: StoreWalk, offset: int) -> Framed | None:
    """Return the first record of a walk with this offset or a later one."""
    return next((framed for framed in walk if framed[0].offset >= offset), None)


def _raise_or_tell(error: CorruptRecord, on_corrupt: OnCorrupt | None) -> None:
    if on_corrupt is None:
        raise error
    on_corrupt(error)
