"""`seglog replay`: the state of a machine, wherever the records are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Cli = Callable[..., Any]

LESSON = "seglog.spark.replay.classroom:Classroom"


@pytest.fixture
def lesson(tmp_path: Path) -> Path:
    with seglog.open(tmp_path / "lesson") as log:
        for second, word in enumerate([b"Add 3", b"Div 5", b"Mul 2"]):
            log.append(word, key=b"%d" % (second % 2), timestamp=1_000_000 * second)
    return tmp_path / "lesson"


def test_the_state_is_printed(cli: Cli, lesson: Path) -> None:
    shown = cli("replay", lesson, LESSON)
    assert (shown.code, shown.text) == (0, "18\n")
    assert "3 records applied; next offset 3" in shown.err
    assert cli("replay", lesson, LESSON, "--stop", 2).text == "9\n"
    assert cli("replay", lesson, LESSON, "--to-time", "@1").text == "45\n"
    assert cli("replay", lesson, LESSON, "--json").json == {
        "partition": 0,
        "next_offset": 3,
        "records": 3,
        "resumed_at": None,
        "state": "18",
    }


def test_snapshots_are_used_and_stored(cli: Cli, lesson: Path, tmp_path: Path) -> None:
    states = tmp_path / "states"
    assert cli("replay", lesson, LESSON, "--snapshots", states, "--stop", 2, "--keep", 3, "--every", 1).text == "9\n"
    again = cli("replay", lesson, LESSON, "--snapshots", states)
    assert again.text == "18\n"
    assert "1 record applied after the snapshot at offset 2" in again.err
    assert seglog.Snapshots(states).offsets() == [2, 3]
    (states / f"0-{3:020d}.snapshot").write_bytes(b"damaged")
    assert "was not used: its header is damaged" in cli("replay", lesson, LESSON, "--snapshots", states).err


def test_each_key_and_each_partition_has_a_line(cli: Cli, lesson: Path, tmp_path: Path) -> None:
    assert cli("replay", lesson, LESSON, "--per-key").lines == [b"0\t90", b"1\t42/5"]
    with Topic.create(tmp_path / "topic", partitions=2) as topic:
        topic.append(b"Add 1", partition=0)
        topic.append(b"Add 2", partition=1)
    assert cli("replay", tmp_path / "topic", LESSON).lines == [b"0\t43", b"1\t44"]
    assert cli("replay", tmp_path / "topic" / "1", LESSON).lines == [b"44"]
    assert [json.loads(line)["key"] for line in cli("replay", lesson, LESSON, "--per-key", "--json").lines] == [
        "0",
        "1",
    ]


def test_a_topic_on_a_server_is_replayed(cli: Cli, url: str) -> None:
    with seglog.Client(url) as client:
        topic = client.create_topic("replayed-lesson", partitions=2)
        topic.append(b"Add 1", partition=0)
        topic.append(b"Add 2", partition=1)
    assert cli("replay", "--url", url, "replayed-lesson", LESSON).lines == [b"0\t43", b"1\t44"]
    assert cli("replay", f"{url}/replayed-lesson/1", LESSON).lines == [b"44"]


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (["nothing:Machine"], 2, "there is no machine nothing:Machine"),
        (["json:dumps"], 2, "is not a state machine"),
        ([LESSON, "--every", 5], 2, "options of --snapshots"),
        ([LESSON, "--stop", 4], 5, "out of range"),
        ([LESSON, "--stop", 1, "--to-time", "now"], 2, "exclude each other"),
    ],
)
def test_a_mistake_is_explained(cli: Cli, lesson: Path, words: list[Any], code: int, error: str) -> None:
    shown = cli("replay", lesson, *words)
    assert (shown.code, shown.out) == (code, b"")
    assert error in shown.err


def test_a_record_that_the_machine_rejects_is_named(cli: Cli, lesson: Path, tmp_path: Path) -> None:
    with seglog.open(lesson) as log:
        log.append(b"Sing")
    shown = cli("replay", lesson, LESSON, "--output", tmp_path / "state", "--json")
    assert json.loads(shown.err)["offset"] == 3
    assert (shown.code, (tmp_path / "state").exists()) == (2, False)
