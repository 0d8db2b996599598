"""A small log of everything a log can hold, and what must be true of it whatever is done to its files.

`Subject` is the log and what its user knows of it; `examine` opens a damaged copy in every way and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any, NamedTuple
from unittest.mock import patch

import seglog
from seglog import LogConfig, Retention
from seglog.compaction import compress
from seglog.config import Compression
from seglog.errors import CorruptLog, CorruptRecord, OffsetCompacted, OffsetOutOfRange, SeglogError, StorageError
from seglog.format import filename
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.record import Record
from seglog.storage import MemoryStorage
from seglog.testing import damage as harm
from seglog.testing.damage import Damage, Span

SECOND = 1_000_000
HOURS = 3600 * SECOND
LONGER = b" and so on" * 15
BLOCK_LOG = 8
"""Compressed segments have blocks of 256 B, so that damage of one costs no more than two or three records."""
DAMAGED = (CorruptRecord, CorruptLog, StorageError)
WORDS = ("refused", "errors", "healed")
"""Possible outcomes of damage: opening for writing is refused; a call raises; only `verify` or the report shows it."""


class Shape(NamedTuple):
    """What a log is made of; texts as in `_append`, a record a word."""

    compacted: str = "a . b a c b- a"  # a segment with gaps, after compaction
    dense: str = "d a: e- f: g h"  # one without; the last `cut` of them are truncated, and given out again
    durable: str = "k0 . k1-:"  # the active one, up to its sync
    unsynced: str = "u0 u1:"
    cut: int = 2
    sparse_end: bool = False  # whether the active segment has gaps
    rolled: tuple[str, ...] = ()  # segments before the active one: MANIFEST gets a base with the first, then changes
    compression: Compression = "none"  # of the first two, before the cut; values are long then, and blocks small


@dataclass
class Subject:
    """One log that was never closed. older: its files at moments before; durable: the first offset never synced."""

    files: dict[str, bytes]
    records: dict[int, Record]
    durable: int
    older: list[dict[str, bytes]]
    clock: Callable[[], int]
    spans: list[Span] = field(default_factory=list)

    @property
    def end(self) -> int:
        return max(self.records) + 1

    def hurt(self, damage: Damage) -> set[int]:
        """Return the offsets of the records whose bytes are no longer in their place."""
        after = damage.done_to(self.files)
        return {
            span.offset
            for span in self.spans
            if after.get(span.file, b"")[span.start : span.stop] != self.files[span.file][span.start : span.stop]
        }

    def moved(self, damage: Damage) -> bool:
        """Return whether a whole record is at too low a position, where it verifies like one that follows a gap."""
        after = damage.done_to(self.files)
        return any(
            -1 < after.get(span.file, b"").find(self.files[span.file][span.start : span.stop]) < span.start
            for span in self.spans
            if span.file in damage.changes
        )

    def must_be_found(self, damage: Damage) -> bool:
        """Whether `verify` may not pass over it: MANIFEST, or a byte of a store that belongs to the log for good."""
        after = damage.done_to(self.files)
        if after.get(filename.MANIFEST) != self.files[filename.MANIFEST]:
            return True
        for entry in harm.manifest_of(self.files).segments:
            name = entry.name()
            ends = [span.stop for span in self.spans if span.file == name and span.offset < self.durable]
            end = (None if entry.compressed else entry.bytes) or max(ends, default=HEADER_BYTES)
            if after.get(name, b"")[:end] != self.files[name][:end]:
                return True
        return False


def make(shape: Shape = Shape(), *, seed: int = 0) -> Subject:  # noqa: B008 - a tuple
    """Make a log of three segments: compacted with gaps, dense and cut, active with some records synced."""
    now = [1_700_000_000 * SECOND + seed * HOURS]
    storage = MemoryStorage()
    retention = Retention(compact=True, unkeyed="keep", min_dirty_ratio=0.0)
    config = LogConfig(
        segment_bytes=4096,
        segment_age=1,
        index_interval_bytes=64,
        retention=retention,
        compression=shape.compression,
    )
    more = b"" if shape.compression == "none" else LONGER
    log = seglog.open(storage, config, clock=lambda: now[0])
    older = []
    for words, compact in ((shape.compacted, True), (shape.dense, False)):
        _append(log, words, seed, more=more)
        older.append(harm.files_of(storage))
        now[0] += 2 * SECOND
        log.expire()
        if compact:
            log.compact()
    older.append(harm.files_of(storage))
    if shape.compression != "none":
        with patch.object(compress, "SIZE_LOG", BLOCK_LOG):
            log.compress()
        older.append(harm.files_of(storage))
    log.truncate(log.next_offset - shape.cut)
    older.append(harm.files_of(storage))
    for words in shape.rolled:
        _append(log, words, seed)
        older.append(harm.files_of(storage))
        now[0] += 2 * SECOND
        log.expire()
    gap = 3 if shape.sparse_end else 0
    _append(log, shape.durable, seed + 1, gap=gap)
    log.sync()
    durable = log.next_offset
    older.append(harm.files_of(storage))
    _append(log, shape.unsynced, seed + 1, gap=gap)
    records = {record.offset: record for record in log.scan()}
    files = harm.files_of(storage)
    return Subject(files, records, durable, older, lambda: now[0], harm.spans_of(files))


def _append(log: seglog.Log, words: str, seed: int, *, gap: int = 0, more: bytes = b"") -> None:
    """`a` is a record of key a, `.` one without; `a-` a tombstone; `a:` has headers.

    gap: offsets left out; more: added to each value.
    """
    for word in words.split():
        offset = log.next_offset + gap
        key = word.rstrip("-:")
        value = b"%s %d.%d" % (key.encode(), offset, seed) + more
        headers = (("h", b"%d" % offset), ("none", None)) if ":" in word else ()
        record = Record(
            offset, 1000 + 10 * offset, None if key == "." else key.encode(), None if "-" in word else value, headers
        )
        log.append_at(offset, record)


# --- what must be true ------------------------------------------------------------------------------------------------


class Wrong(AssertionError):
    """Something that may never be."""


Content = dict[int, Record | None]
"""What each offset of the log gives: its record, None for an error of ours; offsets that are not there are left out."""


class Examination:
    """One damage: every way to open and to read. Raises Wrong."""

    def __init__(self, subject: Subject, damage: Damage) -> None:
        self.subject = subject
        self.damage = damage
        self.files = damage.done_to(subject.files)
        self.hurt = subject.hurt(damage)
        self.moved = subject.moved(damage)
        self.refused = False
        self.raised = False

    def run(self) -> str:
        """Return how it ended, a word of WORDS."""
        self._verify(self._read_only())
        self._for_writing()
        return WORDS[0] if self.refused else WORDS[1] if self.raised else WORDS[2]

    def run_lightly(self) -> str:
        """The same by points and by a scan past damage alone, with nothing appended; half as much in each mode."""
        for mode in ("r", "a"):
            with self._open(harm.storage_of(self.files), mode) or nullcontext() as log:
                if log is None:
                    self.refused = True
                    continue
                content = self.content(log, light=True)
                told = mode == "r" or not log.recovery.clean
            self._judge(content, told=told)
        self._verify(None)
        return WORDS[0] if self.refused else WORDS[1] if self.raised else WORDS[2]

    def repair(self) -> str:
        """Repair it: all that was readable is there, what is damaged is a gap, and what was replaced is kept."""
        before = self._read_only() or {}
        storage = harm.storage_of(self.files)
        seglog.repair(storage)
        report = seglog.verify(storage)
        if not report.ok:
            raise Wrong(f"after a repair verify finds {report.problems}")
        after = harm.files_of(storage)
        kept = [data for name, data in after.items() if name.startswith(f"{filename.QUARANTINE}/")]
        torn = [data for name, data in after.items() if name.endswith(filename.TORN)]
        kept.append(after.get(filename.MANIFEST_PREVIOUS, b""))
        kept += [first + rest for first in kept for rest in torn]
        for name, data in self.files.items():
            gone = name not in after or (name == filename.MANIFEST and name in self.damage.changes)
            if gone and harm.kind_of(name) in (filename.STORE, filename.MANIFEST) and data not in kept:
                raise Wrong(f"{name} was replaced, and is kept nowhere")
        self._judge_repaired(storage, before)
        return "repaired"

    def _judge_repaired(self, storage: MemoryStorage, before: Content) -> None:
        with seglog.open(storage, clock=self.subject.clock) as log:
            for offset, record in before.items():
                found = None
                with _ours(OffsetCompacted, OffsetOutOfRange) as failed:
                    found = log.read(offset)
                known = found is None or found == self.subject.records.get(offset)
                if not known or (record is not None and found != record) or (failed and isinstance(failed[0], DAMAGED)):
                    raise Wrong(f"after a repair offset {offset} gives {found or failed}; before it was {record}")
            list(log.scan())

    @property
    def _may_refuse(self) -> bool:
        """Whether a whole store is missing or replaced by another file, or MANIFEST is another log's."""
        for entry in harm.manifest_of(self.subject.files).segments:
            header = decode_header(self.files.get(entry.name(), b""), entry.name())
            if entry.name() not in self.files or (header is not None and header.salt != entry.salt):
                return True
        try:
            return harm.manifest_of(self.files).log_id != harm.manifest_of(self.subject.files).log_id
        except CorruptLog:
            return False

    def _open(self, storage: MemoryStorage, mode: Any) -> seglog.Log | None:
        try:
            return seglog.open(storage, mode=mode, clock=self.subject.clock)
        except SeglogError as error:
            if not self._may_refuse:
                raise Wrong(f'mode "{mode}" is refused: {error!r}') from error
            return None

    def _read_only(self) -> Content | None:
        log = self._open(harm.storage_of(self.files), "r")
        if log is None:
            return None
        with log:
            content = self.content(log)
        self._judge(content, told=True)
        return content

    def _for_writing(self) -> Content | None:
        storage = harm.storage_of(self.files)
        log = self._open(storage, "a")
        if log is None:
            self.refused = True
            return None
        with log:
            before = self.content(log)
            self._judge(before, told=not log.recovery.clean)
            added = self._append(log)
        self._again(storage, before, added)
        return before

    def _append(self, log: seglog.Log) -> Record | None:
        record = Record(log.next_offset, 5000, b"new", b"a new one", ())
        try:
            offset = log.append(record.value, key=record.key, timestamp=record.timestamp)
        except SeglogError:
            return None
        if offset != record.offset or offset < self.subject.durable:
            raise Wrong(f"offset {offset} was given out again")
        if log.read(offset) != record:
            raise Wrong("what was appended is not what is read")
        return record

    def _again(self, storage: MemoryStorage, before: Content, added: Record | None) -> None:
        """A second opening agrees with the first."""
        expected = dict(before)
        if added is not None:
            expected[added.offset] = added
        log = self._open(storage, "a")
        if log is None:
            raise Wrong("it opened once, and not again")
        with log:
            known = {**self.subject.records, **({} if added is None else {added.offset: added})}
            again = self.content(log, known, light=True)
        if again != expected:
            raise Wrong(f"a second opening shows {_differences(expected, again)}")

    def _verify(self, reading: Content | None) -> None:
        try:
            report = seglog.verify(harm.storage_of(self.files))
        except SeglogError as error:
            if not self._may_refuse:
                raise Wrong(f"verify fails: {error!r}") from error
            return
        if report.ok and self.subject.must_be_found(self.damage):
            raise Wrong("verify finds nothing")
        if report.ok and reading is not None and any(reading.get(at) is None for at in self._safe()):
            raise Wrong("verify finds nothing, yet records are unreadable")

    def _safe(self) -> list[int]:
        return [offset for offset in self.subject.records if offset < self.subject.durable]

    def _judge(self, content: Content, *, told: bool) -> None:
        """Require an error for each missing durable record, and all undamaged ones; told: absence was reported."""
        for offset in self.subject.records:
            if offset not in content and (offset < self.subject.durable or not (told or self._cut_at(offset))):
                raise Wrong(f"offset {offset} is gone without a word")
            if content.get(offset) is None and offset < self.subject.durable and offset not in self.hurt:
                raise Wrong(f"offset {offset} is whole, and cannot be read")
        if None in content.values() and not self.hurt:
            raise Wrong("nothing was hurt, and something cannot be read")
        absent = [offset for offset in self.subject.records if offset not in content]
        if absent and max(content, default=-1) > min(absent):
            raise Wrong(f"offsets {absent} are gone, and not those behind them")
        self.raised = self.raised or None in content.values()

    def _cut_at(self, offset: int) -> bool:
        """Whether the store ends exactly where an unsynced record began: then nothing shows that it existed."""
        span = next(span for span in self.subject.spans if span.offset == offset)
        return len(self.files.get(span.file, b"")) <= span.start

    # --- reading ------------------------------------------------------------------------------------------------------

    def content(self, log: seglog.Log, known: Mapping[int, Record] | None = None, *, light: bool = False) -> Content:
        """Return what every offset gives; Wrong where the ways of reading do not agree, or give what never was.

        light: by fewer ways.
        """
        known = self.subject.records if known is None else known
        content: Content = {}
        for offset in range(self.subject.end + 3):
            with _ours(OffsetCompacted, OffsetOutOfRange) as failed:
                content[offset] = _known(log.read(offset), known)
            if failed and offset in known and isinstance(failed[0], DAMAGED):
                content[offset] = None
            elif failed and offset in known and isinstance(failed[0], OffsetCompacted):
                raise Wrong(f"offset {offset} is said to be compacted away")
        self._in_a_row(log, content, known, light=light)
        if not light:
            self._ranges(log, content, known)
            self._times(log, content, known)
        return content

    def _in_a_row(self, log: seglog.Log, content: Content, known: Mapping[int, Record], *, light: bool) -> None:
        """scan, scan past damage, batches and tail give the same, in order, up to the first damage at the least."""
        readable = [offset for offset, record in content.items() if record is not None]
        damage = min((offset for offset, record in content.items() if record is None), default=2**63)
        sound = [offset for offset in readable if offset < min([damage, *self.hurt])]
        moved = self.moved  # records after one with a later offset are skipped, and reported
        untouched = set() if moved else set(readable) - self.hurt
        errors: list[Any] = []
        ways = {"scan past damage": log.scan(on_corrupt=errors.append)}
        if not light:
            ways |= {"scan": log.scan(), "batches": _rows(log), "tail": _polled(log)}
        for way, records in ways.items():
            got: list[int] = []
            with _ours() as failed:
                got += (_known(record, known).offset for record in records)
            past = way == "scan past damage"
            if got != sorted(set(got)) or not set(got) <= set(readable):
                raise Wrong(f"{way} gives {got} where {readable} can be read")
            if not failed and not past and got != readable:
                raise Wrong(f"{way} ends without a word after {got} of {readable}")
            if (
                past
                and not failed
                and (not untouched <= set(got) or (not errors and (damage < 2**63 or got != readable)))
            ):
                raise Wrong(f"{way} gives {got} of {readable} and tells {len(errors)} errors")
            if got[: len(sound)] != sound and not (moved and failed):
                raise Wrong(f"{way} gives {got}; up to the damage it is {sound}")
            if failed and damage == 2**63 and not moved:
                raise Wrong(f"{way} raises {failed[0]!r}, yet every record can be read")

    def _ranges(self, log: seglog.Log, content: Content, known: Mapping[int, Record]) -> None:
        """A range of one offset holds its record or none; it raises if neither is certain."""
        ways = [log.scan, partial(_rows, log)] if self.moved else [log.scan]
        for offset, way in product(range(log.lowest_offset, log.next_offset), ways):
            got: list[Record] = []
            with _ours() as failed:
                got += (_known(record, known) for record in way(offset, offset + 1))
            expected = [] if content.get(offset) is None else [content[offset]]
            if failed and len(ways) > 1 and not got:
                continue
            if got != expected or (content.get(offset, 0) is None and not failed):
                raise Wrong(f"offsets {offset} up to {offset + 1} give {got}, {failed}; it is {expected}")

    def _times(self, log: seglog.Log, content: Content, known: Mapping[int, Record]) -> None:
        damage = min((offset for offset, record in content.items() if record is None), default=2**63)
        for record in known.values():
            found = None
            with _ours() as failed:
                found = log.offset_at(record.timestamp)
            if found == record.offset or (failed and (damage <= record.offset or self._beside_hurt(record.offset))):
                continue
            if not failed and content.get(record.offset) is None and record.offset >= self.subject.durable:
                continue
            raise Wrong(f"offset_at({record.timestamp}) gives {failed or found}; it is that of {record.offset}")

    def _beside_hurt(self, offset: int) -> bool:
        """Whether a record of the same store was hurt."""
        file = {span.offset: span.file for span in self.subject.spans}
        return any(file.get(hurt) == file.get(offset) for hurt in self.hurt)


@contextmanager
def _ours(*more: type[SeglogError]) -> Iterator[list[SeglogError]]:
    """Let errors pass that tell of damage, and those named; any other one is wrong."""
    caught: list[SeglogError] = []
    try:
        yield caught
    except (*DAMAGED, *more) as error:
        caught.append(error)


def _known(record: Record, known: Mapping[int, Record]) -> Record:
    if known.get(record.offset) != record:
        raise Wrong(f"a record that never was: {record}, known is {known.get(record.offset)}")
    return record


def _rows(log: seglog.Log, start: int | None = None, stop: int | None = None) -> Iterator[Record]:
    for batch in log.batches(start, stop, max_records=3):
        columns = batch.to_pydict()
        stamps = batch.column("timestamp").cast("int64").to_pylist()
        for offset, stamp, key, value, headers in zip(
            columns["offset"], stamps, columns["key"], columns["value"], columns["headers"], strict=True
        ):
            yield Record(offset, stamp, key, value, tuple((one["key"], one["value"]) for one in headers or ()))


def _polled(log: seglog.Log) -> Iterator[Record]:
    tail = log.tail(log.lowest_offset)
    while records := tail.poll(5):
        yield from records


def _differences(expected: Content, found: Content) -> str:
    offsets = [at for at in {**expected, **found} if expected.get(at, 0) != found.get(at, 0)]
    return "; ".join(f"{at}: {found.get(at, 'nothing')} for {expected.get(at, 'nothing')}" for at in sorted(offsets))
