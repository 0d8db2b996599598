"""Reading over HTTP: one record, ranges, several partitions, by time and by key, and waiting for what comes."""

from __future__ import annotations

import base64
import json
import threading
import time
from urllib.parse import quote_from_bytes

import pyarrow as pa
import pytest

from seglog.client import Client

MIB = 1024 * 1024
ARROW = "application/vnd.apache.arrow.stream"
NDJSON = {"Content-Type": "application/x-ndjson"}


@pytest.fixture
def filled(http, topic):
    """A topic of one partition with ten records: v0 .. v9, keys k0 .. k2, timestamps 0, 10 .. 90."""
    name = topic()
    rows = [{"value": f"v{n}", "key": f"k{n % 3}", "timestamp": n * 10} for n in range(10)]
    http.post(f"/topics/{name}/batches", content="".join(json.dumps(row) + "\n" for row in rows), headers=NDJSON)
    return name


def values(answer):
    if answer.headers["Content-Type"] == ARROW:
        return [value.decode() for value in pa.ipc.open_stream(answer.content).read_all()["value"].to_pylist()]
    return [json.loads(line)["value"] for line in answer.content.splitlines()]


def records(http, topic, accept="*/*", **query):
    answer = http.get(f"/topics/{topic}/partitions/0/records", params=query, headers={"Accept": accept})
    assert answer.status_code == 200, answer.text
    return answer


# --- one record -------------------------------------------------------------------------------------------------------


def test_one_record_is_its_value_with_the_rest_in_headers(http, filled):
    answer = http.get(f"/topics/{filled}/partitions/0/records/4")
    assert (answer.content, answer.headers["Content-Type"]) == (b"v4", "application/octet-stream")
    assert [answer.headers[f"Seglog-{name}"] for name in ("Offset", "Timestamp", "Key")] == ["4", "40", "k1"]


def test_a_key_travels_percent_encoded_and_none_has_no_header(http, topic):
    name = topic()
    for key in (b"", b"\xff\r\nSet-Cookie: a=b", b"plain"):
        http.post(f"/topics/{name}/records?key={quote_from_bytes(key)}")
    http.post(f"/topics/{name}/records")
    answers = [http.get(f"/topics/{name}/partitions/0/records/{offset}") for offset in range(4)]
    assert [answer.headers.get("Seglog-Key") for answer in answers] == [
        "",
        "%FF%0D%0ASet-Cookie%3A%20a%3Db",
        "plain",
        None,
    ]
    assert not any("Set-Cookie" in answer.headers for answer in answers)


def test_a_key_too_long_for_a_header_is_left_out_never_cut(http, topic):
    name, fits, long = topic(), "k" * 4096, "k" * 4097
    rows = "".join(json.dumps({"key": key, "value": "v"}) + "\n" for key in (fits, long))
    http.post(f"/topics/{name}/batches", content=rows, headers=NDJSON)
    first, second = (http.get(f"/topics/{name}/partitions/0/records/{offset}").headers for offset in (0, 1))
    assert (first["Seglog-Key"], first.get("Seglog-Key-Bytes")) == (fits, None)
    assert (second.get("Seglog-Key"), second["Seglog-Key-Bytes"]) == (None, "4097")
    shown = http.get(f"/topics/{name}/partitions/0/records/1", headers={"Accept": "application/json"}).json()
    assert shown["key"] == long


def shown_everywhere(http, name, offset, key):
    """Return the record in each way in which it is shown as JSON."""
    one = http.get(f"/topics/{name}/partitions/0/records/{offset}", headers={"Accept": "application/json"}).json()
    (in_range,) = map(json.loads, records(http, name, start=offset, stop=offset + 1).content.splitlines())
    fetched = http.post("/fetch", json={"positions": {name: {"0": offset}}, "max_records": 1}).json()
    by_key = http.get(f"/topics/{name}/keys?key={key}").json()
    with http.stream("GET", f"/topics/{name}/tail", params={"start": "earliest"}) as answer:
        lines = (line for line in answer.iter_lines() if line.startswith("data: "))
        tailed = next(data for data in map(json.loads, (line[6:] for line in lines)) if data["offset"] == offset)
    return [one, in_range, fetched, by_key, tailed]


def test_a_long_value_is_cut_in_json_and_says_how_long_it_is(http, topic):
    name = topic()
    long = {"text": b"x" * (MIB - 1) + "ä".encode() + b"rest", "binary": b"\xff" * (3 * MIB), "fits": b"y" * MIB}
    for key, value in long.items():
        http.post(f"/topics/{name}/records?key={key}", content=value)
    text, binary, fits = (shown_everywhere(http, name, at, key) for at, key in enumerate(long))
    assert {(one["value"] == "x" * (MIB - 1), one["value_bytes"]) for one in text} == {(True, MIB + 5)}
    first = base64.b64encode(long["binary"][:MIB]).decode()
    assert {(one["value"] == {"base64": first}, one["value_bytes"]) for one in binary} == {(True, 3 * MIB)}
    assert {(one["value"] == "y" * MIB, "value_bytes" in one) for one in fits} == {(True, False)}
    for offset, value in enumerate(long.values()):
        assert http.get(f"/topics/{name}/partitions/0/records/{offset}").content == value
        assert values_in_arrow(http, name, offset) == [value]


def values_in_arrow(http, name, offset):
    answer = records(http, name, ARROW, start=offset, stop=offset + 1)
    return pa.ipc.open_stream(answer.content).read_all()["value"].to_pylist()


def test_a_client_gets_long_values_whole(http, shared, topic):
    name = topic()
    value = b"\xff" * (2 * MIB + 1)
    http.post(f"/topics/{name}/records?key=k", content=value)
    with Client(shared.url) as client:
        remote = client.topic(name)
        assert remote.read(0, 0).value == value
        assert [record.value for record in remote.with_key(b"k")] == [value]


def test_a_tombstone_is_told_apart_from_an_empty_value(http, topic):
    name = topic()
    http.post(f"/topics/{name}/records?key=k&tombstone=true")
    http.post(f"/topics/{name}/records?key=k")
    tombstone, empty = (http.get(f"/topics/{name}/partitions/0/records/{offset}") for offset in (0, 1))
    assert (tombstone.status_code, tombstone.headers["Seglog-Tombstone"]) == (204, "true")
    assert (empty.status_code, empty.content) == (200, b"")


def test_an_offset_out_of_range_is_404_and_tells_the_bounds(http, filled):
    problem = http.get(f"/topics/{filled}/partitions/0/records/10").json()
    assert (problem["error"], problem["lowest_offset"], problem["next_offset"]) == ("OffsetOutOfRange", 0, 10)


def test_a_compacted_offset_is_404_and_tells_the_next_one(http, topic):
    name = topic(compact=True)
    for value in ("old", "new"):
        http.post(f"/topics/{name}/records?key=k", content=value)
    http.post(f"/topics/{name}/compact")
    problem = http.get(f"/topics/{name}/partitions/0/records/0").json()
    assert (problem["error"], problem["next_offset"], problem["status"]) == ("OffsetCompacted", 1, 404)
    assert values(records(http, name)) == ["new"]


def test_head_tells_the_same_without_the_body(http, filled):
    head = http.head(f"/topics/{filled}/partitions/0/records/4")
    assert (head.status_code, head.content, head.headers["Content-Length"]) == (200, b"", "2")
    assert http.head(f"/topics/{filled}/partitions/0/records/99").status_code == 404


# --- a range ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("accept", ["application/x-ndjson", ARROW])
def test_a_range_is_read_in_order_and_says_where_to_go_on(http, filled, accept):
    answer = records(http, filled, accept, start=2, stop=8, max_records=4)
    assert (values(answer), answer.headers["Seglog-Next-Offset"]) == (["v2", "v3", "v4", "v5"], "6")
    answer = records(http, filled, accept, start=6, stop=8)
    assert (values(answer), answer.headers["Seglog-Next-Offset"]) == (["v6", "v7"], "8")
    assert values(records(http, filled, accept)) == [f"v{n}" for n in range(10)]


@pytest.mark.parametrize("accept", ["application/x-ndjson", ARROW])
def test_a_range_is_bounded_in_bytes_but_has_a_record(http, filled, accept):
    assert values(records(http, filled, accept, max_bytes=1)) == ["v0"]
    assert values(records(http, filled, accept, max_bytes=9)) == ["v0", "v1"]


@pytest.mark.parametrize("accept", ["application/x-ndjson", ARROW])
def test_nothing_there_is_an_answer_without_records(http, filled, accept):
    answer = records(http, filled, accept, start=10)
    assert (values(answer), answer.headers["Seglog-Next-Offset"]) == ([], "10")
    assert values(records(http, filled, accept, start=5, stop=5)) == []


def test_a_start_that_the_log_does_not_hold_is_404(http, filled):
    refused = http.get(f"/topics/{filled}/partitions/0/records?start=11")
    assert (refused.status_code, refused.json()["next_offset"]) == (404, 10)


def test_only_what_is_durable_is_shown_where_that_is_asked(http, topic):
    name = topic()
    http.post(f"/topics/{name}/records?ack=durable", content=b"safe")
    http.post(f"/topics/{name}/records", content=b"not yet")
    assert values(records(http, name, expose="durable")) == ["safe"]
    assert values(records(http, name)) == ["safe", "not yet"]


@pytest.mark.parametrize("query", ["start=-1", "start=x", "max_records=0", "wait=61", "wait=nan", "expose=all", "x=1"])
def test_a_range_that_cannot_be_is_400(http, filled, query):
    assert http.get(f"/topics/{filled}/partitions/0/records?{query}").status_code == 400


def test_an_answer_in_another_type_is_406(http, filled):
    answer = http.get(f"/topics/{filled}/partitions/0/records", headers={"Accept": "text/html"})
    assert answer.status_code == 406


# --- waiting ----------------------------------------------------------------------------------------------------------


WAIT = 60  # the longest that a request may ask for


def later(call):
    """Make a call on a thread once the server has somebody who waits; it is joined at the end of the test."""
    thread = threading.Timer(0.2, call)
    thread.start()
    return thread


@pytest.mark.parametrize("accept", ["application/x-ndjson", ARROW])
def test_a_long_poll_answers_as_soon_as_something_is_there(http, shared, filled, accept):
    with shared.client() as other:
        thread = later(lambda: other.post(f"/topics/{filled}/records", content=b"new"))
        begun = time.monotonic()
        assert values(records(http, filled, accept, start=10, wait=WAIT)) == ["new"]
        assert time.monotonic() - begun < WAIT
        thread.join()


def test_a_long_poll_ends_with_nothing_when_its_time_is_over(http, filled):
    begun = time.monotonic()
    answer = records(http, filled, start=10, wait=0.3)
    assert (values(answer), answer.headers["Seglog-Next-Offset"]) == ([], "10")
    assert time.monotonic() - begun >= 0.3


def test_a_long_poll_for_durable_records_wakes_when_one_is(http, shared, topic):
    name = topic()
    with shared.client() as other:
        thread = later(lambda: other.post(f"/topics/{name}/records?ack=durable", content=b"safe"))
        begun = time.monotonic()
        assert values(records(http, name, wait=WAIT, expose="durable")) == ["safe"]
        assert time.monotonic() - begun < WAIT
        thread.join()


# --- several partitions -----------------------------------------------------------------------------------------------


@pytest.fixture
def spread(http, topic):
    """A topic of three partitions with three records in each: p0-0, p0-1 .. p2-2."""
    name = topic(partitions=3)
    for number in range(9):
        http.post(f"/topics/{name}/records?partition={number // 3}", content=f"p{number // 3}-{number % 3}")
    return name


def test_several_partitions_are_read_in_one_request(http, spread, filled):
    positions = {spread: {"0": 1, "2": 0}, filled: {"0": 9}}
    answer = http.post("/fetch", json={"positions": positions})
    found = [json.loads(line) for line in answer.content.splitlines()]
    assert [(one["topic"], one["partition"], one["value"]) for one in found] == [
        *((spread, 0, f"p0-{n}") for n in (1, 2)),
        *((spread, 2, f"p2-{n}") for n in range(3)),
        (filled, 0, "v9"),
    ]
    assert json.loads(answer.headers["Seglog-Next-Offsets"]) == {spread: {"0": 3, "2": 3}, filled: {"0": 10}}


def test_a_fetch_tells_of_which_logs_it_is(http, spread, filled):
    def passage(start):
        answer = http.post("/fetch", json={"positions": {filled: {"0": start}, spread: {"0": 0}}})
        told = json.loads(answer.headers["Seglog-Traces"])
        assert list(told) == [filled, spread]
        return told[filled]["0"]

    log, epoch, before, after = passage(4)
    assert log == http.get(f"/topics/{filled}/partitions/0").json()["log"]
    assert (epoch, before == after) == (0, True)
    assert passage(0) == [log, 0, None, after]
    http.post(f"/topics/{filled}/partitions/0/truncate", json={"offset": 5})
    http.post(f"/topics/{filled}/records", content="new")
    assert passage(4) == [log, 0, before, 0, 1]  # offset 4 is as it was, where it goes on is of the next epoch


def test_several_partitions_come_in_arrow_with_topic_and_partition_first(http, spread):
    body = {"positions": {spread: {"0": 0, "1": 2}}, "max_records": 4}
    table = pa.ipc.open_stream(http.post("/fetch", json=body, headers={"Accept": ARROW}).content).read_all()
    assert table.schema.names == ["topic", "partition", "offset", "timestamp", "key", "value", "headers"]
    assert table.schema.field("partition").type == pa.int32()
    assert table["value"].to_pylist() == [b"p0-0", b"p0-1", b"p0-2", b"p1-2"]


def test_a_fetch_waits_for_any_of_its_partitions(http, shared, spread):
    with shared.client() as other:
        thread = later(lambda: other.post(f"/topics/{spread}/records?partition=2", content=b"new"))
        answer = http.post("/fetch", json={"positions": {spread: {"0": 3, "1": 3, "2": 3}}, "wait": 20})
        assert values(answer) == ["new"]
        thread.join()


def test_a_position_that_is_not_there_is_404_and_named(http, spread):
    problem = http.post("/fetch", json={"positions": {spread: {"0": 0, "1": 4}}}).json()
    assert (problem["error"], problem["topic"], problem["partition"]) == ("OffsetOutOfRange", spread, 1)
    assert http.post("/fetch", json={"positions": {spread: {"3": 0}}}).status_code == 404
    assert http.post("/fetch", json={"positions": {"nobody": {"0": 0}}}).json()["error"] == "TopicNotFound"


@pytest.mark.parametrize("positions", [{}, {"a": {"x": 1}}, {"a": {"0": -1}}, {"a/b": {"0": 1}}, {"a": {"0": "1"}}, 7])
def test_positions_that_cannot_be_are_400(http, positions):
    assert http.post("/fetch", json={"positions": positions}).status_code == 400


# --- by time, by key --------------------------------------------------------------------------------------------------


def test_offsets_are_found_by_time(http, filled, topic):
    found = [http.get(f"/topics/{filled}/offsets?timestamp={at}").json()["offsets"] for at in (-1, 35, 90, 91)]
    assert found == [{"0": 0}, {"0": 4}, {"0": 9}, {"0": None}]
    assert http.get(f"/topics/{filled}/offsets").status_code == 400


def test_the_last_records_of_a_key_come_newest_last(http, filled):
    answer = http.get(f"/topics/{filled}/keys?key=k0&max_records=2")
    found = [json.loads(line) for line in answer.content.splitlines()]
    assert [(one["partition"], one["offset"], one["value"]) for one in found] == [(0, 6, "v6"), (0, 9, "v9")]
    assert http.get(f"/topics/{filled}/keys?key=nobody").content == b""
    assert http.get(f"/topics/{filled}/keys").status_code == 400
