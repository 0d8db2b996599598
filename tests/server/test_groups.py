"""Consumer groups over HTTP: members, handover, committed offsets, lag."""

from __future__ import annotations

import json
from urllib.parse import quote
from uuid import uuid4

import pytest


@pytest.fixture
def group():
    return f"g-{uuid4().hex}"


def join(http, group, topics, **fields):
    answer = http.post(f"/groups/{group}/members", json={"topics": topics, **fields})
    assert answer.status_code == 200, answer.text
    return answer.json()


def beat(http, group, membership):
    path = f"/groups/{group}/members/{membership['member']}/heartbeat"
    return http.post(path, json={"generation": membership["generation"]}).json()


def commit(http, group, offsets, **fields):
    return http.post(f"/groups/{group}/offsets", json={"offsets": offsets, **fields})


def test_one_member_gets_all_partitions(http, topic, group):
    name = topic(partitions=3)
    membership = join(http, group, [name])
    assert membership["assignment"] == [[name, 0], [name, 1], [name, 2]]
    shown = http.get(f"/groups/{group}").json()
    assert (shown["name"], shown["generation"]) == (group, membership["generation"])
    assert [one["id"] for one in shown["members"]] == [membership["member"]]
    assert group in http.get("/groups").json()["groups"]


@pytest.mark.parametrize("name", ["a/b", "a%2Fb", "/", "ä ö", "a..", "a?b#c", "*"])
def test_a_name_of_any_characters_is_percent_encoded_in_the_path(http, topic, group, name):
    group, place = f"{group}{name}", topic(partitions=1)
    path = f"/groups/{quote(group, safe='')}"
    membership = join(http, quote(group, safe=""), [place])
    assert beat(http, quote(group, safe=""), membership)["assignment"] == [[place, 0]]
    assert http.delete(f"{path}/members/{membership['member']}").status_code == 204
    assert commit(http, quote(group, safe=""), {place: {"0": 0}}).status_code == 204
    assert http.get(f"{path}/offsets").json() == {"offsets": {place: {"0": 0}}}
    assert (http.get(path).json()["name"], group in http.get("/groups").json()["groups"]) == (group, True)
    assert http.delete(path).status_code == 204
    assert http.get(path).json()["error"] == "GroupNotFound"


@pytest.mark.parametrize("name", ["%FF", "%FE", "a%C3"])
def test_a_name_that_is_not_utf_8_is_refused_and_is_no_other_ones(http, name):
    refused = http.post(f"/groups/{name}/members", json={"topics": ["default"]})
    assert (refused.status_code, refused.json()["error"]) == (400, "InvalidArgument")
    assert "must be UTF-8" in refused.text


@pytest.mark.parametrize("name", ["%00", "a%0Ab", "a%1B%5B2J", "x" * 256, ".a"])
def test_a_name_that_cannot_be_printed_is_refused(http, name):
    refused = http.get(f"/groups/{name}")
    assert (refused.status_code, refused.json()["error"]) == (400, "InvalidArgument")


def test_a_slash_in_the_path_that_is_not_encoded_ends_a_name(http):
    assert http.get("/groups/a/b").status_code == 404
    assert http.get("/topics/a%2Fb").json()["error"] == "InvalidArgument"


def test_a_second_member_gets_its_share_once_the_first_has_let_go(http, topic, group):
    name = topic(partitions=2)
    first = join(http, group, [name])
    second = join(http, group, [name])
    assert second["assignment"] == []
    first = beat(http, group, first)
    assert len(first["assignment"]) == 1
    assert beat(http, group, second)["assignment"] == []  # the first has been told, and may still be at work
    beat(http, group, first)
    second = beat(http, group, second)
    assert sorted([*first["assignment"], *second["assignment"]]) == [[name, 0], [name, 1]]


def test_the_partitions_of_one_who_leaves_are_free_at_once(http, topic, group):
    name = topic(partitions=2)
    first, second = join(http, group, [name]), join(http, group, [name])
    assert http.delete(f"/groups/{group}/members/{first['member']}").status_code == 204
    assert len(beat(http, group, second)["assignment"]) == 2
    gone = http.post(f"/groups/{group}/members/{first['member']}/heartbeat", json={"generation": 1})
    assert (gone.status_code, gone.json()["error"], gone.json()["retriable"]) == (409, "UnknownMember", False)


def test_a_member_comes_back_under_its_id(http, topic, group):
    name = topic()
    first = join(http, group, [name])
    assert join(http, group, [name], member=first["member"])["member"] == first["member"]
    assert len(http.get(f"/groups/{group}").json()["members"]) == 1


def test_a_member_commits_what_it_owns_and_nothing_else(http, topic, group):
    name, other = topic(), topic()
    for one in (name, other):
        http.post(f"/topics/{one}/records", content=b"v")
    member = join(http, group, [name])["member"]
    assert commit(http, group, {name: {"0": 1}}, member=member, ack="durable").status_code == 204
    assert http.get(f"/groups/{group}/offsets").json() == {"offsets": {name: {"0": 1}}}
    refused = commit(http, group, {name: {"0": 0}, other: {"0": 1}}, member=member)
    assert (refused.status_code, refused.json()["error"]) == (409, "NotAssigned")
    assert commit(http, group, {name: {"0": 0}}).json()["error"] == "GroupConflict"
    assert commit(http, group, {name: {"0": 0}}, member="nobody").json()["error"] == "UnknownMember"
    assert http.get(f"/groups/{group}/offsets").json() == {"offsets": {name: {"0": 1}}}


def test_lag_counts_records_not_offsets(http, topic, group):
    name = topic(partitions=2, config={"segment_bytes": 4096}, compact=True)
    rows = "".join(json.dumps({"key": f"{number % 10}", "value": "v" * 20}) + "\n" for number in range(1000))
    content = {"Content-Type": "application/x-ndjson"}
    assert http.post(f"/topics/{name}/batches?partition=1", content=rows, headers=content).status_code == 200
    positions = {name: {"0": 0, "1": 0}}
    assert http.post("/lag", json={"positions": positions}).json() == {"lag": {name: {"0": 0, "1": 1000}}}
    http.post(f"/topics/{name}/compact")
    left = len(http.get(f"/topics/{name}/partitions/1/records").text.splitlines())
    assert left < 100
    assert http.post("/lag", json={"positions": positions}).json() == {"lag": {name: {"0": 0, "1": left}}}
    assert commit(http, group, positions).status_code == 204
    assert http.get(f"/groups/{group}").json()["lag"] == {name: {"0": 0, "1": left}}
    assert http.post("/lag", json={"positions": {name: {"1": 2**60}}}).json() == {"lag": {name: {"1": 0}}}
    assert http.post("/lag", json={"positions": {name: {"2": 0}}}).status_code == 404
    assert http.post("/lag", json={"positions": {"nobody": {"0": 0}}}).json()["error"] == "TopicNotFound"


def test_without_members_anybody_commits_and_lag_is_told(http, topic, group):
    name = topic(partitions=2)
    for _ in range(3):
        http.post(f"/topics/{name}/records?partition=1")
    assert commit(http, group, {name: {"1": 1}}).status_code == 204
    shown = http.get(f"/groups/{group}").json()
    assert (shown["committed"], shown["lag"][name]["1"]) == ({name: {"1": 1}}, 2)
    refused = commit(http, group, {name: {"0": 0, "1": 4}})
    assert (refused.status_code, refused.json()["error"]) == (404, "OffsetOutOfRange")
    assert http.get(f"/groups/{group}/offsets").json() == {"offsets": {name: {"1": 1}}}


def test_a_truncated_partition_takes_committed_offsets_along(http, topic, group):
    name = topic()
    for _ in range(3):
        http.post(f"/topics/{name}/records")
    commit(http, group, {name: {"0": 3}})
    http.post(f"/topics/{name}/partitions/0/truncate", json={"offset": 1})
    assert http.get(f"/groups/{group}/offsets").json() == {"offsets": {name: {"0": 1}}}


def test_a_group_is_forgotten_once_it_has_no_members(http, topic, group):
    name = topic()
    commit(http, group, {name: {"0": 0}})
    member = join(http, group, [name])["member"]
    assert http.delete(f"/groups/{group}").json()["error"] == "GroupConflict"
    http.delete(f"/groups/{group}/members/{member}")
    assert http.delete(f"/groups/{group}").status_code == 204
    for path in ("", "/offsets"):
        gone = http.get(f"/groups/{group}{path}")
        assert (gone.status_code, gone.json()["error"], gone.json()["group"]) == (404, "GroupNotFound", group)


def test_what_cannot_be_is_refused(http, topic, group):
    assert http.post(f"/groups/{group}/members", json={"topics": ["nobody"]}).json()["error"] == "TopicNotFound"
    for body in ({"topics": []}, {"topics": "t"}, {"topics": ["a/b"]}, {}, {"topics": ["t"], "session_timeout": 0}):
        assert http.post(f"/groups/{group}/members", json=body).status_code == 400
    assert commit(http, group, {topic(): {"1": 0}}).status_code == 404
    assert commit(http, group, {}).status_code == 400
    assert http.get("/groups/.x").status_code == 400


def test_members_and_offsets_survive_a_kill(serve_with):
    server = serve_with()
    with server.client() as http:
        http.post("/topics", json={"name": "t", "partitions": 2})
        http.post("/topics/t/records?partition=0")
        membership = join(http, "g", ["t"], session_timeout=600)
        commit(http, "g", {"t": {"0": 1}}, member=membership["member"])
    server.kill()
    server.start()
    with server.client() as http:
        assert http.get("/groups/g/offsets").json() == {"offsets": {"t": {"0": 1}}}
        assert beat(http, "g", membership)["assignment"] == membership["assignment"]
        assert commit(http, "g", {"t": {"0": 0}}, member=membership["member"]).status_code == 204
