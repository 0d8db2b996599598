"""Appending over HTTP: one record or many, stored once however often it is asked for."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from urllib.parse import quote_from_bytes

import pyarrow as pa
import pytest

from seglog.arrow.convert import partitions_of

ARROW = {"Content-Type": "application/vnd.apache.arrow.stream"}
NDJSON = {"Content-Type": "application/x-ndjson"}
LONG = b"long " * 500_000  # streamed by the server, not held


def stream(table, **options):
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, **options) as writer:
        writer.write_table(table)
    return out.getvalue().to_pybytes()


def table(rows):
    return pa.table({"value": [b"v%d" % n for n in range(rows)], "key": [b"k%d" % n for n in range(rows)]})


def lines(*records):
    return "".join(json.dumps(record) + "\n" for record in records).encode()


def record(http, topic, offset, partition=0):
    path = f"/topics/{topic}/partitions/{partition}/records/{offset}"
    return http.get(path, headers={"Accept": "application/json"}).json()


def held(http, topic):
    """Return how many records the topic has."""
    return http.get(f"/topics/{topic}").json()["records"]


# --- one record -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [b"", b"text", bytes(range(256)), LONG], ids=["empty", "text", "bytes", "long"])
def test_a_body_of_any_content_type_is_the_value(http, topic, value):
    name = topic()
    for content_type in ("application/x-www-form-urlencoded", "image/png", "application/json"):
        answer = http.post(f"/topics/{name}/records", content=value, headers={"Content-Type": content_type})
        assert answer.status_code == 200
        offset = answer.json()["offset"]
        assert http.get(f"/topics/{name}/partitions/0/records/{offset}").content == value


@pytest.mark.parametrize("value", [b"short", LONG], ids=["short", "long"])
def test_key_timestamp_and_headers_come_back_as_they_were_sent(http, topic, value):
    name = topic(partitions=3)
    key, headers = b"\x00k\xffe%y", [("a", b"1"), ("a", b"\xff:\n"), ("ü", b"")]
    query = "&".join(f"header={quote_from_bytes(one.encode() + b':' + raw)}" for one, raw in headers)
    path = f"/topics/{name}/records?key={quote_from_bytes(key)}&timestamp=-5&{query}"
    stored = http.post(path, content=value).json()

    assert stored["partition"] == partitions_of(pa.array([key]), 3)[0]
    got = record(http, name, 0, stored["partition"])
    assert (got["offset"], got["timestamp"]) == (0, -5)
    assert got["key"] == {"base64": "AGv/ZSV5"}
    assert got["headers"] == [
        {"key": "a", "value": "1"},
        {"key": "a", "value": {"base64": "/zoK"}},
        {"key": "ü", "value": ""},
    ]


def test_a_tombstone_is_a_record_without_a_value(http, topic):
    name = topic()
    assert http.post(f"/topics/{name}/records?key=k&tombstone=true").json()["offset"] == 0
    assert record(http, name, 0)["value"] is None
    refused = http.post(f"/topics/{name}/records?key=k&tombstone=true", content=b"value")
    assert (refused.status_code, held(http, name)) == (400, 1)


def test_records_without_a_key_are_dealt_out_in_turn_and_one_may_be_sent_to_a_partition(http, topic):
    name = topic(partitions=3)
    assert [http.post(f"/topics/{name}/records").json()["partition"] for _ in range(4)] == [0, 1, 2, 0]
    assert http.post(f"/topics/{name}/records?key=k&partition=2").json() == {
        "partition": 2,
        "offset": 1,
        "durable": False,
    }


def test_an_append_may_expect_its_offset(http, topic):
    name = topic()
    assert http.post(f"/topics/{name}/records?partition=0&expected_offset=0", content=b"a").status_code == 200
    refused = http.post(f"/topics/{name}/records?partition=0&expected_offset=0", content=b"b")
    assert (refused.status_code, refused.json()["error"]) == (409, "OffsetConflict")
    assert (refused.json()["offset"], refused.json()["next_offset"]) == (0, 1)
    assert http.post(f"/topics/{name}/records?expected_offset=1").json()["offset"] == 1  # there is one partition only
    assert http.post(f"/topics/{topic(partitions=2)}/records?expected_offset=0").status_code == 409


def test_what_was_acknowledged_as_durable_is(http, topic):
    name = topic()
    for headers, path, body in (
        ({}, "records", b"short"),
        ({}, "records", LONG),
        (NDJSON, "batches", lines({"value": "a"}, {"value": "b"})),
        (ARROW, "batches", stream(table(3))),
    ):
        assert http.post(f"/topics/{name}/{path}?ack=durable", content=body, headers=headers).json()["durable"]
        state = http.get(f"/topics/{name}").json()["partition_states"][0]
        assert state["durable_offset"] == state["next_offset"]
    assert state["next_offset"] == 7


def test_a_repeated_append_is_as_durable_as_it_says_also_where_it_names_another_partition_now(http, topic):
    name, key = topic(partitions=2), {"Idempotency-Key": "a"}
    http.post(f"/topics/{name}/records?partition=0", content=b"v", headers=key)
    again = http.post(f"/topics/{name}/records?partition=1&ack=durable", content=b"v", headers=key)
    assert again.json() == {"partition": 0, "offset": 0, "durable": True}
    states = http.get(f"/topics/{name}").json()["partition_states"]
    assert [one["durable_offset"] for one in states] == [1, 0]


def test_a_compacted_topic_takes_no_record_without_a_key(http, topic):
    name = topic(compact=True)
    refused = http.post(f"/topics/{name}/records", content=b"v")
    assert (refused.status_code, refused.json()["error"]) == (409, "KeyRequired")
    refused = http.post(f"/topics/{name}/batches", content=lines({"value": "a"}), headers=NDJSON)
    assert (refused.status_code, refused.json()["row"], held(http, name)) == (409, 0, 0)


def test_a_value_that_does_not_fit_the_segment_begins_another(http, topic):
    name = topic(config={"segment_bytes": 2**20})
    for offset, size in enumerate((900_000, 1_400_000, 1_400_000)):
        posted = http.post(f"/topics/{name}/records", content=b"x" * size)
        assert (posted.status_code, posted.json()["offset"]) == (200, offset)


def test_a_record_larger_than_a_segment_is_refused(http, topic):
    name = topic(config={"segment_bytes": 512})
    for size in (2_000, 2_000_000):
        refused = http.post(f"/topics/{name}/records", content=b"x" * size)
        assert (refused.status_code, refused.headers["Content-Type"]) == (413, "application/problem+json")
        assert refused.json()["error"] in ("RecordTooLarge", "StreamOverflow")
    assert held(http, name) == 0


WRONG = ["nonsense=1", "key=a&key=b", "timestamp=now", "timestamp=9223372036854775808", "partition=-1", "ack=maybe"]
WRONG += ["header=nothing", "header=%ff:x", "tombstone=yes", "expected_offset=1.5"]


@pytest.mark.parametrize("query", WRONG)
def test_a_parameter_that_cannot_be_is_named(http, topic, query):
    name = topic()
    refused = http.post(f"/topics/{name}/records?{query}")
    assert (refused.status_code, refused.json()["error"]) == (400, "InvalidArgument")
    assert query.partition("=")[0] in refused.json()["detail"]
    assert held(http, name) == 0


def test_a_topic_or_partition_that_is_not_there_is_404(http, topic):
    assert http.post("/topics/nobody/records").json()["error"] == "TopicNotFound"
    assert http.post(f"/topics/{topic()}/records?partition=1").status_code == 404
    assert http.post("/topics/.groups/records").status_code == 400


# --- many -------------------------------------------------------------------------------------------------------------


def test_a_batch_is_dealt_out_by_keys_and_says_where_it_went(http, topic):
    name = topic(partitions=3)
    answer = http.post(f"/topics/{name}/batches", content=stream(table(100)), headers=ARROW).json()
    counts = [int((partitions_of(table(100)["key"], 3) == number).sum()) for number in range(3)]
    expected = {str(number): {"first_offset": 0, "next_offset": count} for number, count in enumerate(counts)}
    assert answer == {"records": 100, "partitions": expected, "durable": False}


def test_lines_hold_what_arrow_holds(http, topic):
    name = topic()
    rows = [
        {"value": "a", "key": "k", "timestamp": 7, "headers": [{"key": "h", "value": "1"}]},
        {"value": {"base64": "/w=="}, "key": {"base64": ""}},
        {"value": None},
    ]
    http.post(f"/topics/{name}/batches", content=lines(*rows[:2]) + b"\n  \n" + lines(rows[2])[:-1], headers=NDJSON)
    got = [record(http, name, offset) for offset in range(3)]
    assert [one["value"] for one in got] == ["a", {"base64": "/w=="}, None]
    assert [one["key"] for one in got] == ["k", "", None]
    assert (got[0]["timestamp"], got[0]["headers"]) == (7, [{"key": "h", "value": "1"}])


KINDS = [pa.binary(), pa.large_string(), pa.binary_view(), pa.dictionary(pa.int8(), pa.binary())]


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_may_have_its_values_in_any_layout(http, topic, kind):
    name = topic(partitions=2)
    values = pa.array([b"a", None, b"c"] * 4, pa.binary())
    values = values.dictionary_encode() if pa.types.is_dictionary(kind) else values.cast(kind)
    body = stream(pa.table({"value": values, "partition": pa.array([0, 1, 1] * 4, pa.int16())}))
    answer = http.post(f"/topics/{name}/batches", content=body, headers=ARROW)
    assert [one["next_offset"] for one in answer.json()["partitions"].values()] == [4, 8]
    assert [record(http, name, offset, 1)["value"] for offset in (0, 1)] == [None, "c"]


def test_a_whole_batch_may_be_sent_to_a_partition(http, topic):
    name = topic(partitions=4)
    answer = http.post(f"/topics/{name}/batches?partition=3", content=stream(table(9)), headers=ARROW).json()
    assert answer["partitions"] == {"3": {"first_offset": 0, "next_offset": 9}}
    assert http.post(f"/topics/{name}/batches?partition=4", content=b"", headers=NDJSON).status_code == 404


def test_an_empty_batch_stores_nothing(http, topic):
    name = topic()
    for headers, body in ((NDJSON, b""), (NDJSON, b"\n\n"), (ARROW, stream(table(0)))):
        assert http.post(f"/topics/{name}/batches", content=body, headers=headers).json()["records"] == 0
    assert http.post(f"/topics/{name}/batches", content=b"", headers=ARROW).status_code == 400


@pytest.mark.parametrize("kind", ["", "text/plain", "application/json", "application/vnd.apache.arrow.file"])
def test_a_batch_of_another_content_type_is_415(http, topic, kind):
    refused = http.post(f"/topics/{topic()}/batches", content=b"{}", headers={"Content-Type": kind})
    assert refused.status_code == 415


# --- once -------------------------------------------------------------------------------------------------------------


def once(key):
    return {"Idempotency-Key": key}


ATTEMPTS = [
    ("records?key=k", {}, b"one"),
    ("records", {}, b"no key"),
    ("records?key=k", {}, LONG),
    ("batches", ARROW, stream(table(50))),
    ("batches", NDJSON, lines(*({"value": str(n), "key": str(n)} for n in range(50)))),
    ("batches", NDJSON, lines(*({"value": str(n)} for n in range(50)))),
]
NAMES = ["record", "without key", "long record", "arrow", "lines", "lines without keys"]


@pytest.mark.parametrize(("path", "headers", "body"), ATTEMPTS, ids=NAMES)
def test_an_append_that_is_repeated_is_stored_once_and_answered_alike(http, topic, path, headers, body):
    name = topic(partitions=3)
    answers = [
        http.post(f"/topics/{name}/{path}", content=body, headers=headers | once(f"{name}-1")).json() for _ in range(3)
    ]
    assert answers[0] == answers[1] == answers[2]
    assert held(http, name) == answers[0].get("records", 1)


@pytest.mark.parametrize(("path", "headers", "body"), ATTEMPTS, ids=NAMES)
def test_the_same_append_sent_many_times_at_once_is_stored_once(http, shared, topic, path, headers, body):
    name = topic(partitions=3)

    def attempt(number):
        with shared.client() as client:
            return client.post(f"/topics/{name}/{path}", content=body, headers=headers | once("parallel")).json()

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(attempt, range(16)))
    assert all(answer == answers[0] for answer in answers)
    assert held(http, name) == answers[0].get("records", 1)


def test_another_payload_under_the_same_key_is_refused_and_not_stored(http, topic):
    name = topic(partitions=2)
    send = {"records": {}, "batches": NDJSON}
    assert http.post(f"/topics/{name}/records?key=a", content=b"1", headers=once("x")).status_code == 200
    for path, body in (("records?key=a", b"2"), ("records?key=b", b"1"), ("records?key=a", LONG)):
        refused = http.post(f"/topics/{name}/{path}", content=body, headers=once("x"))
        assert (refused.status_code, refused.json()["error"]) == (422, "OnceConflict")
    refused = http.post(f"/topics/{name}/batches", content=lines({"value": "1"}), headers=send["batches"] | once("x"))
    assert (refused.status_code, held(http, name)) == (422, 1)


def test_a_key_of_another_topic_is_another_key(http, topic):
    for name in (topic(), topic()):
        assert http.post(f"/topics/{name}/records", content=name, headers=once("k")).json()["offset"] == 0


@pytest.mark.parametrize("key", ["", "k" * 201, "ü"])
def test_a_key_that_cannot_be_is_400(http, topic, key):
    refused = http.post(f"/topics/{topic()}/records", headers={"Idempotency-Key": key.encode("latin-1")})
    assert refused.status_code == 400


def all_attempts(http):
    return [
        http.post(f"/topics/t/{path}", content=body, headers=headers | once(str(number))).json()
        for number, (path, headers, body) in enumerate(ATTEMPTS)
    ]


def test_after_a_kill_a_repeated_append_is_still_stored_once(serve_with):
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "partitions": 3})
        before = all_attempts(http)
        count = held(http, "t")
    server.kill()
    server.start()
    with server.client() as http:
        assert all_attempts(http) == before
        assert held(http, "t") == count
        assert http.post("/topics/t/records", content=b"other", headers=once("0")).status_code == 422


def test_the_default_topic_takes_keys_as_well(http):
    answers = {http.post("/records", content=b"x", headers=once("default")).json()["write_index"] for _ in range(3)}
    assert len(answers) == 1


def test_a_server_that_takes_and_sends_arrow_does_not_import_pandas(serve_with, tmp_path, monkeypatch):
    (tmp_path / "pandas.py").write_text("raise SystemExit('pandas was imported')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with serve_with().client() as http:
        assert http.post("/topics/default/batches", content=stream(table(3)), headers=ARROW).status_code == 200
        answer = http.get("/topics/default/partitions/0/records", headers={"Accept": ARROW["Content-Type"]})
    assert pa.ipc.open_stream(answer.content).read_all()["key"].to_pylist() == [b"k0", b"k1", b"k2"]
