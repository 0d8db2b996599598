"""Two writers of one archive: one of them commits, whatever the other one's clock, pauses and retries."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import ArchiveFenced, ArchiveMismatch, Archiver
from seglog.archive import history
from seglog.archive.history import Writer, newest
from seglog.archive.urls import store_at
from tests.archive.conftest import filled

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seglog.archive.commit import Commit

pytestmark = pytest.mark.xdist_group("s3")


def writer_of(url: str, owner: str) -> Writer:
    def anyone(newest: Commit | None) -> None:
        """Let every writer continue."""

    return Writer.claim(store_at(url), lambda: 0, kind="log", owner=owner, may_follow=anyone)


def test_a_paused_writer_cannot_commit_after_another_one_took_over(url: str) -> None:
    first = writer_of(url, "first")
    first.commit(topics={"a": "1"})
    second = writer_of(url, "second")
    with pytest.raises(ArchiveFenced):
        first.commit(topics={"a": "lost"})
    second.commit(topics={"a": "2"})
    with pytest.raises(ArchiveFenced):
        first.commit(topics={"a": "lost"})
    found = newest(store_at(url))
    assert found is not None
    assert (found.topics, found.term) == ({"a": "2"}, 2)


def test_a_writer_paused_until_its_number_was_deleted_again_notices(
    place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "KEPT_COMMITS", 3)
    paused = writer_of(place, "paused")
    paused.commit(topics={"a": "1"})
    active = writer_of(place, "active")
    for number in range(10):
        active.commit(topics={"a": str(number)})
        active.delete_old()
    with pytest.raises(ArchiveFenced):
        paused.commit(topics={"a": "lost"})
    found = newest(store_at(place))
    assert found is not None
    assert found.topics == {"a": "9"}
    with pytest.raises(ArchiveFenced):  # also one that begins with an empty archive
        late = writer_of(place + "-other", "late")
        other = writer_of(place + "-other", "other")
        for number in range(10):
            other.commit(topics={"a": str(number)})
            other.delete_old()
        late.commit(topics={"a": "lost"})


def test_of_two_copies_of_a_directory_the_second_is_refused(place: str, tmp_path: Path) -> None:
    filled(tmp_path / "log", 50).close()
    with Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    shutil.copytree(tmp_path / "log", tmp_path / "copy")
    with Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    with pytest.raises(ArchiveMismatch, match="another copy of it"):
        Archiver(tmp_path / "copy", place)
    with Archiver(tmp_path / "copy", place, take_over=True) as archiver:
        archiver.step()
    with pytest.raises(ArchiveMismatch, match="another copy of it"):
        Archiver(tmp_path / "log", place)


def test_a_restored_directory_continues_the_archive_and_the_old_disk_is_refused(place: str, tmp_path: Path) -> None:
    filled(tmp_path / "old", 50).close()
    old = Archiver(tmp_path / "old", place)
    old.step()
    seglog.restore(place, tmp_path / "new")
    with seglog.open(tmp_path / "new") as log, Archiver(tmp_path / "new", place) as new:
        log.append(b"after the restore")
        new.step()
        filled(tmp_path / "old", 10, first=50).close()
        with pytest.raises(ArchiveFenced):
            old.step()
        old.close()
        with pytest.raises(ArchiveMismatch):
            Archiver(tmp_path / "old", place)
        with seglog.open(place, mode="r") as archived:
            assert archived.read(50).value == b"after the restore"
            assert archived.next_offset == 51


def test_a_directory_restored_from_an_earlier_state_is_refused(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "old", 50) as log, Archiver(tmp_path / "old", place) as old:
        old.step()
        seglog.restore(place, tmp_path / "new")
        log.append(b"archived after the restore")
        old.step()
    with pytest.raises(ArchiveMismatch, match="has grown since"):
        Archiver(tmp_path / "new", place)
    with seglog.open(place, mode="r") as archived:
        assert archived.next_offset == 51


def test_another_log_is_not_archived_over_an_archive(place: str, tmp_path: Path) -> None:
    filled(tmp_path / "log", 5).close()
    filled(tmp_path / "other", 5).close()
    with Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    with pytest.raises(ArchiveMismatch):
        Archiver(tmp_path / "other", place)
    (tmp_path / "other/.archive.json").write_bytes((tmp_path / "log/.archive.json").read_bytes())
    with Archiver(tmp_path / "other", place) as archiver:
        assert "the archive holds another log" in archiver.step().failed[""]


def test_one_archiver_works_on_a_directory(place: str, tmp_path: Path) -> None:
    filled(tmp_path / "log", 5).close()
    with Archiver(tmp_path / "log", place), pytest.raises(seglog.LogLocked, match="archives this directory already"):
        Archiver(tmp_path / "log", place + "-other")


@pytest.mark.parametrize(
    "call",
    [
        lambda log: Archiver(log, None),
        lambda log: Archiver(None, "memory://x"),
        lambda log: Archiver(log, "memory://x", keep="7d"),
        lambda log: Archiver(log, "memory://x", grace=-1),
        lambda log: Archiver(log, "memory://x", clock=5),
        lambda log: Archiver(log, "s3://[bucket"),
        lambda log: seglog.restore(None, "back"),
        lambda log: seglog.restore("memory://x", None),
        lambda log: seglog.restore("memory://x", ""),
        lambda log: seglog.restore("memory://x", "back", to_offset="5"),
        lambda log: seglog.restore("memory://x", "back", to_time="today"),
    ],
)
def test_a_bad_argument_gets_an_error_of_our_tree(call: Callable[[Path], object], tmp_path: Path) -> None:
    filled(tmp_path / "log", 1).close()
    with pytest.raises((seglog.InvalidArgument, seglog.InvalidType)):
        call(tmp_path / "log")
