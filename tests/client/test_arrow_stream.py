"""A topic on a server as an Arrow stream: fetched while it is read, of the records that were there at the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest

import seglog

if TYPE_CHECKING:
    from pathlib import Path


class Counting(httpx.HTTPTransport):
    """Counts requests, and the bytes of the longest answer."""

    requests = longest = 0

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        answer = super().handle_request(request)
        self.requests += 1
        self.longest = max(self.longest, int(answer.headers.get("content-length", 0)))
        return answer


def test_a_long_topic_is_read_page_by_page(url: str, name: str) -> None:
    transport = Counting()
    with seglog.Client(url, transport=transport) as client:
        topic = client.create_topic(f"stream-{name}", partitions=2)
        for partition in range(2):
            rows = pa.table({"value": [b"%d" % partition * 1_000_000] * 12})
            topic.append_batch(rows, partition=partition)
        transport.requests = 0
        with pa.RecordBatchReader.from_stream(topic) as reader:
            first = reader.read_next_batch()
            assert transport.requests == 5, "the partitions; the end and the first record of each"
            topic.append(b"came later", partition=1)
            rest = reader.read_all()
        assert first.num_rows + rest.num_rows == 24
        assert set(rest["partition"].to_pylist()) == {0, 1}
        assert transport.longest < 10 * 1024 * 1024


def test_a_stream_is_what_the_topic_itself_gives(url: str, name: str, tmp_path: Path) -> None:
    with seglog.Client(url) as client, seglog.Topic.create(tmp_path / "t", partitions=3) as local:
        remote = client.create_topic(f"stream-{name}", partitions=3)
        assert pa.table(remote) == pa.table(local), "without records too"
        rows = pa.table({"key": [b"%d" % n for n in range(50)], "value": [None, *[b"v"] * 49], "timestamp": range(50)})
        local.append_batch(rows)
        remote.append_batch(rows)
        drop: list[str] = ["headers"]  # the server notes an idempotency key there
        assert pa.table(remote).drop_columns(drop) == pa.table(local).drop_columns(drop)


def test_a_stream_shows_only_synced_records_if_the_topic_does(unsynced_url: str, name: str) -> None:
    with seglog.Client(unsynced_url) as client:
        topic: Any = client.create_topic(f"stream-{name}")
        topic.append(b"safe", ack="durable")
        topic.append(b"not yet")
        assert pa.table(client.topic(topic.name, expose="durable"))["value"].to_pylist() == [b"safe"]
        with pytest.raises(seglog.TopicNotFound):
            pa.table(client.topic("nowhere"))
