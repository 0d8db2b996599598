"""Damage to files, one at a time: what a disk, or a user who copies files, can do to a log of a few KiB.

Bytes in, bytes out: every generator yields `Damage`s of files that are passed as name -> bytes; the name of each shows
a reader how to repeat it. The tests know what must be true of a damaged log; this module only recognizes records, so
that whole ones can be moved.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations
from typing import NamedTuple

from seglog.errors import CorruptLog
from seglog.format import filename
from seglog.format.blocks import HEAD_BYTES
from seglog.format.manifest import Manifest
from seglog.format.manifest_changes import decode_file
from seglog.format.store import HEADER_BYTES
from seglog.segment.blocks import BlockFile, header_of, plain_store
from seglog.segment.sealed import rules_of
from seglog.segment.walk import StoreWalk
from seglog.storage import MemoryStorage

Files = Mapping[str, bytes]
"""The files of one log: name -> content."""

BLOCK_BYTES = 512
LONGER_BY = (1, 15, 16, 64, BLOCK_BYTES, 4096)
UNHURT = (f"{filename.TMP}/", "readers/", filename.LOCK)
"""Files that opening a log recreates: damaging them is pointless."""


class Damage(NamedTuple):
    """A change to a log. changes: file -> its new content; None: it is removed."""

    name: str
    changes: Mapping[str, bytes | None]

    def done_to(self, files: Files) -> dict[str, bytes]:
        """Return the files after the damage."""
        after = {**files, **self.changes}
        return {name: data for name, data in after.items() if data is not None}


class Span(NamedTuple):
    """The place of a whole record: start <= position < stop. In a compressed store that is the place of its blocks."""

    file: str
    offset: int
    start: int
    stop: int


# --- files in memory --------------------------------------------------------------------------------------------------


def files_of(storage: MemoryStorage) -> dict[str, bytes]:
    """Return a log's present files, also while it is open."""
    found: dict[str, bytes] = {}
    pending = [("", name) for name in storage.names()]
    while pending:
        directory, name = pending.pop()
        path = f"{directory}{name}"
        if storage.identity(path) is None:
            pending += [(f"{path}/", below) for below in storage.names(path)]
        elif not path.startswith(UNHURT):
            file = storage.open(path)
            found[path] = file.pread(file.size(), 0)
    return found


def storage_of(files: Files) -> MemoryStorage:
    """Return a storage in memory that holds these files."""
    storage = MemoryStorage()
    storage.make(())
    for name, data in files.items():
        storage.create(name).pwrite(data, 0)
    return storage


def spans_of(files: Files) -> list[Span]:
    """Return the place of every record within the manifest's limits; damage ends a store."""
    spans = []
    storage = storage_of(files)
    for entry in manifest_of(files).segments:
        found = storage.open(entry.name())
        store = plain_store(storage, entry, found, header_of(found))
        end = entry.bytes or store.size()
        walk = StoreWalk(store, rules_of(entry), position=HEADER_BYTES, end=end, expected=entry.base_offset)
        for one, _, length in walk:
            start, stop = walk.position - length, walk.position
            if isinstance(store, BlockFile):
                start, stop = _stored_range(store, start, stop)
            spans.append(Span(entry.name(), one.offset, start, stop))
    return spans


def _stored_range(store: BlockFile, start: int, stop: int) -> tuple[int, int]:
    """Return where the blocks of a sound store are that hold start..stop of the plain one."""
    layout = store.layout
    first, last = (layout.places[position >> layout.size_log] for position in (start, stop - 1))
    assert first is not None
    assert last is not None
    return first.position, last.position + HEAD_BYTES + last.stored_len


def manifest_of(files: Files) -> Manifest:
    """Return the decoded MANIFEST."""
    if filename.MANIFEST not in files:
        raise CorruptLog(f"{filename.MANIFEST} is not among the files")
    return decode_file(files[filename.MANIFEST], filename.MANIFEST).manifest


def kind_of(file: str) -> str:
    """Return the kind of a file: "MANIFEST", "store", "index" ..."""
    return file.rpartition(".")[2] if file[0].isdecimal() else file


# --- one file ---------------------------------------------------------------------------------------------------------


def bits(file: str, data: bytes) -> Iterator[Damage]:
    """Flip every bit of every byte, one at a time."""
    for position, bit in ((position, bit) for position in range(len(data)) for bit in range(8)):
        flipped = bytes([data[position] ^ 1 << bit])
        content = data[:position] + flipped + data[position + 1 :]
        yield Damage(f"{file}: bit {bit} of byte {position} flipped", {file: content})


def lengths(file: str, data: bytes, *, seed: int = 0) -> Iterator[Damage]:
    """Cut the file to every length, and extend it with zeros, with garbage, and with its own beginning."""
    for length in range(len(data)):
        yield Damage(f"{file}: cut to {length} bytes", {file: data[:length]})
    for more in LONGER_BY:
        garbage = _garbage(more, seed)
        for what, tail in (("zeros", bytes(more)), ("garbage", garbage), ("its own bytes", data[:more])):
            name = f"{file}: {more} bytes longer by {what}, seed {seed}"
            yield Damage(name, {file: data + tail})


def blocks(file: str, data: bytes, *, size: int = BLOCK_BYTES, seed: int = 0) -> Iterator[Damage]:
    """Replace every aligned block with zeros, with garbage, and with every other block of the file."""
    starts = range(0, len(data), size)
    for start in starts:
        old = data[start : start + size]
        others = [(f"the one at {other}", data[other : other + size]) for other in starts if other != start]
        garbage = _garbage(len(old), seed + start)
        for what, new in [("zeros", bytes(len(old))), (f"garbage, seed {seed}", garbage), *others]:
            content = data[:start] + new[: len(old)].ljust(len(old), b"\0") + data[start + size :]
            yield Damage(f"{file}: {size}-byte block at {start} replaced by {what}", {file: content})


def _garbage(length: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(length)


# --- whole records ----------------------------------------------------------------------------------------------------


def rearranged(files: Files, spans: Sequence[Span]) -> Iterator[Damage]:
    """Swap every two records of a store, drop, double and repeat each, and put each in the place of every other one."""
    for span in spans:
        data = files[span.file]
        record, rest = data[span.start : span.stop], data[span.stop :]
        where = f"{span.file}: the record of offset {span.offset}"
        yield Damage(f"{where} removed, the rest moved up", {span.file: data[: span.start] + rest})
        yield Damage(f"{where} doubled, the rest moved down", {span.file: data[: span.stop] + record + rest})
        yield Damage(f"{where} repeated at the end", {span.file: data + record})
    for one, other in permutations(spans, 2):
        yield _copied(files, one, files, other, "the record")
        if one.file == other.file and one.start < other.start:
            yield _swapped(files[one.file], one, other)


def from_elsewhere(files: Files, spans: Sequence[Span], others: Files, their: Sequence[Span]) -> Iterator[Damage]:
    """Put every record of another log in the place of every one of this log, and after its stores."""
    for theirs in their:
        for mine in spans:
            yield _copied(others, theirs, files, mine, "the other log's record")
        record = others[theirs.file][theirs.start : theirs.stop]
        for file in sorted({span.file for span in spans}):
            name = f"{file}: the other log's record of offset {theirs.offset} in {theirs.file} added at the end"
            yield Damage(name, {file: files[file] + record})


def _copied(source: Files, one: Span, target: Files, other: Span, what: str) -> Damage:
    """Write a record over another with its own length, whatever it covers; a shorter one leaves the other's end."""
    record, data = source[one.file][one.start : one.stop], target[other.file]
    content = data[: other.start] + record + data[other.start + len(record) :]
    name = f"{other.file}: {what} of offset {one.offset} in {one.file} written over that of offset {other.offset}"
    return Damage(name, {other.file: content})


def _swapped(data: bytes, one: Span, other: Span) -> Damage:
    first, second = data[one.start : one.stop], data[other.start : other.stop]
    content = data[: one.start] + second + data[one.stop : other.start] + first + data[other.stop :]
    return Damage(f"{one.file}: the records of offsets {one.offset} and {other.offset} swapped", {one.file: content})


# --- whole files ------------------------------------------------------------------------------------------------------


def removed(files: Files) -> Iterator[Damage]:
    """Remove every file, one at a time."""
    for name in files:
        yield Damage(f"{name}: removed", {name: None})


def exchanged(files: Files) -> Iterator[Damage]:
    """Swap every two files of a kind, and put each in the place of the other."""
    for one, other in permutations(sorted(files), 2):
        if kind_of(one) == kind_of(other):
            yield Damage(f"{other}: replaced by {one}", {other: files[one]})
            if one < other:
                yield Damage(f"{one}: swapped with {other}", {one: files[other], other: files[one]})


def replaced(files: Files, others: Files, whose: str) -> Iterator[Damage]:
    """Replace this log's files by others with the same name, or the same place among their kind, if they differ.

    whose: describes the others, for example "an older version". Files that only exist there are restored.
    """
    for name, data in others.items():
        if files.get(name) != data:
            yield Damage(f"{name}: {'replaced by' if name in files else 'back from'} {whose}", {name: data})
    by_kind = _in_order(others)
    for kind, mine in _in_order(files).items():
        for name, theirs in zip(mine, by_kind.get(kind, []), strict=False):
            if theirs != name and files[name] != others[theirs]:
                yield Damage(f"{name}: replaced by {theirs} of {whose}", {name: others[theirs]})


def _in_order(files: Files) -> dict[str, list[str]]:
    kinds: dict[str, list[str]] = {}
    for name in sorted(files):
        kinds.setdefault(kind_of(name), []).append(name)
    return kinds
