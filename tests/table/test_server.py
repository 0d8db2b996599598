from __future__ import annotations

import json
import threading
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest
from pyiceberg.catalog import load_catalog

import seglog
from seglog import Topic
from seglog.cli import main
from seglog.errors import SeglogError
from seglog.table import TableSync, sync
from seglog.table.background import BackgroundTables
from seglog.terminal.exits import Exit
from tests.conftest import Served
from tests.table.conftest import Shop, logged, stored
from tests.waiting import HANG_SECONDS


def test_a_server_keeps_its_topics_as_tables(serve: Callable[..., Served], tmp_path: Path) -> None:
    warehouse = tmp_path / "warehouse"
    served = serve("--table", str(warehouse), "--table-interval", "1h", "--table-all")
    with seglog.Client(served.url) as client:
        orders = client.create_topic("orders", partitions=2)
        for number in range(20):
            orders.append(b"%d" % number, key=b"%d" % number, ack="durable")
    with urllib.request.urlopen(f"{served.url}/metrics", timeout=HANG_SECONDS) as answer:  # noqa: S310 - our own server
        assert b"seglog_table_age_seconds" in answer.read()
    served.stop()  # makes a last round
    with Topic.open(served.root / "orders", mode="r") as topic:
        assert stored(warehouse, "orders") == logged(topic) != []


def test_a_server_keeps_its_tables_in_another_catalog_and_decodes_values_by_it(
    serve: Callable[..., Served], shop: Shop, tmp_path: Path
) -> None:
    catalog = {"type": "sql", "uri": f"sqlite:///{tmp_path}/elsewhere.db"}
    shop.topic.append(b'{"id": 7}', key=b"k", partition=0)
    shop.topic.sync()
    sync(shop.place, shop.warehouse, active=True, schema="infer", catalog=catalog)
    shop.topic.close()
    properties = [word for name, value in catalog.items() for word in ("--table-catalog", f"{name}={value}")]
    options = ("--table", str(shop.warehouse), *properties, "--table-interval", "1h", "--table-all")
    served = serve(*options, root=shop.place.parent)
    with seglog.Client(served.url) as client:
        client.topic("orders").append(b'{"id": 8}', key=b"k", ack="durable")
    decoded = f"{served.url}/topics/orders/partitions/0/records/0/decoded"
    with urllib.request.urlopen(decoded, timeout=HANG_SECONDS) as answer:  # noqa: S310 - our own server
        assert json.load(answer)["fields"] == [{"name": "id", "depth": 0, "type": "long", "value": "7"}]
    served.stop()  # makes a last round
    table = load_catalog("seglog", **catalog).load_table("seglog.orders").scan().to_arrow()
    assert sorted(table["id"].to_pylist()) == [7, 8]
    assert not (shop.warehouse / "catalog.db").exists()


def test_a_catalog_of_no_tables_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["serve", str(tmp_path / "shop"), "--table-catalog", "type=rest"]) == Exit.USAGE
    assert "give --table WAREHOUSE, too" in capsys.readouterr().err
    assert main(["serve", str(tmp_path / "shop"), "--table", "tables", "--table-catalog", "a-secret"]) == Exit.USAGE
    said = capsys.readouterr().err
    assert "write KEY=VALUE" in said
    assert "a-secret" not in said
    assert not (tmp_path / "shop").exists()


def test_a_topic_that_cannot_be_read_does_not_keep_the_others_from_their_tables(tmp_path: Path) -> None:
    for name in ("broken", "orders"):
        with Topic.create(tmp_path / "shop" / name, partitions=1) as topic:
            topic.append(b"v")
            topic.sync()
    (tmp_path / "shop" / "broken" / "topic.json").write_bytes(b"damaged")
    with pytest.raises(SeglogError):
        sync(tmp_path / "shop", tmp_path / "warehouse", active=True)
    assert len(stored(tmp_path / "warehouse", "orders")) == 1


def test_a_round_that_fails_is_reported_once_and_tried_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.append(5)
    said: list[str] = []
    rounds = threading.Semaphore(0)
    tables = TableSync(shop.place, shop.warehouse, active=True)
    real, fail = tables.step, True

    def step() -> list[seglog.table.TableReport]:
        try:
            if fail:
                raise RuntimeError("the catalog is away")
            return real()
        finally:
            rounds.release()

    monkeypatch.setattr(tables, "step", step)
    background = BackgroundTables(tables, 0.01, said.append)
    for _ in range(3):
        assert rounds.acquire(timeout=HANG_SECONDS)
    fail = False
    background.close()
    assert said == ["table: RuntimeError: the catalog is away"]
    assert shop.rows() == shop.records()
