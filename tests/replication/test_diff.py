"""`diff`: what two copies must share, and what may differ."""

from __future__ import annotations

from typing import TYPE_CHECKING

import seglog
from seglog import Broker, Mirror, Retention
from seglog.replication.diff import diff
from tests.conftest import Served
from tests.replication.conftest import KEYED, SMALL, fill

if TYPE_CHECKING:
    from pathlib import Path


def copied(source: Path, target: Path) -> None:
    with Mirror(source, target) as mirror:
        mirror.step()


def test_a_copy_that_ends_earlier_does_not_disagree(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
        copied(source, target)
        assert diff(source, target).same
        fill(log, 7)
        report = diff(source, target)
        assert (report.same, report.behind, report.records, report.logs) == (True, {"": 7}, 50, 1)


def test_one_changed_record_is_found(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log, seglog.open(target, SMALL) as other:
        for number in range(20):
            log.append(b"%d" % number, timestamp=number)
            other.append(b"%d" % number if number != 13 else b"other", timestamp=number)
    report = diff(source, target)
    assert {(one.offset, one.kind) for one in report.differences} == {(None, "log"), (13, "record")}
    assert "value" in report.differences[1].detail


def test_copies_that_compacted_differently_agree(source: Path, target: Path) -> None:
    with seglog.open(source, KEYED) as log:
        fill(log, 100)
        log.append(None, key=b"3")
        copied(source, target)
        log.compact(roll=True)
        log.compact(roll=True)
        assert len(list(log.scan())) == 6
        report = diff(source, target)
        assert report.same, report.differences
        assert diff(target, source).same


def test_a_lost_latest_value_and_a_lost_tombstone_are_found(source: Path, target: Path) -> None:
    with seglog.open(source, KEYED) as log, seglog.open(target, KEYED) as other:
        for copy in (log, other):
            copy.append(b"1", key=b"a", timestamp=1)
            copy.append(b"1", key=b"b", timestamp=1)
            copy.append(b"1", key=b"c", timestamp=1)
        log.append(b"2", key=b"a", timestamp=2)
        other.append(b"1", key=b"d", timestamp=2)
        log.append(None, key=b"b", timestamp=3)
        other.append(b"1", key=b"e", timestamp=3)
    found = {(one.kind, one.detail) for one in diff(source, target).differences}
    assert ("key", "the latest record of key b'a' is at offset 3 and at offset 0") in found
    assert ("key", "the latest record of key b'b' is at offset 4 and at offset 1") in found
    assert not any("b'c'" in detail for _, detail in found)


def test_what_one_copy_has_expired_is_not_compared(source: Path, target: Path) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 200)
        copied(source, target)
        log.alter(retention=Retention(bytes=2048))
        log.expire()
        assert log.lowest_offset > 100
    assert diff(source, target).same


def test_directories_are_compared_also_with_a_server(tmp_path: Path, target: Path) -> None:
    server = Served(tmp_path / "leader", ())
    try:
        with seglog.Client(server.url) as client:
            topic = client.create_topic("orders", partitions=2)
            topic.append(b"1", key=b"1")
            with Mirror(server.url, target) as mirror:
                mirror.step()
            assert diff(server.url, target).same
            assert diff(tmp_path / "leader", target).same
            client.create_topic("invoices")
            assert {(one.log, one.kind) for one in diff(server.url, target).differences} == {("invoices/0", "topic")}
    finally:
        server.stop()
    with Broker(tmp_path / "leader", mode="r") as broker:
        assert "invoices" in broker.topics()
