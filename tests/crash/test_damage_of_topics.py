"""Every bit and length of what makes logs a topic: topic.json, the file of an unfinished batch, the groups' log."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from typing import Any

import pytest

import seglog
from seglog.errors import SeglogError
from seglog.format.manifest import SegmentEntry
from seglog.log.staging import StagedSegment
from seglog.storage import MemoryStorage
from seglog.testing import damage as harm
from seglog.topic.groups.records import Entry, GroupRecord, OffsetRecord
from seglog.topic.groups.registry import Book
from seglog.topic.groups.state import Crew
from seglog.topic.layout import description
from seglog.topic.layout.description import Description
from seglog.topic.transaction import Transaction, commit, unfinished

PARTS = [harm.bits, harm.lengths, harm.blocks]


def written(what: Any) -> tuple[MemoryStorage, str, bytes]:
    storage = MemoryStorage()
    storage.make(())
    if isinstance(what, Description):
        description.write(storage, what)
        name = description.FILE_NAME
    else:
        commit(storage, what)
        name = what.file
    file = storage.open(name)
    return storage, name, file.pread(file.size(), 0)


def read_back(storage: MemoryStorage, what: Any) -> Any:
    return description.read(storage) if isinstance(what, Description) else next(unfinished(storage))


STAGED = StagedSegment(
    directory="staging/q-7/1-0",
    entry=SegmentEntry(base_offset=0, file=1, salt=5, created=0, next_offset=3, bytes=190, records=3),
)
WRITTEN = [Description.new("orders", 4), Transaction(query="q", batch=7, staged={0: [STAGED], 3: [STAGED, STAGED]})]


@pytest.mark.parametrize("what", WRITTEN, ids=["topic.json", "txn"])
@pytest.mark.parametrize("part", PARTS, ids=["bits", "lengths", "blocks"])
def test_a_damaged_file_says_what_it_said_or_is_refused(what: Any, part: Any, tell: Any) -> None:
    storage, name, data = written(what)
    refused = unchanged = 0
    for damage in part(name, data):
        storage.create(name, replace=True).pwrite(damage.changes[name], 0)
        try:
            found = read_back(storage, what)
        except SeglogError:
            refused += 1
        else:
            assert found == what, damage.name
            unchanged += 1
    assert refused > 0
    tell("damage", what=part.__name__, file=name, damages=refused + unchanged, refused=refused, healed=unchanged)


def test_a_topic_from_before_the_check_is_read() -> None:
    storage, name, data = written(WRITTEN[0])
    values = json.loads(data)
    del values["check"]
    storage.create(name, replace=True).pwrite(json.dumps(values).encode(), 0)
    assert description.read(storage) == WRITTEN[0]


# --- the groups' log --------------------------------------------------------------------------------------------------

ENTRIES: list[Entry] = [
    OffsetRecord("readers", ("orders", 0), 12),
    GroupRecord("readers", Crew()),
    OffsetRecord("readers", ("orders", 1), 7),
    OffsetRecord("readers", ("orders", 0), 15),
    OffsetRecord("others", ("orders", 0), 1),
    OffsetRecord("others", ("orders", 0), None),
    OffsetRecord("readers", ("orders", 1), 8),
]
SYNCED = 5


def said_by(log: seglog.Log) -> tuple[Any, ...]:
    book = Book(log)
    return book.crews, book.offsets


def groups_log() -> tuple[dict[str, bytes], list[tuple[Any, ...]]]:
    """Return the files of a groups' log that was not closed, and what it said after each record."""
    storage, said = MemoryStorage(), []
    log = seglog.open(storage)
    book = Book(log)
    for number, entry in enumerate(ENTRIES, 1):
        book.append([entry])
        said.append(said_by(log))
        if number == SYNCED:
            log.sync()
    return harm.files_of(storage), said


def damages_of(files: dict[str, bytes]) -> Iterator[harm.Damage]:
    for name, data in files.items():
        for part in PARTS:
            yield from part(name, data)


def check_groups(every: int) -> Counter[str]:
    """Open the log after some of the damages: it holds at least what was synced, or opening is refused."""
    files, said = groups_log()
    counts = Counter(damages=0, refused=0, healed=0)
    for damage in islice(damages_of(files), 0, None, every):
        counts["damages"] += 1
        try:
            with seglog.open(harm.storage_of(damage.done_to(files))) as log:
                found, told = said_by(log), log.recovery.clean is False
        except SeglogError:
            counts["refused"] += 1
            continue
        cut = "cut to" in damage.name  # cut between two records, nothing shows that there was one more
        assert found == said[-1] or (found in said[SYNCED - 1 :] and (told or cut)), damage.name
        counts["healed"] += 1
    return counts


def test_a_damaged_log_of_groups_says_what_it_said_or_is_refused() -> None:
    assert check_groups(97)["refused"] > 0


@pytest.mark.proof
def test_any_damage_to_the_log_of_groups(tell: Any) -> None:
    tell("damage", what="bits, lengths, blocks", file=".groups", **check_groups(1))
