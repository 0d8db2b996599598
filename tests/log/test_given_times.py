"""Times that callers give: a number of another unit is refused with what to do, and a datetime needs a zone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.aio import AsyncLog, AsyncTopic
from seglog.log.opening import storage_at
from seglog.log.staging import Stage
from seglog.record import Record
from seglog.topic.broker import transactions_of
from seglog.topic.transactions.journal import Batch
from seglog.types import Draft

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

SECONDS, MILLISECONDS = 1_729_990_800, 1_729_990_800_123
MICROSECONDS = SECONDS * 1_000_000
OF_SECONDS, OF_MILLISECONDS = [10**9, SECONDS, 10**11 - 1], [10**12, MILLISECONDS, 10**14 - 1]
TAKEN = [-(2**63), -SECONDS, -1, 0, 5, 10**9 - 1, 10**11, 10**12 - 1, 10**14, MICROSECONDS, SECONDS * 10**9, 2**63 - 1]
MOMENT = datetime(2024, 10, 27, 2, 0, 0, 250, tzinfo=timezone(timedelta(hours=1)))
NO_ZONE = datetime(2024, 10, 27, 1)


def table(*times: int | None) -> pa.Table:
    return pa.table({"value": [b"v"] * len(times), "timestamp": pa.array(times, pa.int64())})


@pytest.fixture
def log() -> Iterator[seglog.Log]:
    with seglog.open(seglog.MemoryStorage()) as log:
        yield log


@pytest.fixture
def topic(tmp_path: Path) -> Iterator[seglog.Topic]:
    with seglog.Topic.create(tmp_path / "topic", partitions=2) as topic:
        yield topic


def times_of(log: Any) -> list[int]:
    return [record.timestamp for record in log.scan()]


LOG_CALLS: dict[str, Callable[..., Any]] = {
    "append": lambda log, at, **force: log.append(b"v", timestamp=at, **force),
    "append_stream": lambda log, at, **force: log.append_stream([b"v"], timestamp=at, **force),
    "append_batch": lambda log, at, **force: log.append_batch(table(at), **force),
    "append_batch of a stream": lambda log, at, **force: log.append_batch(table(at).to_reader(), **force),
}


@pytest.mark.parametrize("call", LOG_CALLS)
@pytest.mark.parametrize("unit", ["seconds", "milliseconds"])
def test_a_number_of_another_unit_is_refused_with_its_factor(log: seglog.Log, call: str, unit: str) -> None:
    for number in OF_SECONDS if unit == "seconds" else OF_MILLISECONDS:
        with pytest.raises(seglog.InvalidArgument, match=f"{number} looks like {unit}.*force_timestamp=True") as caught:
            LOG_CALLS[call](log, number)
        assert f"multiply by {'1_000_000' if unit == 'seconds' else '1_000'}" in str(caught.value)
    assert log.next_offset == 0


@pytest.mark.parametrize("call", LOG_CALLS)
def test_every_other_number_is_taken_as_before(log: seglog.Log, call: str) -> None:
    for number in TAKEN:
        LOG_CALLS[call](log, number)
    assert times_of(log) == TAKEN


@pytest.mark.parametrize("call", LOG_CALLS)
def test_a_forced_number_is_stored_as_it_is(log: seglog.Log, call: str) -> None:
    for number in (*OF_SECONDS, *OF_MILLISECONDS):
        LOG_CALLS[call](log, number, force_timestamp=True)
    assert times_of(log) == [*OF_SECONDS, *OF_MILLISECONDS]


def test_each_of_many_appends_is_checked_on_its_own(log: seglog.Log) -> None:
    drafts = [Draft(b"a", timestamp=SECONDS), Draft(b"b", timestamp=SECONDS, force_timestamp=True)]
    refused, offset = log.append_each([*drafts])
    assert isinstance(refused, seglog.InvalidArgument)
    assert (offset, times_of(log)) == (0, [SECONDS])


def test_the_first_row_that_is_refused_is_named_and_none_is_stored(log: seglog.Log, topic: seglog.Topic) -> None:
    rows = pa.concat_tables([table(5, None, MICROSECONDS), table(7, SECONDS, MILLISECONDS)])
    for call in (log.append_batch, topic.append_batch, lambda data: topic.append_batch(data, once="key")):
        with pytest.raises(seglog.InvalidArgument, match=f"row 4 of the batch: the timestamp {SECONDS} looks like"):
            call(rows)
    assert (log.next_offset, topic.partition(0).next_offset, topic.partition(1).next_offset) == (0, 0, 0)


def test_rows_of_a_stream_are_counted_from_its_beginning(log: seglog.Log) -> None:
    piece = pa.table({"value": [b"v" * 9_000_000] * 2, "timestamp": pa.array([5, 6], pa.int64())})
    batches = [*piece.to_batches(), *piece.to_batches(), *table(7, SECONDS).to_batches()]
    with pytest.raises(seglog.InvalidArgument, match="row 5 of the batch"):
        log.append_batch(pa.RecordBatchReader.from_batches(piece.schema, batches))
    assert log.next_offset == 0


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_column_with_a_unit_is_never_refused(log: seglog.Log, unit: str) -> None:
    factor = {"s": 10**6, "ms": 10**3, "us": 1, "ns": 1}[unit]
    numbers = [SECONDS, 5] if unit != "ns" else [SECONDS * 1000, 5000]
    log.append_batch(pa.table({"value": [b"v", b"v"], "timestamp": pa.array(numbers, pa.timestamp(unit))}))
    assert times_of(log) == ([SECONDS * factor, 5 * factor] if unit != "ns" else [SECONDS, 5])


def test_a_datetime_with_a_zone_is_a_time(log: seglog.Log, topic: seglog.Topic) -> None:
    log.append(b"v", timestamp=MOMENT)
    log.append_stream([b"v"], timestamp=MOMENT)
    log.append_each([Draft(b"v", timestamp=MOMENT)])
    assert times_of(log) == [MICROSECONDS + 250] * 3
    assert log.offset_at(MOMENT) == 0
    number, offset = topic.append(b"v", timestamp=MOMENT)
    assert topic.partition(number).read(offset).timestamp == MICROSECONDS + 250
    log.append(b"v", timestamp=datetime(1970, 1, 1, 1, tzinfo=UTC))
    assert log.read(3).timestamp == 3_600_000_000, "its unit is known"


def test_a_datetime_without_a_zone_is_refused_with_how_to_add_one(log: seglog.Log) -> None:
    for call in (lambda: log.append(b"v", timestamp=NO_ZONE), lambda: log.offset_at(NO_ZONE)):
        with pytest.raises(seglog.InvalidArgument, match=r"no time zone; add one, as datetime\.now\(UTC\)"):
            call()
    assert log.next_offset == 0


def test_a_lookup_by_time_asks_for_microseconds_too(log: seglog.Log) -> None:
    log.append(b"v", timestamp=SECONDS - 1, force_timestamp=True)
    log.append(b"v", timestamp=SECONDS, force_timestamp=True)
    with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
        log.offset_at(SECONDS)
    assert log.offset_at(SECONDS, force_timestamp=True) == 1
    assert log.offset_at(5) == 0


def test_a_topic_and_its_consumer_check_times_as_a_log_does(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "topics") as broker, broker.create_topic("t", partitions=1) as topic:
        for call in (
            lambda: topic.append(b"v", timestamp=SECONDS),
            lambda: topic.append(b"v", timestamp=SECONDS, once="a"),
            lambda: topic.append_stream([b"v"], timestamp=MILLISECONDS),
            lambda: topic.append_batch(table(SECONDS)),
        ):
            with pytest.raises(seglog.InvalidArgument, match="looks like"):
                call()
        assert topic.partition(0).next_offset == 0
        topic.append(b"v", timestamp=SECONDS, force_timestamp=True)
        topic.append(b"v", timestamp=SECONDS + 1, force_timestamp=True, once="a")
        topic.append_stream([b"v"], timestamp=SECONDS + 2, force_timestamp=True)
        topic.append_batch(table(SECONDS + 3), force_timestamp=True)
        topic.append_batch(table(SECONDS + 4), force_timestamp=True, once="b")
        assert times_of(topic.partition(0)) == [SECONDS + number for number in range(5)]
        with broker.consumer("g", ["t"], start="earliest") as consumer:
            consumer.poll(max_records=1)
            with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
                consumer.seek_to_time(SECONDS)
            consumer.seek_to_time(SECONDS + 3, force_timestamp=True)
            assert [one.offset for one in consumer.poll()] == [3, 4]


def test_staged_rows_are_checked(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        with Stage(storage_at(tmp_path / "log"), "query-0") as stage:
            with pytest.raises(seglog.InvalidArgument, match="row 0 of the batch"):
                stage.append_batch(table(SECONDS))
            stage.append_batch(table(SECONDS), force_timestamp=True)
            log.publish(stage.finish(), query="query", batch=0)
        assert times_of(log) == [SECONDS]


def test_awaited_calls_check_times_as_the_others_do(tmp_path: Path) -> None:
    async def story() -> list[int]:
        with seglog.open(seglog.MemoryStorage()) as inner:
            log = AsyncLog(inner)
            for call in (
                lambda: log.append(b"v", timestamp=SECONDS),
                lambda: log.append_stream([b"v"], timestamp=SECONDS),
                lambda: log.append_batch(table(SECONDS)),
                lambda: log.offset_at(SECONDS),
            ):
                with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
                    await call()
            await log.append(b"v", timestamp=SECONDS, force_timestamp=True)
            await log.append_stream([b"v"], timestamp=SECONDS, force_timestamp=True)
            await log.append_batch(table(SECONDS), force_timestamp=True)
            await log.append(b"v", timestamp=MOMENT)
            assert await log.offset_at(SECONDS, force_timestamp=True) == 0
            found = times_of(inner)
            await log.close()
        async with await AsyncTopic.create(tmp_path / "topic", partitions=1) as topic:
            with pytest.raises(seglog.InvalidArgument, match="looks like seconds"):
                await topic.append(b"v", timestamp=SECONDS)
            await topic.append(b"v", timestamp=SECONDS, force_timestamp=True)
            await topic.append(b"v", timestamp=SECONDS, force_timestamp=True, once="a")
            await topic.append_stream([b"v"], timestamp=SECONDS, force_timestamp=True)
            await topic.append_batch(table(SECONDS), force_timestamp=True)
            found += times_of(topic.topic.partition(0))
        return found

    assert asyncio.run(story()) == [SECONDS] * 3 + [MICROSECONDS + 250] + [SECONDS] * 4


def test_records_of_other_logs_keep_their_times(log: seglog.Log, tmp_path: Path) -> None:
    assert log.append_at(0, Record(0, SECONDS, None, b"v")) == 0
    log.append(b"v", timestamp=MILLISECONDS, force_timestamp=True)
    log.append_batch(log.to_arrow())
    assert times_of(log) == [SECONDS, MILLISECONDS] * 2, "what is read as Arrow has a unit"
    with seglog.open(tmp_path / "leader") as leader:
        leader.append(b"v", timestamp=SECONDS, force_timestamp=True)
        leader.sync()
        with seglog.Mirror(tmp_path / "leader", tmp_path / "copy") as mirror:
            mirror.step()
        leader.backup(tmp_path / "backup")
    for name in ("copy", "backup"):
        with seglog.open(tmp_path / name, mode="r") as copy:
            assert times_of(copy) == [SECONDS]


def test_a_transaction_that_was_staged_keeps_its_times(tmp_path: Path) -> None:
    with seglog.Broker(tmp_path / "topics") as broker:
        topic = broker.create_topic("t", partitions=1)
        transactions = transactions_of(broker)
        journal = transactions.begin({})
        rows = table(SECONDS).combine_chunks().to_batches()[0]
        transactions.stage(journal, Batch("t", topic.id, 0, "once", 1, {}), rows)
        transactions.decide(journal)
        transactions.publish(journal)
        assert times_of(topic.partition(0)) == [SECONDS]


def test_the_clock_of_a_log_may_show_any_time() -> None:
    with seglog.open(seglog.MemoryStorage(), clock=lambda: SECONDS) as log:
        log.append(b"v")
        assert times_of(log) == [SECONDS]
