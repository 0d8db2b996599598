"""Topics over HTTP: create, show, alter, delete, what their partitions look like, and the care of them."""

from __future__ import annotations

import json
import threading
from contextlib import suppress

import httpx
import pytest

from tests.waiting import HANG_SECONDS, until

NDJSON = {"Content-Type": "application/x-ndjson"}


def names(http):
    return [one["name"] for one in http.get("/topics").json()["topics"]]


def fill(http, name, count=100):
    rows = "".join(json.dumps({"value": "v" * 50, "key": f"k{n % 5}"}) + "\n" for n in range(count))
    assert http.post(f"/topics/{name}/batches", content=rows, headers=NDJSON).status_code == 200


def test_the_default_topic_is_there_from_the_start(http):
    assert "default" in names(http)


def test_a_topic_is_created_with_the_config_it_asks_for(http):
    config = {"segment_bytes": 4096, "retention": {"compact": True, "age": 60, "min_dirty_ratio": 1}}
    answer = http.post("/topics", json={"name": "made", "partitions": 3, "config": config})
    assert (answer.status_code, answer.headers["Location"]) == (201, "/topics/made")
    shown = answer.json()
    assert (shown["name"], shown["partitions"], shown["records"]) == ("made", 3, 0)
    assert shown["config"]["segment_bytes"] == 4096
    assert (shown["retention"]["compact"], shown["retention"]["age"], shown["retention"]["bytes"]) == (True, 60.0, None)
    assert "made" in names(http)
    assert {key: http.get("/topics/made").json()[key] for key in shown} == shown


def test_a_topic_that_is_there_is_not_made_again(http, topic):
    name = topic()
    refused = http.post("/topics", json={"name": name})
    assert (refused.status_code, refused.json()["error"], refused.json()["topic"]) == (409, "TopicExists", name)


@pytest.mark.parametrize(
    "body",
    [
        *({"name": name} for name in ("", ".", "..", ".groups", "a/b", "a" * 201, "ü", "a\n", "a b", None, 7)),
        *({"name": "x", "partitions": count} for count in (0, -1, 1001, 1.5, "1", True)),
        {"name": "x", "unknown": 1},
        {"name": "x", "config": {"segment_bytes": 1}},
        {"name": "x", "config": {"segment_bytes": "4096"}},
        {"name": "x", "config": {"retention": {"unkeyed": "maybe"}}},
        *([], "x", None, {}),
    ],
    ids=str,
)
def test_a_topic_that_cannot_be_is_400_and_not_made(http, body):
    before = names(http)
    refused = http.post("/topics", json=body)
    assert (refused.status_code, refused.json()["error"], names(http)) == (400, "InvalidArgument", before)


def test_a_body_that_is_no_json_is_400_and_another_type_is_415(http):
    for body in (b"", b"{", b"\xff", b'{"name": "x"', b"[" * 100_000, b'{"name": 1e999}'):
        refused = http.post("/topics", content=body, headers={"Content-Type": "application/json"})
        assert (refused.status_code, refused.json()["error"]) == (400, "InvalidArgument")
    assert http.post("/topics", content=b"<x/>", headers={"Content-Type": "text/xml"}).status_code == 415


def test_a_config_that_contradicts_itself_is_409(http, topic):
    lags = {"min_compaction_lag": 2, "max_compaction_lag": 1}
    refused = http.post("/topics", json={"name": "no", "config": {"retention": lags}})
    assert (refused.status_code, refused.json()["error"]) == (409, "ConfigError")
    name = topic(min_compaction_lag=2)
    refused = http.patch(f"/topics/{name}", json={"retention": {"max_compaction_lag": 1}})
    assert (refused.status_code, refused.json()["error"]) == (409, "ConfigError")


def test_what_is_altered_stays_so_and_what_is_not_named_keeps_its_value(serve_with):
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "partitions": 2, "config": {"retention": {"bytes": 5000, "age": 9}}})
        shown = http.patch("/topics/t", json={"retention": {"age": None}}).json()["retention"]
        assert (shown["bytes"], shown["age"]) == (5000, None)
    server.kill()
    server.start()
    with server.client() as http:
        assert http.get("/topics/t").json()["retention"] == shown


def test_a_topic_gets_a_codec_and_the_server_compresses_it_by_itself(http, topic):
    name = topic(config={"segment_bytes": 2048})
    for number in range(20):
        http.post(f"/topics/{name}/records?partition=0", content=b"x" * 400 + b"%d" % number)
    path = f"/topics/{name}/partitions/0"
    assert http.get(path).json()["compaction"]["to_compress"] == 0
    shown = http.patch(f"/topics/{name}", json={"compression": "zstd", "retention": {"bytes": 10**6}}).json()
    assert (shown["config"]["compression"], shown["retention"]["bytes"]) == ("zstd", 10**6)
    until(lambda: (http.get(path).json()["cleaner"] or {}).get("compression"))
    found = http.get(path).json()
    assert found["compaction"]["to_compress"] == 0
    assert {one["codec"] for one in found["segments"][:-1]} == {"zstd"}
    assert found["cleaner"]["compression"]["rewritten"] == len(found["segments"]) - 1
    assert f'seglog_to_compress_bytes{{log="{name}/0"}} 0.0' in http.get("/metrics").text
    records = [json.loads(line) for line in http.get(f"{path}/records").text.splitlines()]
    assert [one["offset"] for one in records] == list(range(20))
    assert http.patch(f"/topics/{name}", json={"compression": "none"}).json()["config"].get("compression") is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"compression": "brotli"},
        {"compression": None},
        {"segment_age": 0},
        {"segment_age": "1h"},
        {"retention": None},
    ],
)
def test_what_changes_nothing_or_is_no_codec_is_400(http, topic, body):
    assert http.patch(f"/topics/{topic()}", json=body).status_code == 400


def test_a_deleted_topic_is_gone_with_its_records_and_offsets_also_after_a_kill(serve_with):
    server = serve_with()
    with server.client() as http:
        for _ in range(2):
            http.post("/topics", json={"name": "t", "partitions": 2})
            http.post("/topics/t/records?partition=0", content=b"v")
            assert http.post("/groups/g/offsets", json={"offsets": {"t": {"0": 1}}}).status_code == 204
            assert http.delete("/topics/t").status_code == 204
        assert http.delete("/topics/t").status_code == 404
        server.kill()
        server.start()
        with server.client() as http:
            assert http.get("/topics/t").json()["error"] == "TopicNotFound"
            assert http.get("/groups").json() == {"groups": []}
            http.post("/topics", json={"name": "t"})
            assert http.get("/topics/t").json()["records"] == 0


def test_a_partition_shows_its_segments_and_where_groups_stand(http, topic):
    name = topic(config={"segment_bytes": 2048})
    fill(http, name)
    http.post("/groups/watch/offsets", json={"offsets": {name: {"0": 7}}})
    shown = http.get(f"/topics/{name}/partitions/0").json()
    assert (shown["topic"], shown["partition"], shown["next_offset"]) == (name, 0, 100)
    assert shown["groups"] == {"watch": 7}
    segments = shown["segments"]
    assert len(segments) > 2
    assert [one["next_offset"] for one in segments[:-1]] == [one["base_offset"] for one in segments[1:]]
    assert sum(one["records"] for one in segments) == 100
    assert sum(one["bytes"] for one in segments) == shown["bytes"]
    assert segments[-1]["sealed_at"] is None
    assert http.get(f"/topics/{name}/partitions/1").status_code == 404


def test_a_topic_is_compacted_now_and_says_what_was_done(http, topic):
    name = topic(partitions=2, compact=True)
    fill(http, name)
    reports = http.post(f"/topics/{name}/compact").json()["partitions"]
    assert sum(one["records_after"] for one in reports.values()) == 5
    assert http.get(f"/topics/{name}").json()["records"] == 5
    refused = http.post(f"/topics/{topic()}/compact")
    assert (refused.status_code, refused.json()["error"]) == (409, "ConfigError")


def test_what_a_compaction_must_leave_is_named(serve_with):
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "config": {"retention": {"compact": True}}})
        fill(http, "t")
        store = next((server.root / "t" / "0").glob("*.store"))
        damaged = bytearray(store.read_bytes())
        damaged[len(damaged) // 2] ^= 1
        with store.open("r+b") as file:
            file.write(damaged)
        answer = http.post("/topics/t/compact")
        assert answer.status_code == 200
        assert "damaged" in answer.json()["partitions"]["0"]["damaged"][0]
        broken = http.get("/topics/t/partitions/0/records?max_records=1000")
        assert broken.status_code == 200  # what stands before the damage
        broken = http.get(f"/topics/t/partitions/0/records?start={broken.headers['Seglog-Next-Offset']}")
        assert (broken.status_code, broken.json()["error"], broken.json()["retriable"]) == (500, "CorruptRecord", False)


def test_what_retention_no_longer_keeps_goes_now(http, topic):
    name = topic(config={"segment_bytes": 2048}, bytes=3000)
    fill(http, name)
    assert http.post(f"/topics/{name}/expire").json()["partitions"]["0"]["segments"] >= 0
    state = http.get(f"/topics/{name}").json()["partition_states"][0]
    assert state["lowest_offset"] > 0
    refused = http.get(f"/topics/{name}/partitions/0/records?start=0")
    assert (refused.status_code, refused.json()["lowest_offset"]) == (404, state["lowest_offset"])


def test_a_partition_is_truncated(http, topic):
    name = topic(partitions=2)
    for _ in range(3):
        http.post(f"/topics/{name}/records?partition=1", content=b"v")
    truncate = f"/topics/{name}/partitions/1/truncate"
    assert http.post(truncate, json={"offset": 1}).json() == {"next_offset": 1}
    assert http.post(truncate, json={"offset": 2}).status_code == 404
    assert http.post(truncate, json={"offset": -1}).status_code == 400
    assert http.get(f"/topics/{name}").json()["records"] == 1


def test_the_first_records_of_a_partition_are_deleted(http, topic):
    name = topic(partitions=2)
    for _ in range(3):
        http.post(f"/topics/{name}/records?partition=1", content=b"v")
    delete = f"/topics/{name}/partitions/1/delete-before"
    assert http.post(delete, json={"offset": 2}).json() == {"lowest_offset": 2}
    assert http.post(delete, json={"offset": 1}).json() == {"lowest_offset": 2}
    assert http.post(delete, json={"offset": 4}).json()["error"] == "OffsetOutOfRange"
    assert http.post(delete, json={}).status_code == 400
    assert http.post(f"/topics/{name}/partitions/2/delete-before", json={"offset": 0}).status_code == 404
    assert [one["lowest_offset"] for one in http.get(f"/topics/{name}").json()["partition_states"]] == [0, 2]
    assert http.get(f"/topics/{name}/partitions/1/records?start=1").status_code == 404


def test_a_topic_gets_more_partitions(http, topic):
    name = topic(partitions=2)
    http.post(f"/topics/{name}/records?partition=1", content=b"v")
    assert http.post(f"/topics/{name}/records?partition=2", content=b"v").status_code == 404
    more = http.post(f"/topics/{name}/partitions", json={"partitions": 3}).json()
    assert (more["partitions"], [one["next_offset"] for one in more["partition_states"]]) == (3, [0, 1, 0])
    assert http.post(f"/topics/{name}/records?partition=2", content=b"v").status_code == 200
    for refused in (3, 1, 100_000):
        assert http.post(f"/topics/{name}/partitions", json={"partitions": refused}).status_code == 400
    assert http.post("/topics/absent/partitions", json={"partitions": 2}).status_code == 404


def test_a_topic_may_be_deleted_while_it_is_read_tailed_and_appended_to(shared, http, topic):
    name = topic(partitions=2)
    fill(http, name)
    statuses: set[int] = set()
    tailing = threading.Event()

    def append():
        with shared.client() as client:
            status = 200
            while status != 404:
                status = client.post(f"/topics/{name}/records", content=b"v" * 1000).status_code
                statuses.add(status)

    def read(query):
        with shared.client() as client:
            status = 200
            while status != 404:
                status = client.get(f"/topics/{name}/partitions/0/records?{query}").status_code
                statuses.add(status)

    def tail():
        path = f"/topics/{name}/tail?start=earliest"
        with shared.client() as client, client.stream("GET", path) as events, suppress(httpx.RemoteProtocolError):
            for line in events.iter_lines():
                if line.startswith("id"):
                    tailing.set()
                if line.startswith("event: error"):
                    return

    threads = [threading.Thread(target=target, args=args) for target, *args in
               ((append,), (append,), (read, "start=0"), (read, "start=99999999&wait=1"), (tail,))]  # fmt: skip
    for thread in threads:
        thread.start()
    assert tailing.wait(HANG_SECONDS)
    assert http.delete(f"/topics/{name}").status_code == 204
    for thread in threads:
        thread.join(HANG_SECONDS)
        assert not thread.is_alive()
    assert statuses <= {200, 404, 503}  # 503: it was closed in that moment
    assert http.get("/health").status_code == 200


def test_only_known_paths_and_methods_are_there(http):
    assert http.get("/nowhere").json()["status"] == 404
    refused = http.put("/topics")
    assert (refused.status_code, refused.headers["Allow"]) == (405, "GET, HEAD, POST")
    assert http.get("/topics?x=1").status_code == 400
    assert http.get("/topics/").status_code == 404


def test_what_fails_because_a_topic_is_deleted_meanwhile_is_404(serve_with):
    server = serve_with()
    paths = ("partitions/0/records", "partitions/0/records/0", "keys?key=k", "offsets?timestamp=0", "partitions/0", "")
    over = threading.Event()
    told = set()
    names = ["brief-0"]  # never the same: of a topic that exists again, 503 asks for another try

    def read(path):
        with server.client() as http:
            while not over.is_set():
                answer = http.get(f"/topics/{names[-1]}/{path}".rstrip("/"))
                told.add((answer.status_code, answer.json()["error"] if answer.status_code >= 400 else None))

    readers = [threading.Thread(target=read, args=(path,)) for path in paths]
    for reader in readers:
        reader.start()
    with server.client() as http:
        for number in range(20):
            names.append(f"brief-{number}")
            http.post("/topics", json={"name": names[-1], "partitions": 2})
            fill(http, names[-1], 20)
            assert http.delete(f"/topics/{names[-1]}").status_code == 204
    over.set()
    for reader in readers:
        reader.join()
    assert {(404, "TopicNotFound")} <= told <= {(200, None), (404, "TopicNotFound"), (404, "OffsetOutOfRange")}


def test_policies_are_set_beside_the_config_and_changed_by_name(http):
    wanted = {"copies": 1, "timestamps": "server"}
    created = http.post("/topics", json={"name": "policed", "policies": wanted})
    assert (created.status_code, "deprecation" in created.headers) == (201, False)
    shown = http.patch("/topics/policed", json={"policies": {"copies": 0, "batch_bytes": 9}}).json()
    others = dict.fromkeys(["timestamp_ahead", "timestamp_behind", "kafka_configs"])
    assert shown["policies"] == {"copies": 0, "timestamps": "server", "batch_bytes": 9, **others}


def test_an_earlier_client_names_policies_in_the_retention_and_finds_them_there(http):
    config = {"retention": {"copies": 1, "age": 60}}
    created = http.post("/topics", json={"name": "earlier", "config": config})
    assert created.headers["deprecation"].startswith("@")
    assert (created.json()["policies"]["copies"], created.json()["retention"]["copies"]) == (1, 1)
    altered = http.patch("/topics/earlier", json={"retention": {"copies": 2}})
    assert altered.headers["deprecation"].startswith("@")
    assert (altered.json()["policies"]["copies"], altered.json()["retention"]["age"]) == (2, 60)
    both = http.patch("/topics/earlier", json={"retention": {"copies": 3}, "policies": {"copies": 4}}).json()
    assert both["policies"]["copies"] == 4


def test_the_retention_has_only_policies_that_it_had_before(http):
    created = http.post("/topics", json={"name": "texts", "policies": {"kafka_configs": {"preallocate": "true"}}})
    assert "kafka_configs" not in created.json()["retention"]
    given = {"retention": {"kafka_configs": {"preallocate": "true"}}}
    assert http.patch("/topics/texts", json=given).status_code == 400


def test_the_retention_describes_policies_as_deprecated(http):
    models = http.get("/openapi.json").json()["components"]["schemas"]
    assert models["RetentionModel"]["properties"]["copies"]["deprecated"]
    assert "deprecated" not in models["PoliciesModel"]["properties"]["copies"]
