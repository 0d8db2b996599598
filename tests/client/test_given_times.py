"""Times that callers give to a server: what looks like another unit is refused here and there, and can be forced."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx
import pyarrow as pa
import pytest

import seglog
from seglog.client import AsyncClient
from seglog.client.requests.topic_calls import offset_at

if TYPE_CHECKING:
    from collections.abc import Callable

SECONDS, MILLISECONDS = 1_729_990_800, 1_729_990_800_123
MOMENT = datetime(2024, 10, 27, 1, 0, 0, 250, tzinfo=UTC)
MICROSECONDS = SECONDS * 1_000_000 + 250
LONG = (("name", b"v" * 20_000),)  # goes as a batch of one


def table(*times: int) -> pa.Table:
    return pa.table({"value": [b"v"] * len(times), "timestamp": pa.array(times, pa.int64())})


def times_of(topic: Any) -> list[int]:
    return [record.timestamp for record in topic.records(0)]


CALLS: dict[str, Callable[..., Any]] = {
    "append": lambda topic, **given: topic.append(b"v", **given),
    "append with long headers": lambda topic, **given: topic.append(b"v", headers=LONG, **given),
    "append_stream": lambda topic, **given: topic.append_stream([b"v"], **given),
    "append_batch": lambda topic, timestamp, **given: topic.append_batch(table(timestamp), **given),
}


@pytest.mark.parametrize("call", CALLS)
def test_a_number_of_another_unit_is_refused_before_it_is_sent(client: seglog.Client, name: str, call: str) -> None:
    topic = client.create_topic(name)
    for number, unit in ((SECONDS, "seconds"), (MILLISECONDS, "milliseconds")):
        with pytest.raises(seglog.InvalidArgument, match=f"{number} looks like {unit}"):
            CALLS[call](topic, timestamp=number)
        CALLS[call](topic, timestamp=number, force_timestamp=True)
    assert times_of(topic) == [SECONDS, MILLISECONDS]


def test_a_producer_checks_what_is_queued(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    with client.producer(name) as producer:
        with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
            producer.send(b"v", timestamp=SECONDS)
        producer.send(b"v", timestamp=SECONDS, force_timestamp=True)
        producer.send(b"v", timestamp=MOMENT)
        producer.send(b"v", timestamp=datetime(1970, 1, 1, 1, tzinfo=UTC))
    assert times_of(topic) == [SECONDS, MICROSECONDS, 3_600_000_000]


def test_a_datetime_goes_to_a_server_also_one_of_1970(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    topic.append(b"v", timestamp=datetime(1970, 1, 1, 1, tzinfo=UTC))
    topic.append_stream([b"v"], timestamp=MOMENT)
    assert times_of(topic) == [3_600_000_000, MICROSECONDS]
    assert topic.offset_at(MOMENT) == {0: 1}
    assert topic.offset_at(datetime(1970, 1, 1, 2, tzinfo=UTC)) == {0: 1}
    with pytest.raises(seglog.InvalidArgument, match="no time zone"):
        topic.offset_at(datetime(2024, 10, 27))


def test_a_lookup_by_time_is_checked(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    topic.append_batch(table(5, SECONDS), force_timestamp=True)
    with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
        topic.offset_at(SECONDS)
    assert topic.offset_at(SECONDS, force_timestamp=True) == {0: 1}
    with client.consumer(f"{name}-group", [name], start="earliest") as consumer:
        consumer.poll()
        with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
            consumer.seek_to_time(SECONDS)
        consumer.seek_to_time(SECONDS, force_timestamp=True)
        assert [record.offset for record in consumer.poll()] == [1]


def test_awaited_calls_check_times_as_the_others_do(url: str, client: seglog.Client, name: str) -> None:
    async def story() -> None:
        async with AsyncClient(url) as other:
            topic = other.topic(name)
            for call in (*CALLS.values(), lambda topic, timestamp: topic.offset_at(timestamp)):
                with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
                    await call(topic, timestamp=SECONDS)
            for call in CALLS.values():
                await call(topic, timestamp=SECONDS, force_timestamp=True)
            assert await topic.offset_at(SECONDS, force_timestamp=True) == {0: 0}
            async with other.producer(name) as producer:
                with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
                    await producer.send(b"v", timestamp=SECONDS)
                await producer.send(b"v", timestamp=SECONDS, force_timestamp=True)

    topic = client.create_topic(name)
    asyncio.run(story())
    assert times_of(topic) == [SECONDS] * 5


def test_a_server_checks_what_any_client_sends(url: str, client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    line = json.dumps({"value": "v", "timestamp": SECONDS}).encode()
    arrow = pa.BufferOutputStream()
    with pa.ipc.new_stream(arrow, table(0).schema) as writer:
        writer.write_table(table(5, SECONDS))
    sent: list[tuple[str, bytes, str]] = [
        (f"/records?timestamp={SECONDS}", b"v", "application/octet-stream"),
        ("/batches?", line, "application/x-ndjson"),
        ("/batches?", arrow.getvalue().to_pybytes(), "application/vnd.apache.arrow.stream"),
    ]
    with httpx.Client(base_url=f"{url}/topics/{name}") as raw:
        for path, body, media in sent:
            answer = raw.post(path, content=body, headers={"content-type": media})
            assert answer.status_code == 400
            assert "looks like seconds" in answer.text
            assert raw.post(f"{path}&force_timestamp=true", content=body, headers={"content-type": media}).is_success
        assert times_of(topic) == [SECONDS, SECONDS, 5, SECONDS]
        answer = raw.get(f"/offsets?timestamp={SECONDS}")
        assert (answer.status_code, "looks like seconds" in answer.text) == (400, True)
        assert raw.get(f"/offsets?timestamp={SECONDS}&force_timestamp=true").json() == {"offsets": {"0": 0}}


def test_a_request_with_a_plain_time_is_one_that_earlier_servers_know() -> None:
    assert "force" not in offset_at("orders", MICROSECONDS).target
