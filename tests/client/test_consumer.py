"""Consumers over HTTP: groups share partitions, commits hold, handovers lose nothing, a busy one keeps its place."""

from __future__ import annotations

import threading
from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.client.consuming import Reading
from seglog.client.retrying import Retries
from tests import waiting
from tests.waiting import HANG_SECONDS


@pytest.fixture
def filled(client: seglog.Client, name: str) -> str:
    """A topic of four partitions with 100 records each: `<partition>:<offset>`."""
    topic = client.create_topic(name, partitions=4)
    for partition in range(4):
        rows = [b"%d:%d" % (partition, offset) for offset in range(100)]
        topic.append_batch(pa.table({"value": rows}), partition=partition)
    return name


def everything(consumer: Any, most: int = 400) -> list[Any]:
    """Poll until so many records have come."""
    found: list[Any] = []
    waiting.until(lambda: found.extend(consumer.poll(timeout=1.0)) or len(found) >= most)
    return found


def test_a_consumer_reads_all_partitions_and_goes_on_where_the_group_was(client: seglog.Client, filled: str) -> None:
    with client.consumer("readers", [filled]) as consumer:
        assert consumer.assignment == tuple((filled, number) for number in range(4))
        first = consumer.poll(max_records=130)
        assert len(first) == 130
        consumer.commit()
        assert sum(consumer.lag().values()) == 270
    assert sum(client.committed("readers")[filled].values()) == 130
    with client.consumer("readers", [filled]) as consumer:
        rest = everything(consumer, 270)
        assert consumer.poll() == []
    places = [(record.partition, record.offset) for record in first + rest]
    assert sorted(places) == [(partition, offset) for partition in range(4) for offset in range(100)]
    assert all(record.value == b"%d:%d" % (record.partition, record.offset) for record in first + rest)


def test_what_is_not_committed_comes_again(client: seglog.Client, filled: str) -> None:
    group = f"again-{filled}"
    with client.consumer(group, [filled]) as consumer:
        everything(consumer)
    with client.consumer(group, [filled]) as consumer:
        assert len(everything(consumer)) == 400


def test_batches_come_in_arrow_and_turns_are_fair(client: seglog.Client, filled: str) -> None:
    with client.consumer(f"arrow-{filled}", [filled]) as consumer:
        rounds = [consumer.poll_batches(max_records=50) for _ in range(4)]
    assert [[(batch.partition, batch.batch.num_rows) for batch in one] for one in rounds] == [
        [(number, 50)] for number in range(4)
    ]
    assert rounds[0][0].batch.schema.names == ["offset", "timestamp", "key", "value", "headers"]


def test_a_latest_consumer_begins_where_the_topic_ended_when_it_joined(client: seglog.Client, filled: str) -> None:
    with client.consumer(f"latest-{filled}", [filled], start="latest") as consumer:
        client.topic(filled).append(b"new", partition=2)
        assert [record.value for record in consumer.poll(timeout=HANG_SECONDS)] == [b"new"]


def test_poll_waits_for_the_first_record(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    with client.consumer(name, [name]) as consumer:
        assert consumer.poll() == []
        late = threading.Thread(target=topic.append, args=[b"late"])
        late.start()
        assert [record.value for record in consumer.poll(timeout=HANG_SECONDS)] == [b"late"]
        late.join()


def test_seeking_by_offset_and_by_time(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    for number in range(20):
        topic.append(b"%d" % number, timestamp=number * 1000, partition=number % 2)
    with client.consumer(name, [name]) as consumer:
        consumer.seek_to_time(15_000)
        assert sorted(int(one.value or b"") for one in everything(consumer, 5)) == [15, 16, 17, 18, 19]
        consumer.seek(name, 1, 8)
        assert [one.value for one in consumer.poll()] == [b"17", b"19"]
        consumer.commit()
        assert client.committed(name) == {name: {0: 10, 1: 10}}
        with pytest.raises(seglog.OffsetOutOfRange):
            consumer.seek(name, 1, 11)
        with pytest.raises(seglog.NotAssigned):
            consumer.seek(name, 7, 0)


def test_lost_records_are_told_and_never_skipped(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, config=LogConfig(segment_bytes=512, retention=Retention(bytes=600)))
    with client.consumer(name, [name]) as consumer:
        for _ in range(20):
            topic.append(b"x" * 200)
        topic.expire()
        lowest = topic.bounds()[0].lowest_offset
        assert lowest > 0
        with pytest.raises(seglog.OffsetOutOfRange) as lost:
            consumer.poll()
        assert lost.value.lowest_offset == lowest
        assert (vars(lost.value)["topic"], vars(lost.value)["partition"]) == (name, 0)
        assert any(f"seek('{name}', 0, {lowest})" in note for note in lost.value.__notes__)
        consumer.seek(name, 0, lowest)
        assert consumer.poll()[0].offset == lowest


def test_a_partition_that_was_truncated_and_grew_again_is_another_one(client: seglog.Client, filled: str) -> None:
    group, topic = f"cut-{filled}", client.topic(filled)
    with client.consumer(group, [filled]) as consumer:
        everything(consumer)
        consumer.commit()
        topic.truncate(1, 50)
        for partition in (0, 1, 2):
            topic.append_batch(pa.table({"value": [b"new"] * 60}), partition=partition)
        assert {record.partition for record in consumer.poll(timeout=HANG_SECONDS)} == {0}, (
            "what stands in front comes first"
        )
        for _ in range(2):
            with pytest.raises(seglog.LogTruncated, match=rf"partition 1 of topic '{filled}'.*seek") as lost:
                consumer.poll()
        assert (vars(lost.value)["topic"], vars(lost.value)["partition"]) == (filled, 1)
        consumer.commit()
        assert client.committed(group) == {filled: {0: 160, 1: 50, 2: 100, 3: 100}}
        consumer.seek(filled, 1, 50)
        rest = [(record.partition, record.offset) for record in everything(consumer, 120)]
    assert sorted(rest) == [*((1, offset) for offset in range(50, 110)), *((2, offset) for offset in range(100, 160))]


def test_a_topic_that_was_deleted_and_created_anew_is_another_one(client: seglog.Client, name: str) -> None:
    def create(rows: int) -> None:
        client.create_topic(name).append_batch(pa.table({"value": [b"x"] * rows}))

    create(100)
    with client.consumer(name, [name], share=(0, 1)) as consumer:
        assert len(everything(consumer, 100)) == 100
        client.delete_topic(name)
        create(120)
        with pytest.raises(seglog.LogTruncated):
            consumer.poll()
        consumer.commit()
        with pytest.raises(seglog.GroupNotFound):
            client.committed(name)
        consumer.seek(name, 0, 0)
        assert len(everything(consumer, 120)) == 120


def test_who_waits_at_the_end_of_a_log_that_is_truncated_is_told(client: seglog.Client, filled: str) -> None:
    with client.consumer(f"waits-{filled}", [filled]) as consumer:
        everything(consumer)
        late = threading.Thread(target=client.topic(filled).truncate, args=[2, 10])
        late.start()
        with pytest.raises((seglog.LogTruncated, seglog.OffsetOutOfRange)):
            until(consumer, lambda: False)
        late.join()


def test_a_member_that_was_dropped_notices_what_happened_meanwhile(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name)
    topic.append_batch(pa.table({"value": [b"x"] * 10}))
    with client.consumer(name, [name]) as consumer:
        everything(consumer, 10)
        client._driver.run(consumer._reading.leave())  # as the group does with one that was silent
        consumer._reading.closed = False
        topic.truncate(0, 5)
        topic.append_batch(pa.table({"value": [b"y"] * 8}))
        with pytest.raises(seglog.LogTruncated):
            until(consumer, lambda: False)


def test_a_truncate_above_the_position_and_a_compaction_are_harmless(client: seglog.Client, name: str) -> None:
    only_by_request = Retention(compact=True, min_dirty_ratio=1.0)  # not by the server's cleaner, at any moment
    topic = client.create_topic(name, config=LogConfig(segment_bytes=512, retention=only_by_request))
    for _ in range(20):
        topic.append(b"x" * 100, key=b"k")
    with client.consumer(name, [name]) as consumer:
        assert len(consumer.poll(max_records=5)) == 5
        topic.truncate(0, 18)
        assert consumer.poll(max_records=1)[0].offset == 5
        topic.append(b"new", key=b"k")
        topic.compact()
        assert [record.offset for record in everything(consumer, 1)][-1:] == [18]


def test_following_ends_where_another_log_stands_in_the_place(client: seglog.Client, name: str) -> None:
    topic = client.create_topic(name, partitions=2)
    topic.append_batch(pa.table({"value": [b"x"] * 10}), partition=1)
    tail = topic.follow(start="earliest")
    assert [next(tail).offset for _ in range(10)] == list(range(10))
    topic.append(b"more", partition=1)
    topic.truncate(1, 5)
    topic.append_batch(pa.table({"value": [b"y"] * 8}), partition=1)
    with pytest.raises(seglog.LogTruncated, match="partition 1"):
        next(tail)


def test_two_members_share_and_nothing_is_lost_or_double(client: seglog.Client, filled: str, beats_often: None) -> None:
    group = f"pair-{filled}"
    with client.consumer(group, [filled], session_timeout=HANG_SECONDS) as one:
        found = one.poll(max_records=150)
        with client.consumer(group, [filled], session_timeout=HANG_SECONDS) as two:
            assert two.assignment == (), "the first may still be at work on all of them"
            found += until(one, lambda: len(one.assignment) == 2)
            assert client.group(group).members, "what was taken away is still its own, and can be committed"
            one.commit()

            def share() -> bool:
                found.extend(one.poll(timeout=0.1) + two.poll(timeout=0.1))
                one.commit()
                two.commit()
                return len(two.assignment) == 2 and len(found) >= 400

            waiting.until(share)
            assert {*one.assignment, *two.assignment} == {(filled, number) for number in range(4)}
    places = [(record.partition, record.offset) for record in found]
    assert sorted(places) == [(partition, offset) for partition in range(4) for offset in range(100)]
    assert client.committed(group) == {filled: dict.fromkeys(range(4), 100)}


def until(consumer: Any, reached: Any) -> list[Any]:
    """Poll until something is so; return what came meanwhile."""
    found: list[Any] = []
    waiting.until(lambda: reached() or found.extend(consumer.poll(timeout=0.2)))
    return found


def test_a_commit_of_what_is_anothers_changes_nothing(client: seglog.Client, filled: str) -> None:
    group = f"anothers-{filled}"
    with client.consumer(group, [filled]) as consumer:
        consumer.poll(max_records=10)
        with pytest.raises(seglog.GroupConflict):
            client.commit(group, {filled: {0: 1}})
        with pytest.raises(seglog.GroupConflict):
            client.delete_group(group)
        consumer.commit()
    client.commit(group, {filled: {3: 42}})
    assert client.committed(group)[filled][3] == 42
    with pytest.raises(seglog.OffsetOutOfRange):
        client.commit(group, {filled: {3: 1000}})
    assert client.group(group).lag[filled, 3] == 58
    client.delete_group(group)
    assert group not in client.groups()


def test_lag_is_of_records_also_where_compaction_left_few(client: seglog.Client, name: str) -> None:
    config = LogConfig(segment_bytes=4096, retention=Retention(compact=True))
    topic = client.create_topic(name, config=config)
    keys = [b"%d" % (number % 10) for number in range(1000)]
    topic.append_batch(pa.table({"key": keys, "value": [b"v" * 20] * 1000}))
    with client.consumer(f"few-{name}", [name]) as consumer:
        assert consumer.lag() == {(name, 0): 1000}
        topic.compact()
        told = consumer.lag()[name, 0]
        assert told < 100
        assert len(everything(consumer, told)) == told
        assert consumer.lag() == {(name, 0): 0}


def test_a_consumer_without_partitions_has_no_lag(client: seglog.Client, name: str) -> None:
    client.create_topic(name)
    with client.consumer(f"two-{name}", [name]) as first, client.consumer(f"two-{name}", [name]) as second:
        assert first.lag() == {(name, 0): 0}
        assert second.lag() == {}


def test_a_member_that_was_dropped_joins_again_and_goes_on_where_it_was(client: seglog.Client, filled: str) -> None:
    group = f"dropped-{filled}"
    with client.consumer(group, [filled], session_timeout=30.0) as consumer:
        before = consumer.poll(max_records=250)
        client._driver.run(consumer._reading.leave())  # as the group does with one that was silent
        consumer._reading.closed = False
        with pytest.raises(seglog.UnknownMember):
            consumer.commit()
        after = until(consumer, lambda: consumer._reading._joined)
        after += everything(consumer, 150 - len(after))
        consumer.commit()
    places = [(record.partition, record.offset) for record in before + after]
    assert len(places) == len(set(places)) == 400
    assert client.committed(group) == {filled: dict.fromkeys(range(4), 100)}


def test_one_that_comes_back_begins_where_an_operator_has_moved_the_group(client: seglog.Client, filled: str) -> None:
    group = f"moved-{filled}"
    with client.consumer(group, [filled]) as consumer:
        everything(consumer, 400)
        consumer.commit()
        client._driver.run(consumer._reading.leave())  # as the group does with one that was silent
        consumer._reading.closed = False
        client.commit(group, {filled: {0: 60}})
        again = everything(consumer, 40)
    assert [(record.partition, record.offset) for record in again] == [(0, offset) for offset in range(60, 100)]


def test_static_shares_read_without_joining(client: seglog.Client, filled: str) -> None:
    group = f"static-{filled}"
    consumers = [client.consumer(group, [filled], share=(index, 2)) for index in range(2)]
    assert [consumer.assignment for consumer in consumers] == [
        ((filled, 0), (filled, 2)),
        ((filled, 1), (filled, 3)),
    ]
    for consumer in consumers:
        assert len(everything(consumer, 200)) == 200
        consumer.commit(durable=True)
        consumer.close()
    assert client.committed(group) == {filled: dict.fromkeys(range(4), 100)}


def test_a_busy_program_is_kept_alive_until_its_patience_ends() -> None:
    now = [0.0]
    options: Any = {"start": "earliest", "session_timeout": 8.0, "share": None, "retries": Retries()}
    reading = Reading("g", ["t"], **options, max_poll_interval=100.0, clock=lambda: now[0])
    assert reading.silence() == 2.0
    now[0] = 100.5
    assert reading.silence() is None
    reading._polling = True
    assert reading.silence() == 2.0, "a poll that waits is no silence"
    reading.closed = True
    assert reading.silence() is None


def test_the_background_thread_beats_while_the_program_works(
    client: seglog.Client, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Reading, "silence", lambda self: None if self.closed else 0.1)
    group = f"busy-{filled}"
    with client.consumer(group, [filled], session_timeout=HANG_SECONDS) as consumer:
        consumer.poll(max_records=10)

        def seen() -> int:
            return client.group(group).members[0].seen_at or 0

        for _ in range(3):
            before = seen()
            waiting.until(lambda before=before: seen() > before)
        consumer.commit()


@pytest.mark.parametrize("wrong", [{"start": "middle"}, {"session_timeout": 0}, {"share": (2, 2)}])
def test_a_bad_argument_is_refused(client: seglog.Client, name: str, wrong: Any) -> None:
    with pytest.raises(seglog.InvalidArgument):
        client.consumer("g", [name], **wrong)
    with pytest.raises(seglog.TopicNotFound):
        client.consumer("g", [name])


def test_a_closed_consumer_reads_nothing(client: seglog.Client, filled: str) -> None:
    consumer = client.consumer(f"closed-{filled}", [filled])
    consumer.close()
    consumer.close()
    for call in (consumer.poll, consumer.commit, consumer.lag):
        with pytest.raises(seglog.LogClosed):
            call()
