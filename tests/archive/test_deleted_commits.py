"""A commit of an archive that is gone: a restore shows what it restored, and what shows that there was more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.archive.newer import newer_objects
from seglog.archive.restore import _signs_of_later
from seglog.archive.storage import ArchiveStorage
from seglog.archive.urls import object_store
from seglog.cli import main

if TYPE_CHECKING:
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=1024)


def archive(root: Path, bucket: Path, *rounds: int) -> str:
    """Archive a log after each of these numbers of appended records; return the archive's URL."""
    url = f"file://{bucket}"
    with seglog.open(root, SMALL) as log, seglog.Archiver(root, url) as archiver:
        for count in rounds:
            for number in range(count):
                log.append(b"%d" % number)
            archiver.step()
    return url


def test_a_restore_shows_its_commit_and_the_offset_of_each_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with seglog.Broker(tmp_path / "src") as broker:
        topic = broker.create_topic("orders", partitions=2)
        for number in range(3):
            topic.append(b"%d" % number, key=b"%d" % number)
        broker.sync()
    url = f"file://{tmp_path}/bucket"
    with seglog.Archiver(tmp_path / "src", url) as archiver:
        number = archiver.step().commit
    assert main(["restore", url, str(tmp_path / "copy")]) == 0
    out, err = capsys.readouterr()
    assert f"commit {number} of " in out
    for partition in range(2):
        with seglog.open(tmp_path / "copy" / "orders" / str(partition), mode="r") as log:
            assert f"orders/{partition}: up to offset {log.next_offset}\n" in out
    assert "warning" not in err


@pytest.mark.parametrize(("rounds", "known"), [((10, 5), 10), ((10, 200), 180)], ids=["active", "sealed"])
def test_a_restore_warns_that_the_newest_commit_was_deleted(
    tmp_path: Path, rounds: tuple[int, int], known: int, capsys: pytest.CaptureFixture[str]
) -> None:
    url = archive(tmp_path / "src", tmp_path / "bucket", *rounds)
    max((tmp_path / "bucket" / "commits").iterdir()).unlink()
    assert main(["restore", url, str(tmp_path / "copy")]) == 0
    out, err = capsys.readouterr()
    assert "the log: up to offset 10\n" in out
    assert "newer objects that no commit names" in err
    assert "the commit ends at 10" in err
    (newer,) = newer_objects(ArchiveStorage(object_store(url), follow=False)).values()
    assert newer.offset >= known
    assert newer.offset <= sum(rounds)


def test_a_restore_beside_an_archiver_that_works_does_not_warn_of_its_objects(tmp_path: Path) -> None:
    url = archive(tmp_path / "src", tmp_path / "bucket", 10)
    begun = ArchiveStorage(object_store(url), follow=False)
    archive(tmp_path / "src", tmp_path / "bucket", 200)
    assert newer_objects(begun)
    assert _signs_of_later(begun) == ()
    for commit in (tmp_path / "bucket" / "commits").iterdir():
        if int(commit.stem) > begun.commit.number:
            commit.unlink()
    assert "or is running now" in _signs_of_later(begun)[0]


def test_a_restore_warns_of_a_gap_between_commits(tmp_path: Path) -> None:
    url = archive(tmp_path / "src", tmp_path / "bucket", 1, 1, 1)
    second_last = sorted((tmp_path / "bucket" / "commits").iterdir())[-2]
    second_last.unlink()
    report = seglog.restore(url, tmp_path / "copy")
    assert report.offsets == {"": 3}
    (warning,) = report.warnings
    assert warning.startswith(f"commit {int(second_last.stem)} is missing")


def test_what_rolls_compactions_and_truncates_leave_is_no_later_state(tmp_path: Path) -> None:
    url, root = f"file://{tmp_path}/bucket", tmp_path / "src"
    config = seglog.LogConfig(segment_bytes=1024, retention=seglog.Retention(compact=True, delete_retention=0))
    with seglog.open(root, config) as log, seglog.Archiver(root, url) as archiver:
        for turn in range(5):
            for number in range(60):
                log.append(b"%d" % number, key=b"%d" % (number % 3))
                if number % 20 == 0:
                    archiver.step()
            log.compact(roll=turn % 2 == 0)
            archiver.step()
            if turn == 3:
                log.truncate(log.next_offset - 5)
                archiver.step()
            assert newer_objects(ArchiveStorage(object_store(url), follow=False)) == {}
            for old in sorted((tmp_path / "bucket" / "commits").iterdir())[:-1]:
                old.unlink()
            assert newer_objects(ArchiveStorage(object_store(url), follow=False)) == {}
