"""Records with any timestamp of 64 bits in a table, and topics whose table does not move."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

import seglog
from seglog.cli import main
from seglog.record import MAX_TIMESTAMP, MIN_TIMESTAMP
from seglog.replication.diff import diff
from seglog.table import TableSync, sync
from seglog.table.background import BackgroundTables
from seglog.table.schema import EARLIEST, LATEST, TRUE_TIME
from seglog.table.warehouse import Warehouse
from tests.conftest import Served
from tests.table.conftest import Shop, stored
from tests.waiting import HANG_SECONDS, until

NANOSECONDS = 1_795_000_000_000_000_000  # taken for microseconds: the year 58,851


@pytest.fixture
def broker(tmp_path: Path) -> Path:
    """Topics a, b and c; b has a record in nanoseconds by mistake."""
    with seglog.Broker(tmp_path / "shop") as broker:
        for name in ("a", "b", "c"):
            broker.create_topic(name, partitions=1).append(b"good", key=b"k")
        broker.topic("b").append(b"mistake", key=b"k", timestamp=NANOSECONDS, headers=[("h", None)])
        broker.topic("b").append(b"after", key=b"k2")
        broker.sync()
    return tmp_path / "shop"


def test_a_record_in_nanoseconds_stops_no_table(
    broker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["table", "sync", str(broker), str(tmp_path / "wh"), "--all", "--latest"]) == 0
    assert "b: 3 records added in 1 file" in (said := capsys.readouterr().out)
    assert "1 timestamp clamped" in said
    assert [len(stored(tmp_path / "wh", name)) for name in ("a", "b", "c")] == [1, 3, 1]
    rows = stored(tmp_path / "wh", "b")
    assert [row[1] for row in rows] == [0, 1, 2]
    assert rows[1][2:] == (LATEST, b"k", b"mistake", (("h", None), (TRUE_TIME, b"%d" % NANOSECONDS)))
    assert rows[0][5] == rows[2][5] == ()
    newest = stored(tmp_path / "wh", "b_latest")
    assert [row[4] for row in newest] == [b"mistake", b"after"]


@pytest.mark.parametrize(
    "timestamp",
    [MIN_TIMESTAMP, -62_135_596_800_000_001, EARLIEST - 1, LATEST + 1, 253_402_300_800_000_000, MAX_TIMESTAMP],
)
def test_a_record_with_any_timestamp_gets_a_row_that_every_reader_can_show(shop: Shop, timestamp: int) -> None:
    shop.topic.append(b"v", partition=0, timestamp=timestamp)
    shop.topic.append(b"w", partition=0, timestamp=5, headers=[("a", b"b")])
    shop.topic.sync()
    assert shop.sync().clamped == 1
    ours, other = shop.rows()
    assert ours[2] == (EARLIEST if timestamp < 0 else LATEST)
    assert ours[5] == ((TRUE_TIME, b"%d" % timestamp),)
    assert other[2:] == (5, None, b"w", (("a", b"b"),))
    opened = Warehouse(shop.warehouse)
    try:
        assert [row["value"] for row in opened.table("orders").scan().to_arrow().to_pylist()] == [b"v", b"w"]
    finally:
        opened.close()
    shop.append(3)
    shop.topic.partition(0).truncate(1)  # rewrites the file with the clamped row
    assert shop.sync().deleted >= 1
    assert shop.rows()[0][5] == ((TRUE_TIME, b"%d" % timestamp),)


def test_times_at_the_ends_of_what_a_table_shows_are_kept(shop: Shop) -> None:
    for timestamp in (EARLIEST + 1, LATEST - 1):
        shop.topic.append(b"v", partition=0, timestamp=timestamp)
    shop.topic.sync()
    assert shop.sync().clamped == 0
    assert [(row[2], row[5]) for row in shop.rows()] == [(EARLIEST + 1, ()), (LATEST - 1, ())]


def test_a_typed_value_with_a_time_outside_the_calendar_is_unfit(shop: Shop) -> None:
    for moment in ("2026-01-01T00:00:00Z", "0000-01-01T00:00:00Z", "99999-01-01T00:00:00Z"):
        shop.topic.append(json.dumps({"at": moment}).encode(), partition=0)
    shop.topic.sync()
    assert shop.sync(schema="infer").records == 3


def test_a_fault_of_a_library_in_one_topic_does_not_keep_the_others_from_their_tables(
    broker: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TableSync(broker, tmp_path / "wh", active=True) as tables:
        made = tables._tables

        def failing(logs):  # type: ignore[no-untyped-def]
            if logs.name == "a":
                raise OverflowError("date value out of range")
            return made(logs)

        monkeypatch.setattr(tables, "_tables", failing)
        with pytest.raises(OverflowError):
            tables.step()
        assert list(tables.failures) == ["a"]
    assert [len(stored(tmp_path / "wh", name)) for name in ("b", "c")] == [3, 1]


def test_rounds_go_on_for_the_other_topics_while_one_fails(
    broker: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (broker / "a" / "topic.json").write_bytes(b"damaged")
    assert main(["table", "sync", str(broker), str(tmp_path / "wh"), "--all"]) == 1
    said = capsys.readouterr()
    assert "c: 1 record added" in said.out
    assert "damaged" in said.err
    with seglog.Broker(broker) as opened:
        opened.topic("c").append(b"more")
        opened.sync()
    rounds = iter([False, False, True])
    reports, failures = list[str](), list[str]()
    with TableSync(broker, tmp_path / "wh", active=True) as tables:
        tables.run(0.001, lambda _: next(rounds), lambda one: reports.append(one.table), failures.extend)
    assert reports == ["c"]
    assert failures == ["a", "a", "a"]
    for name in ("b", "c"):
        (broker / name / "topic.json").write_bytes(b"damaged")
    with TableSync(broker, tmp_path / "wh", active=True) as tables, pytest.raises(seglog.CorruptLog):
        tables.run(0.001, lambda _: False, lambda _: None, lambda _: None)


def test_a_server_shows_a_table_that_does_not_move(serve: Callable[..., Served], tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        for name in ("lost", "other"):
            broker.create_topic(name, partitions=1).append(b"1")
        broker.sync()
    sync(tmp_path / "shop", tmp_path / "wh", active=True)
    with seglog.open(tmp_path / "shop" / "lost" / "0") as log:  # what the table lacks is deleted before it has it
        for number in range(3):
            log.append(b"%d" % number)
        log.delete_before(3)
    served = serve("--table", str(tmp_path / "wh"), "--table-interval", "50ms", "--table-all", root=tmp_path / "shop")

    def health() -> dict[str, object]:
        try:
            with urllib.request.urlopen(f"{served.url}/health", timeout=HANG_SECONDS) as answer:  # noqa: S310 - our own server
                return json.load(answer)  # type: ignore[no-any-return]
        except urllib.error.HTTPError as error:
            return json.load(error)  # type: ignore[no-any-return]

    until(lambda: health()["status"] == "failing")
    (failure,) = health()["failures"]  # type: ignore[misc]
    assert failure["log"] == "lost"
    assert failure["doing"] == "table"
    assert "lost to it" in failure["error"]
    with urllib.request.urlopen(f"{served.url}/metrics", timeout=HANG_SECONDS) as answer:  # noqa: S310 - our own server
        text = answer.read().decode()
    assert 'seglog_table_failures{topic="lost"}' in text
    assert 'seglog_table_failures{topic="other"}' not in text


def test_a_background_round_that_succeeds_again_clears_the_failure(tmp_path: Path, broker: Path) -> None:
    tables = TableSync(broker, tmp_path / "wh", active=True)
    said: list[str] = []
    description = broker / "a" / "topic.json"
    kept = description.read_bytes()
    description.write_bytes(b"damaged")
    background = BackgroundTables(tables, 0.02, said.append)
    try:
        until(lambda: "a" in background.failures and background.failures["a"].rounds > 1)
        assert [text for text in said if text.startswith("table of a: ")] == said
        assert len(said) == 1
        description.write_bytes(kept)
        until(lambda: not background.failures)
    finally:
        background.close()


def test_copies_with_any_timestamp_are_compared(tmp_path: Path) -> None:
    for name, times in (("one", (MAX_TIMESTAMP, 1)), ("other", (MAX_TIMESTAMP - 1, 1))):
        with seglog.open(tmp_path / name) as log:
            for timestamp in times:
                log.append(b"v", timestamp=timestamp)
    report = diff(tmp_path / "one", tmp_path / "other")
    assert [(found.offset, found.detail) for found in report.differences[1:]] == [
        (0, "the records differ in timestamp")
    ]
