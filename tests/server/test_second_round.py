"""What a second round of attacks found: requests, bodies and answers that take more than they bring."""

from __future__ import annotations

import asyncio
import json
import re
import time
from types import SimpleNamespace

import pyarrow as pa
import pytest

import seglog
from seglog.log.opening import open_log
from seglog.server.routes.tail import BYTES, ROOM, _polled
from seglog.server.runtime.syncing import Syncing
from seglog.server.runtime.workers import Workers
from seglog.server.settings import Limits
from seglog.topic.topic import Topic
from tests.server.test_appending import ARROW, NDJSON
from tests.waiting import HANG_SECONDS

MIB = 1024 * 1024
POST = "POST /records HTTP/1.1\r\nHost: localhost\r\n"
END_OF_STREAM = b"\xff\xff\xff\xff\0\0\0\0"


def arrow(*tables, **options):
    """Return tables of one schema as an Arrow stream."""
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, tables[0].schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        for table in tables:
            writer.write_table(table)
    return out.getvalue().to_pybytes()


# --- heads ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "twice",
    [
        "Content-Encoding: gzip\r\nContent-Encoding: identity\r\n",
        "Idempotency-Key: a\r\nIdempotency-Key: b\r\n",
        "Authorization: Bearer a\r\nAuthorization: Bearer b\r\n",
        "Content-Type: text/plain\r\nContent-Type: text/html\r\n",
    ],
)
def test_a_header_that_means_one_thing_and_is_there_twice_is_refused_and_nothing_is_stored(shared, twice):
    with shared.client() as http, shared.connection() as wire:
        before = http.get("/index_bounds").json()
        status, body = wire.send(f"{POST}{twice}Content-Length: 3\r\n\r\nabc").answer()
        assert status == 400
        assert "is there twice" in json.loads(body)["detail"]
        assert http.get("/index_bounds").json() == before


def test_a_request_with_very_many_headers_is_431_and_one_with_many_is_answered(shared):
    with shared.connection() as wire:
        many = "".join(f"X-{number}: y\r\n" for number in range(120))
        assert wire.send(f"GET /ready HTTP/1.1\r\nHost: localhost\r\n{many}\r\n").answer()[0] == 200
    with shared.connection() as wire:  # refused before its end
        wire.send("GET /ready HTTP/1.1\r\nHost: localhost\r\n" + "a:\r\n" * 200)
        assert wire.answers().startswith(b"HTTP/1.1 431 ")


@pytest.mark.parametrize("unit", [b"1\r\na\r\n", b"6\r\n\r\n\r\n\r\n\r\n", b"11;x=y\r\n\r\n\r\n0\r\n\r\nGET / HT\r\n"])
def test_a_body_of_very_many_chunks_arrives_whole_and_the_next_request_is_answered(shared, unit):
    count = 40_000
    data = unit.partition(b"\r\n")[2][:-2]
    body = unit * count + b"0\r\nTrailer-Name: x\r\n\r\n"
    last = "GET /ready HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with shared.client() as http, shared.connection() as wire:
        came = wire.send(f"{POST}Transfer-Encoding: chunked\r\n\r\n", body, last).answers()
        assert came.count(b"HTTP/1.1 200 ") == 2
        assert came.endswith(b'{"status": "ready"}')
        index = re.search(rb'"write_index": (\d+)', came)[1].decode()
        assert http.get(f"/records/{index}").content == data * count


# --- JSON bodies ------------------------------------------------------------------------------------------------------

MANY = {str(number): 0 for number in range(30_000)}


@pytest.mark.parametrize("path", ["/fetch", "/lag", "/groups/g/offsets", "/groups/g/members", "/topics"])
def test_of_very_many_unknown_fields_the_first_is_named(http, path):
    answer = http.post(path, json={"positions": {"default": {"0": 0}}, **MANY} if path == "/fetch" else MANY)
    assert answer.status_code in (400, 413)
    if answer.status_code == 400:
        assert answer.json()["detail"].count("there is no field '0'") == 1


def test_of_very_many_wrong_positions_and_topics_the_first_is_named(http):
    wrong = {"positions": {"default": {str(number): True for number in range(9999)}}}
    assert http.post("/fetch", json=wrong).json()["detail"].count("must be a partition") == 1
    wrong = {"topics": [""] * 20_000}
    assert http.post("/groups/g/members", json=wrong).json()["detail"].count("cannot be the name") == 1


# --- batches ----------------------------------------------------------------------------------------------------------


def growing():
    words = pa.array([b"%d" % number * 1000 for number in range(20)])
    columns = (pa.DictionaryArray.from_arrays(pa.array([n], pa.int32()), words[: n + 1]) for n in range(20))
    return arrow(*(pa.table({"value": column}) for column in columns), emit_dictionary_deltas=True)


def many_batches():
    schema = pa.schema({"value": pa.binary()})
    return (
        bytes(schema.serialize()) + bytes(pa.RecordBatch.from_pylist([], schema).serialize()) * 20_000 + END_OF_STREAM
    )


def many_fields():
    schema = pa.schema([pa.field("value", pa.binary()), *(pa.field(f"f{n}", pa.int8()) for n in range(20_000))])
    return bytes(schema.serialize()) + END_OF_STREAM


def much_metadata():
    return arrow(pa.table({"value": [b"v"]}).replace_schema_metadata({b"k": bytes(MIB)}))


@pytest.mark.parametrize("body", [growing, many_batches, many_fields, much_metadata], ids=lambda body: body.__name__)
def test_an_arrow_stream_that_takes_more_memory_than_its_bytes_is_415_and_nothing_is_stored(http, topic, body):
    name = topic()
    answer = http.post(f"/topics/{name}/batches", content=body(), headers=ARROW)
    assert answer.status_code == 415, answer.text
    assert http.get(f"/topics/{name}").json()["records"] == 0


def test_dictionaries_that_are_replaced_are_taken(http, topic):
    name = topic()
    tables = [pa.table({"value": pa.array([word, word]).dictionary_encode()}) for word in (b"a", b"b")]
    assert http.post(f"/topics/{name}/batches", content=arrow(*tables), headers=ARROW).json()["records"] == 4


LONG = "x" * (MIB + 1)


@pytest.mark.parametrize(
    "line",
    [
        {"value": "v", "key": LONG},
        {"value": "v", "headers": [{"key": "h", "value": LONG}]},
        {"value": "v", "headers": [{"key": f"h{number}", "value": LONG[:50_000]} for number in range(25)]},
    ],
    ids=["key", "header", "headers"],
)
def test_a_record_whose_key_and_headers_no_answer_could_show_is_413_in_lines_and_arrow(http, topic, line):
    name = topic()
    lines = json.dumps({"value": "other"}) + "\n" + json.dumps(line) + "\n"
    assert http.post(f"/topics/{name}/batches", content=lines, headers=NDJSON).status_code == 413
    table = pa.Table.from_pylist([{"value": b"other"} | {name: None for name in line if name != "value"}, line])
    assert http.post(f"/topics/{name}/batches", content=arrow(table), headers=ARROW).status_code == 413
    assert http.get(f"/topics/{name}").json()["records"] == 0
    lines = json.dumps({"value": "v", "key": LONG[: MIB // 2], "headers": [{"key": "h", "value": LONG[: MIB // 3]}]})
    assert http.post(f"/topics/{name}/batches", content=lines, headers=NDJSON).status_code == 200


# --- answers ----------------------------------------------------------------------------------------------------------


def test_the_events_of_a_topic_of_many_partitions_stay_within_the_memory_that_is_held_for_them():
    with Topic.create(seglog.MemoryStorage("many"), partitions=100) as topic:
        for number in range(100):
            topic.partition(number).append(b"v")
        for _ in range(100):
            topic.append(b"v", partition=0)
        tails = {number: topic.partition(number).tail(0) for number in range(100)}
        events = _polled(topic.partition(0), 0, tails, Limits(), ROOM, "appended", None)
        assert 0 < len(events) < BYTES
        seen = [json.loads(line[4:]) for line in events.decode().splitlines() if line.startswith("id: ")]
        assert [one["0"] for one in seen] == [*range(1, len(seen) + 1)]
        assert all(len(one) == 101 for one in seen)


def test_of_a_key_with_very_many_empty_records_the_latest_are_answered(http, topic):
    name = topic()
    lines = '{"value":"","key":"k"}\n' * 120_000
    assert http.post(f"/topics/{name}/batches", content=lines, headers=NDJSON).status_code == 200
    found = http.get(f"/topics/{name}/keys?key=k&max_records=1000000").text.splitlines()
    assert 1000 < len(found) < 120_000
    assert json.loads(found[-1])["offset"] == 119_999


# --- what groups keep -------------------------------------------------------------------------------------------------


def test_what_others_append_to_a_watched_log_is_synced_soon(tmp_path):
    async def story(log):
        workers = Workers("sync", 1, 10)
        synced = []
        syncing = Syncing(0.01, workers, synced.append)
        syncing.watch((".groups", 0), log)
        ends = time.monotonic() + HANG_SECONDS
        log.append(b"commit")
        while log.durable_offset < 1 or not synced:
            assert time.monotonic() < ends, "nothing was synced"
            syncing.tick()
            await asyncio.sleep(0.01)
        workers.close()
        assert synced == [(".groups", 0)]

    with open_log(tmp_path / "log") as log:
        asyncio.run(story(log))


def test_the_server_syncs_what_groups_keep(tmp_path):
    from seglog.server.app import services_of  # noqa: PLC0415 - needed by this test alone
    from seglog.server.settings import Settings  # noqa: PLC0415 - as above

    services = services_of(seglog.Broker(tmp_path / "root"), Settings(limits=Limits(sync_seconds=0.01)))
    try:
        services.broker.groups.join("g", ["default"])
        log = services.broker.groups.log
        assert log.durable_offset < log.next_offset

        async def until_synced():
            ends = time.monotonic() + HANG_SECONDS
            while log.durable_offset < log.next_offset:
                assert time.monotonic() < ends, "what groups keep was not synced"
                services.appends.syncing.tick()
                await asyncio.sleep(0.01)

        asyncio.run(until_synced())
    finally:
        services.close()


@pytest.mark.parametrize("window", [None, 5, {"keys": 1}, SimpleNamespace(keys=1, bytes=1)])
def test_a_window_of_idempotency_keys_that_is_none_is_refused_when_a_topic_is_opened(tmp_path, window):
    with pytest.raises(seglog.errors.InvalidType, match="once_window"):
        Topic.create(tmp_path / "made", partitions=1, once_window=window)
    Topic.create(tmp_path / "topic", partitions=1).close()
    with pytest.raises(seglog.errors.InvalidType, match="once_window"):
        Topic.open(tmp_path / "topic", once_window=window)
    Topic.open(tmp_path / "topic").close()


@pytest.mark.parametrize("fields", [{"keys": -1}, {"bytes": -1}, {"keys": "many"}, {"bytes": 1.5}, {"keys": True}])
def test_a_window_with_a_bound_that_is_no_number_of_things_is_refused(fields):
    from seglog.topic.idempotency.memory import OnceWindow  # noqa: PLC0415 - needed by this test alone

    with pytest.raises((seglog.errors.InvalidType, seglog.errors.InvalidArgument), match="once_window"):
        OnceWindow(**fields)
