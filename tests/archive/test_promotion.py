"""A copy takes over from a leader with an archive: nothing archived is lost, the old leader commits nothing more."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import ArchiveFenced, Archiver, LogConfig, Mirror
from seglog.archive.promotion import promote_from_archive
from seglog.archive.urls import store_at
from seglog.replication.diff import diff
from tests.archive.conftest import SMALL, filled
from tests.archive.faulty_store import KINDS, FaultyStore

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from seglog import Log
    from seglog.format.manifest import Role
    from tests.conftest import Served
    from tests.proofs import Tell


def mirror(source: Path | str, target: Path) -> None:
    with Mirror(source, target) as copying:
        while copying.step():
            pass


def content(place: object) -> list[seglog.Record]:
    with seglog.open(place, mode="r") as log:  # type: ignore[arg-type] # a path or a URL
        return list(log.scan())


def test_a_follower_of_a_lost_leader_notices_that_the_restored_one_has_other_records(
    place: str, tmp_path: Path
) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        log.truncate(80)  # the archive does not have this cut
        filled_on(log, 60, b"lost")
        mirror(tmp_path / "log", tmp_path / "copy")
    seglog.restore(place, tmp_path / "restored")
    with seglog.open(tmp_path / "restored") as log:
        log.truncate(80)
        filled_on(log, 100, b"new")
    with Mirror(tmp_path / "restored", tmp_path / "copy") as copying:
        while copying.step():
            pass
    assert content(tmp_path / "copy") == content(tmp_path / "restored")


def filled_on(log: Log, count: int, word: bytes) -> None:
    for number in range(count):
        log.append(b"%s %d" % (word, number), key=b"k%d" % (number % 7))


def test_a_promoted_copy_has_everything_that_was_archived_and_fences_the_old_archiver(
    place: str, tmp_path: Path
) -> None:
    with filled(tmp_path / "old", 100) as log, Archiver(tmp_path / "old", place) as archiver:
        mirror(tmp_path / "old", tmp_path / "copy")
        filled_on(log, 50, b"archived only")
        archiver.step()
        expected = list(log.scan())
        promotion = promote_from_archive(tmp_path / "copy", place)
        assert promotion.copied > 0
        log.append(b"by the old leader")
        with pytest.raises(ArchiveFenced):
            archiver.step()
    assert content(tmp_path / "copy") == expected
    with seglog.open(tmp_path / "copy") as log, Archiver(tmp_path / "copy", place) as archiver:
        log.append(b"by the new leader")
        archiver.step()
        assert content(place) == list(log.scan())
        assert diff(place, tmp_path / "copy").same


def test_a_promoted_copy_keeps_what_it_has_more_than_the_archive(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "old", 100) as log, Archiver(tmp_path / "old", place) as archiver:
        archiver.step()
        filled_on(log, 50, b"mirrored only")
        mirror(tmp_path / "old", tmp_path / "copy")
        expected = list(log.scan())
    assert promote_from_archive(tmp_path / "copy", place).copied == 0
    assert content(tmp_path / "copy") == expected


def test_a_copy_that_followed_a_cut_before_the_archive_did_gets_the_records_before_the_cut(
    place: str, tmp_path: Path
) -> None:
    config = LogConfig(segment_bytes=1024)
    with seglog.open(tmp_path / "old", config) as log, Archiver(tmp_path / "old", place) as archiver:
        filled_on(log, 30, b"first")
        mirror(tmp_path / "old", tmp_path / "copy")
        filled_on(log, 70, b"second")
        archiver.step()
        log.truncate(80)
        with Mirror(tmp_path / "old", tmp_path / "copy") as copying:
            for one in copying._logs.values():  # it takes the history, and is killed before it takes the records
                one._reconcile(one.source.fetch(None))
        assert len(content(tmp_path / "copy")) == 30
        expected = list(log.scan())
    promote_from_archive(tmp_path / "copy", place)
    assert content(tmp_path / "copy") == expected


def test_an_archive_keeps_records_that_neither_the_old_leader_nor_the_promoted_copy_has(
    place: str, tmp_path: Path
) -> None:
    with filled(tmp_path / "old", 300) as log, Archiver(tmp_path / "old", place) as archiver:
        archiver.step()
        everything = list(log.scan())
        log.alter(retention=seglog.Retention(bytes=4096))
        log.expire()
        archiver.step()
        mirror(tmp_path / "old", tmp_path / "copy")
    promote_from_archive(tmp_path / "copy", place)
    with seglog.open(tmp_path / "copy") as log:  # its segments begin at other offsets than those of the archive
        starts = log.lowest_offset
        assert starts > 0
        with Archiver(tmp_path / "copy", place) as archiver:
            archiver.step()
            assert content(place) == everything
            filled_on(log, 100, b"later")
            log.expire()
            archiver.step()
            assert content(place)[:300] == everything
            assert content(place)[300:] == list(log.scan(300))
    assert seglog.verify(place).ok
    seglog.restore(place, tmp_path / "back")
    assert content(tmp_path / "back") == content(place)


def test_a_topic_is_promoted_with_topics_that_only_the_archive_has(place: str, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "old") as broker:
        broker.create_topic("orders", partitions=2, config=SMALL)
        for number in range(50):
            broker.topic("orders").append(b"v%d" % number, key=b"%d" % number)
        mirror(tmp_path / "old", tmp_path / "copy")
        broker.create_topic("visits").append(b"archived only")
        with Archiver(tmp_path / "old", place) as archiver:
            archiver.step()
    promote_from_archive(tmp_path / "copy", place)
    with seglog.Broker(tmp_path / "copy") as broker:
        assert broker.topic("visits").partition(0).read(0).value == b"archived only"
        assert diff(tmp_path / "old", tmp_path / "copy").same
        with Archiver(tmp_path / "copy", place) as archiver:
            broker.topic("visits").append(b"more")
            assert not archiver.step().failed


def test_a_copy_of_other_logs_is_refused_before_the_archive_is_claimed(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "old", 10), Archiver(tmp_path / "old", place) as archiver:
        archiver.step()
        filled(tmp_path / "other", 10).close()
        mirror(tmp_path / "other", tmp_path / "copy")
        with pytest.raises(seglog.ArchiveMismatch, match="is no copy of the archived log"):
            promote_from_archive(tmp_path / "copy", place)
        with pytest.raises(seglog.LogNotFound, match="no archive"):
            promote_from_archive(tmp_path / "copy", place + "/other")
        archiver.step()


def test_a_copy_whose_leader_never_had_archived_records_is_refused(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "old", 50) as log, Archiver(tmp_path / "old", place) as archiver:
        archiver.step()
        seglog.restore(place, tmp_path / "restored")
        filled_on(log, 10, b"archived by the old one")
        archiver.step()
    mirror(tmp_path / "restored", tmp_path / "copy")
    with pytest.raises(seglog.CopyDiverged, match="never had"):
        promote_from_archive(tmp_path / "copy", place)


@pytest.mark.parametrize("kind", KINDS)
def test_a_promotion_is_repeated_after_any_call_of_the_store_that_failed(
    kind: str, place: str, tmp_path: Path, tell: Tell
) -> None:
    with filled(tmp_path / "old", 60) as log, Archiver(tmp_path / "old", place) as archiver:
        mirror(tmp_path / "old", tmp_path / "copy")
        filled_on(log, 20, b"archived only")
        archiver.step()
        expected = list(log.scan())
    failures = 0
    for at in itertools.count():
        copy = tmp_path / f"copy-{at}"
        shutil.copytree(tmp_path / "copy", copy)
        store = FaultyStore(store_at(place), kind, at, reads=True)
        with suppress(seglog.StorageError, ArchiveFenced):
            promote_from_archive(copy, store)
        if store.calls <= at:
            break
        failures += 1
        if role_of(copy).copy:
            promote_from_archive(copy, place)
        store.deliver()
        assert content(copy) == expected
        with seglog.open(copy) as log, Archiver(copy, place) as archiver:
            assert not archiver.step().failed
            assert content(place) == list(log.scan())
    assert failures > 5
    tell("archive", kind=kind, failed_calls_of_promotions=failures, violations=0)


def role_of(place: Path) -> Role:
    with seglog.open(place, mode="r") as log:
        return log.view().manifest.role


def test_a_paused_leader_that_wakes_up_after_a_promotion_accepts_nothing_more(
    serve: Callable[..., Served], tmp_path: Path
) -> None:
    url = f"file://{tmp_path}/archive"
    old = serve("--archive", url, "--archive-interval", "1h", "--lease", "1s", root=tmp_path / "old")
    with seglog.Client(old.url, retries=0) as client:
        client.topic("default").append(b"by the old leader", ack="archived")
        mirror(old.url, tmp_path / "copy")
        command = [sys.executable, "-m", "seglog", "promote", str(tmp_path / "copy"), "--archive", url]
        held = subprocess.run(command, capture_output=True, text=True, check=False)
        assert held.returncode == 4
        assert "holds the lease" in held.stderr
        old.process.send_signal(signal.SIGSTOP)
        subprocess.run([*command, "--wait", "30s"], check=True, capture_output=True)
        new = serve("--archive", url, "--lease", "1s", "--holder", "the new one", root=tmp_path / "copy")
        with seglog.Client(new.url) as another:
            assert another.topic("default").append(b"by the new leader", ack="archived") == (0, 1)
        old.process.send_signal(signal.SIGCONT)
        with pytest.raises(seglog.SeglogError, match="another"):
            client.topic("default").append(b"not archived", ack="archived")
        for refused in (
            lambda: client.topic("default").append(b"lost"),
            lambda: client.create_topic("orders"),
            lambda: client.topic("default").truncate(0, 0),
        ):
            with pytest.raises(seglog.LogFenced):
                refused()
        assert client.topic("default").read(0, 0).value == b"by the old leader"
    shown = subprocess.run([sys.executable, "-m", "seglog", "lease", url], capture_output=True, text=True, check=False)
    assert shown.stdout.startswith("the new one, renewal ")
    new.stop()
    shown = subprocess.run([sys.executable, "-m", "seglog", "lease", url], capture_output=True, text=True, check=False)
    assert (shown.returncode, shown.stdout) == (1, "released\n")
    with seglog.Broker(url, mode="r") as archived:
        assert [record.value for record in archived.topic("default").partition(0).scan()] == [
            b"by the old leader",
            b"by the new leader",
        ]
