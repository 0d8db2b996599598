"""Stores that deny deletes, clocks that are wrong, and writers that do not stop."""

from __future__ import annotations

import errno
import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import ArchiveFenced, ArchiveMismatch, Archiver
from seglog.archive import history
from seglog.archive.leading import Leading
from seglog.archive.lease import ObjectLease
from seglog.archive.storage import ArchiveStorage
from seglog.archive.urls import store_at
from seglog.errors import NotALog, StorageError
from tests.archive.conftest import filled
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from pathlib import Path


class Undeletable:
    """A bucket whose policy or object lock denies deletes."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._store = store_at(url)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def delete(self, key: str) -> None:
        raise StorageError(errno.EACCES, "the bucket denies deletes", f"{self.url}/{key}")


def test_a_bucket_that_denies_deletes_stops_neither_archiving_nor_acknowledgements_nor_a_lease(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "KEPT_COMMITS", 2)
    store, said = Undeletable(place), list[str]()
    with filled(tmp_path / "log", 100) as log:
        for _ in range(3):  # each one finds what the one before left
            with Archiver(tmp_path / "log", store, grace=0) as archiver:
                for _ in range(4):
                    log.append(b"more")
                    report = archiver.step()
                assert "denies deletes" in report.undeleted
                assert "old objects cannot be deleted" in report.problems()[0]
        with Archiver(tmp_path / "log", store, grace=0).background(3600, said.append) as archive:
            log.append(b"the last one")
            archive.wait(timeout=HANG_SECONDS)
        expected = list(log.scan())
    with seglog.open(ArchiveStorage(store), mode="r") as archived:
        assert list(archived.scan()) == expected
    seglog.restore(store, tmp_path / "back")
    lease = ObjectLease(store, holder="one")
    lease.acquire(0)
    for _ in range(30):
        lease.renew()
    lease.release()
    assert ObjectLease(store, holder="two").acquire(0) > 30


def test_a_restore_leaves_what_is_at_its_target(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 20), Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    target = tmp_path / "there"
    target.mkdir()
    (target / "notes").write_text("mine")
    with pytest.raises(NotALog, match="something already"):
        seglog.restore(place, target)
    assert [one.name for one in target.iterdir()] == ["notes"]
    assert not list(tmp_path.glob(".there*"))
    with pytest.raises(NotALog):
        seglog.restore(place, tmp_path / "log")


@pytest.mark.parametrize("seed", range(5))
def test_of_writers_with_any_clocks_no_two_ever_commit_in_turn(seed: int, place: str) -> None:
    chance, store = random.Random(seed), store_at(place)

    def any_time() -> int:
        return chance.randrange(-(10**15), 10**16)

    def anyone(newest: object) -> None:
        """Let every writer continue."""

    writers = [
        history.Writer.claim(store, any_time, kind="log", owner=str(number), may_follow=anyone) for number in range(4)
    ]
    committed = []
    for number in itertools.islice(iter(lambda: chance.randrange(4), None), 40):
        try:
            writers[number].commit(topics={"a": str(len(committed))})
            committed.append(number)
        except ArchiveFenced:
            continue
    assert set(committed) == {3}  # the last one that claimed it


def test_two_leaders_by_clocks_of_different_speeds_do_not_both_archive(place: str, tmp_path: Path) -> None:
    slow, fast = [0.0], [0.0]

    def hurried(seconds: float) -> None:
        fast[0] += 1000 * seconds

    filled(tmp_path / "log", 20).close()
    first = ObjectLease(place, holder="slow", ttl=10, monotonic=lambda: slow[0])
    first.acquire(0)
    with Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        second = ObjectLease(place, holder="fast", ttl=10, monotonic=lambda: fast[0], sleep=hurried)
        second.acquire(None)  # by its clock the first one has not renewed for long
        seglog.restore(place, tmp_path / "other")
        with Archiver(tmp_path / "other", place) as other:
            other.step()
            with seglog.open(tmp_path / "log") as log:
                log.append(b"not archived")
            with pytest.raises(ArchiveFenced):
                archiver.step()
    with pytest.raises(ArchiveFenced):
        first.renew()
    with pytest.raises(ArchiveMismatch):
        Archiver(tmp_path / "log", place)


def test_two_archivers_that_begin_at_the_same_moment_do_not_both_continue(place: str, tmp_path: Path) -> None:
    for name in ("one", "two"):
        filled(tmp_path / name, 20).close()

    def archive(name: str) -> bool:
        try:
            with Archiver(tmp_path / name, place) as archiver:
                archiver.step()
                return True
        except (ArchiveFenced, ArchiveMismatch):
            return False

    with ThreadPoolExecutor(2) as pool:
        succeeded = list(pool.map(archive, ("one", "two")))
    assert succeeded.count(True) == 1


def test_a_lease_is_lost_once_and_everyone_who_asked_is_called(place: str) -> None:
    lease, calls = ObjectLease(place, ttl=0.03), list[BaseException]()
    lease.acquire(0)
    with Leading(lease, 0.03) as leading:
        leading.when_lost(calls.append)
        thief = ObjectLease(place, ttl=0.0)
        while leading.failure is None:
            thief._number = thief._number or 0
            thief._create((ObjectLease(place).state().number or 0) + 1, thief._entry)
        leading.when_lost(calls.append)
    assert [type(error) for error in calls] == [ArchiveFenced, ArchiveFenced]
