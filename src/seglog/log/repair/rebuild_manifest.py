"""Rebuild a manifest from the stores if MANIFEST is damaged or missing. Reads only; the opener installs the result.

Every store identifies itself: its header has the salt and the range of offsets (span), its name the base offset. If two
stores overlap, the one with the higher file number is newer and wins. What the stores do not contain (config, epoch,
log start, published batches) is taken from MANIFEST.prev.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple

from seglog.clock import Clock
from seglog.config import LogConfig
from seglog.errors import CorruptLog, StorageError
from seglog.format import filename
from seglog.format.index import DENSE_HEADER_BYTES
from seglog.format.manifest import LEADER, Manifest, Role, SegmentEntry, Segments
from seglog.format.manifest_changes import MOST_CHANGES, ManifestFile
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.log.journal import read_file
from seglog.log.repair.file_identity import (
    check_places,
    head_of,
    is_foreign,
    last_known,
    previous_file,
    previous_manifest,
    stores_of,
)
from seglog.log.role_file import read_role
from seglog.segment.blocks import BlockFile, header_of, plain_store
from seglog.segment.lookup import SparseLookup
from seglog.segment.manifest_entries import cut_entry
from seglog.segment.reader import SegmentReader
from seglog.segment.recovery_report import RecoveryEvent
from seglog.segment.resync import find_record
from seglog.segment.sealed import rules_of
from seglog.segment.stats import Tally, survey
from seglog.storage import File, Storage


@dataclass(frozen=True)
class _Candidate:
    """A store that may be part of the log."""

    entry: SegmentEntry
    store: File
    log_id: int
    span: int


class Examined(NamedTuple):
    """The manifest of a log.

    event: reports that it was rebuilt; file, strays: if it was not, what MANIFEST holds, and the files without the
    number of one of its segments.
    """

    manifest: Manifest
    event: RecoveryEvent | None
    file: ManifestFile | None
    strays: Sequence[str] | None = None


def read_or_rebuild(storage: Storage, clock: Clock) -> tuple[Manifest, RecoveryEvent | None]:
    """Return the manifest and the event of `examine`."""
    return examine(storage, clock)[:2]


def examine(
    storage: Storage,
    clock: Clock,
    config: LogConfig | None = None,
    *,
    like: Manifest | None = None,
    names: Sequence[str] | None = None,
) -> Examined:
    """Return the manifest; if it is damaged, missing or outdated, a rebuilt one and the event that reports it.

    like: an earlier version of the manifest, which speeds up decoding; see `decode`. names: those in the log's
    directory, if a caller that holds the lock has already listed them.
    """
    identity = storage.identity(filename.MANIFEST)
    try:
        file, why = read_file(storage, like=like), "MANIFEST is missing"
    except CorruptLog as error:
        file, why = None, str(error)
    if file is None:
        return rebuild_manifest(storage, config, clock, why, last_known(storage))
    strays = filename.not_numbered(storage.names() if names is None else names, file.manifest.segments.files())
    objection = _objection(storage, file, strays)
    if objection is None:
        return Examined(file.manifest, None, file, strays)
    if storage.identity(filename.MANIFEST) != identity:  # a writer has changed it meanwhile: read it again
        return examine(storage, clock, config, like=file.manifest)
    return rebuild_manifest(storage, config, clock, objection, file.manifest)


def _objection(storage: Storage, file: ManifestFile, strays: Iterable[str]) -> str | None:
    """Return why a readable manifest is not the present one of this log; None if it is.

    MANIFEST.prev is there since the first change, has an earlier base, and is never newer than the MANIFEST beside it.
    """
    if is_foreign(storage, file.manifest):
        return "MANIFEST belongs to another log"
    newer = _newer_store(storage, file.manifest, strays)
    if newer is None and file.sound:
        return None
    previous = previous_file(storage)
    if previous is None:
        outdated = newer is not None and (file.changes > 0 or not file.sound)
    elif previous.manifest.log_id != file.manifest.log_id:
        return None
    else:
        same = storage.identity(filename.MANIFEST) == storage.identity(filename.MANIFEST_PREVIOUS)
        is_later = previous.base >= file.base and not same and newer is not None
        outdated = is_later or previous.manifest.version > file.manifest.version
    how = "MANIFEST.prev is newer" if newer is None else f"it does not name {newer}"
    return f"MANIFEST is older than the log: {how}" if outdated else None


def _newer_store(storage: Storage, manifest: Manifest, strays: Iterable[str]) -> str | None:
    """Return a store that the log may have begun after this manifest; None if there is none.

    An interrupted repair, compaction or publish leaves such stores as well, so that MANIFEST.prev must confirm it.
    """
    found = [
        name
        for name, parsed in stores_of(strays)
        if parsed.number >= manifest.next_file and _is_unknown(storage, name, manifest)
    ]
    return found[0] if found else None


def _is_unknown(storage: Storage, name: str, manifest: Manifest) -> bool:
    """Whether a store belongs to this log, has records, was active once, and is no copy of one in the manifest."""
    try:
        store = storage.open(name)
    except StorageError as error:
        if error.errno == errno.ENOENT:  # removed by a writer, whose manifest has changed
            return False
        raise
    header = decode_header(store.pread(HEADER_BYTES, 0), store.path)
    if header is None or header.log_id != manifest.log_id or header.span or store.size() <= HEADER_BYTES:
        return False
    return header.salt not in {entry.salt for entry in manifest.segments}


def rebuild_manifest(
    storage: Storage, config: LogConfig | None, clock: Clock, why: str, left: Manifest | None = None
) -> Examined:
    """Return the manifest that follows from the stores, and its report. Raises CorruptLog if they are no log.

    left: what is left of MANIFEST.
    """
    previous = _newest(previous_manifest(storage), left if left is not None and _has_stores(storage, left) else None)
    known = {entry.file: entry for entry in previous.segments} if previous else {}
    check_places(storage, known)
    found = list(_candidates(storage, known, clock()))
    if not found:
        raise CorruptLog(
            f"{storage.path}: {why}, and there is no store to rebuild it from; restore the log from a backup"
        )
    start = previous.start if previous else 0
    lost = _lost_active(storage, found, clock())
    arranged = _arrange(found, lost)
    segments = [entry for entry in arranged if entry.next_offset is None or entry.next_offset > start]
    changes = previous.after_cut(_same_up_to(previous, found, arranged)) if previous else {"epoch": 0}
    manifest = Manifest(
        log_id=previous.log_id if previous else found[0].log_id,
        version=previous.version + MOST_CHANGES + 2 if previous else 1,  # none that a lost change may have had
        next_file=max(entry.file for entry in (*arranged, *(candidate.entry for candidate in found))) + 1,
        start=max(start, segments[0].base_offset),
        config=previous.config if previous else config or LogConfig(),
        segments=Segments.of(segments),
        published=dict(previous.published) if previous else {},
        rebuilt=True,
        boot=previous.boot if previous else "",
        home=previous.home if previous else None,
        role=_role(storage, previous),
        **changes,
    )
    detail = f"{why}; rebuilt from {len(segments) - (lost is not None)} stores"
    detail += " and MANIFEST.prev" if previous or config else "; its config is lost and was replaced by defaults"
    detail += "".join(f"; no store holds offsets {start} up to {stop}" for start, stop in _gaps(segments))
    event = RecoveryEvent(kind="manifest", path=f"{storage.path}/{filename.MANIFEST}", detail=detail)
    return Examined(manifest, event, None)


def _has_stores(storage: Storage, manifest: Manifest) -> bool:
    """Whether a store here is of the manifest's log."""
    heads = (head_of(storage, name) for name, _ in stores_of(storage.names()))
    return any(head is not None and head.log_id == manifest.log_id for head in heads)


def _newest(previous: Manifest | None, left: Manifest | None) -> Manifest | None:
    """Return the later of two states of one log, with the segments of the earlier one if it has lost its own."""
    if previous is None or left is None or left.log_id != previous.log_id or left.version < previous.version:
        return previous if previous is not None else left
    return left if left.segments else replace(left, segments=previous.segments)


def _role(storage: Storage, previous: Manifest | None) -> Role:
    """Return the log's role. The file is newer than MANIFEST.prev, or as new."""
    stored = read_role(storage)
    if stored is not None:
        return stored
    return LEADER if previous is None else previous.role


def _candidates(storage: Storage, known: dict[int, SegmentEntry], now: int) -> Iterator[_Candidate]:
    """Yield every store whose identity is known, with the figures of its records."""
    for name, parsed in stores_of(storage.names()):
        store = storage.open(name)
        header = header_of(store)
        entry = known.get(parsed.number)
        if entry is not None and entry.sealed:
            plain = plain_store(storage, entry, store, header)
            yield _Candidate(entry, plain, header.log_id if header else 0, header.span if header else 0)
        elif header is not None:
            fresh = SegmentEntry(
                base_offset=parsed.base_offset,
                file=parsed.number,
                salt=header.salt,
                created=header.created,
                dense=False,
                stored=store.size() if header.blocks else None,
            )
            store = plain_store(storage, fresh, store, header)
            if isinstance(store, BlockFile):
                fresh = replace(fresh, codec=store.codec)
            yield _Candidate(_counted(fresh, store, now, header.span), store, header.log_id, header.span)
        elif entry is not None:
            yield _Candidate(_counted(entry, store, now), store, 0, 0)


def _counted(entry: SegmentEntry, store: File, now: int, span: int = 0) -> SegmentEntry:
    """Return the entry with the figures of the readable records, sealed after the last of them or its span."""
    rules = rules_of(replace(entry, dense=False))
    size, tally = store.size(), Tally(4096)
    position, expected, end = HEADER_BYTES, entry.base_offset, HEADER_BYTES
    while True:
        for block in survey(
            store, rules, position=position, end=size, expected=expected, marks=tally.marks, is_written=True
        ):
            tally.absorb(block)
            tally.digest.update(block.entries)
            end, expected = block.position, block.next_offset
        found = find_record(store, rules, position=end + 1, end=size, least=expected + 1)
        if found is None:
            break
        tally.pass_damage()
        position, expected = found
    stop = max(expected, entry.base_offset + span)
    return replace(
        entry,
        dense=tally.records == stop - entry.base_offset,
        next_offset=stop,
        bytes=end,
        records=tally.records,
        tombstones=tally.tombstones,
        min_timestamp=tally.min_timestamp,
        max_timestamp=tally.max_timestamp,
        sealed_at=now,
        digest=tally.digest.intdigest(),
    )


def _lost_active(storage: Storage, found: list[_Candidate], now: int) -> SegmentEntry | None:
    """Return an entry for a store after all others of which only the index is left; None if there is none.

    Its offsets were assigned, so the log must not continue before them. Its salt is unknown, but not needed.
    """
    end = max(candidate.entry.next_offset or 0 for candidate in found)
    there = {candidate.entry.file for candidate in found}
    behind = [
        parsed
        for name, size in storage.sizes().items()
        if size > DENSE_HEADER_BYTES and (parsed := filename.parse_segment_file(name)) is not None
        if parsed.kind == filename.INDEX and parsed.base_offset >= end and parsed.number not in there
    ]
    if not behind:
        return None
    last = max(behind)
    return SegmentEntry(base_offset=last.base_offset, file=last.number, salt=0, created=now)


def _arrange(found: list[_Candidate], lost: SegmentEntry | None) -> list[SegmentEntry]:
    """Return the live entries in order of offset, the last one active; newer files win where two overlap.

    A compressed store is never the active one.

    lost: an active segment after them, if one is known to be lost.
    """
    claims: list[tuple[int, float]] = []
    live: list[SegmentEntry] = []
    for candidate in sorted(found, key=lambda one: -one.entry.file):
        entry = candidate.entry
        if any(first <= entry.base_offset < end for first, end in claims):
            continue
        limit = min((first for first, _ in claims if first > entry.base_offset), default=None)
        if limit is not None and (entry.next_offset or 0) > limit:
            entry = _cut(candidate, limit)
        claims.append((entry.base_offset, entry.base_offset + candidate.span if candidate.span else float("inf")))
        live.append(entry)
    live.sort(key=lambda entry: entry.base_offset)
    if lost is not None:
        return [*live, lost]
    last = live[-1]
    if last.compressed:  # it was sealed, so the active store after it is lost
        file = max(candidate.entry.file for candidate in found) + 1
        end = last.next_offset or last.base_offset
        return [*live, SegmentEntry(base_offset=end, file=file, salt=0, created=last.created)]
    live[-1] = SegmentEntry(
        base_offset=last.base_offset, file=last.file, salt=last.salt, created=last.created, dense=last.dense
    )
    return live


def _same_up_to(previous: Manifest, found: Iterable[_Candidate], arranged: Sequence[SegmentEntry]) -> int:
    """Return the offset up to which the records are certainly those that readers of earlier manifests saw.

    The lost manifest may have been that of a truncate, which ends a store before its last record, or omits one. A
    compaction does the same, but what it wrote covers the same offsets (its span).
    """
    stores = {candidate.entry.file: candidate for candidate in found}
    ends = {number: candidate.entry.next_offset or 0 for number, candidate in stores.items()}
    same = max((ends[entry.file] for entry in arranged if entry.file in ends), default=previous.start)
    for entry in arranged:
        if entry.next_offset is not None and entry.next_offset < ends.get(entry.file, 0):
            same = min(same, entry.next_offset)
    spans = [(one.entry.base_offset, one.entry.base_offset + one.span) for one in stores.values() if one.span]
    there = {entry.file for entry in arranged}
    for entry in reversed(previous.segments):  # segments missing at the start have expired
        if entry.file in there or any(first <= entry.base_offset < end for first, end in spans):
            break
        same = min(same, entry.base_offset)
    return max(same, previous.start)


def _gaps(segments: list[SegmentEntry]) -> Iterator[tuple[int, int]]:
    """Yield the ranges of offsets between stores; the follower of a compacted log may have left such gaps itself."""
    for entry, following in pairwise(segments):
        if entry.next_offset is not None and entry.next_offset < following.base_offset:
            yield entry.next_offset, following.base_offset


def _cut(candidate: _Candidate, limit: int) -> SegmentEntry:
    entry = candidate.entry
    reader = SegmentReader(
        candidate.store,
        SparseLookup([]),
        rules_of(entry),
        next_offset=entry.next_offset or entry.base_offset,
        size=entry.bytes or HEADER_BYTES,
        marks=list,
    )
    return cut_entry(entry, reader, limit, entry.sealed_at or 0)
