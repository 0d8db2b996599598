"""`seglog.replay`: the same records in the same order give the same state, wherever the log is and it begins."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, MachineFailed, PerKey, Retention, Topic
from seglog.spark.replay.classroom import Classroom
from tests.machines.machines import Chain, Heard, NoDecode, Refuses, chained, fill, states_at

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import Served

SMALL = LogConfig(segment_bytes=8192)
KEYED = LogConfig(segment_bytes=512, retention=Retention(compact=True, delete_retention=0))


def test_the_lesson_of_the_article(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "lesson") as log:
        for instruction in (b"Add 3", b"Div 5"):
            log.append(instruction)
        assert seglog.replay(log, Classroom()).state == Fraction(9)
        assert seglog.replay(log, Classroom(), stop=1).state == Fraction(45)


def test_every_record_is_applied_once_in_order_with_all_that_it_holds(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 2500)
        log.append(None, key=b"gone")
        log.append(b"", headers=[("empty", None)])
        found = seglog.replay(log, Chain())
        assert found.state == chained(log.scan())
        assert (found.next_offset, found.records, found.partitions[0].gaps) == (2502, 2502, 0)
        assert seglog.replay(log, Heard()).state == list(range(2502))


@pytest.mark.parametrize("place", ["path", "reader", "storage", "writer", "copy"])
def test_a_log_is_replayed_wherever_it_is(place: str, tmp_path: Path) -> None:
    storage = seglog.MemoryStorage() if place == "storage" else None
    with seglog.open(storage or tmp_path / "log", SMALL) as log:
        fill(log, 500)
        expected = chained(log.scan())
        if place == "copy":
            with seglog.Mirror(tmp_path / "log", tmp_path / "copy") as mirror:
                mirror.step()
            assert seglog.replay(tmp_path / "copy", Chain()).state == expected
        elif place == "reader":
            with seglog.open(tmp_path / "log", mode="r") as reader:
                assert seglog.replay(reader, Chain()).state == expected
                assert not reader.closed
        else:
            what: Any = {"path": str(tmp_path / "log"), "storage": storage, "writer": log}[place]
            assert seglog.replay(what, Chain()).state == expected


def test_each_partition_of_a_topic_has_a_state(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "topic", partitions=3, config=SMALL) as topic:
        for number in range(300):
            topic.append(b"%d" % number, key=b"%d" % (number % 17))
        expected = {number: chained(topic.partition(number).scan()) for number in range(3)}
        for place in (topic, tmp_path / "topic"):
            found = seglog.replay(place, Chain())
            assert found.states == expected
            assert found.records == 300
        with pytest.raises(seglog.InvalidArgument, match="3 partitions"):
            _ = found.state
        stops = {number: topic.partition(number).next_offset // 2 for number in range(3)}
        half = seglog.replay(topic, Chain(), stop=stops)
        assert {number: one.next_offset for number, one in half.partitions.items()} == stops
        assert seglog.replay(topic, Chain(), start=half).states == expected
        with pytest.raises(seglog.InvalidArgument, match="one offset for 3 partitions"):
            seglog.replay(topic, Chain(), stop=5)
        with pytest.raises(seglog.InvalidArgument, match=r"must name each partition"):
            seglog.replay(topic, Chain(), stop={0: 1, 7: 2})
        with pytest.raises(seglog.InvalidArgument, match="one state for 3 partitions"):
            seglog.replay(topic, Chain(), state=4)
    assert seglog.replay(tmp_path / "topic" / "1", Chain()).state == expected[1]


def test_a_directory_of_topics_names_its_topics(tmp_path: Path) -> None:
    Topic.create(tmp_path / "root" / "orders", partitions=1).close()
    with pytest.raises(seglog.InvalidArgument, match="root/orders"):
        seglog.replay(tmp_path / "root", Chain())


def test_a_topic_on_a_server_is_replayed(serve: Callable[..., Served], tmp_path: Path) -> None:
    server = serve()
    with seglog.Client(server.url) as client:
        client.create_topic("lesson", partitions=2)
        topic = client.topic("lesson")
        for number in range(200):
            topic.append(b"%d" % number, key=b"%d" % (number % 11))
        expected = {number: chained(topic.records(number)) for number in range(2)}
        first = seglog.replay(topic, Chain(), snapshots=tmp_path / "states")
        assert first.states == expected
        assert seglog.replay(f"{server.url}/lesson", Chain()).states == expected
        assert seglog.replay(f"{server.url}/lesson/1", Chain()).states == {1: expected[1]}
        end = topic.bounds()[1].next_offset
        topic.truncate(1, end - 3)
        topic.append(b"another", partition=1)
        again = seglog.replay(topic, Chain(), snapshots=tmp_path / "states")
        assert again.states == {0: expected[0], 1: chained(topic.records(1))}
        assert again.partitions[0].resumed_at == topic.bounds()[0].next_offset
        assert again.partitions[1].resumed_at is None
        with pytest.raises(seglog.LogTruncated):
            seglog.replay(topic, Chain(), start=first)
        with pytest.raises(seglog.InvalidArgument, match="partitions 0 to 1, not 7"):
            seglog.replay(f"{server.url}/lesson/7", Chain())


def test_the_state_as_of_an_offset_or_a_time(tmp_path: Path) -> None:
    begun = datetime(2026, 5, 1, tzinfo=UTC)
    with seglog.open(tmp_path / "log", SMALL) as log:
        for minute in range(200):
            moment = begun + timedelta(minutes=minute)
            log.append(b"%d" % minute, timestamp=int(moment.timestamp()) * 1_000_000)
        for offset, state in states_at(log):
            assert seglog.replay(log, Chain(), stop=offset).state == state
        expected = dict(states_at(log))
        for moment, offset in [
            (begun, 0),
            (begun + timedelta(minutes=7), 7),
            (begun + timedelta(minutes=7, seconds=1), 8),
            (begun.replace(tzinfo=None) + timedelta(days=1), 200),
        ]:
            found = seglog.replay(log, Chain(), stop=moment)
            assert (found.state, found.next_offset) == (expected[offset], offset)
        with pytest.raises(seglog.OffsetOutOfRange):
            seglog.replay(log, Chain(), stop=201)


def test_a_replay_begins_with_a_state_and_an_offset_that_it_is_given(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 100)
        assert seglog.replay(log, Chain(), state=chained(log.scan(0, 60)), start=60).state == chained(log.scan())
        assert seglog.replay(log, Chain(), state=7).state == chained(log.scan(), 7)
        assert seglog.replay(log, Chain(), start=60, stop=60).state == 0
        with pytest.raises(seglog.InvalidArgument, match="after stop"):
            seglog.replay(log, Chain(), start=60, stop=59)


def test_an_earlier_result_is_continued_unless_its_records_were_cut_off(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 50)
        first = seglog.replay(log, Chain())
        fill(log, 50, "second")
        second = seglog.replay(log, Chain(), start=first)
        assert (second.state, second.records) == (chained(log.scan()), 50)
        log.truncate(70)
        fill(log, 60, "third")
        assert seglog.replay(log, Chain(), start=first).state == chained(log.scan())
        with pytest.raises(seglog.LogTruncated, match="offset 100"):
            seglog.replay(log, Chain(), start=second)


def test_a_compacted_log_is_replayed_with_its_gaps(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", KEYED) as log:
        fill(log, 200)
        log.compact(roll=True)
        fill(log, 3)
        records = list(log.scan())
        assert len(records) < 30
        found = seglog.replay(log, Chain())
        assert found.state == chained(records)
        assert (found.records, found.partitions[0].gaps) == (len(records), 203 - len(records))
        for stop in range(204):
            assert seglog.replay(log, Chain(), stop=stop).state == chained(r for r in records if r.offset < stop)


def test_a_log_that_expired_its_beginning_is_not_replayed_as_if_it_were_whole(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", LogConfig(segment_bytes=1024, retention=Retention(bytes=3000))) as log:
        fill(log, 100)
        log.expire()
        lowest = log.lowest_offset
        assert lowest
        with pytest.raises(seglog.OffsetOutOfRange) as caught:
            seglog.replay(log, Chain())
        assert f"start={lowest}" in str(caught.value.__notes__)
        assert seglog.replay(log, Chain(), start=lowest).state == chained(log.scan())
    with seglog.open(tmp_path / "later", LogConfig(initial_offset=1000)) as log:
        fill(log, 3)
        assert seglog.replay(log, Heard()).state == [1000, 1001, 1002]


def test_an_error_of_the_machine_has_the_offset(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 1500)
        log.append(b"refuse")
        with pytest.raises(MachineFailed, match=r"Refuses rejected offset 1500 of .*log: ZeroDivisionError") as caught:
            seglog.replay(log, Refuses())
        assert caught.value.offset == 1500
        assert isinstance(caught.value.__cause__, ZeroDivisionError)
        with pytest.raises(MachineFailed, match="Refuses rejected offset 1500"):
            seglog.replay(log, PerKey(Refuses()))
    with Topic.create(tmp_path / "topic", partitions=1) as topic:
        topic.append(b"refuse")
        with pytest.raises(MachineFailed, match="offset 0 of partition 0 of topic 'topic'"):
            seglog.replay(topic, Refuses())


def test_each_key_may_have_a_state(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 100)
        log.append(b"without a key")
        found = seglog.replay(log, PerKey(Chain())).state
        for key in (*(b"%d" % number for number in range(5)), None):
            records = [record for record in log.scan() if record.key == key]
            assert found[key] == (records[-1].offset, chained(records))
        assert len(found) == 6
        machine = PerKey(Chain())
        assert machine.decode(machine.encode(found)) == found


def test_a_damaged_record_ends_the_replay(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 100)
        log.sync()
    [store] = (tmp_path / "log").glob("*.store")
    data = bytearray(store.read_bytes())
    data[len(data) // 2] ^= 1
    store.write_bytes(data)
    with pytest.raises(seglog.CorruptRecord):
        seglog.replay(tmp_path / "log", Chain())


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"machine": object()}, "has no initial, no apply, no encode"),
        ({"machine": NoDecode(), "snapshots": "states"}, "has no decode"),
        ({"machine": PerKey(NoDecode()), "snapshots": "states"}, "has no decode"),
        ({"machine": Chain(), "snapshots": "states", "start": 3}, "omit state and start"),
        ({"machine": Chain(), "snapshots": "states", "state": 3}, "omit state and start"),
        ({"machine": Chain(), "snapshots": "log"}, "is a log or a topic"),
        ({"machine": Chain(), "stop": True}, "stop must be an offset"),
        ({"machine": Chain(), "stop": "1"}, "stop must be an offset"),
        ({"machine": Chain(), "snapshots": 5}, "path or a Storage"),
    ],
)
def test_arguments_that_make_no_sense_are_rejected(
    arguments: dict[str, Any], error: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    seglog.open("log").close()
    with pytest.raises((seglog.InvalidArgument, seglog.InvalidType), match=error):
        seglog.replay("log", **arguments)
    assert not (tmp_path / "states").exists()


def test_a_place_without_a_log_is_reported(tmp_path: Path) -> None:
    with pytest.raises(seglog.LogNotFound):
        seglog.replay(tmp_path / "nothing", Chain())
    with pytest.raises(seglog.InvalidType):
        seglog.replay(5, Chain())  # type: ignore[arg-type] # that is the point


def test_large_values_are_replayed_a_few_at_a_time(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        for number in range(12):
            log.append(bytes([number]) * 3_000_000)
            fill(log, 20)
        assert seglog.replay(log, Chain()).state == chained(log.scan())
