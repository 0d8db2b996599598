"""Every command that takes a log takes a partition, a topic and a server, or says in one sentence why it does not."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Retention

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]

KEYED = LogConfig(segment_bytes=1024, retention=Retention(compact=True, min_dirty_ratio=1))  # no server does it first
SMALL = LogConfig(segment_bytes=1024, retention=Retention(bytes=2048))


@pytest.fixture(params=["directory", "location", "--url"])
def made(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[LogConfig], tuple[str, list[str]]]:
    """Make a topic of two partitions, 100 records of ten keys in each; return what names it on the command line."""

    def make(config: LogConfig) -> tuple[str, list[str]]:
        name = f"t-{uuid4().hex}"
        if request.param == "directory":
            with seglog.Broker(tmp_path / "shop") as broker:
                fill(broker.create_topic(name, partitions=2, config=config))
            return f"{tmp_path}/shop/{name}", []
        url = request.getfixturevalue("url")
        with seglog.Client(url) as client:
            fill(client.create_topic(name, partitions=2, config=config))
        return (f"{url}/{name}", []) if request.param == "location" else (name, ["--url", url])

    return make


def fill(topic: Any) -> None:
    rows = pa.table({"value": [b"v" * 100] * 10, "key": [b"%d" % number for number in range(10)]})
    for partition in range(2):
        for _ in range(10):
            topic.append_batch(rows, partition=partition)


def test_a_partition_is_truncated_wherever_it_is(cli: Cli, made: Any) -> None:
    place, options = made(SMALL)
    asked = cli("truncate", f"{place}/1", 97, *options)
    assert asked.code == 2
    assert "Delete offsets 97 to 99" in asked.err
    assert cli("truncate", f"{place}/1", 97, "--yes", *options).text == "deleted 3 offsets; the next offset is 97\n"
    again = cli("truncate", f"{place}/1", 97, "--yes", "--json", *options)
    assert again.json == {"next_offset": 97, "dropped": 0}
    assert cli("truncate", f"{place}/1", 98, "--yes", *options).code == 5
    assert [line.split()[2] for line in cli("info", place, *options).text.splitlines()[-2:]] == ["100", "97"]
    whole = cli("truncate", place, 0, "--yes", *options)
    assert (whole.code, whole.err.count("\n")) == (2, 1)
    assert "offsets count within a partition: name one" in whole.err


def test_the_first_records_of_a_partition_are_deleted_wherever_it_is(cli: Cli, made: Any) -> None:
    place, options = made(LogConfig(segment_bytes=4096))
    asked = cli("delete-before", f"{place}/1", 97, *options)
    assert asked.code == 2
    assert "Delete offsets 0 to 96" in asked.err
    done = cli("delete-before", f"{place}/1", 97, "--yes", *options)
    assert done.text == "deleted 97 offsets; the lowest offset is 97\n"
    again = cli("delete-before", f"{place}/1", 50, "--json", *options)
    assert again.json == {"lowest_offset": 97, "dropped": 0}
    assert cli("delete-before", f"{place}/1", 101, "--yes", *options).code == 5
    assert [one["lowest_offset"] for one in cli("info", place, *options, "--json").json["partitions"]] == [0, 97]
    whole = cli("delete-before", place, 0, "--yes", *options)
    assert (whole.code, "name one" in whole.err) == (2, True)


def test_a_topic_gets_more_partitions_wherever_it_is(cli: Cli, made: Any) -> None:
    place, options = made(SMALL)
    root, name = ["--url", options[1]] if options else [place.rpartition("/")[0]], place.rpartition("/")[2]
    assert cli("topics", "alter", *root, name, "--partitions", 3).text == f"{name} has 3 partitions\n"
    assert len(cli("info", place, *options, "--json").json["partitions"]) == 3
    both = cli("topics", "alter", *root, name, "--partitions", 4, "--retention-bytes", "1MiB")
    assert both.text == f"{name} has 4 partitions\n{name} keeps bytes 1 MiB\n"
    fewer = cli("topics", "alter", *root, name, "--partitions", 2)
    assert (fewer.code, "has 4 partitions; 2 are not more" in fewer.err) == (2, True)


def test_all_partitions_of_a_topic_are_expired_or_one(cli: Cli, made: Any) -> None:
    place, options = made(LogConfig(segment_bytes=1024))
    assert cli("expire", place, *options).text.splitlines()[0].startswith("partition 0: deleted 0 segments")
    root = ["--url", options[1]] if options else [place.rpartition("/")[0]]
    assert cli("topics", "alter", *root, place.rpartition("/")[2], "--retention-bytes", "3KiB").code == 0
    assert set(cli("expire", f"{place}/1", *options, "--json").json) >= {"segments", "dry_run"}
    left = [part["lowest_offset"] for part in cli("info", place, *options, "--json").json["partitions"]]
    assert left[1] > 50
    if not options and not place.startswith("http"):  # a server expires by itself as well
        assert left[0] == 0
    assert set(cli("expire", place, *options, "--json").json["partitions"]) == {"0", "1"}
    assert min(part["lowest_offset"] for part in cli("info", place, *options, "--json").json["partitions"]) > 50


def test_all_partitions_of_a_topic_are_compacted_or_one(cli: Cli, made: Any) -> None:
    place, options = made(KEYED)
    rolls = [] if options or place.startswith("http") else ["--roll"]  # a server always rolls
    one = cli("compact", f"{place}/0", *rolls, *options, "--json")
    assert (one.code, one.json["superseded"]) == (0, 90)
    both = cli("compact", place, *rolls, *options)
    assert both.text.startswith("partition 0:\n  nothing to remove in")
    assert "partition 1:\n  removed 90 records of 100" in both.text
    lines = [json.loads(line) for line in cli("compact", place, *options, "--json").lines]
    assert [line["partition"] for line in lines] == [0, 1]
    refused = cli("compact", made(SMALL)[0], *options)
    assert refused.code == 2
    assert "--compact` changes that" in refused.err


def test_what_a_server_does_not_offer_is_said(cli: Cli, url: str) -> None:
    for words in (["compact", "--dry-run"], ["compact", "--rate", "1MiB"], ["expire", "--dry-run"]):
        ended = cli(words[0], f"{url}/default", *words[1:])
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert f"{words[1]} works on files: run it on the server's machine" in ended.err


def test_a_topic_is_asked_why_a_record_is_there_and_who_follows_it(cli: Cli, tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        topic = broker.create_topic("orders", partitions=3, config=KEYED)
        places = [topic.append(b"v", key=b"%d" % number) for number in range(9)]
        topic.partition(2).pin("copy", 0)
    assert {partition for partition, _ in places} == {0, 1, 2}
    for number, (_, offset) in enumerate(places):
        (shown,) = cli("explain", tmp_path / "shop" / "orders", "--key", number, "--json").lines
        assert (json.loads(shown)["offset"], json.loads(shown)["key"]) == (offset, str(number))
    shown = cli("pin", tmp_path / "shop" / "orders").text
    assert shown.startswith("partition 0:\n  no pins\npartition 1:\n  no pins\npartition 2:\n  copy  0")
    dry = cli("compact", tmp_path / "shop" / "orders", "--dry-run", "--json").lines
    assert [json.loads(line)["partition"] for line in dry] == [0, 1, 2]


@pytest.mark.parametrize(
    "words", [["verify"], ["repair"], ["backup", "copy"], ["explain", "0"], ["pin"], ["audit"]], ids=lambda of: of[0]
)
def test_a_command_that_needs_the_files_says_so_for_a_server(cli: Cli, words: list[str]) -> None:
    command, *more = words
    ended = cli(command, "http://127.0.0.1:1/orders", *more)
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"`seglog {command}` works on files, and http://127.0.0.1:1/orders is on a server" in ended.err
    ended = cli(command, "orders", *more, "--url", "http://127.0.0.1:1")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert f"`seglog {command}` works on files and takes no --url" in ended.err


def test_a_server_is_not_served(cli: Cli) -> None:
    ended = cli("serve", "http://127.0.0.1:1")
    assert (ended.code, ended.err.count("\n")) == (2, 1)
    assert "works on files" in ended.err


# --- topics and groups ------------------------------------------------------------------------------------------------


@pytest.fixture(params=["location", "--url", "--url first"])
def at(request: pytest.FixtureRequest, cli: Cli, url: str) -> Cli:
    """Run a verb of `topics` or `groups` on a server, which is named in one of the ways there are."""

    def run(command: str, verb: str, *words: object) -> Any:
        if request.param == "location":
            return cli(command, verb, url, *words)
        if request.param == "--url":
            return cli(command, verb, *words, "--url", url)
        return cli(command, "--url", url, verb, *words)

    return run


def test_a_topic_on_a_server_is_created_listed_altered_and_deleted(cli: Cli, at: Cli, url: str) -> None:
    name = f"t-{uuid4().hex}"
    made = at("topics", "create", name, "--partitions", 3, "--retention-age", "7d", "--segment-bytes", "1MiB")
    assert (made.code, made.text) == (0, f"created {name} with 3 partitions\n")
    with seglog.Client(url) as client:
        assert client.topic(name).info().config.segment_bytes == 1024**2
    assert any(line.split()[:2] == [name, "3"] for line in at("topics", "list").text.splitlines())
    assert f"{name} keeps bytes 1 GiB, age 7d" in at("topics", "alter", name, "--retention-bytes", "1GiB").text
    (one,) = [topic for topic in cli("topics", url, "--json").json["topics"] if topic["name"] == name]
    assert set(one) == {"name", "partitions", "id", "records", "bytes", "retention", "policies", "config"}
    assert at("topics", "create", name).code == 2
    assert at("topics", "alter", name).code == 2
    assert at("topics", "delete", name).code == 2, "it asks, and there is no terminal"
    assert at("topics", "delete", name, "--yes").text == f"deleted {name}: 0 records, 192 B\n"
    assert at("topics", "delete", name, "--yes").code == 3


def test_groups_on_a_server_are_shown_reset_and_deleted(cli: Cli, at: Cli, url: str) -> None:
    name, group = f"t-{uuid4().hex}", f"g-{uuid4().hex}"
    with seglog.Client(url) as client:
        topic = client.create_topic(name, partitions=2)
        for number in range(2):
            for turn in range(10):
                topic.append(b"%d" % turn, partition=number, timestamp=turn)
        client.commit(group, {name: {0: 4}})
        assert [group, "0", name, "6"] in [line.split() for line in at("groups", "list").text.splitlines()]
        assert at("groups", "show", group).text.startswith(f"{group}: 0 members, generation 0")
        where = ["--topic", name]
        assert at("groups", "reset", group, *where, "--time", 3).code == 0
        assert client.committed(group) == {name: {0: 3, 1: 3}}
        told = at("groups", "reset", group, *where, "--to", "latest", "--partition", 1, "--json").json
        assert told == {"group": group, "offsets": {name: {"1": 10}}, "before": {name: {"0": 3, "1": 3}}}
        assert at("groups", "reset", group, *where, "--to", 11, "--partition", 0).code == 5
        assert at("groups", "reset", group, *where, "--to", 1, "--partition", 2).code == 2
        with client.consumer(group, [name]):
            refused = at("groups", "reset", group, *where, "--to", "earliest", "--yes")
            assert "has 1 member that read from the server now" in refused.err
            assert refused.code == at("groups", "delete", group, "--yes").code == 2
        assert at("groups", "delete", group, "--yes").text == f"deleted {group}: 2 committed offsets\n"
        assert at("groups", "show", group).code == 3


def test_a_root_that_is_missing_or_given_twice_is_said(cli: Cli, url: str) -> None:
    for words, told in (
        (["topics", "create", "shop"], "the argument NAME is missing"),
        (["topics", "list"], "the argument ROOT is missing"),
        (["topics", "create", "--url", url], "the argument NAME is missing"),
        (["topics", "create", "shop", "orders", "--url", url], "give no ROOT with it"),
        (["groups", "show", "--url", "127.0.0.1:3000", "billing"], "begins with http:// or https://"),
    ):
        ended = cli(*words)
        assert (ended.code, ended.err.count("\n")) == (2, 1)
        assert told in ended.err


# --- only what is synced ----------------------------------------------------------------------------------------------


def test_only_synced_records_of_a_server_are_read_followed_and_consumed(cli: Cli, unsynced_url: str) -> None:
    name = f"t-{uuid4().hex}"
    with seglog.Client(unsynced_url) as client:
        topic = client.create_topic(name)
        topic.append(b"safe", ack="durable")
        topic.append(b"not yet")
    place = f"{unsynced_url}/{name}"
    for words in (["read"], ["tail"], ["consume", "-g", name]):
        assert cli(words[0], place, *words[1:], "--expose", "durable").lines == [b"safe"]
    assert cli("read", place, "--expose", "appended").lines == [b"safe", b"not yet"]
    assert cli("export", place, "-", "--durable").text.count("\n") == 1
    early = cli("read", f"{place}/0", 1, "--expose", "durable")
    assert early.code == 5
    assert "offset 1 was appended but is not synced yet" in early.err
    assert cli("read", place, "--durable", "--expose", "appended").code == 2
