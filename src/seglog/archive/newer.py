"""Find what an archive holds beyond its newest commit: signs that later commits were deleted.

Only the oldest commits are ever deleted by a writer. If the newest one is gone, the one before is a complete,
earlier state. The objects that the later commits named are still there; their keys show that they are later.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from seglog.archive import segments
from seglog.archive.layout import COMMITS, LOGS, number_of, term_of
from seglog.errors import SeglogError
from seglog.format import filename

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.archive.commit import ArchivedLog, Commit
    from seglog.archive.segments import ArchivedSegments
    from seglog.archive.storage import ArchiveStorage


class Newer(NamedTuple):
    """What an archive holds of a log beyond a commit. objects: their number; offset: they include the records before
    it, as far as that is known, else the commit's own next offset.
    """

    objects: int
    offset: int


def missing_commits(storage: ArchiveStorage) -> list[int]:
    """Return the first number of each gap between the commits that are there; a writer leaves none."""
    numbers = [number for key in storage.store.keys(COMMITS) if (number := number_of(key)) is not None]
    return [one + 1 for one, following in pairwise(numbers) if following != one + 1]


def newer_objects(storage: ArchiveStorage) -> dict[str, Newer]:
    """Return by log what was uploaded after the shown commit and is not part of it; empty if there is nothing.

    An unfinished round also leaves such objects; the next round of its writer names them.
    """
    found = {name: _newer(storage, name, log) for name, log in storage.commit.logs.items()}
    return {name: one for name, one in found.items() if one.objects}


def _newer(storage: ArchiveStorage, name: str, log: ArchivedLog) -> Newer:
    archived, pending = storage.archived(name), storage.commit.pending.get(name)
    named = {log.segments, *archived.keys(), *(piece.key for piece in log.tail)}
    if pending is not None:
        named |= {pending.segments, *(piece.key for piece in pending.tail)}
    objects, offset = 0, log.next_offset
    for key in storage.store.keys(f"{LOGS}{log.log_id:016x}/"):
        if key not in named and _is_later(key, storage.commit, log, archived):
            objects += 1
            offset = max([offset, *_offsets(storage, key)])
    return Newer(objects, offset)


def _is_later(key: str, commit: Commit, log: ArchivedLog, archived: ArchivedSegments) -> bool:
    """Whether an object of a log was uploaded after a commit that does not name it, by its key; see `layout`."""
    term, manifest = term_of(key), archived.manifest
    if term is None or term != commit.term:
        return term is not None and term > commit.term
    stem, _, kind = key.rpartition("/")[2].rpartition(".")
    numbers = [int(part) if part.isdecimal() else -1 for part in stem.split("-")]
    if kind == "segments":
        return numbers[0] > commit.number
    file = numbers[1] if len(numbers) > 3 else -1  # base offset, file, term, ...
    if kind == "tail":
        was_cut = any(
            offset >= manifest.active.base_offset for _, offset in manifest.cuts.entries
        )  # they may be earlier
        follows = file == manifest.active.file and numbers[3] >= log.tail[-1].stop and not was_cut
        return file >= manifest.next_file or follows
    return file >= manifest.next_file or file == manifest.active.file  # which was active in the commit


def _offsets(storage: ArchiveStorage, key: str) -> Iterator[int]:
    """Yield an offset before which there were records when the object was uploaded, if it shows one."""
    first, _, _ = key.rpartition("/")[2].partition("-")
    if key.endswith(f".{filename.STORE}") and first.isdecimal():
        yield int(first)
    elif key.endswith(".segments"):
        try:
            data = storage.store.read(key)
            yield segments.decode(data, segments.check_of(data), key).manifest.active.base_offset
        except SeglogError:  # it is damaged, or gone
            return
