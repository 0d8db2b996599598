"""Retention(after="table"): nothing is deleted or compacted before the table has it."""

from __future__ import annotations

import random
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog import Log, LogConfig, Retention, Topic
from seglog.cli import main
from seglog.table import release, sync
from tests.conftest import Served
from tests.table.conftest import stored
from tests.waiting import HANG_SECONDS

WAITING = Retention(bytes=4096, after="table")


def fill(log: Log, count: int, text: str = "v") -> None:
    for number in range(count):
        log.append(f"{text}{number}".encode() * 5, key=b"%d" % (number % 10))
    log.sync()


def test_a_log_without_a_table_keeps_everything_and_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place = tmp_path / "log"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=WAITING)) as log:
        fill(log, 500)
        assert (log.expire(), log.lowest_offset, log.table_offset) == (0, 0, 0)
        assert "`seglog table sync` has made none" in log.explain(0).text
    assert main(["info", str(place)]) == 0
    assert "none yet, so nothing is deleted" in capsys.readouterr().out


def test_what_a_table_has_is_deleted_and_what_it_lacks_stays(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=WAITING)) as log:
        fill(log, 200)
        sync(place, warehouse)
        held = log.table_offset
        assert held == log.segments[-1].base_offset
        fill(log, 300, "more")
        assert log.expire() == 0  # a roll has deleted what the table has
        assert 0 < log.lowest_offset <= held
        assert "not before the log's tables have it" in log.explain(held).text
        sync(place, warehouse, active=True)
        assert log.expire() > 0
        assert [row[1] for row in stored(warehouse, "log")] == list(range(500))
    assert main(["info", str(place)]) == 0
    assert "complete up to offset 500" in capsys.readouterr().out


def test_a_compaction_waits_for_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    retention = Retention(compact=True, after="table")
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=retention)) as log:
        fill(log, 300)
        assert log.standing().due is None
        assert log.compact(roll=True).superseded == 0
        assert log.explain(0).because == "not in the table yet"
        assert main(["compact", str(place), "--dry-run"]) == 0
        assert "would remove 0 records" in capsys.readouterr().out
        sync(place, warehouse)
        assert log.standing().due == "dirty"
        assert log.compact().superseded == 290
        assert len(stored(warehouse, "log")) == 300


def test_every_table_of_a_log_is_waited_for(tmp_path: Path) -> None:
    place = tmp_path / "log"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=WAITING)) as log:
        fill(log, 20)
        sync(place, tmp_path / "one", active=True)
        sync(place, tmp_path / "two", active=True)
        fill(log, 300)
        sync(place, tmp_path / "one", active=True)
        assert log.table_offset == 20
        sync(place, tmp_path / "two", active=True)
        assert log.table_offset == 320


def test_after_a_release_everything_is_kept_until_the_next_round(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=WAITING)) as log:
        fill(log, 300)
        sync(place, warehouse, active=True)
        assert release(place) == 1
        assert (log.expire(), log.table_offset) == (0, 0)
        sync(place, warehouse, active=True)
        assert log.expire() > 0


def test_a_hold_of_a_table_alone_does_not_keep_compaction_waiting(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=Retention(compact=True))) as log:
        sync(place, warehouse, hold=True)
        fill(log, 300)
        assert log.table_offset is None
        assert log.compact(roll=True).superseded == 290


def test_a_copy_deletes_what_its_leader_has_deleted(tmp_path: Path) -> None:
    place, copy = tmp_path / "log", tmp_path / "copy"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=WAITING)) as log:
        fill(log, 300)
        with seglog.Mirror(place, copy) as mirror:
            mirror.catch_up()
            sync(place, tmp_path / "warehouse", active=True)
            assert log.expire() > 0
            fill(log, 10)
            mirror.catch_up()
        with seglog.open(copy, mode="r") as copied:
            assert copied.config.retention == WAITING
            assert copied.lowest_offset == log.lowest_offset > 0


def test_it_is_stored_only_where_it_is_set(tmp_path: Path) -> None:
    for after in ("none", "table"):
        config = LogConfig(retention=Retention(after=after))  # type: ignore[arg-type] # both are valid
        assert ("after" in config.to_json()["retention"]) == (after == "table")
        assert LogConfig.from_json(config.to_json()) == config


def test_the_command_line_and_the_server_set_and_show_it(
    serve: Callable[..., Served], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    served = serve("--table", str(tmp_path / "warehouse"), "--table-interval", "1h", "--table-all")
    retention = ["--retention-bytes", "4KiB", "--retention-after", "table"]
    assert main(["topics", "create", served.url, "orders", "--segment-bytes", "1KiB", *retention]) == 0
    with seglog.Client(served.url) as client:
        orders = client.topic("orders")
        assert orders.info().retention == WAITING
        for number in range(50):
            orders.append(b"%d" % number * 20, ack="durable")
        with urllib.request.urlopen(f"{served.url}/metrics", timeout=HANG_SECONDS) as answer:  # noqa: S310 - our own server
            assert b'seglog_table_offset{partition="0",topic="orders"} 0.0' in answer.read()
        assert orders.partition(0)[0].lowest_offset == 0
        client.create_topic("empty", config=LogConfig(retention=WAITING))
        assert client.alter_topic("empty", retention=Retention(after="none")).retention == Retention(bytes=4096)
        assert client.alter_topic("empty", retention=Retention(after="table")).retention == WAITING
    served.stop()  # makes a last round
    with Topic.open(served.root / "orders") as topic:
        assert topic.partition(0).table_offset == 50
        assert topic.partition(0).expire() > 0
    assert main(["info", str(served.root / "orders")]) == 0
    assert "complete up to offset 0: 50" in capsys.readouterr().out
    assert main(["topics", "alter", str(served.root), "orders", "--retention-after", "none"]) == 0
    assert main(["topics", "alter", str(served.root), "orders", "--retention-after", "archive"]) == 2


@pytest.mark.parametrize("seed", range(4))
def test_no_record_is_lost_between_log_and_table(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    config = LogConfig(segment_bytes=1024, retention=Retention(bytes=2048, compact=True, after="table"))
    expected: dict[int, bytes | None] = {}

    def append(log: Log) -> None:
        for _ in range(chance.randrange(1, 80)):
            value = chance.randbytes(30) if chance.random() < 0.8 else None
            expected[log.append(value, key=b"%d" % chance.randrange(8))] = value
        log.sync()

    def truncate(log: Log) -> None:
        offset = chance.randint(max(log.lowest_offset, log.next_offset - 60), log.next_offset)
        log.truncate(offset)
        for gone in [one for one in expected if one >= offset]:
            del expected[gone]

    steps: list[Callable[[Log], Any]] = [
        append,
        append,
        append,
        truncate,
        Log.expire,
        lambda log: log.compact(roll=chance.random() < 0.5),
        lambda log: sync(place, warehouse, active=chance.random() < 0.5),
        lambda log: release(place) if chance.random() < 0.2 else 0,
    ]
    with seglog.open(place, config) as log:
        for _ in range(40):
            chance.choice(steps)(log)
        found = {one.offset: one.value for one in log.scan()}
        sync(place, warehouse, active=True)
    rows = stored(warehouse, "log")
    assert len({row[1] for row in rows}) == len(rows)
    assert {row[1]: row[4] for row in rows} == expected
    assert found.items() <= expected.items()


def test_records_are_deleted_before_an_offset_only_once_the_table_has_them(tmp_path: Path) -> None:
    place, warehouse = tmp_path / "log", tmp_path / "warehouse"
    with seglog.open(place, LogConfig(segment_bytes=1024, retention=Retention(after="table"))) as log:
        for number in range(200):
            log.append(b"%d" % number * 5)
        log.sync()
        assert log.delete_before(150) == 0
        sync(place, warehouse, active=True)
        assert 100 < log.delete_before(150) <= 150
    assert len(stored(warehouse, "log")) == 200
