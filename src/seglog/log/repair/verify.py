"""Verify a log: every byte of every segment against manifest, checksums and lookups. Changes nothing.

Works on a storage, not on an open log, so that it can report what prevents opening.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace

from xxhash import xxh64

from seglog.clock import system_clock
from seglog.errors import SnapshotExpired, StorageError
from seglog.format import filename
from seglog.format.codec import HEAD_BYTES, ZERO_HEAD
from seglog.format.index import (
    DENSE_HEADER_BYTES,
    ENTRY_BYTES,
    decode_durable_records,
    decode_offsets,
    decode_times,
    entry_position,
)
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.log.catalog import read_manifest
from seglog.log.journal import read_file
from seglog.log.repair.file_identity import head_of
from seglog.log.repair.rebuild_manifest import examine
from seglog.log.repair.reports import Gap, Problem, VerifyReport
from seglog.log.segment_cache import is_named
from seglog.record import checked_callable
from seglog.segment.allocated import holds_zeros
from seglog.segment.blocks import BlockFile, header_of, plain_store
from seglog.segment.resync import Found, find_record
from seglog.segment.sealed import read_whole, rules_of
from seglog.segment.stats import Tally, survey
from seglog.storage import File, Storage

Progress = Callable[[int, int], None]


def verify_storage(storage: Storage, progress: Progress | None = None, *, go_on: bool = False) -> VerifyReport:
    """Check a log in place. Raises CorruptLog only if nothing there can be identified as a log.

    A store that the system cannot read raises StorageError; with go_on it is a problem ("refused"), and the check
    continues.
    """
    checked_callable(progress, "progress")
    problems: list[Problem] = []
    manifest, rebuilt = _manifest(storage, problems, go_on=go_on)
    problems += _other_log(storage, manifest)
    sizes = storage.sizes(ending="." + filename.STORE)
    total = sum(sizes.get(entry.name(), 0) for entry in manifest.segments)
    done = records = tail = 0
    gaps: list[Gap] = []
    for entry in manifest.segments:
        check, size = SegmentCheck(storage, entry, rebuilt=rebuilt), sizes.get(entry.name(), 0)
        for position in check.run_on() if go_on else check.run():
            if progress is not None:
                progress(done + (position * size // (entry.bytes or size) if entry.compressed else position), total)
        problems += check.problems
        gaps += check.gaps
        records += check.tally.records
        tail += check.tail_bytes
        done += size
    return VerifyReport(
        problems=tuple(problems),
        records=records,
        bytes=done,
        segments=len(manifest.segments),
        tail_bytes=tail,
        unreadable=tuple(gaps),
    )


def _manifest(storage: Storage, problems: list[Problem], *, go_on: bool) -> tuple[Manifest, bool]:
    """Return the manifest, and whether it was rebuilt now, because that on the disk is damaged or missing."""
    path = f"{storage.path}/{filename.MANIFEST}"
    try:
        manifest, event, file, _ = examine(storage, system_clock)
    except StorageError:  # perhaps of a store that is needed to decide whether the manifest belongs to it
        believed = read_manifest(storage) if go_on else None
        if believed is None:
            raise
        manifest, event, file = believed, None, None
    if event is not None:
        problems.append(Problem(kind="manifest", path=path, detail=event.detail))
    elif manifest.rebuilt:
        detail = "it was rebuilt from the stores; run `seglog repair` to accept it"
        problems.append(Problem(kind="manifest", path=path, detail=detail))
    elif file is not None and not file.sound and read_file(storage) == file:  # else a writer was writing it
        detail = "a change is torn, or one of its copies damaged; the next opening for writing replaces it"
        problems.append(Problem(kind="manifest", path=path, detail=detail))
    return manifest, event is not None


def _other_log(storage: Storage, manifest: Manifest) -> Iterator[Problem]:
    """Yield a problem if the directory holds stores with records of another log.

    This happens if a program replaced the manifest of an existing log.
    """
    named = {entry.name() for entry in manifest.segments}
    named.update(name for retired in manifest.retired for name in retired.names)
    sizes = storage.sizes(ending="." + filename.STORE)
    others = [name for name, size in sizes.items() if size > HEADER_BYTES and name not in named]
    heads = {name: head_of(storage, name) for name in others if filename.parse_segment_file(name) is not None}
    foreign = [
        name for name, head in heads.items() if head is not None and head.log_id not in (0, manifest.log_id)
    ]  # 0: staged
    if foreign:
        yield Problem(
            kind="other log",
            path=storage.path,
            detail=f"{len(foreign)} stores with records belong to another log than the manifest, such as {foreign[0]}",
        )


class SegmentCheck:
    """The check of one segment: `run` reads it; `problems`, `gaps` and `tally` hold the results.

    rebuilt: whether the manifest that names it was rebuilt now: the one on the disk does not decide what has left.
    """

    def __init__(self, storage: Storage, entry: SegmentEntry, *, rebuilt: bool = False) -> None:
        self.storage = storage
        self.entry = entry
        self._rebuilt = rebuilt
        self.path = f"{storage.path}/{entry.name()}"
        self.problems: list[Problem] = []
        self.gaps: list[Gap] = []
        self.tally = Tally(4096)
        self.tail_bytes = 0
        self._digest = xxh64()
        self._indexed = True
        self._reached = HEADER_BYTES
        self._expected = entry.base_offset

    def run_on(self) -> Iterator[int]:
        """Check as `run` does, but record a read error of the system as a problem of this segment."""
        try:
            yield from self.run()
        except StorageError as error:
            if not self._has_left():
                self._lose_rest("refused", f"the system cannot read it ({error.strerror or error})")

    def run(self) -> Iterator[int]:
        """Check the segment and yield the position from time to time. StorageError if the system cannot read it."""
        with suppress(SnapshotExpired):  # an archive has replaced it meanwhile
            yield from self._run()

    def _run(self) -> Iterator[int]:
        try:
            store = self.storage.open(self.entry.name())
        except StorageError:
            if self.storage.identity(self.entry.name()) is not None:
                raise
            if self._has_left():
                return
            span = f"offsets {self.entry.base_offset} to {self.entry.next_offset or 'the end'}"
            self._lose_rest("missing", f"the store of {span} is missing")
            return
        header = header_of(store)
        self._check_header(header)
        if any(problem.kind == "foreign" for problem in self.problems):
            return
        store = plain_store(self.storage, self.entry, store, header)
        if isinstance(store, BlockFile):
            yield from self._check_blocks(store)
        end = self._end(store)
        yield from self._check_records(store, end)
        if self.entry.sealed and not any(problem.kind in ("record", "short") for problem in self.problems):
            self._check_figures()
        self._check_lookups()

    def _has_left(self) -> bool:
        """Whether the segment left the log since its manifest was read: a writer may be running."""
        return not self._rebuilt and not is_named(self.storage, self.entry)

    def _problem(
        self, kind: str, detail: str, *, offset: int | None = None, position: int | None = None, records: int = 0
    ) -> None:
        if records > 1:
            detail += f"; {records} records from here on are unreadable"
        self.problems.append(
            Problem(kind=kind, path=self.path, detail=detail, offset=offset, position=position, records=records)
        )

    def _lose_rest(self, kind: str, detail: str) -> None:
        """Record a problem that makes every record from here on unreadable."""
        lost, stop = self._left(), self._known_end()
        self.gaps.append(Gap(path=self.path, first=self._expected, stop=stop))
        position = self._reached if lost and kind == "refused" else None
        path, offset = self.path, self._expected if lost else None
        self.problems.append(
            Problem(kind=kind, path=path, detail=detail, offset=offset, position=position, records=lost)
        )

    def _left(self) -> int:
        """Return how many records are known to follow from here on."""
        if self.entry.dense:
            return max((self._known_end() or 0) - self._expected, 0)
        return max((self.entry.records or 0) - self.tally.records, 0)

    def _known_end(self) -> int | None:
        """Return the offset after the last known record, None if unknown; for an active store by its index."""
        if self.entry.sealed or not self.entry.dense:
            return self.entry.next_offset
        size = self.storage.sizes().get(self.entry.name(filename.INDEX), 0)
        indexed = max(size - DENSE_HEADER_BYTES, 0) // ENTRY_BYTES
        return self.entry.base_offset + indexed if indexed else None

    def _check_header(self, header: StoreHeader | None) -> None:
        if header is None:
            self._problem("header", "the store's header is damaged", position=0)
        elif header.salt != self.entry.salt:
            self._lose_rest("foreign", "this is not the file that the manifest names (its salt differs)")
        elif header.blocks != self.entry.compressed:
            form = "a compressed" if self.entry.compressed else "a plain"
            self._problem("header", f"the manifest names {form} store, and this is the other form of it", position=0)

    def _check_blocks(self, store: BlockFile) -> Iterator[int]:
        """Compare every block with its check; what a damaged one has of records is found when they are read."""
        begin = HEADER_BYTES
        for number, (end, damaged) in enumerate(store.damaged_blocks()):
            if damaged:
                self._problem("block", f"block {number} is damaged: positions {begin} to {end}", position=begin)
            begin = end
            yield self._reached
        if store.stored_end() != self.entry.stored and not any(one.kind == "block" for one in self.problems):
            detail = f"its blocks are sound, but do not fill its {self.entry.stored} bytes one after the other"
            self._problem("block", detail, position=HEADER_BYTES)

    def _end(self, store: File) -> int:
        size = store.size()
        if self.entry.bytes is None:
            return size
        if size < self.entry.bytes:
            self._problem(
                "short", f"it has {size} bytes instead of {self.entry.bytes} as in the manifest", position=size
            )
        return min(size, self.entry.bytes)

    def _check_records(self, store: File, end: int) -> Iterator[int]:
        """Scan the store; after damage continue at the next valid record."""
        rules = rules_of(self.entry)
        position, expected, doubted = HEADER_BYTES, self.entry.base_offset, 0
        while position < end:
            reason = None
            for block in survey(
                store,
                rules,
                position=position,
                end=end,
                expected=expected,
                marks=self.tally.marks,
                is_written=not self.entry.sealed,
            ):
                self.tally.absorb(block)
                self._digest.update(block.entries)
                self._compare_index(block.next_offset - block.records, bytes(block.entries))
                position, expected, reason = block.position, block.next_offset, block.reason
                self._reached, self._expected = position, expected
                yield position
            if reason is None:
                break
            is_tail = self._is_tail(expected)
            if is_tail and doubted != position:  # a writer may have been writing it: read it once more
                doubted = position
                continue
            found = find_record(store, rules, position=position + 1, end=end, least=expected + 1)
            if is_tail and (found is None or store.pread(HEAD_BYTES, position) == ZERO_HEAD):
                self.tail_bytes = 0 if holds_zeros(store, position, end) else end - position
                break
            offset, lost = (expected, self._lost(expected, found)) if self.entry.dense else (None, 1)
            self._problem("record", reason, offset=offset, position=position, records=lost)
            stop = found.offset if found else self.entry.next_offset or expected + lost
            self.gaps.append(Gap(path=self.path, first=expected, stop=stop))
            if found is None:
                break
            position, expected = found
        self._check_cut(expected)
        self._check_acknowledged(expected)

    def _check_cut(self, expected: int) -> None:
        """Add the missing records to the problem of a short store that ends after a whole record."""
        self._expected, stop = expected, self.entry.next_offset
        last = self.problems[-1] if self.problems else None
        if last is not None and last.kind == "short" and stop is not None and expected < stop:
            self.problems[-1] = replace(last, offset=expected, records=self._left())
            self.gaps.append(Gap(path=self.path, first=expected, stop=stop))

    def _lost(self, expected: int, found: Found | None) -> int:
        """Return how many offsets are damaged in a dense segment: up to the record found, or all that were known."""
        if found is not None:
            return found.offset - expected
        known = self.entry.next_offset or self.entry.base_offset + self._durable_records()
        return max(known - expected, 1)

    def _is_tail(self, expected: int) -> bool:
        """Whether what is here was never acknowledged: a write in progress, or one that was cut off."""
        return not self.entry.sealed and expected - self.entry.base_offset >= self._durable_records()

    def _durable_records(self) -> int:
        header = self._index_bytes(DENSE_HEADER_BYTES, 0)
        return decode_durable_records(header, self.entry.base_offset, self.entry.salt) or 0

    def _index_bytes(self, length: int, position: int) -> bytes:
        """Return a piece of the index; empty if there is none or it cannot be read."""
        try:
            return self.storage.open(self.entry.name(filename.INDEX)).pread(length, position)
        except StorageError:
            return b""

    def _check_acknowledged(self, expected: int) -> None:
        if self.entry.sealed or not self.entry.dense:
            return
        missing = self.entry.base_offset + self._durable_records() - expected
        if missing > 0 and not any(problem.kind == "record" for problem in self.problems):
            what = f"{missing} records that were acknowledged as durable are missing"
            self.problems.append(Problem(kind="record", path=self.path, detail=what, offset=expected, records=missing))
            self.gaps.append(Gap(path=self.path, first=expected, stop=expected + missing))

    def _check_figures(self) -> None:
        """Compare a sealed segment's records with the figures in the manifest."""
        found = (self.tally.records, self.tally.tombstones, self._digest.intdigest())
        known = (self.entry.records, self.entry.tombstones, self.entry.digest)
        for name, have, should in zip(("records", "tombstones", "digest"), found, known, strict=True):
            if have != should:
                self._problem("figures", f"{name} of the store: {have}; in the manifest: {should}")

    # --- lookups ------------------------------------------------------------------------------------------------

    def _compare_index(self, first: int, entries: bytes) -> None:
        """Note whether the dense index holds these entries; that of an active segment may be incomplete."""
        if not self.entry.dense or not self._indexed or not entries:
            return
        data = self._index_bytes(len(entries), entry_position(first - self.entry.base_offset))
        whole = entries if self.entry.sealed else entries[: len(data)]
        self._indexed = data == whole

    def _check_lookups(self) -> None:
        wrong = list(self._wrong_lookups())
        if wrong and self._has_left():
            return  # the files were removed while the store was read
        for detail in wrong:
            self._problem("index", f"{detail}; it is rebuilt when it is used")

    def _wrong_lookups(self) -> Iterator[str]:
        """Yield what is wrong with the derived files."""
        if not self._indexed:
            yield "the dense index is missing or differs from the store"
        if not self.entry.sealed:
            return
        if self._indexed and self.entry.dense and self._durable_records() == 0 and self.entry.records:
            yield "the dense index's header is damaged"
        if decode_times(read_whole(self.storage, self.entry.name(filename.TIMES)), self.entry.salt) is None:
            yield "the time index is missing or damaged"
        offsets = read_whole(self.storage, self.entry.name(filename.OFFSETS))
        if not self.entry.dense and decode_offsets(offsets, self.entry.salt) is None:
            yield "the sparse index is missing or damaged"
