"""Backups beside a writer: the copy opens, verifies and is of one moment; nothing half-made looks whole."""

from __future__ import annotations

import os
import shutil
import threading
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Broker, LogConfig, LogTruncated, Retention, Topic
from seglog.log import backup as log_backup
from seglog.log.history import was_cut
from seglog.storage import LocalStorage
from seglog.testing.internals import storage_of
from seglog.topic.layout import description
from seglog.topic.repair import verify_place

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = LogConfig(segment_bytes=512)


def fill(log: Any, count: int, text: str = "v") -> None:
    for _ in range(count):
        log.append(f"{text}{log.next_offset} ".encode() * 5, key=b"k%d" % (log.next_offset % 9))


def values(path: Path) -> list[bytes | None]:
    with seglog.open(path, mode="r") as log:
        assert log.recovery.clean
        assert log.verify().ok
        return [record.value for record in log.scan()]


@pytest.mark.parametrize("share", [True, False])
@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_backup_holds_what_the_log_showed_and_a_second_one_brings_what_is_new(
    tmp_path: Path, mode: str, share: bool
) -> None:
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=512, buffer_bytes=1024)) as log:
        fill(log, 100)
        log.sync()
        log.pin("follower", 7)
        with seglog.open(tmp_path / "log", mode="r") as reader:
            first = (log if mode == "a" else reader).backup(tmp_path / "copy", share=share)
            assert values(tmp_path / "copy") == [record.value for record in log.scan()]
            sealed = len(log.segments) - 1
            assert (first.segments, first.kept) == (sealed + 1, 0)
            assert first.shared == (sealed if share else 0)
            fill(log, 20)
            log.sync()
            second = (log if mode == "a" else reader).backup(tmp_path / "copy", share=share)
            assert second.kept == sealed
            assert values(tmp_path / "copy") == [record.value for record in log.scan()]
    with seglog.open(tmp_path / "copy") as copy:
        assert copy.pins == {"follower": 7}
        fill(copy, 30, "restored")
    assert values(tmp_path / "copy")[:120] == values(tmp_path / "log")
    assert len(values(tmp_path / "log")) == 120


def test_a_backup_follows_truncates_compactions_and_expiry_and_drops_what_the_log_dropped(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=512, retention=Retention(compact=True))
    with seglog.open(tmp_path / "log", config) as log:
        changes: list[Callable[[], Any]] = [
            lambda: fill(log, 60),
            lambda: log.truncate(41),
            lambda: fill(log, 30, "new"),
            lambda: log.compact(roll=True),
            lambda: log.alter(retention=Retention(compact=True, bytes=700)),
            log.expire,
            lambda: log.truncate(log.lowest_offset),
        ]
        for change in changes:
            change()
            log.backup(tmp_path / "copy")
            assert values(tmp_path / "copy") == [record.value for record in log.scan()]
            stores = {file.name for file in (tmp_path / "copy").glob("*.store")}
            assert stores == {segment.name for segment in log.segments}


def test_backups_beside_a_writer_that_appends_and_compacts_all_open_and_verify(tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=2048, retention=Retention(compact=True))
    done = threading.Event()
    log = seglog.open(tmp_path / "log", config)

    def work() -> None:
        while not done.is_set():
            fill(log, 50)
            log.compact(roll=True)

    writer = threading.Thread(target=work)
    writer.start()
    try:
        for number in range(8):
            seglog.backup(tmp_path / "log", tmp_path / f"copy-{number % 3}")
            values(tmp_path / f"copy-{number % 3}")
    finally:
        done.set()
        writer.join()
        log.close()


@pytest.mark.parametrize("at", range(1, 12))
def test_a_backup_that_is_interrupted_leaves_the_earlier_one_or_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    renamed = LocalStorage.rename
    left = [at]

    def rename(self: LocalStorage, old: str, new: str) -> None:
        left[0] -= 1
        if left[0] == 0:
            raise KeyboardInterrupt
        renamed(self, old, new)

    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 12)
        log.backup(tmp_path / "earlier")
        known = values(tmp_path / "earlier")
        fill(log, 12)
        for dest, before in (("earlier", known), ("first", None)):
            left[0] = at
            monkeypatch.setattr(LocalStorage, "rename", rename)
            try:
                log.backup(tmp_path / dest)
            except KeyboardInterrupt:
                monkeypatch.undo()
                if before is None:
                    assert not (tmp_path / dest).exists()
                else:
                    assert values(tmp_path / dest)[: len(before)] == before
            monkeypatch.undo()
            log.backup(tmp_path / dest)
            assert values(tmp_path / dest) == [record.value for record in log.scan()]
        assert sorted(file.name for file in tmp_path.iterdir()) == ["earlier", "first", "log"]


def test_a_backup_is_refused_where_something_else_is(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 20)
        log.backup(tmp_path / "copy")
        with seglog.open(tmp_path / "copy") as copy:
            with pytest.raises(seglog.InvalidArgument, match="opened for writing"):
                log.backup(tmp_path / "copy")
            fill(copy, 1)
        seglog.open(tmp_path / "other").close()
        (tmp_path / "files").mkdir()
        (tmp_path / "files" / "letter.txt").write_text("dear reader")
        for place, error in (
            ("copy", seglog.InvalidArgument),
            ("other", seglog.InvalidArgument),
            ("files", seglog.NotALog),
            ("log", seglog.InvalidArgument),
            ("log/inside", seglog.InvalidArgument),
        ):
            with pytest.raises(error):
                log.backup(tmp_path / place)
        with pytest.raises(seglog.InvalidType):
            log.backup(None)  # type: ignore[arg-type] # what is refused
        log.backup(tmp_path / "held")
        lock = LocalStorage(tmp_path / "held").try_lock("LOCK")
        with pytest.raises(seglog.LogLocked):
            log.backup(tmp_path / "held")
        assert lock is not None
    assert (tmp_path / "files" / "letter.txt").read_text() == "dear reader"


def test_a_restored_backup_is_another_history_from_its_end_on(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 20)
        log.backup(tmp_path / "copy")
        fill(log, 10)
        within, beyond = log.view().trace_of(20), log.view().trace_of(25)
    with seglog.open(tmp_path / "copy") as copy:
        fill(copy, 10, "other")
        assert not was_cut(within, copy.view().trace_of(20))
        assert was_cut(beyond, copy.view().trace_of(25))


def test_where_bytes_cannot_be_shared_they_are_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError(18, "another file system")

    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 30)
        link = os.link
        monkeypatch.setattr("fcntl.ioctl", refuse)
        monkeypatch.setattr(os, "link", lambda old, new: link(old, new) if "MANIFEST" in old else refuse())
        report = log_backup.backup_log(storage_of(log), log.view(), tmp_path / "copy", share=True)
        assert report.shared == 0
        assert values(tmp_path / "copy") == [record.value for record in log.scan()]


def test_a_directory_of_topics_is_copied_with_what_its_groups_committed_while_it_is_served(tmp_path: Path) -> None:
    with Broker(tmp_path / "shop") as broker:
        for name in ("orders", "bills"):
            topic = broker.create_topic(name, partitions=3, config=SMALL)
            for number in range(60):
                topic.append(b"v%d" % number, key=b"k%d" % number)
        broker.groups.commit("billing", {"orders": {0: 3}})
        seglog.backup(tmp_path / "shop", tmp_path / "saved")
        broker.create_topic("later").append(b"v")
        broker.groups.commit("billing", {"orders": {0: 5}, "later": {0: 1}})
        report = seglog.backup(tmp_path / "shop", tmp_path / "saved")
        assert report.logs == 8
        expected = {name: [list(broker.topic(name).partition(0).scan())] for name in broker.topics()}
    assert verify_place(tmp_path / "saved").ok
    with Broker(tmp_path / "saved") as saved:
        assert saved.recovered == ()
        assert saved.groups.committed("billing") == {"later": {0: 1}, "orders": {0: 5}}
        assert {name: [list(saved.topic(name).partition(0).scan())] for name in saved.topics()} == expected
        assert saved.topic("orders").id


def test_a_topic_is_not_copied_while_a_batch_is_in_some_of_its_partitions_only(
    scene: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.topic.backup.WAIT_SECONDS", 0.05)
    topic = scene.make()
    (scene.root / "txn").mkdir(exist_ok=True)
    waiting = scene.root / "txn" / "q-1.json"
    waiting.write_text("{}")
    with pytest.raises(seglog.LogLocked, match=r"q-1\.json"):
        seglog.backup(scene.root, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
    waiting.unlink()
    topic.publish(scene.stage(), query="q", batch=0)
    seglog.backup(scene.root, tmp_path / "saved")
    with Topic.open(tmp_path / "saved") as saved:
        assert scene.values(saved) == scene.values(topic)
        assert saved.published("q") == 0
    topic.close()


def test_a_topic_that_was_created_again_does_not_replace_its_earlier_backup(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "orders", partitions=1) as topic:
        topic.append(b"old")
        seglog.backup(tmp_path / "orders", tmp_path / "saved")
    shutil.rmtree(tmp_path / "orders")
    Topic.create(tmp_path / "orders", partitions=1).close()
    with pytest.raises(seglog.InvalidArgument, match="created again"):
        seglog.backup(tmp_path / "orders", tmp_path / "saved")
    with Topic.open(tmp_path / "saved", mode="r") as saved:
        assert saved.partition(0).read(0).value == b"old"


def test_a_follower_of_a_backup_goes_on_with_each_new_one(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 20)
        log.backup(tmp_path / "copy")
        with seglog.open(tmp_path / "copy", mode="r") as reader:
            tail = reader.tail(15)
            assert len(tail.poll()) == 5
            fill(log, 20)
            log.backup(tmp_path / "copy")
            assert [record.offset for record in tail.poll()] == list(range(20, 40))
            log.truncate(30)
            fill(log, 20, "new")
            log.backup(tmp_path / "copy")
            with pytest.raises(LogTruncated):
                tail.poll()


def test_a_backup_whose_topic_is_open_for_writing_is_not_overwritten(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "topic", partitions=1) as topic:
        seglog.backup(tmp_path / "topic", tmp_path / "copy")
        with Topic.open(tmp_path / "copy") as copy:
            copy.append(b"to the copy")
            topic.append(b"to the topic")
            with pytest.raises(seglog.InvalidArgument, match="opened for writing"):
                seglog.backup(tmp_path / "topic", tmp_path / "copy")
            copy.sync()
    assert values(tmp_path / "copy" / "0") == [b"to the copy"]


def test_a_backup_has_the_partitions_and_settings_of_its_moment(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "orders", partitions=2) as topic:
        topic.append(b"v")
        seglog.backup(tmp_path / "orders", tmp_path / "copy")
        topic.add_partitions(3)
        topic.append(b"in a new one", partition=2)
        topic.alter(retention=seglog.Retention(age=60))
        seglog.backup(tmp_path / "orders", tmp_path / "copy")
    with Topic.open(tmp_path / "copy") as copy:
        assert [copy.partition(number).config.retention.age for number in range(copy.partitions)] == [60] * 3
        assert [record.value for record in copy.partition(2).scan()] == [b"in a new one"]


def test_a_backup_beside_alterations_never_has_half_of_one(tmp_path: Path) -> None:
    ended = threading.Event()

    def alter(topic: Topic) -> None:
        for age in range(1, 1000):
            topic.alter(segment_age=age)
            if ended.is_set():
                return

    with Topic.create(tmp_path / "orders", partitions=4) as topic:
        thread = threading.Thread(target=alter, args=[topic])
        thread.start()
        try:
            for number in range(5):
                seglog.backup(tmp_path / "orders", tmp_path / f"copy-{number}")
        finally:
            ended.set()
            thread.join()
    for number in range(5):
        with Topic.open(tmp_path / f"copy-{number}", mode="r") as copy:
            assert len({copy.partition(each).config.segment_age for each in range(4)}) == 1


def test_a_backup_waits_for_a_change_of_settings_and_says_what_completes_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seglog.topic.backup.WAIT_SECONDS", 0.0)
    Topic.create(tmp_path / "orders", partitions=2).close()
    known = description.read(tmp_path / "orders")
    description.write(tmp_path / "orders", replace(known, altering={"segment_age": 60}))
    with pytest.raises(seglog.LogLocked, match=r"a change of settings was committed .* open the topic for writing"):
        seglog.backup(tmp_path / "orders", tmp_path / "copy")
    Topic.open(tmp_path / "orders").close()
    seglog.backup(tmp_path / "orders", tmp_path / "copy")
    with Topic.open(tmp_path / "copy", mode="r") as copy:
        assert [copy.partition(number).config.segment_age for number in range(2)] == [60, 60]
