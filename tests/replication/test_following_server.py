"""A server that follows another one, and the commands on the command line."""

from __future__ import annotations

import json
import threading
from typing import TYPE_CHECKING

import httpx
import pytest

import seglog
from seglog.cli import main
from seglog.replication.diff import diff
from tests.waiting import HANG_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served


def test_a_server_that_follows_serves_new_records_and_only_reads(
    serve: Callable[..., Served], tmp_path: Path, target: Path
) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client:
        client.create_topic("orders", partitions=2)
        client.topic("orders").append(b"1", partition=0)
        copy = serve("--follow", leader.url, root=target)
        with seglog.Client(copy.url, retries=0) as reader:
            assert [record.value for record in reader.topic("orders").records(0)] == [b"1"]
            client.topic("orders").append(b"2", partition=0)
            found, _ = reader.fetch({"orders": {0: 1}}, wait=20)
            assert [row for _, _, batch in found for row in batch.column("value").to_pylist()] == [b"2"]
            with pytest.raises(seglog.SeglogError, match=f"write to {leader.url}"):
                reader.topic("orders").append(b"3")
            client.create_topic("later").append(b"x")
            until(lambda: "later" in {topic.name for topic in reader.topics()})
        metrics = httpx.get(f"{copy.url}/metrics", timeout=HANG_SECONDS).text
        assert 'seglog_mirror_lag_records{partition="0",topic="orders"} 0.0' in metrics
        assert "seglog_mirror_stopped 0.0" in metrics
        assert httpx.get(f"{copy.url}/health", timeout=HANG_SECONDS).json()["status"] == "ok"
        copy.stop()
    assert diff(leader.url, target).same


def test_a_server_starts_without_its_leader_and_copies_once_it_answers(
    serve: Callable[..., Served], target: Path
) -> None:
    leader = serve()
    leader.stop()
    copy = serve("--follow", leader.url, root=target)
    health = httpx.get(f"{copy.url}/health", timeout=HANG_SECONDS)
    assert health.status_code == 503
    (failure,) = health.json()["failures"]
    assert failure["doing"] == "follow"
    assert "connecting" in failure["error"]
    assert httpx.get(f"{copy.url}/ready", timeout=HANG_SECONDS).status_code == 200
    assert "seglog_mirror_connected 0.0" in httpx.get(f"{copy.url}/metrics", timeout=HANG_SECONDS).text
    assert httpx.get(f"{copy.url}/topics", timeout=HANG_SECONDS).json()["topics"] == []
    leader.start()
    with seglog.Client(leader.url) as client:
        client.create_topic("orders").append(b"1", ack="mirrored", wait=60)
        client.commit("billing", {"orders": {0: 1}})
    until(lambda: httpx.get(f"{copy.url}/health", timeout=HANG_SECONDS).status_code == 200)
    with seglog.Client(copy.url, retries=0) as reader:
        assert reader.topic("orders").read(0, 0).value == b"1"
        until(lambda: reader.groups() == ["billing"])
        assert reader.committed("billing") == {"orders": {0: 1}}
    assert "seglog_mirror_connected 1.0" in httpx.get(f"{copy.url}/metrics", timeout=HANG_SECONDS).text
    leader.stop()
    until(lambda: httpx.get(f"{copy.url}/health", timeout=HANG_SECONDS).status_code == 503)
    with seglog.Client(copy.url, retries=0) as reader:
        assert reader.topic("orders").read(0, 0).value == b"1"


def test_a_server_that_follows_starts_with_what_it_has(serve: Callable[..., Served], target: Path) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client, seglog.Mirror(leader.url, target) as mirror:
        client.create_topic("orders").append(b"1")
        mirror.catch_up()
    leader.stop()
    copy = serve("--follow", leader.url, root=target)
    with seglog.Client(copy.url, retries=0) as reader:
        assert reader.topic("orders").read(0, 0).value == b"1"
        with pytest.raises(seglog.SeglogError, match="only reads"):
            reader.topic("orders").append(b"2")


def test_a_server_does_not_follow_a_single_topic(
    serve: Callable[..., Served], target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client:
        client.create_topic("orders")
    assert main(["serve", str(target), "--port", "0", "--follow", f"{leader.url}/orders"]) != 0
    assert "omit the path" in capsys.readouterr().err


def test_a_damaged_partition_does_not_hold_up_the_others(
    serve: Callable[..., Served], target: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    leader, other = serve(), tmp_path / "other"
    with seglog.Client(leader.url) as client:
        orders = client.create_topic("orders", partitions=2)
        for number in range(20):
            orders.append(b"value %d" % number, partition=number % 2, ack="durable")
        copy = serve("--follow", leader.url, root=target)
        until((target / "orders" / "1").exists)
        (store,) = (leader.root / "orders" / "0").glob("*.store")
        data = bytearray(store.read_bytes())
        at = data.index(b"value 10")
        data[at] ^= 1
        store.write_bytes(data)
        assert main(["mirror", leader.url, str(other), "--once"]) != 0
        assert "orders/0 is not copied on" in capsys.readouterr().err
        ends = {}
        for number in range(2):
            with seglog.open(other / "orders" / str(number), mode="r") as log:
                ends[number] = log.next_offset
        assert ends == {0: 5, 1: 10}
        with seglog.Mirror(leader.url, other) as mirror:
            running = threading.Thread(target=mirror.run)
            running.start()
            until(lambda: mirror.failures)
            orders.append(b"later", partition=1, ack="mirrored", copies=2, wait=60)
            assert [*mirror.failures] == [("orders", 0)]
            assert mirror.lags["orders", 0].records > 0
            mirror.stop()
            running.join()
    copy.stop()


def test_a_server_starts_to_follow_one_that_has_a_damaged_partition(serve: Callable[..., Served], target: Path) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client:
        orders = client.create_topic("orders", partitions=2)
        for number in range(20):
            orders.append(b"value %d" % number, partition=number % 2, ack="durable")
        (store,) = (leader.root / "orders" / "0").glob("*.store")
        data = bytearray(store.read_bytes())
        data[data.index(b"value 10")] ^= 1
        store.write_bytes(data)
        copy = serve("--follow", leader.url, root=target)
        orders.append(b"later", partition=1, ack="mirrored", wait=60)
        assert "seglog_mirror_stopped 0.0" in httpx.get(f"{copy.url}/metrics", timeout=HANG_SECONDS).text
        assert "offset 5" in httpx.get(f"{copy.url}/health", timeout=HANG_SECONDS).text


@pytest.mark.parametrize("with_partition", [False, True])
def test_a_single_topic_or_partition_of_a_server_is_copied(
    serve: Callable[..., Served], target: Path, capsys: pytest.CaptureFixture[str], *, with_partition: bool
) -> None:
    leader = serve()
    with seglog.Client(leader.url) as client:
        orders = client.create_topic("orders", partitions=2)
        client.create_topic("others").append(b"x")
        for number in range(20):
            orders.append(b"%d" % number, partition=number % 2)
        source = f"{leader.url}/orders" + ("/1" if with_partition else "")
        assert main(["mirror", source, str(target), "--once"]) == 0
        with seglog.Mirror(source, target) as mirror:
            orders.append(b"later", partition=1)
            mirror.catch_up()
            assert mirror.lag.records == 0
        assert main(["diff", source, str(target)]) == 0
    capsys.readouterr()
    copy = target if with_partition else target / "1"
    with seglog.open(copy, mode="r") as log:
        assert log.read(10).value == b"later"
    if not with_partition:
        with seglog.Topic.open(target, mode="r") as topic:
            assert (topic.name, topic.partitions) == ("orders", 2)
    with pytest.raises(seglog.InvalidArgument, match="omit the path"):
        seglog.replication.fence(source, 1)


def test_the_commands_copy_compare_and_promote(
    tmp_path: Path, source: Path, target: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with seglog.open(source) as log:
        log.append(b"1", key=b"a")
        log.append(b"2", key=b"b")
    assert main(["mirror", str(source), str(target), "--once", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["logs"] == 1
    assert main(["diff", str(source), str(target)]) == 0
    assert "2 records in 1 log compared: 0 differences" in capsys.readouterr().out
    assert main(["promote", str(target), "--fence", str(source)]) == 0
    assert "term 1" in capsys.readouterr().out
    with seglog.open(target) as log:
        log.append(b"3")
    with pytest.raises(seglog.LogFenced):
        seglog.open(source)
    assert main(["mirror", str(target), str(source), "--once"]) == 0
    with seglog.open(target) as log:
        log.truncate(0)
        log.append(b"other", timestamp=1)
    assert main(["diff", str(source), str(target)]) == 1
    assert "offset 0" in capsys.readouterr().out
