"""What is archived can be read, verified and restored, whatever happened to the log meanwhile."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import Archiver, Retention
from seglog.archive.urls import store_at
from seglog.topic.repair.verify import verify_place
from tests.archive.conftest import SMALL, filled

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.archive.objects import ObjectStore
    from tests.conftest import ManualClock


def keys_of(url: str) -> list[str]:
    return list(store_at(url).keys("logs/"))


@pytest.mark.xdist_group("s3")
def test_a_log_is_archived_read_verified_and_restored_on_every_store(url: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", url) as archiver:
        assert archiver.step().records == 100
        log.append(b"one more", headers=(("h", b"x"),))
        report = archiver.step()
        assert (report.records, report.failed) == (101, {})
        expected = list(log.scan())
    with seglog.open(url, mode="r") as archived:
        assert list(archived.scan()) == expected
        assert archived.read(100).value == b"one more"
        assert archived.verify().ok
    report = seglog.restore(url, tmp_path / "back")
    assert report.records == 101
    with seglog.open(tmp_path / "back") as back:
        assert list(back.scan()) == expected
        assert back.append(b"goes on") == 101
        assert back.verify().ok


def test_a_round_without_news_commits_nothing(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 10), Archiver(tmp_path / "log", place) as archiver:
        commit = archiver.step().commit
        assert archiver.step().commit == commit


def test_new_records_of_the_active_segment_are_uploaded_in_few_pieces(place: str, tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log, Archiver(tmp_path / "log", place) as archiver:
        for number in range(64):
            log.append(b"x" * 100)
            assert archiver.step().records == number + 1
        pieces = archiver._states[""].log.tail
        assert len(pieces) <= 8
        assert [piece.start for piece in pieces[1:]] == [piece.stop for piece in pieces[:-1]]
        assert list(seglog.open(place, mode="r").scan()) == list(log.scan())


class Requests:
    """Counts the requests of a store by their kind."""

    def __init__(self, store: ObjectStore) -> None:
        self.url = store.url
        self.counts: Counter[str] = Counter()
        self._store = store

    def __getattr__(self, name: str) -> Any:
        self.counts[name] += 1
        return getattr(self._store, name)


def test_a_round_costs_a_put_for_the_commit_one_for_each_changed_log_and_one_read(place: str, tmp_path: Path) -> None:
    store = Requests(store_at(place))
    with seglog.Broker(tmp_path / "shop") as broker:
        topic = broker.create_topic("orders", partitions=4)
        with Archiver(tmp_path / "shop", store) as archiver:
            archiver.step()
            for changed in (1, 4):
                store.counts.clear()
                for number in range(changed):
                    topic.append(b"x", partition=number)
                archiver.step()
                assert store.counts == {"put": changed, "create": 1, "exists": 1}
            store.counts.clear()
            archiver.step()
            assert not store.counts


def test_a_topic_and_a_directory_of_topics_are_archived_with_their_groups(place: str, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker, Archiver(tmp_path / "shop", place) as archiver:
        broker.create_topic("orders", partitions=3, config=SMALL)
        broker.create_topic("visits", partitions=1)
        for number in range(60):
            broker.topic("orders").append(b"v%d" % number, key=b"%d" % number)
        with broker.consumer("billing", ["orders"]) as consumer:
            consumer.poll()
            consumer.commit()
        assert archiver.step().logs == 5
        expected = {(p, r.offset): r for p in range(3) for r in broker.topic("orders").partition(p).scan()}
    with seglog.Broker(place, mode="r") as archived:
        assert archived.topics() == ["orders", "visits"]
        found = {(p, r.offset): r for p in range(3) for r in archived.topic("orders").partition(p).scan()}
        assert found == expected
    with seglog.open(f"{place}/orders/1", mode="r") as log:
        assert list(log.scan()) == [record for (number, _), record in expected.items() if number == 1]
    assert verify_place(place).ok
    seglog.restore(place, tmp_path / "back")
    assert verify_place(tmp_path / "back").ok
    with seglog.Broker(tmp_path / "back") as back:
        assert {(p, r.offset): r for p in range(3) for r in back.topic("orders").partition(p).scan()} == expected
        with back.consumer("billing", ["orders"]) as consumer:
            assert consumer.poll() == []


def test_the_archive_follows_a_truncate(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 100) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        log.truncate(33)
        log.append(b"other")
        archiver.step()
        with seglog.open(place, mode="r") as archived:
            assert list(archived.scan()) == list(log.scan())
        assert verify_place(place).ok


def test_the_archive_follows_a_compaction_and_deletes_what_it_replaced(
    place: str, tmp_path: Path, clock: ManualClock
) -> None:
    config = seglog.LogConfig(segment_bytes=1024, retention=Retention(compact=True))
    with seglog.open(tmp_path / "log", config, clock=clock) as log:
        for number in range(200):
            log.append(b"v%d" % number, key=b"k%d" % (number % 5))
        with Archiver(tmp_path / "log", place, clock=clock, grace=60) as archiver:
            archiver.step()
            before = set(keys_of(place))
            log.compact()
            archiver.step()
            with seglog.open(place, mode="r") as archived:
                assert list(archived.scan()) == list(log.scan())
            assert before < set(keys_of(place)), "readers of the earlier state still need its objects"
            clock.advance(61)
            assert archiver.step().deleted
            live = set(archiver._states[""].objects())
            assert set(keys_of(place)) == live
            assert verify_place(place).ok


def test_what_retention_deletes_here_stays_in_the_archive(place: str, tmp_path: Path, clock: ManualClock) -> None:
    config = seglog.LogConfig(segment_bytes=1024, retention=Retention(age=7))
    with seglog.open(tmp_path / "log", config, clock=clock) as log:
        with Archiver(tmp_path / "log", place, clock=clock) as archiver:
            for number in range(100):
                log.append(b"value %d" % number)
            everything = list(log.scan())
            archiver.step()
            clock.advance(8)
            log.expire()
            assert log.lowest_offset > 50
            archiver.step()
        with seglog.open(place, mode="r") as archived:
            assert list(archived.scan()) == everything
        with Archiver(tmp_path / "log", place, clock=clock, keep=20) as archiver:
            archiver.step()
            with seglog.open(place, mode="r") as archived:
                assert archived.lowest_offset == 0
            clock.advance(21)
            log.append(b"last")
            archiver.step()
            with seglog.open(place, mode="r") as archived:
                assert archived.lowest_offset == log.lowest_offset
    seglog.restore(place, tmp_path / "back")
    with seglog.open(tmp_path / "back", clock=clock) as back:
        assert back.next_offset == 101


def test_a_reader_follows_a_growing_archive(place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.archive.storage.LOOK_SECONDS", 0)
    with filled(tmp_path / "log", 10) as log, Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        with seglog.open(place, mode="r") as archived:
            tail = archived.tail(0)
            assert len(tail.poll()) == 10
            for number in range(10, 150):
                log.append(b"value %d" % number)
            archiver.step()
            assert [record.offset for record in tail.poll(1000)] == list(range(10, 150))
            log.truncate(100)
            log.append(b"other")
            archiver.step()
            with pytest.raises(seglog.LogTruncated):
                tail.poll()


def test_a_damaged_segment_is_not_archived_and_the_others_are(place: str, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders", partitions=2, config=SMALL)
        for number in range(80):
            broker.topic("orders").append(b"value %d" % number, partition=number % 2)
    store = sorted((tmp_path / "shop/orders/0").glob("*.store"))[0]
    data = bytearray(store.read_bytes())
    data[200] ^= 1
    store.write_bytes(data)
    with Archiver(tmp_path / "shop", place) as archiver:
        failed = archiver.step().failed
        assert list(failed) == ["orders/0"]
        assert "damaged" in failed["orders/0"]
        assert archiver._states["orders/1"].log.next_offset == 40


def test_a_deleted_topic_leaves_the_archive_and_a_new_one_of_its_name_enters(place: str, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker, Archiver(tmp_path / "shop", place) as archiver:
        for name in ("orders", "visits"):
            broker.create_topic(name, partitions=1).append(b"first")
        archiver.step()
        broker.delete_topic("orders")
        archiver.step()
        with seglog.Broker(place, mode="r") as archived:
            assert archived.topics() == ["visits"]
        broker.create_topic("orders", partitions=1).append(b"second")
        archiver.step()
        with seglog.open(f"{place}/orders/0", mode="r") as log:
            assert log.read(0).value == b"second"


def test_an_empty_directory_in_place_of_the_logs_does_not_empty_the_archive(place: str, tmp_path: Path) -> None:
    filled(tmp_path / "log", 10).close()
    with Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
        (tmp_path / "log").rename(tmp_path / "away")
        (tmp_path / "log").mkdir()
        with pytest.raises(seglog.LogNotFound):
            archiver.step()
    assert len(seglog.open(place, mode="r")) == 10


def test_an_archive_cannot_be_written_to(place: str, tmp_path: Path) -> None:
    with filled(tmp_path / "log", 10), Archiver(tmp_path / "log", place) as archiver:
        archiver.step()
    with pytest.raises(seglog.LogReadOnly, match="restore it"):
        seglog.open(place)
    with pytest.raises(seglog.LogNotFound, match="no archive here"):
        seglog.open(place + "-missing", mode="r")
