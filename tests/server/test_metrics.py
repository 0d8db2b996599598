"""What the server tells about itself: health, readiness, and figures that Prometheus can read."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families


def figures(http):
    answer = http.get("/metrics")
    assert answer.headers["Content-Type"].startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_appends_are_counted_and_logs_and_lags_are_told(http, topic):
    name = topic(partitions=2)
    for value in (b"abc", b"de"):
        http.post(f"/topics/{name}/records?partition=1&ack=durable", content=value)
    http.post("/groups/m/offsets", json={"offsets": {name: {"1": 1}}})
    found = figures(http)
    of_topic, place = ("topic", name), (("partition", "1"), ("topic", name))
    assert found["seglog_appended_records_total", of_topic] == 2
    assert found["seglog_appended_bytes_total", of_topic] == 5
    assert found["seglog_next_offset", *place] == found["seglog_durable_offset", *place] == 2
    assert found["seglog_lowest_offset", *place] == 0
    assert found["seglog_group_lag", ("group", "m"), *place] == 1


def test_requests_are_counted_by_what_they_ask_and_how_they_end(http):
    before = figures(http).get(("seglog_requests_total", ("operation", "topic"), ("status", "404")), 0)
    http.get("/topics/nobody")
    assert figures(http)["seglog_requests_total", ("operation", "topic"), ("status", "404")] == before + 1


def test_buffers_are_empty_when_nothing_is_under_way(http):
    found = figures(http)
    for name in ("seglog_spool_memory_bytes", "seglog_spool_disk_bytes", "seglog_answer_bytes", "seglog_tails"):
        assert found[name,] == 0


def test_many_groups_make_neither_long_figures_nor_many_series(http, topic):
    names = [topic(partitions=40) for _ in range(2)]
    offsets = {"offsets": {name: {str(number): 0 for number in range(40)} for name in names}}
    groups = [f"g-{names[0]}-{number}" for number in range(40)]
    for group in groups:
        assert http.post(f"/groups/{group}/offsets", json=offsets).status_code == 204
    text = http.get("/metrics").text
    assert 1000 < text.count("seglog_group_lag{") < 2200
    assert int(float(text.partition("\nseglog_groups ")[2].split()[0])) >= len(groups)
    assert int(float(text.partition("\nseglog_groups_left_out ")[2].split()[0])) > 0
    for group in groups:
        http.delete(f"/groups/{group}")


def test_the_server_is_ready_and_well(http):
    assert http.get("/ready").json() == {"status": "ready"}
    health = http.get("/health").json()
    assert health.pop("free_bytes") > 0
    assert health == {"status": "ok", "failures": []}


def test_a_topic_that_cannot_be_opened_is_named_and_the_others_are_served(serve_with):
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "broken"})
        http.post("/topics/broken/records", content=b"v")
    server.stop()
    (server.root / "broken" / "topic.json").write_text("{}")
    server.start()
    with server.client() as http:
        answer = http.get("/health")
        assert (answer.status_code, answer.json()["status"]) == (503, "failing")
        assert [one["log"] for one in answer.json()["failures"]] == ["broken"]
        assert http.get("/topics/broken").status_code == 500
        assert http.get("/topics").status_code == 200
        assert http.post("/records", content=b"v").status_code == 200


@pytest.mark.parametrize("path", ["/", "/console", "/health", "/ready", "/openapi.json", "/metrics"])
def test_what_the_server_says_of_itself_takes_no_parameters(http, path):
    assert http.get(path).status_code == 200
    assert http.get(f"{path}?x=1").status_code == 400
