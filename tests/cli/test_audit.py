from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.format.codec import HEAD_BYTES
from seglog.format.store import HEADER_BYTES
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def log(path: Path) -> Path:
    """A log of `a b a` and a tombstone of c, whose key is no text."""
    with seglog.open(path) as log:
        for key in (b"a", b"b", b"a"):
            log.append(b"v", key=key)
        log.append(None, key=b"\xff\n")
    return path


@pytest.fixture
def topics(tmp_path: Path) -> Path:
    """Topics orders (2 partitions) and bills, each of 30 records of 10 keys."""
    for name, partitions in (("orders", 2), ("bills", 1)):
        with Topic.create(tmp_path / "topics" / name, partitions=partitions) as topic:
            for number in range(30):
                topic.append(b"v", key=b"%d" % (number % 10))
    return tmp_path / "topics"


def checkpoint(directory: Path, offsets: dict[str, Any]) -> Path:
    """A checkpoint as a streaming query leaves it, of one committed batch."""
    for name, text in (("commits", "v1\n{}"), ("offsets", f"v1\n{{}}\n{json.dumps(offsets)}")):
        (directory / name).mkdir(parents=True)
        (directory / name / "0").write_text(text)
    return directory


def test_keys_are_counted_without_any_group(cli: Callable[..., Any], log: Path) -> None:
    shown = cli("audit", log)
    assert (shown.code, shown.err) == (0, "")
    assert shown.text.splitlines() == [
        "log       records  tombstones  keys  live keys",
        "orders/0        4           1     3          2",
    ]
    told = cli("audit", log, "--json").json
    assert told["ok"] is True
    assert (told["logs"][0]["records"], told["logs"][0]["keys"], told["logs"][0]["groups"]) == (4, 3, [])


def test_an_undelivered_key_is_exit_code_1_and_listed_when_asked(cli: Callable[..., Any], log: Path) -> None:
    assert cli("audit", log, "--group", "billing=4").code == 0
    shown = cli("audit", log, "--group", "billing=2", "--group", "all=4", "--undelivered")
    assert shown.code == 1
    assert shown.text.splitlines()[3:] == [
        "group    log       delivered  records behind  keys behind",
        "all      orders/0          4               0            0",
        "billing  orders/0          2               2            2",
        "",
        "2 keys undelivered",
        'billing  orders/0  "a"  appended 2, delivered 0',
        'billing  orders/0  {"base64": "/wo="}  appended 3, a tombstone, never delivered',
    ]
    assert "never" not in cli("audit", log, "--group", "billing=2", "--undelivered", "--limit", 1).text


def test_json_is_a_line_of_figures_and_one_for_each_key(cli: Callable[..., Any], log: Path) -> None:
    ended = cli("audit", log, "--group", "billing=2", "--undelivered", "--json")
    assert ended.code == 1
    figures, *keys = (json.loads(line) for line in ended.lines)
    assert figures["ok"] is False
    assert figures["logs"][0]["groups"] == [
        {"group": "billing", "delivered": 2, "undelivered_records": 2, "undelivered_keys": 2}
    ]
    assert keys[1] == {
        "topic": "orders",
        "partition": 0,
        "key": {"base64": "/wo="},
        "appended": 3,
        "tombstone": True,
        "group": "billing",
        "delivered": None,
        "undelivered": True,
    }


def test_offsets_come_from_a_file_from_checkpoints_and_from_the_command_line(
    cli: Callable[..., Any], topics: Path, tmp_path: Path
) -> None:
    everything = {"orders": {"0": 30, "1": 30}, "bills": {"0": 30}}
    file = tmp_path / "groups.json"
    file.write_text(json.dumps({"one": everything, "two": {}}))
    committed = checkpoint(tmp_path / "checkpoint", {"bills": {"0": {"offset": 29, "epoch": 0}}})
    words = ["--delivered", file, "--checkpoint", f"three={committed}", "--group", f"four={json.dumps(everything)}"]
    told = cli("audit", topics, *words, "--json", "--memory", "4KiB")
    behind: dict[str, int] = {}
    for log in told.json["logs"]:
        for group in log["groups"]:
            behind[group["group"]] = behind.get(group["group"], 0) + group["undelivered_keys"]
    assert (told.code, behind) == (1, {"four": 0, "one": 0, "three": 11, "two": 20})
    file.write_text(json.dumps(everything))  # of no group in particular
    assert cli("audit", topics, "--delivered", file).code == 0


def test_what_cannot_be_is_one_line(cli: Callable[..., Any], log: Path, topics: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("[]")
    for words, code, message in (
        ([log, "--group", "billing"], 2, "write NAME=..."),
        ([log, "--group", "billing=x"], 2, "--group must be JSON such as"),
        ([log, "--group", "billing=1", "--group", "billing=2"], 2, "given twice"),
        ([topics, "--group", "billing=1"], 2, "one offset for 3 logs"),
        ([log, "--group", 'billing={"bills": {"0": 1}}'], 2, "no partition 0 of topic 'bills'"),
        ([log, "--checkpoint", f"billing={tmp_path}"], 2, "not a checkpoint"),
        ([log, "--delivered", tmp_path / "bad.json"], 2, "bad.json must be JSON"),
        ([log, "--delivered", tmp_path / "none.json"], 3, "none.json"),
        ([log, "--undelivered"], 2, "--undelivered needs the offsets"),
        ([log, "--limit", 3], 2, "--limit limits the keys"),
        ([tmp_path / "nowhere"], 3, "nowhere"),
    ):
        ended = cli("audit", *words)
        assert (ended.code, ended.out) == (code, b""), words
        assert message in ended.err
        assert ended.err.count("\n") == 1
    assert not (tmp_path / "nowhere").exists()


def test_a_damaged_record_is_one_line_and_exit_code_1(cli: Callable[..., Any], log: Path) -> None:
    (store,) = log.glob("*.store")
    data = bytearray(store.read_bytes())
    data[data.index(b"v", HEADER_BYTES + HEAD_BYTES)] ^= 1  # of the first value, no byte of a head
    store.write_bytes(data)
    ended = cli("audit", log, "--json")
    assert (ended.code, ended.out) == (1, b"")
    assert json.loads(ended.err)["error"] == "CorruptRecord"


def test_a_manifest_that_had_to_be_rebuilt_is_told(cli: Callable[..., Any], log: Path) -> None:
    (log / "MANIFEST").unlink()
    shown = cli("audit", log)
    assert shown.code == 0
    assert shown.err.startswith("seglog: recovery: manifest: ")
