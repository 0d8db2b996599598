"""Every call of a store fails once, in every way: the archive always holds one committed state, and none is lost."""

from __future__ import annotations

import secrets
import shutil
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import ArchiveFenced, Archiver, StorageError
from seglog.archive.urls import store_at
from seglog.topic.repair.verify import verify_place
from tests.archive.conftest import filled
from tests.archive.faulty_store import KINDS, FaultyStore

if TYPE_CHECKING:
    from pathlib import Path

    from tests.conftest import ManualClock
    from tests.proofs import Tell

GRACE = 10


def scenario(directory: Path, store: FaultyStore, acknowledged: list[int]) -> None:
    """Archive a log that grows, rolls and is truncated; note each archived end. Closing makes no call of the store."""
    with seglog.open(directory) as log, Archiver(directory, store, grace=0) as archiver:
        acknowledged.append(archiver.step().records)
        for number in range(30):
            log.append(b"second %d" % number)
        acknowledged.append(archiver.step().records)
        log.truncate(log.next_offset - 5)
        acknowledged.append(log.next_offset)
        log.append(b"after the truncate")
        acknowledged.append(archiver.step().records)


def calls_of(tmp_path: Path, filled_log: Path) -> int:
    shutil.copytree(filled_log, tmp_path / "counted")
    store = FaultyStore(store_at(f"memory://{secrets.token_hex(6)}/p"), reads=True)
    scenario(tmp_path / "counted", store, [])
    return store.calls


@pytest.fixture
def filled_log(tmp_path: Path) -> Path:
    filled(tmp_path / "original", 40).close()
    return tmp_path / "original"


def archived(url: str) -> list[bytes | None]:
    with seglog.open(url, mode="r") as log:
        assert log.verify().ok
        return [record.value for record in log.scan()]


@pytest.mark.parametrize("kind", KINDS)
def test_after_a_call_that_fails_the_next_archiver_completes_the_archive(
    kind: str, tmp_path: Path, filled_log: Path
) -> None:
    complete_after_failures(kind, tmp_path, filled_log, stride=6)


@pytest.mark.proof
@pytest.mark.parametrize("kind", KINDS)
def test_after_any_call_that_fails_the_next_archiver_completes_the_archive(
    kind: str, tmp_path: Path, filled_log: Path, tell: Tell
) -> None:
    states = complete_after_failures(kind, tmp_path, filled_log, stride=1)
    tell("archive", failed_calls=states, violations=0)


def complete_after_failures(kind: str, tmp_path: Path, filled_log: Path, *, stride: int) -> int:
    """Let each `stride`-th call fail; return how many."""
    numbers = range(KINDS.index(kind) % stride, calls_of(tmp_path, filled_log), stride)
    for number in numbers:
        url = f"memory://{secrets.token_hex(6)}/p"
        directory = tmp_path / f"log-{number}"
        shutil.copytree(filled_log, directory)
        store, acknowledged = FaultyStore(store_at(url), kind, number, reads=True), list[int]()
        with suppress(StorageError, ArchiveFenced):
            scenario(directory, store, acknowledged)
        if acknowledged:
            assert len(archived(url)) >= acknowledged[-1], (kind, number)
        with filled(directory, 3, first=500) as log, Archiver(directory, url, grace=0) as archiver:
            archiver.step()
            assert archived(url) == [record.value for record in log.scan()], (kind, number)
            store.deliver()
            archiver.step()
            assert archived(url) == [record.value for record in log.scan()], (kind, number)
            seglog.restore(url, tmp_path / f"back-{number}")
            with seglog.open(tmp_path / f"back-{number}", mode="r") as back:
                assert list(back.scan()) == list(log.scan())
    return len(numbers)


@pytest.mark.parametrize("kind", KINDS)
def test_an_archiver_continues_after_a_call_that_failed(kind: str, tmp_path: Path, filled_log: Path) -> None:
    shutil.copytree(filled_log, tmp_path / "counted")
    counted = FaultyStore(store_at(f"memory://{secrets.token_hex(6)}/p"), reads=True)
    with Archiver(tmp_path / "counted", counted, grace=0) as archiver:
        claimed = counted.calls
        archiver.step()
    for number in range(claimed, counted.calls):
        url = f"memory://{secrets.token_hex(6)}/p"
        directory = tmp_path / f"log-{number}"
        shutil.copytree(filled_log, directory)
        store = FaultyStore(store_at(url), kind, number, reads=True)
        with seglog.open(directory) as log, Archiver(directory, store, grace=0) as archiver:
            with suppress(StorageError):
                archiver.step()
            log.append(b"one more")
            archiver.step()
            store.deliver()
            log.append(b"and another")
            archiver.step()
            assert archived(url) == [record.value for record in log.scan()], (kind, number)


@pytest.mark.parametrize("kind", ["refused", "repeated"])
def test_a_restore_that_was_interrupted_anywhere_continues(kind: str, tmp_path: Path, place: str) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        expected = list(log.scan())
    counted = FaultyStore(store_at(place), reads=True)
    seglog.restore(counted, tmp_path / "counted")
    for number in range(counted.calls):
        target = tmp_path / f"back-{number}"
        with suppress(StorageError):
            seglog.restore(FaultyStore(store_at(place), kind, number, reads=True), target)
        if kind == "refused":
            assert not target.exists()
            seglog.restore(place, target)
        with seglog.open(target, mode="r") as back:
            assert list(back.scan()) == expected


def test_a_restore_continues_with_the_segments_that_it_had(tmp_path: Path, place: str) -> None:
    with filled(tmp_path / "log", 200), Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    counted = FaultyStore(store_at(place), reads=True)
    whole = seglog.restore(counted, tmp_path / "whole")
    with pytest.raises(StorageError):
        seglog.restore(FaultyStore(store_at(place), "refused", counted.calls - 1, reads=True), tmp_path / "back")
    report = seglog.restore(place, tmp_path / "back")
    assert report.kept > 1
    assert report.bytes < whole.bytes


@pytest.mark.parametrize("ending", [".store", ".tail", ".segments"])
def test_a_damaged_object_is_found_and_restores_nothing(ending: str, tmp_path: Path, place: str) -> None:
    with filled(tmp_path / "log", 60), Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    store = store_at(place)
    key = next(key for key in store.keys("logs/") if key.endswith(ending))
    data = bytearray(store.read(key))
    data[len(data) // 2] ^= 1
    store.put(key, [bytes(data)], len(data))
    with pytest.raises((seglog.CorruptRecord, seglog.CorruptLog), match=r"damaged"):
        seglog.restore(place, tmp_path / "back")
    assert not (tmp_path / "back").exists()


def test_a_missing_object_is_reported_by_name(tmp_path: Path, place: str) -> None:
    with filled(tmp_path / "log", 60), Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    store = store_at(place)
    key = next(key for key in store.keys("logs/") if key.endswith(".store"))
    store.delete(key)
    with pytest.raises(seglog.CorruptLog, match=key):
        seglog.restore(place, tmp_path / "back")
    assert [problem.kind for problem in verify_place(place).problems] == ["refused"]


def test_what_was_never_committed_is_deleted_by_the_next_archiver(tmp_path: Path, place: str) -> None:
    filled(tmp_path / "log", 60).close()
    shutil.copytree(tmp_path / "log", tmp_path / "counted")
    counted = FaultyStore(store_at(place + "-counted"))
    with Archiver(tmp_path / "counted", counted) as archiver:
        archiver.step()
    store = FaultyStore(store_at(place), "refused", counted.calls - 1)
    with Archiver(tmp_path / "log", store) as archiver, pytest.raises(StorageError):
        archiver.step()
    left = set(store.keys("logs/"))
    assert left
    with Archiver(tmp_path / "log", place, grace=0) as archiver:
        archiver.step()
        assert set(store.keys("logs/")) == set(archiver._states[""].objects())
        assert not left & set(store.keys("logs/"))


def test_what_was_replaced_is_deleted_after_the_grace_period_also_by_a_later_archiver(
    tmp_path: Path, place: str, clock: ManualClock
) -> None:
    store = store_at(place)
    with filled(tmp_path / "log", 60) as log:
        for _ in range(4):
            with Archiver(tmp_path / "log", place, grace=60, clock=clock) as archiver:
                log.truncate(log.next_offset - 1)
                archiver.step()
            clock.advance(25)
        kept = len(set(store.keys("logs/")))
        with Archiver(tmp_path / "log", place, grace=60, clock=clock) as archiver:
            assert archiver.step().deleted, "of the first round, 100 seconds ago"
            assert len(set(store.keys("logs/"))) < kept
            clock.advance(60)
            archiver.step()
            assert set(store.keys("logs/")) == set(archiver._states[""].objects())
        assert len(list(store.keys("retired/"))) <= 1


def test_a_restore_ends_at_an_offset_or_a_time(tmp_path: Path, place: str) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        expected = list(log.scan())
    for end in (0, 1, 30, 99, 100):
        seglog.restore(place, tmp_path / f"to-{end}", to_offset=end)
        with seglog.open(tmp_path / f"to-{end}") as back:
            assert list(back.scan()) == expected[:end]
            assert back.append(b"x") == end
    seglog.restore(place, tmp_path / "time", to_time=50_000_000)
    with seglog.open(tmp_path / "time", mode="r") as back:
        assert list(back.scan()) == expected[:50]
    with pytest.raises(seglog.OffsetOutOfRange):
        seglog.restore(place, tmp_path / "beyond", to_offset=101)
    with pytest.raises(seglog.NotALog, match="something already"):
        seglog.restore(place, tmp_path / "time")
