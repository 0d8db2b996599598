"""`seglog compress`: what it prints, and what it leaves."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = seglog.LogConfig(segment_bytes=20_000)


def filled(path: Path) -> list[seglog.Record]:
    with seglog.open(path, CONFIG) as log:
        for number in range(1000):
            log.append(b'{"number": %d}' % number * 4)
        return list(log.scan())


def test_a_log_is_compressed_and_made_plain_again(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "orders"
    records = filled(path)
    shown = cli("compress", path, "--codec", "zstd", "--json")
    assert shown.code == 0
    assert shown.json["rewritten"] == shown.json["segments"] > 0
    assert shown.json["bytes_after"] < shown.json["bytes_before"]
    assert "zstd, " in cli("info", path, "--segments").text
    assert {one["codec"] for one in cli("info", path, "--segments", "--json").json["segments"]} == {"zstd", None}
    assert cli("compress", path).text.startswith("0 of 0 segments stored again")
    with seglog.open(path, mode="r") as log:
        assert (log.config.compression, list(log.scan())) == ("zstd", records)
    assert "stored again" in cli("compress", path, "--codec", "none").text
    with seglog.open(path, mode="r") as log:
        assert (log.config.compression, list(log.scan())) == ("none", records)
    assert not list(path.glob("*.blocks"))


def test_of_a_topic_every_partition_is_compressed(cli: Callable[..., Any], tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        topic = broker.create_topic("orders", partitions=2, config=CONFIG)
        for number in range(2000):
            topic.append(b'{"number": %d}' % number * 4, key=b"%d" % number)
    shown = cli("compress", tmp_path / "shop/orders", "--codec", "lz4")
    assert [line[:12] for line in shown.lines] == [b"partition 0:", b"partition 1:"]
    assert len(list(tmp_path.rglob("*.blocks"))) > 2
    cli("topics", "alter", tmp_path / "shop", "orders", "--partitions", "3")
    with seglog.Broker(tmp_path / "shop") as broker:
        topic = broker.topic("orders")
        assert [topic.partition(number).config.compression for number in range(3)] == ["lz4"] * 3
    assert cli("verify", tmp_path / "shop").code == 0


def test_a_damaged_segment_stays_plain_and_is_exit_code_1(cli: Callable[..., Any], tmp_path: Path) -> None:
    path = tmp_path / "orders"
    filled(path)
    store = sorted(path.glob("*.store"))[1]
    data = bytearray(store.read_bytes())
    data[5000] ^= 1
    store.write_bytes(data)
    shown = cli("compress", path, "--codec", "lz4")
    assert shown.code == 1
    assert f"not compressed: {store}" in shown.err


def test_nothing_is_created_where_there_is_no_log(cli: Callable[..., Any], tmp_path: Path) -> None:
    assert cli("compress", tmp_path / "orders").code != 0
    assert not (tmp_path / "orders").exists()
