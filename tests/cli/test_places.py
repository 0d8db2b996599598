"""Topics, partitions and servers, named where a log is named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import seglog
from tests.cli.conftest import Topic
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable

    Cli = Callable[..., Any]

SECOND = 1_000_000


def fill(cli: Cli, topic: Topic, count: int = 9) -> None:
    """Append values 0 .. count - 1, value n at n seconds, to partition n % 3, keys a, b, c."""
    for number in range(count):
        key = "abc"[number % 3]
        place = topic.partition(number % 3)
        assert cli("append", *place, number, "--key", key, "--timestamp", number * SECOND).code == 0


def numbers(shown: Any) -> list[int]:
    assert shown.code == 0, shown.err
    return [int(line) for line in shown.lines]


def test_a_record_is_appended_to_a_topic_and_its_place_is_printed(cli: Cli, topic: Topic) -> None:
    first = cli("append", *topic.words, "--key", "k", "Hello")
    partition, offset = map(int, first.text.split())
    assert offset == 0
    again = cli("append", *topic.words, "--key", "k", "again", "--json").json
    assert again == {"partition": partition, "offset": 1}
    assert cli("append", *topic.partition(partition), "third", "--sync").text == "2\n"
    assert cli("append", *topic.partition(partition), stdin=b"from stdin").text == "3\n"
    shown = cli("read", *topic.partition(partition))
    assert shown.lines == [b"Hello", b"again", b"third", b"from stdin"]
    assert cli("append", *topic.words, "--key", "k", "--tombstone").code == 0
    assert cli("read", *topic.partition(partition), "-1", "--json").json["value"] is None


def test_the_lines_of_standard_input_go_to_a_topic_by_their_keys(cli: Cli, topic: Topic) -> None:
    shown = cli("append", *topic.words, "--lines", "--key-separator", ":", stdin=b"a:1\nb:2\na:3\nb:4\n")
    assert shown.code == 0
    assert len(shown.lines) == 4
    places = [tuple(map(int, line.split())) for line in shown.lines]
    assert places[2] == (places[0][0], places[0][1] + 1 if places[0][0] != places[1][0] else 2)
    assert cli("read", *topic.words, "--key", "a").lines == [b"1", b"3"]


def test_a_topic_is_read_merged_by_time(cli: Cli, topic: Topic) -> None:
    fill(cli, topic)
    assert numbers(cli("read", *topic.words)) == list(range(9))
    assert numbers(cli("read", *topic.words, "-n", 4)) == [0, 1, 2, 3]
    assert numbers(cli("read", *topic.words, "--start", -1)) == [6, 7, 8]
    assert numbers(cli("read", *topic.words, "--start", 1, "--stop", -1)) == [3, 4, 5]
    assert numbers(cli("read", *topic.words, "--from-time", "1970-01-01T00:00:04", "--to-time", 7 * SECOND)) == [
        4,
        5,
        6,
    ]
    assert numbers(cli("read", *topic.partition(1))) == [1, 4, 7]
    assert cli("read", *topic.partition(1), 1).out == b"4"
    assert cli("read", *topic.words, 1).code == 2
    assert cli("read", *topic.words, "--start", 99).code == 5
    lines = [json.loads(line) for line in cli("read", *topic.words, "--format", "ndjson").lines]
    assert [(line["partition"], line["offset"]) for line in lines] == [(n % 3, n // 3) for n in range(9)]
    assert "partition" not in json.loads(cli("read", *topic.partition(1), "--format", "ndjson").lines[0])


def test_the_last_records_of_a_topic_are_the_latest_of_all_partitions(cli: Cli, topic: Topic) -> None:
    fill(cli, topic)
    assert numbers(cli("tail", *topic.words, "-n", 4)) == [5, 6, 7, 8]
    assert numbers(cli("tail", *topic.words)) == list(range(9))
    assert numbers(cli("tail", *topic.partition(2), "-n", 1)) == [8]
    assert numbers(cli("tail", *topic.words, "-n", 4, "--key", "a")) == [6]


def test_an_empty_topic_is_read_and_has_no_records(cli: Cli, topic: Topic) -> None:
    for words in (["read"], ["read", "--start", "-5"], ["tail"], ["read", "--from-time", "1h ago"]):
        shown = cli(words[0], *topic.words, *words[1:])
        assert (shown.code, shown.out) == (0, b"")
    assert cli("info", *topic.words, "--json").json["records"] == 0
    assert cli("read", *topic.partition(0), "-1").code == 5


def test_a_topic_is_exported_and_imported_again(cli: Cli, topic: Topic, tmp_path: Any) -> None:
    fill(cli, topic)
    table, lines = tmp_path / "orders.parquet", tmp_path / "orders.ndjson"
    assert cli("export", *topic.words, table).code == 0
    rows = pq.read_table(table).to_pylist()
    assert [(row["partition"], row["offset"], row["value"]) for row in rows] == [
        (n % 3, n // 3, b"%d" % n) for n in range(9)
    ]
    assert cli("export", *topic.words, lines, "--where", "@ > 4").code == 0
    assert cli("import", *topic.words, table).text.startswith("imported 9 records in ")
    assert cli("import", *topic.words, lines, "--json").json["records"] == 4
    again = [int(line) for line in cli("read", *topic.words).lines]
    assert sorted(again) == sorted([*range(9), *range(9), *range(5, 9)])
    before = cli("info", *topic.partition(1), "--json").code
    assert before == 0
    assert cli("import", *topic.partition(1), lines).code == 0


def test_info_of_a_topic_has_a_line_for_each_partition(cli: Cli, topic: Topic) -> None:
    fill(cli, topic)
    shown = cli("info", *topic.words)
    assert shown.code == 0
    assert shown.text.splitlines()[-4].split() == [
        "partition",
        "lowest",
        "next",
        "durable",
        "records",
        "size",
        "segments",
    ]
    assert [line.split()[:3] for line in shown.text.splitlines()[-3:]] == [[str(n), "0", "3"] for n in range(3)]
    told = cli("info", *topic.words, "--json").json
    assert (told["records"], [part["next_offset"] for part in told["partitions"]]) == (9, [3, 3, 3])
    assert "partition 2" in cli("info", *topic.words, "--segments").text
    assert cli("info", *topic.words, "--garbage").code == 2


def test_a_group_consumes_a_topic_and_goes_on_where_it_was(cli: Cli, topic: Topic) -> None:
    fill(cli, topic, 6)
    group = f"billing-{topic.place.rpartition('/')[2]}"
    first = cli("consume", *topic.words, "--group", group, "-n", 2)
    assert len(numbers(first)) == 2
    rest = cli("consume", *topic.words, "--group", group)
    assert sorted(numbers(first) + numbers(rest)) == list(range(6))
    assert cli("consume", *topic.words, "--group", group).out == b""
    fill(cli, topic, 3)
    shown = cli("consume", *topic.words, "--group", group, "--format", "ndjson", "--key", "b")
    [line] = [json.loads(line) for line in shown.lines]
    assert (line["partition"], line["offset"], line["value"], line["key"]) == (1, 2, "1", "b")
    assert cli("consume", *topic.words, "--group", group).out == b""
    other = cli("consume", *topic.words, "--group", f"{group}-2", "--format", "%p %o %s\\n", "-n", 9)
    assert sorted(other.lines) == sorted(b"%d %d %d" % (n % 3, n // 3, n if n < 6 else n - 6) for n in range(9))


def test_a_topic_that_does_not_exist_is_not_created_by_a_mistyped_name(cli: Cli, topic: Topic) -> None:
    wrong = topic.place + "x"
    for words in (
        ["append", wrong, "v"],
        ["read", wrong],
        ["tail", wrong],
        ["info", wrong],
        ["consume", wrong, "--group", "g"],
        ["import", wrong, "-"],
        ["export", wrong, "-"],
    ):
        ended = cli(*words, *topic.options, stdin=b'{"value":"v"}\n')
        assert (ended.code, ended.out) == (3, b""), words
        assert ended.err.count("\n") == 1
    assert cli("append", f"{topic.place}/7", *topic.options, "v").code == 2
    assert cli("read", f"{topic.place}/7", *topic.options).code == 2


def test_options_of_a_config_are_refused_where_a_topic_has_its_own(cli: Cli, topic: Topic) -> None:
    ended = cli("append", *topic.words, "v", "--retention-age", "7d")
    assert ended.code == 2
    assert "topics alter" in ended.err


def test_a_followed_topic_shows_records_of_all_partitions_as_they_come(topic: Topic, cli: Cli) -> None:
    words = [sys.executable, "-m", "seglog", "tail", *topic.words, "-f", "--format", "%p %s\\n"]
    fill(cli, topic, 3)
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:
        try:
            assert [program.stdout.readline() for _ in range(3)] == [b"0 0\n", b"1 1\n", b"2 2\n"]
            assert cli("append", *topic.partition(1), "new").code == 0
            assert program.stdout.readline() == b"1 new\n"
            program.send_signal(signal.SIGINT)
            assert program.communicate(timeout=HANG_SECONDS) == (b"", b"")
            assert program.returncode == 130
        finally:
            program.kill()


def test_a_directory_that_a_server_holds_says_how_to_reach_it(cli: Cli, tmp_path: Any) -> None:
    with seglog.Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders").append(b"v")
        for words in (["append", tmp_path / "shop/orders", "v"], ["consume", tmp_path / "shop/orders", "-g", "g"]):
            ended = cli(*words)
            assert ended.code == 4
            assert "--url" in ended.err
        assert cli("read", tmp_path / "shop/orders").out == b"v\n"


def test_a_command_waits_for_the_process_that_holds_a_log(cli: Cli, path: Any) -> None:
    held = seglog.open(path)
    assert cli("append", path, "v").code == 4
    assert cli("append", path, "v", "--wait", "0.1s").code == 4
    threading.Timer(0.3, held.close).start()
    assert cli("append", path, "v", "--wait", "1m").text == "0\n"


def test_every_command_that_writes_can_wait_for_another_process(cli: Cli, path: Any, tmp_path: Any) -> None:
    cli("append", path, "v", "--compact", "--key", "k")
    with seglog.open(path), seglog.Broker(tmp_path / "shop") as broker:
        broker.create_topic("orders").append(b"v")
        for words in (
            ["truncate", path, 0, "--yes"],
            ["expire", path],
            ["compact", path],
            ["import", path, "-"],
            ["topics", "create", tmp_path / "shop", "users"],
            ["topics", "alter", tmp_path / "shop", "orders", "--retention-age", "7d"],
            ["topics", "delete", tmp_path / "shop", "orders", "--yes"],
            ["consume", tmp_path / "shop" / "orders", "--group", "g"],
        ):
            ended = cli(*words, "--wait", "60ms", stdin=b'{"value":"v"}')
            assert ended.code == 4, words
            assert "--wait" not in ended.err
            assert "--wait" in cli(*words, stdin=b'{"value":"v"}').err


def test_a_server_that_is_not_there_is_exit_code_6_and_a_wrong_address_2(cli: Cli) -> None:
    ended = cli("read", "http://127.0.0.1:1/orders")
    assert ended.code == 6
    assert "is the server running?" in ended.err
    assert cli("read", "http://[::1/orders").code == 2
    for words in (["read", "http://127.0.0.1:1"], ["read", "http://127.0.0.1:1/orders", "--url", "http://127.0.0.1:1"]):
        assert cli(*words).code == 2


def test_the_client_that_is_not_installed_is_named(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(seglog.__dict__, "Client", raising=False)
    ended = cli("read", "http://127.0.0.1:1/orders")
    assert ended.code == 2
    assert "seglog[client]" in ended.err


def test_a_token_comes_from_a_file_or_the_environment(cli: Cli, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []

    class Stopped(seglog.ConnectionFailed):
        pass

    def client(_url: str, **options: Any) -> None:
        seen.append(options["token"])
        raise Stopped("no server here", sent=False)

    monkeypatch.setattr(seglog, "Client", client)
    monkeypatch.setenv("SEGLOG_TOKEN", "from-variable")
    (tmp_path / "token").write_text("from-file\n")
    assert cli("read", "http://127.0.0.1:1/orders").code == 6
    assert cli("read", "http://127.0.0.1:1/orders", "--token-file", tmp_path / "token").code == 6
    assert seen == ["from-variable", "from-file"]


def test_reading_creates_nothing_and_takes_no_lock(cli: Cli, tmp_path: Any) -> None:
    place = tmp_path / "shop" / "orders"
    with seglog.Broker(tmp_path / "shop") as broker:  # holds every lock
        broker.create_topic("orders", partitions=2)
        before = sorted((name, tuple(files)) for name, _, files in os.walk(tmp_path))
        for words in (["read", place], ["tail", place], ["info", place], ["export", place, "-"]):
            assert cli(*words).code == 0
        assert sorted((name, tuple(files)) for name, _, files in os.walk(tmp_path)) == before


def test_a_topic_where_one_log_is_needed_says_what_to_name(cli: Cli, tmp_path: Any) -> None:
    cli("topics", "create", tmp_path / "shop", "orders")
    for words in (["truncate", 0], ["explain", 0], ["pin", "copy", 0]):
        ended = cli(words[0], tmp_path / "shop" / "orders", *words[1:])
        assert ended.code == 2
        assert "within a partition: name one, as" in ended.err
        assert "shop/orders/0" in ended.err
    for words in (["truncate", 0], ["compact"], ["expire"], ["explain", 0], ["pin"]):
        assert cli(words[0], tmp_path / "shop", *words[1:]).code == 3
    for words in (["read"], ["tail"], ["append"]):
        ended = cli(*words, tmp_path / "shop", stdin=b"v")
        assert ended.code == 3
        assert "shop/orders" in ended.err


def test_a_server_is_named_by_an_option_as_well(cli: Cli, url: str, tmp_path: Any) -> None:
    with seglog.Client(url) as client:
        client.create_topic("by-option", partitions=2)
    topic = Topic("by-option", ("--url", url))
    fill_two = [cli("append", *topic.partition(number), f"v{number}", "--timestamp", number) for number in range(2)]
    assert [one.text for one in fill_two] == ["0\n", "0\n"]
    assert cli("read", *topic.words).lines == [b"v0", b"v1"]
    assert cli("tail", *topic.partition(1)).lines == [b"v1"]
    assert cli("read", *topic.words, "--durable", "--key", "k").out == b""
    assert cli("export", *topic.words, tmp_path / "x.ndjson").code == 0
    assert cli("import", *topic.partition(1), tmp_path / "x.ndjson").code == 0
    assert cli("info", *topic.words, "--json").json["records"] == 4
    assert sorted(cli("consume", *topic.words, "-g", "by-option").lines) == [b"v0", b"v0", b"v1", b"v1"]
