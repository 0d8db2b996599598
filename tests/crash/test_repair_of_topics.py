"""A repair of what is a topic's own destroys nothing either, whenever the power fails in the middle of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import seglog
from seglog.format import filename
from seglog.format.manifest import SegmentEntry
from seglog.log.staging import StagedSegment
from seglog.storage import Storage, Subdirectory
from seglog.testing.crash_states import moments
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.topic.layout.description import Description, is_topic, read, write
from seglog.topic.repair import repair_place
from seglog.topic.transaction import Transaction, commit

STAGED = StagedSegment(
    directory="staging/q-7/1-0",
    entry=SegmentEntry(base_offset=0, file=1, salt=5, created=0, next_offset=3, bytes=190, records=3),
)


def description(topic: Storage) -> str:
    return "topic.json"


def unfinished_batch(topic: Storage) -> str:
    """Commit a batch that has joined no partition yet."""
    transaction = Transaction(query="q", batch=7, staged={0: [STAGED]})
    commit(topic, transaction)
    return transaction.file


def whole(topic: Storage, name: str) -> bytes:
    file = topic.open(name)
    return file.pread(file.size(), 0)


def repaired(make: Callable[[Storage], str]) -> tuple[Disk, str, bytes, bytes]:
    """Damage a file of a topic and repair it; return the disk, recorded, the file's name and bytes before and after."""
    disk = Disk()
    with seglog.Broker(DiskStorage(disk)) as broker:
        broker.create_topic("orders", partitions=2)
    topic = Subdirectory(DiskStorage(disk), "orders")
    name = make(topic)
    sound = whole(topic, name)
    damaged = bytes([*sound[:40], sound[40] ^ 16, *sound[41:]])
    topic.open(name, writable=True).pwrite(damaged, 0)
    cut = Disk(disk.image(), recording=True)
    repair_place(DiskStorage(cut))
    return cut, name, sound, damaged


@pytest.mark.parametrize("make", [description, unfinished_batch], ids=["topic.json", "txn"])
def test_the_damaged_file_is_kept_and_the_next_repair_ends_the_same(make: Callable[[Storage], str]) -> None:
    cut, name, sound, damaged = repaired(make)
    seen = set()
    for moment in moments(cut):
        for state in moment.states(sample=20):
            seen.add(state.key)
            left = Subdirectory(DiskStorage(Disk(state.image)), "orders")
            kept = [f"{filename.QUARANTINE}/{one}" for one in left.names(filename.QUARANTINE)]
            assert damaged in [whole(left, one) for one in [name, *kept]], f"cut at {moment.at}"
            repair_place(DiskStorage(disk := Disk(state.image)))
            again = Subdirectory(DiskStorage(disk), "orders")
            assert whole(again, name) == sound
            assert damaged in [whole(again, f"{filename.QUARANTINE}/{one}") for one in again.names(filename.QUARANTINE)]
    assert len(seen) > 5


@pytest.mark.parametrize("make", [description, unfinished_batch], ids=["topic.json", "txn"])
def test_what_is_repaired_is_on_the_medium_before_anybody_is_told(make: Callable[[Storage], str]) -> None:
    cut, name, sound, _ = repaired(make)
    cut.note("told")
    for moment in moments(cut):
        for state in moment.states(sample=20) if moment.note == "told" else ():
            assert whole(Subdirectory(DiskStorage(Disk(state.image)), "orders"), name) == sound


def test_a_description_is_there_whole_or_not_at_all_and_is_there_for_good_once_it_is_written() -> None:
    disk, what = Disk(recording=True), Description.new("orders", 2)
    DiskStorage(disk).make([])
    write(DiskStorage(disk), what)
    disk.note("written")
    for moment in moments(disk):
        for state in moment.states(sample=50):
            left = DiskStorage(Disk(state.image))
            assert read(left) == what if moment.note == "written" or is_topic(left) else True
