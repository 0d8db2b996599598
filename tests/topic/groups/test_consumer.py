"""Consumers in the broker's process: what they get, in which order, how often, and what becomes of it when all ends."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import seglog
from seglog import Broker, LogConfig, Retention
from seglog.errors import (
    CorruptRecord,
    GroupConflict,
    GroupNotFound,
    InvalidArgument,
    LogClosed,
    LogReadOnly,
    LogTruncated,
    NotAssigned,
    OffsetOutOfRange,
    TopicNotFound,
    UnknownMember,
)
from seglog.format.codec import HEAD_BYTES
from seglog.format.store import HEADER_BYTES
from seglog.topic.groups import consumer as consuming
from tests.damage import flip
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

SECOND = 1_000_000


@pytest.fixture
def broker(tmp_path, clock) -> Iterator[Broker]:
    with Broker(tmp_path / "broker", clock=clock) as broker:
        broker.create_topic("orders", partitions=3)
        yield broker


def fill(broker: Broker, counts: dict[int, int], topic: str = "orders") -> None:
    """Append so many records to each partition; a value says partition and number, the timestamp is the number."""
    for number, count in counts.items():
        log = broker.topic(topic).partition(number)
        for turn in range(log.next_offset, log.next_offset + count):
            log.append(f"{number}/{turn}".encode(), key=b"k", timestamp=turn * SECOND)


def values(records) -> list[str]:
    return [record.value.decode() for record in records]


def test_everything_comes_once_and_in_the_order_of_its_partition(broker):
    fill(broker, {0: 5, 1: 5, 2: 5})
    with broker.consumer("billing", ["orders"]) as consumer:
        taken = []
        while records := consumer.poll(max_records=4):
            taken += records
            consumer.commit()
        assert consumer.lag() == {("orders", number): 0 for number in range(3)}
    for number in range(3):
        assert [one.value for one in taken if one.partition == number] == [b"%d/%d" % (number, i) for i in range(5)]
    assert len(taken) == 15
    assert (taken[0].topic, taken[0].offset, taken[0].timestamp, taken[0].key) == ("orders", 0, 0, b"k")


def test_no_partition_waits_for_ever_behind_a_full_one(broker):
    fill(broker, {0: 50, 1: 2, 2: 2})
    with broker.consumer("billing", ["orders"]) as consumer:
        assert values(consumer.poll(max_records=2)) == ["0/0", "0/1"]
        assert values(consumer.poll(max_records=2)) == ["1/0", "1/1"]
        assert values(consumer.poll(max_records=3)) == ["2/0", "2/1", "0/2"]


def test_a_poll_gives_what_its_limits_let_through_and_one_record_however_large(broker):
    log = broker.topic("orders").partition(1)
    for size in (2000, 10, 10, 2000):
        log.append(b"x" * size)
    with broker.consumer("billing", ["orders"]) as consumer:
        assert [len(one.value) for one in consumer.poll(max_bytes=100)] == [2000]
        assert [len(one.value) for one in consumer.poll(max_bytes=100)] == [10, 10]
        with pytest.raises(InvalidArgument):
            consumer.poll(max_records=0)
        with pytest.raises(InvalidArgument, match="timeout"):
            consumer.poll(timeout=-1)


def test_arrow_batches_come_with_the_same_turns_and_limits(broker):
    fill(broker, {0: 6, 2: 3})
    with broker.consumer("billing", ["orders"]) as consumer:
        taken = consumer.poll_batches(max_records=8)
        assert [(one.topic, one.partition, one.batch.num_rows) for one in taken] == [("orders", 0, 6), ("orders", 2, 2)]
        assert taken[1].batch.column("value").to_pylist() == [b"2/0", b"2/1"]
        consumer.commit()
        assert values(consumer.poll()) == ["2/2"]
        assert consumer.poll_batches() == []


def test_the_next_consumer_begins_where_the_last_committed(broker):
    fill(broker, {0: 5})
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.poll(max_records=2)
        consumer.commit()
        consumer.poll(max_records=2)
    with broker.consumer("billing", ["orders"]) as consumer:
        assert consumer.positions["orders"][0] == 2
        assert values(consumer.poll()) == ["0/2", "0/3", "0/4"]
    with broker.consumer("audit", ["orders"]) as consumer:
        assert len(consumer.poll()) == 5


def test_latest_begins_behind_what_is_there_and_a_commit_keeps_that(broker):
    fill(broker, {0: 5})
    with broker.consumer("billing", ["orders"], start="latest") as consumer:
        assert consumer.poll() == []
        consumer.commit()
    fill(broker, {0: 1})
    with broker.consumer("billing", ["orders"], start="latest") as consumer:
        assert values(consumer.poll()) == ["0/5"]
    with pytest.raises(InvalidArgument, match="earliest"):
        broker.consumer("billing", ["orders"], start="newest")


def test_a_group_without_members_forgets_the_offsets_of_some_partitions(broker):
    fill(broker, {0: 5, 1: 5})
    groups = broker.groups
    groups.commit("billing", {"orders": {0: 2, 1: 9}}, after_end=True)
    assert groups.describe("billing").lag == {("orders", 0): 3, ("orders", 1): 0}
    groups.forget_offsets("billing", [("orders", 0), ("orders", 0), ("orders", 2)])
    assert groups.committed("billing") == {"orders": {1: 9}}
    assert not groups.has_members("billing")
    with pytest.raises(GroupNotFound):
        groups.forget_offsets("unknown", [("orders", 0)])
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.poll()
        assert groups.has_members("billing")
        with pytest.raises(GroupConflict):
            groups.forget_offsets("billing", [("orders", 1)])


def test_chosen_offsets_are_committed_instead_of_what_was_polled(broker):
    fill(broker, {0: 5, 1: 5})
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.poll()
        consumer.commit({"orders": {0: 2}}, durable=True)
        assert broker.groups.committed("billing") == {"orders": {0: 2}}
        consumer.commit()
        assert broker.groups.committed("billing") == {"orders": {0: 5, 1: 5, 2: 0}}
        with pytest.raises(OffsetOutOfRange):
            consumer.commit({"orders": {0: 6}})


def test_lag_counts_the_records_that_compaction_left(broker):
    compacted = LogConfig(segment_bytes=4096, retention=Retention(compact=True, min_dirty_ratio=0))
    log = broker.create_topic("users", config=compacted).partition(0)
    for number in range(2000):
        log.append(b"v" * 20, key=b"%d" % (number % 10))
    log.compact()
    left = len(list(log.scan()))
    with broker.consumer("billing", ["users"]) as consumer:
        assert consumer.lag() == broker.groups.describe("billing").lag == {("users", 0): left}
        assert left < 100
        consumer.poll(max_records=left - 5)
        consumer.commit()
        assert 5 <= consumer.lag()["users", 0] < left
        consumer.poll()
        consumer.commit()
        assert consumer.lag() == broker.groups.describe("billing").lag == {("users", 0): 0}


def test_seeking_goes_to_an_offset_or_a_time(broker):
    fill(broker, {0: 5, 1: 2})
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.poll()
        consumer.seek("orders", 0, 3)
        assert values(consumer.poll()) == ["0/3", "0/4"]
        consumer.seek_to_time(2 * SECOND)
        assert consumer.positions == {"orders": {0: 2, 1: 2, 2: 0}}
        assert consumer.lag() == {("orders", 0): 3, ("orders", 1): 0, ("orders", 2): 0}
        with pytest.raises(NotAssigned):
            consumer.seek("orders", 7, 0)
        with pytest.raises(OffsetOutOfRange):
            consumer.seek("orders", 0, 6)


def test_a_seek_before_the_first_poll_counts(broker):
    fill(broker, {0: 5})
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.seek("orders", 0, 4)
        assert values(consumer.poll()) == ["0/4"]


def test_what_retention_took_is_never_passed_over_in_silence(tmp_path, clock):
    with Broker(tmp_path, clock=clock) as broker:
        config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))
        broker.create_topic("orders", config=config)
        fill(broker, {0: 4})
        with broker.consumer("billing", ["orders"]) as consumer:
            consumer.poll(max_records=2)
            consumer.commit()
            fill(broker, {0: 80})
            lowest = broker.topic("orders").partition(0).lowest_offset
            assert lowest > 2
            for _ in range(2):
                with pytest.raises(OffsetOutOfRange) as caught:
                    consumer.poll()
            assert (caught.value.offset, caught.value.lowest_offset) == (2, lowest)
            assert any("partition 0 of topic 'orders'" in note for note in caught.value.__notes__)
            assert any(f"seek('orders', 0, {lowest})" in note for note in caught.value.__notes__)
            assert (vars(caught.value)["topic"], vars(caught.value)["partition"]) == ("orders", 0)
            consumer.seek("orders", 0, lowest)
            assert consumer.poll()[0].offset == lowest


def test_a_partition_that_was_truncated_and_grew_again_is_another_one(broker):
    fill(broker, {0: 3, 1: 10})
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.poll()
        consumer.commit()
        broker.topic("orders").partition(1).truncate(5)
        broker.groups.cut("orders", 1, 5)
        fill(broker, {0: 1, 1: 8, 2: 1})
        assert values(consumer.poll()) == ["2/0", "0/3"], "what stands in front of it comes first"
        fill(broker, {2: 1})
        for _ in range(2):
            with pytest.raises(LogTruncated, match=r"partition 1 of topic 'orders'.*seek"):
                consumer.poll()
        consumer.commit()
        assert broker.groups.committed("billing") == {"orders": {0: 4, 1: 5, 2: 1}}
        consumer.seek("orders", 1, 5)
        assert values(consumer.poll()) == [*(f"1/{turn}" for turn in range(5, 13)), "2/1"]


def test_a_topic_that_was_deleted_and_created_anew_is_another_one(broker):
    fill(broker, {0: 100})
    with broker.consumer("billing", ["orders"]) as consumer:
        consumer.poll()
        broker.delete_topic("orders")
        broker.create_topic("orders", partitions=3)
        fill(broker, {0: 50})
        with pytest.raises(OffsetOutOfRange) as caught:
            consumer.poll()
        assert any("created again" in note for note in caught.value.__notes__)
        fill(broker, {0: 60})
        with pytest.raises(LogTruncated):
            consumer.poll_batches()
        consumer.seek("orders", 0, 0)
        assert len(consumer.poll()) == 110


def test_a_truncate_above_the_position_is_harmless(broker):
    fill(broker, {0: 10})
    with broker.consumer("billing", ["orders"]) as consumer:
        assert len(consumer.poll(max_records=5)) == 5
        broker.topic("orders").partition(0).truncate(7)
        fill(broker, {0: 3})
        assert values(consumer.poll()) == ["0/5", "0/6", "0/7", "0/8", "0/9"]
        assert consumer.poll() == []


def test_rolls_expiry_behind_the_position_and_compaction_are_harmless(tmp_path, clock):
    with Broker(tmp_path, clock=clock) as broker:
        compact = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
        expiring = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))
        for topic, config in (("orders", compact), ("events", expiring)):
            broker.create_topic(topic, config=config)
            fill(broker, {0: 40}, topic)
        with broker.consumer("billing", ["orders", "events"]) as consumer:
            consumer.seek("events", 0, broker.topic("events").partition(0).next_offset)
            assert {record.topic for record in consumer.poll()} == {"orders"}
            consumer.seek("orders", 0, 10)
            assert len(consumer.poll(max_records=2)) == 2
            for topic in ("orders", "events"):
                fill(broker, {0: 5}, topic)
            assert broker.topic("orders").partition(0).compact().superseded
            assert broker.topic("events").partition(0).lowest_offset > 0
            taken = consumer.poll()
        assert [one.offset for one in taken if one.topic == "events"] == [40, 41, 42, 43, 44]
        assert {one.offset for one in taken if one.topic == "orders"} >= {40, 41, 42, 43, 44}


def test_a_damaged_record_is_raised_once_everything_before_it_was_given_out(broker):
    fill(broker, {0: 3, 1: 3})
    log = broker.topic("orders").partition(1)
    store = next(Path(log.path).glob("*.store"))
    flip(store, store.read_bytes().index(b"1/1", HEADER_BYTES + HEAD_BYTES))  # three bytes may be in a checksum, too
    with broker.consumer("billing", ["orders"]) as consumer:
        assert values(consumer.poll()) == ["0/0", "0/1", "0/2", "1/0"]
        with pytest.raises(CorruptRecord):
            consumer.poll()
        consumer.seek("orders", 1, 2)
        assert values(consumer.poll()) == ["1/2"]


def test_a_second_consumer_takes_its_share_when_the_first_polls_on(broker):
    fill(broker, {0: 3, 1: 3, 2: 3})
    first = broker.consumer("billing", ["orders"])
    assert len(first.poll()) == 9
    second = broker.consumer("billing", ["orders"])
    assert second.assignment == ()
    assert second.poll() == []
    first.poll()
    assert len(first.assignment) == 2
    assert second.poll() == [], "the first may still commit what it read"
    first.commit()
    assert broker.groups.committed("billing") == {"orders": {0: 3, 1: 3, 2: 3}}
    first.poll()
    fill(broker, {0: 1, 1: 1, 2: 1})
    assert len(second.poll()) == 1
    first.close()
    assert len(second.poll()) == 2
    second.close()
    assert broker.groups.describe("billing").members == ()


def test_who_did_not_poll_for_its_session_cannot_commit_and_joins_again(broker, clock):
    fill(broker, {0: 3})
    slow = broker.consumer("billing", ["orders"], session_timeout=10)
    assert len(slow.poll()) == 3
    clock.advance(11)
    with pytest.raises(UnknownMember):
        slow.commit()
    assert len(slow.poll()) == 3, "nothing was committed, so it comes again"
    slow.commit()
    assert broker.groups.committed("billing")["orders"][0] == 3
    slow.close()


def test_static_shares_read_every_nth_partition_without_members(broker):
    fill(broker, {0: 2, 1: 2, 2: 2})
    with (
        broker.consumer("billing", ["orders"], share=(0, 2)) as even,
        broker.consumer("billing", ["orders"], share=(1, 2)) as odd,
    ):
        assert values(even.poll()) == ["0/0", "0/1", "2/0", "2/1"]
        assert values(odd.poll()) == ["1/0", "1/1"]
        even.commit()
        odd.commit()
    assert broker.groups.committed("billing") == {"orders": {0: 2, 1: 2, 2: 2}}
    assert broker.groups.describe("billing").members == ()


def test_beside_a_writer_static_shares_read_and_commit_nothing(broker, tmp_path):
    fill(broker, {0: 2})
    with (
        Broker(tmp_path / "broker", mode="r") as reader,
        reader.consumer("billing", ["orders"], share=(0, 1)) as consumer,
    ):
        assert len(consumer.poll()) == 2
        fill(broker, {0: 1})
        assert values(consumer.poll()) == ["0/2"]
        with pytest.raises(LogReadOnly):
            consumer.commit()
        with pytest.raises(LogReadOnly):
            reader.consumer("billing", ["orders"])


def test_a_consumer_that_is_closed_says_so_and_a_broker_may_be_closed_first(tmp_path):
    broker = Broker(tmp_path)
    broker.create_topic("orders")
    closed, left = broker.consumer("billing", ["orders"]), broker.consumer("billing", ["orders"])
    closed.close()
    closed.close()
    with pytest.raises(LogClosed, match="create another"):
        closed.poll()
    with pytest.raises(TopicNotFound):
        broker.consumer("billing", ["nothing"])
    broker.close()
    left.close()


def test_waiting_ends_with_the_first_record(broker, monkeypatch):
    slept = []

    def later(_seconds):
        slept.append(1)
        fill(broker, {2: 1})

    monkeypatch.setattr(consuming, "time", SimpleNamespace(monotonic=time.monotonic, sleep=later))
    with broker.consumer("billing", ["orders"]) as consumer:
        assert values(consumer.poll(timeout=HANG_SECONDS)) == ["2/0"]
    assert slept == [1]


def test_nothing_is_lost_or_taken_twice_while_consumers_come_and_go(broker):
    """Each commits what a poll gave before it polls again; then every record is taken exactly once."""
    partitions, each = 3, 400
    taken: list[tuple[int, int]] = []
    failures: list[BaseException] = []
    done = threading.Event()

    def produce() -> None:
        for turn in range(each):
            for number in range(partitions):
                broker.topic("orders").partition(number).append(b"%d" % turn)

    def consume(polls: int) -> None:
        try:
            while not done.is_set():
                with broker.consumer("billing", ["orders"], session_timeout=600) as consumer:
                    for _ in range(polls):
                        records = consumer.poll(max_records=7, timeout=0.002)
                        taken.extend((one.partition, one.offset) for one in records)
                        consumer.commit()
                        if len(taken) >= partitions * each:
                            done.set()
        except BaseException as error:  # noqa: BLE001 - a thread's failure is to be seen
            failures.append(error)
            done.set()

    threads = [threading.Thread(target=produce)]
    threads += [threading.Thread(target=consume, args=(polls,)) for polls in (3, 11, 40)]
    for thread in threads:
        thread.start()
    finished = done.wait(HANG_SECONDS)
    done.set()
    for thread in threads:
        thread.join()
    assert failures == []
    assert finished
    assert Counter(taken) == Counter((number, turn) for number in range(partitions) for turn in range(each))


PROGRAM = """
import json, sys
from seglog import Broker

broker = Broker(sys.argv[1])
topic = broker.create_topic("orders", partitions=2)
for turn in range(400):
    topic.append(b"%d" % turn, key=b"%d" % (turn % 7))
broker.groups.join("audit", ["orders"], member="far")
consumer = broker.consumer("billing", ["orders"])
while True:
    if records := consumer.poll(max_records=9):
        consumer.commit()
        print(json.dumps(consumer.positions), flush=True)
    elif broker.topic("orders").append(b"more"):
        pass
"""


def test_after_kill_9_what_was_committed_is_there_and_the_local_members_are_not(tmp_path):
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    lines = [program.stdout.readline() for _ in range(60)]
    program.send_signal(signal.SIGKILL)
    rest, errors = program.communicate()
    assert program.returncode == -signal.SIGKILL, errors
    seen = [json.loads(line) for line in [*lines, *rest.splitlines()] if line.strip().endswith("}")]
    with Broker(tmp_path) as broker:
        committed = broker.groups.committed("billing")["orders"]
        acknowledged = {int(number): offset for number, offset in seen[-1]["orders"].items()}
        assert all(committed[number] >= offset for number, offset in acknowledged.items())
        assert broker.groups.describe("billing").members == ()
        assert [member.id for member in broker.groups.describe("audit").members] == ["far"]
        with broker.consumer("billing", ["orders"]) as consumer:
            assert consumer.positions["orders"] == committed
            broker.topic("orders").append_batch(pa.table({"value": [b"new"] * 10, "partition": pa.array([0, 1] * 5)}))
            first = {}
            while records := consumer.poll():
                for one in records:
                    first.setdefault(one.partition, one.offset)
            assert first == committed


@pytest.mark.parametrize(
    "seconds", [1e305, 10**400, 10**5000, float("nan"), float("inf"), -1, "x", True, None], ids=range(9)
)
def test_a_session_or_a_wait_of_no_possible_length_is_refused(seconds, tmp_path):
    with seglog.Broker(tmp_path) as broker:
        broker.create_topic("orders")
        with pytest.raises((seglog.InvalidArgument, seglog.InvalidType), match="session_timeout"):
            broker.consumer("g", ["orders"], session_timeout=seconds)
        with (
            broker.consumer("g", ["orders"]) as consumer,
            pytest.raises((seglog.InvalidArgument, seglog.InvalidType), match="timeout"),
        ):
            consumer.poll(timeout=seconds)
