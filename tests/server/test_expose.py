"""expose=durable: every request that reads shows only records that survive power loss, and waits for the others."""

from __future__ import annotations

import io
import json
import threading
from contextlib import contextmanager
from uuid import uuid4

import httpx
import pyarrow as pa
import pytest

from tests.server.test_tail import events
from tests.waiting import HANG_SECONDS

DURABLE = {"expose": "durable"}


@pytest.fixture
def http(unsynced_url):
    with httpx.Client(base_url=unsynced_url, timeout=HANG_SECONDS) as client:
        yield client


@pytest.fixture
def topic(http):
    """A topic of one partition with a synced record and one that is not synced, both of key k."""
    name = f"t-{uuid4().hex}"
    assert http.post("/topics", json={"name": name}).status_code == 201
    append(http, name, "safe", ack="durable", timestamp=1)
    append(http, name, "not yet", timestamp=2)
    return name


def append(http, topic, value, **options):
    answer = http.post(f"/topics/{topic}/records", params={"key": "k", **options}, content=value)
    assert answer.status_code == 200, answer.text


def values(answer):
    assert answer.status_code == 200, answer.text
    return [json.loads(line)["value"] for line in answer.text.splitlines()]


def test_every_request_that_reads_shows_only_synced_records_if_it_asks_for_them(http, topic):
    records = f"/topics/{topic}/partitions/0/records"
    assert values(http.get(records)) == ["safe", "not yet"]
    shown = http.get(records, params=DURABLE)
    assert (values(shown), shown.headers["Seglog-Next-Offset"]) == (["safe"], "1")
    assert values(http.get(records, params={**DURABLE, "start": 1})) == []
    arrow = http.get(records, params=DURABLE, headers={"Accept": "application/vnd.apache.arrow.stream"})
    assert pa.ipc.open_stream(io.BytesIO(arrow.content)).read_all()["value"].to_pylist() == [b"safe"]

    fetched = http.post("/fetch", json={"positions": {topic: {"0": 0}}, **DURABLE})
    assert (values(fetched), json.loads(fetched.headers["Seglog-Next-Offsets"])) == (["safe"], {topic: {"0": 1}})
    assert values(http.post("/fetch", json={"positions": {topic: {"0": 1}}, **DURABLE})) == []

    assert values(http.get(f"/topics/{topic}/keys", params={"key": "k", **DURABLE})) == ["safe"]
    for timestamp, expected in ((1, 0), (2, None)):
        found = http.get(f"/topics/{topic}/offsets", params={"timestamp": timestamp, **DURABLE}).json()
        assert found == {"offsets": {"0": expected}}
    for start, lag in ((0, 1), (1, 0), (2, 0)):
        counted = http.post("/lag", json={"positions": {topic: {"0": start}}, **DURABLE}).json()
        assert counted == {"lag": {topic: {"0": lag}}}


@pytest.mark.parametrize("accept", ["application/octet-stream", "application/json"])
def test_a_record_that_is_not_synced_is_reported_as_such_until_it_is(http, topic, accept):
    def read(offset, **query):
        return http.get(f"/topics/{topic}/partitions/0/records/{offset}", params=query, headers={"Accept": accept})

    assert read(0, **DURABLE).status_code == read(1).status_code == 200
    refused = read(1, **DURABLE)
    assert (refused.status_code, refused.json()["error"], refused.json()["retriable"]) == (404, "NotDurableYet", True)
    assert (refused.json()["offset"], refused.json()["next_offset"]) == (1, 1)
    assert read(2, **DURABLE).json()["error"] == "OffsetOutOfRange"
    append(http, topic, "third", ack="durable")
    assert read(1, **DURABLE).status_code == 200


def test_the_default_log_at_the_paths_of_laminarmq_has_it_as_well(http):
    index = http.post("/records", content="not yet").json()["write_index"]
    assert http.get(f"/records/{index}").text == "not yet"
    assert http.get(f"/records/{index}", params=DURABLE).json()["error"] == "NotDurableYet"


@contextmanager
def soon(call):
    """Begin a call on another thread; give what returns its result."""
    results = []
    thread = threading.Thread(target=lambda: results.append(call()))
    thread.start()
    yield lambda: (thread.join(HANG_SECONDS), results)[1][0]
    thread.join(HANG_SECONDS)


def test_a_long_poll_and_a_fetch_wait_for_the_sync(http, topic, unsynced_url):
    def poll(send):
        with httpx.Client(base_url=unsynced_url, timeout=HANG_SECONDS) as other:
            return send(other)

    ranged = {**DURABLE, "start": 1, "wait": 20}
    several = {"positions": {topic: {"0": 1}}, "wait": 20, **DURABLE}
    with (
        soon(lambda: poll(lambda of: of.get(f"/topics/{topic}/partitions/0/records", params=ranged))) as first,
        soon(lambda: poll(lambda of: of.post("/fetch", json=several))) as second,
    ):
        append(http, topic, "third", ack="durable")
        assert values(first())[0] == values(second())[0] == "not yet"


def test_a_live_tail_shows_a_record_after_its_sync_and_none_twice(http, topic, unsynced_url):
    with (
        httpx.Client(base_url=unsynced_url, timeout=HANG_SECONDS) as other,
        http.stream("GET", f"/topics/{topic}/tail", params={**DURABLE, "start": "earliest"}) as early,
        other.stream("GET", f"/topics/{topic}/tail", params=DURABLE) as late,
    ):
        early, late = events(early.iter_lines()), events(late.iter_lines())
        assert next(early)[2]["value"] == "safe"
        with httpx.Client(base_url=unsynced_url, timeout=HANG_SECONDS) as writing:
            append(writing, topic, "third", ack="durable")
        assert [next(early)[2]["value"] for _ in range(2)] == ["not yet", "third"]
        assert [next(late)[2]["value"] for _ in range(2)] == ["not yet", "third"], "what comes next begins at the end"


@pytest.mark.parametrize("config", [{}, {"flush_interval": 0.01}], ids=["by the server", "by the log"])
def test_a_durable_tail_delivers_what_is_synced_on_an_interval(serve_with, config):
    server = serve_with(limits={"sync_seconds": 0.2})
    with server.client() as http, server.client() as writing:
        writing.post("/topics", json={"name": "t", "config": config})
        with http.stream("GET", "/topics/t/tail", params=DURABLE) as answer:
            lines = answer.iter_lines()
            next(lines)
            append(writing, "t", "synced soon")
            assert next(events(lines))[2]["value"] == "synced soon"
