"""`topics` and `groups`: a directory of topics looked at beside its owner, changed alone."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from seglog import Broker, LogConfig, Policies
from seglog.client.requests import topic_calls

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 1_000_000


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    return tmp_path / "shop"


@pytest.fixture
def billing(shop: Path) -> Path:
    """Orders of two partitions with ten records each; group billing has read four of the first."""
    with Broker(shop) as broker:
        topic = broker.create_topic("orders", partitions=2)
        for number in range(2):
            for turn in range(10):
                topic.partition(number).append(b"%d" % turn, timestamp=turn * SECOND)
        broker.groups.commit("billing", {"orders": {0: 4}})
    return shop


def committed(shop: Path, group: str = "billing") -> dict[str, dict[int, int]]:
    with Broker(shop, mode="r") as broker:
        return broker.groups.committed(group)


def test_a_topic_is_created_listed_altered_and_deleted(cli, shop):
    made = cli(
        "topics", "create", shop, "orders", "--partitions", "3", "--retention-age", "7d", "--segment-bytes", "1MiB"
    )
    assert (made.code, made.text) == (0, "created orders with 3 partitions\n")
    listed = cli("topics", shop)
    assert listed.text.splitlines()[0].split() == ["topic", "partitions", "records", "size", "keeps"]
    assert listed.text.splitlines()[1].split()[:3] == ["orders", "3", "0"]
    assert "age 7d" in listed.text
    altered = cli("topics", "alter", shop, "orders", "--retention-bytes", "1GiB", "--json")
    assert "bytes 1 GiB, age 7d" in cli("topics", shop).text
    assert altered.json["retention"]["bytes"] == 1024**3
    assert altered.json["retention"]["age"] == 7 * 86400, "what was not named stays"
    assert altered.json["config"]["segment_bytes"] == 1024**2
    with Broker(shop) as broker:
        logs = [broker.topic("orders").partition(number) for number in range(3)]
        assert {log.config.retention.bytes for log in logs} == {1024**3}
    assert cli("topics", "delete", shop, "orders", "--yes").text.startswith("deleted orders: 0 records")
    assert cli("topics", "list", shop).text == "no topics\n"


def test_a_topic_gets_another_codec(cli, shop):
    cli("topics", "create", shop, "orders", "--partitions", "2")
    altered = cli("topics", "alter", shop, "orders", "--compression", "zstd", "--partitions", "3")
    assert altered.lines[0] == b"orders has 3 partitions"
    assert "orders has the compression zstd; a server stores the segments with it" in altered.text
    assert "keeps" not in altered.text
    again = cli("topics", "alter", shop, "orders", "--compression", "zstd", "--retention-age", "7d", "--json")
    assert (again.json["config"]["compression"], again.json["retention"]["age"]) == ("zstd", 7 * 86400)
    with Broker(shop) as broker:
        assert [broker.topic("orders").partition(number).config.compression for number in range(3)] == ["zstd"] * 3
    aged = cli("topics", "alter", shop, "orders", "--segment-age", "15m")
    assert "orders has the segment_age 15m" in aged.text
    aged = cli("topics", "alter", shop, "orders", "--segment-age", "1h", "--json")
    assert (aged.json["config"]["segment_age"], aged.json["config"]["compression"]) == (3600, "zstd")
    refused = cli("topics", "alter", shop, "orders", "--compression", "brotli")
    assert (refused.code, "brotli" in refused.err) == (2, True)


def test_the_list_as_json_has_what_the_http_api_tells(cli, billing):
    (one,) = cli("topics", billing, "--json").json["topics"]
    assert (one["name"], one["partitions"], one["records"]) == ("orders", 2, 20)
    assert set(one) == {"name", "partitions", "id", "records", "bytes", "retention", "policies", "config"}
    assert LogConfig.from_json(one["config"]) == LogConfig()
    assert cli("topics", "--json", billing).json == cli("topics", "list", "--json", billing).json


def test_looking_creates_nothing(cli, shop):
    for words in (["topics", shop], ["groups", shop], ["groups", "show", shop, "g"], ["topics", "alter", shop, "x"]):
        assert cli(*words).code == 3, words
    assert cli("topics", "delete", shop, "orders", "--yes").code == 3
    assert cli("groups", "delete", shop, "orders", "--yes").code == 3
    assert not shop.exists()


def test_a_topic_or_group_that_is_not_there_is_said(cli, billing):
    for words in (
        ["topics", "delete", billing, "payments", "--yes"],
        ["topics", "alter", billing, "payments", "--retention-age", "1d"],
        ["groups", "show", billing, "audit"],
        ["groups", "delete", billing, "audit", "--yes"],
        ["groups", "reset", billing, "audit", "--topic", "orders", "--to", "latest"],
        ["groups", "reset", billing, "billing", "--topic", "payments", "--to", "latest"],
    ):
        ended = cli(*words)
        assert ended.code == 3, words
        assert "there is no" in ended.err
    assert cli("topics", "create", billing, "orders").code == 2
    assert "give at least one option to change" in cli("topics", "alter", billing, "orders").err


def test_beside_a_server_looking_works_and_changes_name_the_http_api(cli, billing):
    with Broker(billing):
        assert cli("topics", billing).code == 0
        assert cli("groups", billing).code == 0
        assert cli("groups", "show", billing, "billing").code == 0
        for words, call in (
            (["topics", "create", billing, "users"], "POST /topics"),
            (["topics", "alter", billing, "orders", "--retention-age", "1d"], "PATCH /topics/orders"),
            (["topics", "delete", billing, "orders", "--yes"], "DELETE /topics/orders"),
            (
                ["groups", "reset", billing, "billing", "--topic", "orders", "--to", "latest"],
                "POST /groups/billing/offsets",
            ),
            (["groups", "delete", billing, "billing", "--yes"], "DELETE /groups/billing"),
        ):
            ended = cli(*words)
            assert ended.code == 4, ended.err
            assert call in ended.err
    assert committed(billing) == {"orders": {0: 4}}


def test_a_damaged_topic_is_named_beside_the_others_and_can_be_deleted(cli, billing):
    with Broker(billing) as broker:
        broker.create_topic("users")
    (billing / "users" / "topic.json").write_text("{}")
    listed = cli("topics", billing)
    assert listed.code == 1
    assert "orders" in listed.text
    assert "topic 'users' cannot be opened" in listed.err
    assert cli("topics", billing, "--json").json["failed"][0]["name"] == "users"
    assert cli("topics", "delete", billing, "users", "--yes").code == 0
    assert cli("topics", billing).code == 0


def test_groups_are_listed_and_shown(cli, billing):
    rows = [line.split() for line in cli("groups", billing).text.splitlines()]
    assert rows == [["group", "members", "topics", "lag"], ["billing", "0", "orders", "6"]]
    shown = cli("groups", "show", billing, "billing").text.splitlines()
    assert shown[0] == "billing: 0 members, generation 0"
    assert [line.split() for line in shown[2:]] == [
        ["topic", "partition", "committed", "lag", "member"],
        ["orders", "0", "4", "6", "-"],
    ]
    with Broker(billing) as broker:
        broker.groups.join("billing", ["orders"], member="far")
    shown = cli("groups", "show", billing, "billing", "--json").json
    assert shown["committed"] == {"orders": {"0": 4}}
    assert shown["lag"] == {"orders": {"0": 6, "1": 10}}
    assert shown["members"][0]["assignment"] == [["orders", 0], ["orders", 1]]
    assert cli("groups", billing, "--json").json == {"groups": [shown]}
    assert "far" in cli("groups", "show", billing, "billing").text


@pytest.mark.parametrize(
    ("where", "expected"),
    [
        (["--to", "earliest"], {0: 0, 1: 0}),
        (["--to", "latest"], {0: 10, 1: 10}),
        (["--to", "7", "--partition", "1"], {0: 4, 1: 7}),
        (["--time", "1970-01-01T00:00:03Z"], {0: 3, 1: 3}),
        (["--time", "99000000", "--partition", "0"], {0: 10}),
    ],
)
def test_a_group_is_reset(cli, billing, where, expected):
    ended = cli("groups", "reset", billing, "billing", "--topic", "orders", *where)
    assert ended.code == 0, ended.err
    assert committed(billing) == {"orders": expected}
    assert ended.text.splitlines()[0].split() == ["topic", "partition", "before", "now"]


def test_a_reset_as_json_tells_before_and_now(cli, billing):
    ended = cli("groups", "reset", billing, "billing", "--topic", "orders", "--to", "latest", "--json")
    assert ended.json == {
        "group": "billing",
        "offsets": {"orders": {"0": 10, "1": 10}},
        "before": {"orders": {"0": 4}},
    }


@pytest.mark.parametrize(
    ("where", "code"),
    [
        (["--to", "11", "--partition", "0"], 5),
        (["--to", "3"], 2),
        (["--to", "soon"], 2),
        ([], 2),
        (["--partition", "1"], 2),
    ],
)
def test_a_reset_that_cannot_be_changes_nothing(cli, billing, where, code):
    assert cli("groups", "reset", billing, "billing", "--topic", "orders", *where).code == code
    assert committed(billing) == {"orders": {0: 4}}


def test_members_of_a_server_that_is_gone_are_dropped_only_when_asked_to(cli, billing):
    with Broker(billing) as broker:
        broker.groups.join("billing", ["orders"], member="far")
    reset = ["groups", "reset", billing, "billing", "--topic", "orders", "--to", "latest"]
    asked = cli(*reset)
    assert asked.code == 2
    assert "1 member that will have to rejoin" in asked.err
    assert committed(billing) == {"orders": {0: 4}}
    assert cli(*reset, "--yes").code == 0
    assert committed(billing) == {"orders": {0: 10, 1: 10}}
    with Broker(billing) as broker:
        assert broker.groups.describe("billing").members == ()


def test_a_group_is_deleted(cli, billing):
    assert cli("groups", "delete", billing, "billing").code == 2
    assert cli("groups", "delete", billing, "billing", "--yes").text == "deleted billing: 1 committed offset\n"
    assert cli("groups", billing).text == "no groups\n"


@pytest.mark.parametrize(
    "words",
    [
        ["topics", "delete", "orders"],
        ["groups", "delete", "billing"],
        ["groups", "reset", "billing", "--topic", "orders", "--to", "latest"],
    ],
)
def test_an_answer_of_no_changes_nothing(cli, billing, words, monkeypatch):
    with Broker(billing) as broker:
        broker.groups.join("billing", ["orders"], member="far")
    monkeypatch.setattr("seglog.terminal.output.confirmed", lambda _question, *, yes: yes)
    ended = cli(*words[:2], billing, *words[2:])
    assert (ended.code, ended.err) == (1, "seglog: nothing was changed\n")
    assert committed(billing) == {"orders": {0: 4}}


def test_what_opening_set_right_is_told(cli, billing):
    with Broker(billing) as broker:
        broker.topic("orders").partition(0).truncate(2)
    ended = cli("topics", "create", billing, "users")
    assert ended.code == 0
    assert "offset 4 was committed, but the partition" in ended.err


@pytest.mark.parametrize("words", [["groups", "reset", "shop", "g"], ["topics", "create", "shop"]])
def test_a_wrong_command_line_is_told_in_one_line(cli, words):
    ended = cli(*words)
    assert ended.code == 2
    assert ended.err.count("\n") == 1


@pytest.mark.parametrize("words", [["topics", "create"], ["topics", "alter"], ["groups", "reset"], ["groups", "show"]])
def test_every_verb_has_its_own_help(cli, words):
    shown = cli(*words, "--help")
    assert shown.code == 0
    assert "ROOT" in shown.text
    assert "--json" in shown.text


def test_a_change_that_cannot_be_made_adds_no_partitions(cli, shop):
    cli("topics", "create", shop, "orders", "--partitions", "2", "--compact", "--min-compaction-lag", "5s")
    refused = cli("topics", "alter", shop, "orders", "--partitions", "4", "--max-compaction-lag", "1s")
    assert (refused.code, "max_compaction_lag is less" in refused.err) == (2, True)
    assert cli("topics", shop, "--json").json["topics"][0]["partitions"] == 2


def topics_of(cli, root):
    return {one["name"]: one for one in cli("topics", root, "--json").json["topics"]}


def test_a_setting_that_an_older_server_does_not_know_adds_no_partitions(cli, url, monkeypatch):
    cli("topics", "create", url, "grown", "--partitions", "2")
    alter_topic = topic_calls.alter_topic

    def of_a_newer_version(*args):
        call = alter_topic(*args)
        return replace(call, body=call.body.replace(b"policies", b"novelties"))

    monkeypatch.setattr(topic_calls, "alter_topic", of_a_newer_version)
    refused = cli("topics", "alter", url, "grown", "--kafka-copies", "1", "--partitions", "4")
    assert (refused.code, "the server is older than this client, and must be upgraded" in refused.err) == (2, True)
    assert topics_of(cli, url)["grown"]["partitions"] == 2


def test_partitions_that_cannot_be_added_change_no_setting(cli, shop):
    cli("topics", "create", shop, "orders", "--partitions", "2")
    refused = cli("topics", "alter", shop, "orders", "--kafka-copies", "1", "--partitions", "2")
    assert (refused.code, "topic 'orders' has 2 partitions; 2 are not more" in refused.err) == (2, True)
    assert cli("topics", shop, "--json").json["topics"][0]["policies"]["copies"] == 0


def test_an_error_says_what_is_changed_already(cli, serve):
    server = serve("--partitions", "3")
    cli("topics", "create", server.url, "orders", "--partitions", "2")
    refused = cli("topics", "alter", server.url, "orders", "--kafka-copies", "1", "--partitions", "4")
    assert refused.code == 2
    assert "allows 3 (--partitions); the settings are changed, and no partition is added" in refused.err
    one = topics_of(cli, server.url)["orders"]
    assert (one["partitions"], one["policies"]["copies"]) == (2, 1)


def test_a_topic_gets_policies(cli, shop):
    created = cli("topics", "create", shop, "orders", "--kafka-copies", "1", "--json").json
    assert (created["policies"]["copies"], created["policies"]["timestamps"]) == (1, "given")
    altered = cli("topics", "alter", shop, "orders", "--kafka-timestamps", "server")
    assert "orders keeps copies 1, timestamps server" in altered.text
    with Broker(shop) as broker:
        assert broker.topic("orders").policies == Policies(copies=1, timestamps="server")
