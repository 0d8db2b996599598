"""A server that follows another one, and the commands on the command line."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import httpx
import pytest

import seglog
from seglog.cli import main
from seglog.replication.diff import diff

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served

DEADLINE_SECONDS = 20


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + DEADLINE_SECONDS
    while not condition():
        assert time.monotonic() < end, "it never came to be"
        time.sleep(0.005)


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
        metrics = httpx.get(f"{copy.url}/metrics").text
        assert 'seglog_mirror_lag_records{partition="0",topic="orders"} 0.0' in metrics
        assert "seglog_mirror_stopped 0.0" in metrics
        assert httpx.get(f"{copy.url}/health").json()["status"] == "ok"
        copy.stop()
    assert diff(leader.url, target).same


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
