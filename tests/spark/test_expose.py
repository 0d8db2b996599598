"""expose=durable: a read and a stream see only what survives power loss. Planned and read as Spark does, without it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import seglog
from seglog.errors import InvalidArgument
from seglog.log.appends.group import Draft
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.reader import SeglogReader
from seglog.spark.read.stream import SeglogStreamReader

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def rows(**options: Any) -> int:
    reader = SeglogReader(ReadOptions.parse(options))
    return sum(len(batch) for part in reader.partitions() for batch in reader.read(part))


def test_a_read_of_a_log_ends_where_its_synced_records_end(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append_each([Draft(b"synced")] * 5)
        log.sync()
        log.append_each([Draft(b"not yet")] * 3)
        path = str(tmp_path / "log")
        assert (rows(path=path), rows(path=path, expose="durable"), rows(path=path, EXPOSE="Appended")) == (8, 5, 8)
        log.sync()
        assert rows(path=path, expose="durable") == 8


def test_a_stream_goes_on_when_the_records_are_synced(tmp_path: Path) -> None:
    options = {"path": str(tmp_path / "log"), "startingOffsets": "earliest", "expose": "durable"}
    with seglog.open(tmp_path / "log") as log:
        log.append(b"not yet")
        reader = SeglogStreamReader(ReadOptions.parse(options, "stream"))
        start = reader.initialOffset()
        assert reader.latestOffset(start, ReadAllAvailable()) == start
        log.sync()
        end = reader.latestOffset(start, ReadAllAvailable())
        assert end["log"]["0"]["offset"] == 1
        (part,) = reader.partitions(start, end)
        assert [batch["value"].to_pylist() for batch in reader.read(part)] == [[b"not yet"]]
        reader.stop()


def test_a_read_of_a_server_ends_where_its_synced_records_end(serve: Callable[..., Any]) -> None:
    url = serve().url
    with seglog.Client(url) as client:
        topic = client.create_topic("orders")
        for _ in range(5):
            topic.append(b"v", ack="durable")
        for _ in range(3):
            topic.append(b"v")
        before = topic.bounds()[0].durable_offset  # the server may sync by itself meanwhile
        found = rows(url=url, subscribe="orders", expose="durable")
        assert 5 <= before <= found <= topic.bounds()[0].durable_offset
        assert rows(url=url, subscribe="orders") == 8


def test_another_word_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="option expose is 'all'; it must be appended or durable"):
        ReadOptions.parse({"path": "x", "expose": "all"})
