"""The live tail: records as server-sent events, from anywhere, and on from where one was."""

from __future__ import annotations

import json
from contextlib import contextmanager
from itertools import islice
from operator import itemgetter

import pytest


@contextmanager
def tail(http, topic, *, last=None, **query):
    headers = {} if last is None else {"Last-Event-ID": last}
    with http.stream("GET", f"/topics/{topic}/tail", params=query, headers=headers) as answer:
        assert answer.status_code == 200, answer.read()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines).startswith(":")  # from here on nothing is missed
        yield events(lines)


def events(lines):
    """Yield (id, event, data) as they come."""
    fields: dict[str, str] = {}
    for line in lines:
        if line and not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
        elif fields:
            yield fields.get("id"), fields["event"], json.loads(fields["data"])
            fields = {}


def append(http, topic, *values, partition=0):
    for value in values:
        http.post(f"/topics/{topic}/records?partition={partition}", content=value)


def shown(found):
    return [(data["partition"], data["offset"], data["value"]) for _, _, data in found]


def test_records_come_as_they_are_appended(http, shared, topic):
    name = topic(partitions=2)
    append(http, name, b"before")
    with tail(http, name) as found, shared.client() as other:
        append(other, name, b"a", b"b")
        append(other, name, b"c", partition=1)
        came = shown(islice(found, 3))
        assert sorted(came, key=itemgetter(0)) == [(0, 1, "a"), (0, 2, "b"), (1, 0, "c")], "in order within a partition"


def test_a_tail_may_begin_with_the_oldest_record_and_follow_one_partition(http, topic):
    name = topic(partitions=2)
    append(http, name, b"a")
    append(http, name, b"b", b"c", partition=1)
    with tail(http, name, start="earliest", partition=1) as found:
        assert shown(islice(found, 2)) == [(1, 0, "b"), (1, 1, "c")]


def test_a_tail_goes_on_behind_the_last_event_that_was_seen(http, topic):
    name = topic(partitions=2)
    for number in range(3):
        append(http, name, f"a{number}")
        append(http, name, f"b{number}", partition=1)
    with tail(http, name, start="earliest") as found:
        seen = list(islice(found, 4))
    with tail(http, name, last=seen[-1][0]) as found:
        rest = list(islice(found, 2))
    assert sorted(shown([*seen, *rest])) == [(p, n, f"{letter}{n}") for p, letter in enumerate("ab") for n in range(3)]


def test_an_event_is_the_record_with_all_it_has(http, topic):
    name = topic()
    http.post(f"/topics/{name}/records?key=%FF&timestamp=7&header=h:x%0A%0Adata:y", content=b"line\n\nevent: forged")
    with tail(http, name, start="earliest") as found:
        identity, event, data = next(found)
    places = json.loads(identity)
    assert len(places.pop("history")) == 16
    assert (places, event) == ({"0": 1}, "record")
    assert data == {
        "partition": 0,
        "offset": 0,
        "timestamp": 7,
        "key": {"base64": "/w=="},
        "value": "line\n\nevent: forged",
        "headers": [{"key": "h", "value": "x\n\ndata:y"}],
    }


@pytest.mark.parametrize("last", ["x", "{}x", '{"0": -1}', '{"0": "1"}', '{"0": 007}', "[1]", '{"a": 1}'])
def test_an_id_that_is_none_of_ours_is_400(http, topic, last):
    refused = http.get(f"/topics/{topic()}/tail", headers={"Last-Event-ID": last})
    assert (refused.status_code, refused.json()["error"]) == (400, "InvalidArgument")


def test_a_place_that_is_not_there_is_404(http, topic):
    name = topic()
    assert http.get(f"/topics/{name}/tail?partition=1").status_code == 404
    assert http.get("/topics/nobody/tail").status_code == 404
    assert http.get(f"/topics/{name}/tail", headers={"Last-Event-ID": '{"0": 5}'}).status_code == 404


def test_only_so_many_tails_are_open_at_a_time_and_one_that_ends_makes_room(serve_with):
    server = serve_with(limits={"tails": 2})
    with server.client() as first, server.client() as second, server.client() as third:
        with tail(first, "default"), tail(second, "default"):
            refused = third.get("/topics/default/tail")
            assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
        status = 429
        while status == 429:  # the server learns of the end a moment later
            with third.stream("GET", "/topics/default/tail") as answer:
                status = answer.status_code
        assert status == 200


def test_long_values_come_one_after_the_other_and_are_never_held_all_at_once(serve_with):
    server = serve_with()
    with server.client() as http:
        for _ in range(80):  # more than may be held, and half as much again in base64
            http.post("/records", content=b"\xff" * 2**20)
        before = server.greatest_memory()
        with tail(http, "default", start="earliest") as found:
            assert sum(1 for _ in islice(found, 80)) == 80
        assert server.greatest_memory() < before + 64 * 2**20


def test_head_of_a_tail_ends(http, topic):
    assert http.head(f"/topics/{topic()}/tail").status_code == 200
    assert http.get("/ready").status_code == 200


@pytest.mark.parametrize("change", ["deleted and created again", "truncated and grown again"])
def test_an_event_id_of_another_history_is_rejected_and_one_of_this_history_is_not(http, topic, change):
    name = topic(partitions=2)
    append(http, name, *(f"old{number}" for number in range(5)))
    append(http, name, "b0", partition=1)
    with tail(http, name, start="earliest") as found:
        seen = list(islice(found, 6))
    early, late = seen[2][0], seen[-1][0]
    if change.startswith("deleted"):
        assert http.delete(f"/topics/{name}").status_code == 204
        assert http.post("/topics", json={"name": name, "partitions": 2}).status_code == 201
    else:
        answer = http.post(f"/topics/{name}/partitions/0/truncate", json={"offset": 3})
        assert answer.status_code < 300, answer.text
    append(http, name, *(f"new{number}" for number in range(9)))
    append(http, name, "b0", partition=1)
    refused = http.get(f"/topics/{name}/tail", headers={"Last-Event-ID": late})
    assert refused.status_code == 409
    assert "another history" in refused.json()["detail"]
    if change.startswith("truncated"):
        with tail(http, name, last=early) as found:
            assert shown(islice(found, 1)) in ([(0, 3, "new0")], [(1, 0, "b0")])


def test_clients_share_the_records_of_a_tail(http, shared, topic):
    name = topic()
    append(http, name, *(b"%d" % number for number in range(700)))  # of one share: more than is sent in one go
    with tail(http, name, start="earliest", share="1/300") as found, shared.client() as other:
        append(other, name, *(b"%d" % number for number in range(700, 902)))
        came = list(islice(found, 4))
        assert [data["offset"] for _, _, data in came] == [1, 301, 601, 901]
    with tail(http, name, last=came[1][0], share="2/300") as found:
        assert [data["offset"] for _, _, data in islice(found, 2)] == [302, 602]


@pytest.mark.parametrize("share", ["3/3", "0", "-1/3", "0/0", "a/b", "0/3/4"])
def test_a_share_that_makes_no_sense_is_400(http, topic, share):
    assert http.get(f"/topics/{topic()}/tail", params={"share": share}).status_code == 400
