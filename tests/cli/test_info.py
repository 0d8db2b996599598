from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def log(path: Any) -> Any:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(age=7))
    with seglog.open(path, config) as log:
        for i in range(20):
            log.append(None if i % 5 == 4 else b"." * 60, key=b"k", timestamp=i * 1_000_000)
    return path


def test_the_totals_are_told(cli: Callable[..., Any], log: Any) -> None:
    shown = cli("info", log).text
    assert "0 … 19" in shown
    assert "20, 4 of them tombstones" in shown
    assert "segment_bytes 512 B" in shown
    assert "retention.age 7s" in shown
    assert "1970-01-01T00:00:00Z … 1970-01-01T00:00:19Z" in shown
    assert "clean" in shown


def test_the_totals_are_json_for_programs(cli: Callable[..., Any], log: Any) -> None:
    told = cli("info", log, "--json").json
    assert (told["lowest_offset"], told["next_offset"], told["records"], told["tombstones"]) == (0, 20, 20, 4)
    assert told["config"]["segment_bytes"] == 512
    assert told["recovery"] == {"clean": True, "events": []}
    segments = cli("info", log, "--json", "--segments").json["segments"]
    assert len(segments) == told["segments"]
    assert segments[0]["base_offset"] == 0


def test_the_segments_of_a_topics_partitions_are_json_too(cli: Callable[..., Any], tmp_path: Path) -> None:
    with seglog.Topic.create(tmp_path / "orders", partitions=2, config=seglog.LogConfig(segment_bytes=512)) as topic:
        for number in range(40):
            topic.append(bytes(100), key=b"%d" % number)
    told = cli("info", tmp_path / "orders", "--json").json["partitions"]
    listed = cli("info", tmp_path / "orders", "--json", "--segments").json["partitions"]
    assert min(one["segments"] for one in told) > 1
    assert [len(one["segments"]) for one in listed] == [one["segments"] for one in told]
    assert listed[0]["segments"][0]["base_offset"] == 0


def test_the_policies_of_a_topic_are_shown(cli: Callable[..., Any], tmp_path: Path) -> None:
    seglog.Topic.create(tmp_path / "orders", partitions=1, policies=seglog.Policies(copies=2)).close()
    assert "policies.copies 2" in cli("info", tmp_path / "orders").text
    assert cli("info", tmp_path / "orders", "--json").json["policies"]["copies"] == 2


def test_the_segments_are_drawn_one_a_line(cli: Callable[..., Any], log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    count = cli("info", log, "--json").json["segments"]
    drawn = cli("info", log, "--segments").text.split("\n\n")[1].splitlines()
    assert len(drawn) == 1 + count
    assert max(map(len, drawn)) <= 100
    assert "█" in drawn[1]
    assert "active" in drawn[-1]


def test_an_empty_log_has_an_empty_story(cli: Callable[..., Any], path: Any) -> None:
    seglog.open(path).close()
    shown = cli("info", path, "--segments")
    assert shown.code == 0
    assert "none, the next is 0" in shown.text
    assert cli("info", path, "--json").json["min_timestamp"] is None


def test_a_store_that_lacks_bytes_is_told_and_fails(cli: Callable[..., Any], log: Path) -> None:
    first, *_, last = sorted(log.glob("*.store"))
    assert cli("info", log).code == 0
    for store, lost in ((last, "lacks 1 of its records"), (first, "cannot be read")):
        whole = store.read_bytes()
        store.write_bytes(whole[:-7])
        shown = cli("info", log)
        told, code = shown.text, shown.code
        assert f"DAMAGED   {store.name}" in told
        assert lost in told
        assert "see below" in told
        assert code == cli("info", log, "--json").code == 1
        assert cli("info", log, "--json").json["damage"]
        store.write_bytes(whole)
    first.unlink()
    assert f"{first.name} is missing" in cli("info", log).text


def test_a_damaged_partition_of_a_topic_is_told_and_fails(cli: Callable[..., Any], tmp_path: Path) -> None:
    with seglog.Topic.create(tmp_path / "orders", partitions=2) as topic:
        topic.append(bytes(100), partition=1)
    (store,) = (tmp_path / "orders" / "1").glob("*.store")
    store.write_bytes(store.read_bytes()[:-7])
    assert f"DAMAGED   partition 1: {store.name}" in cli("info", tmp_path / "orders").text
    assert cli("info", tmp_path / "orders", "--json").json["partitions"][1]["damage"]
    assert cli("info", tmp_path / "orders").code == 1
