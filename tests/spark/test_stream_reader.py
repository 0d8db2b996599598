"""The streaming reader as Spark calls it, without Spark: how far each micro-batch goes, and what is read for it."""

from __future__ import annotations

import json
import logging
import pickle
import shutil
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows, ReadMinRows

import seglog
from seglog.errors import InvalidArgument, LogTruncated, OffsetOutOfRange
from seglog.record import Record
from seglog.spark.read import stream as stream_reader
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.stream import SeglogStreamReader
from seglog.topic import Topic
from seglog.topic.layout import description

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=2048)


class Query:
    """A streaming query as Spark runs one: offsets pass through JSON, tasks through pickle."""

    def __init__(self, path: Path, **options: Any) -> None:
        texts = {"startingOffsets": "earliest", **{name: str(value) for name, value in options.items()}}
        self.options = ReadOptions.parse({"path": str(path), **texts}, "stream")
        self.reader = SeglogStreamReader(self.options)
        self.offset = through_json(self.reader.initialOffset())

    def restart(self) -> None:
        self.reader.stop()
        self.reader = SeglogStreamReader(self.options)

    def plan(self, limit: Any = None) -> Any:
        return through_json(self.reader.latestOffset(self.offset, limit or self.reader.getDefaultReadLimit()))

    def rows(self, end: Any) -> list[tuple[str, int, int]]:
        return [
            (row["topic"], row["partition"], row["offset"])
            for part in self.reader.partitions(self.offset, end)
            for batch in pickle.loads(pickle.dumps(self.reader)).read(pickle.loads(pickle.dumps(part)))  # noqa: S301 - our own
            for row in batch.select(["topic", "partition", "offset"]).to_pylist()
        ]

    def batch(self, limit: Any = None) -> list[tuple[str, int, int]]:
        end = self.plan(limit)
        rows = [] if end == self.offset else self.rows(end)
        self.offset = end
        return rows

    def offsets(self) -> list[int]:
        return [offset for _, _, offset in self.batch()]


def through_json(offset: Any) -> Any:
    return json.loads(json.dumps(offset))


def fill(log: seglog.Log, records: int) -> None:
    log.append_batch(pa.table({"value": [b"%030d" % number for number in range(records)]}))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[seglog.Log]:
    with seglog.open(tmp_path / "log", SMALL) as opened:
        yield opened


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log"


# --- what is read


def test_each_micro_batch_reads_what_came_since_the_last(log: seglog.Log, path: Path) -> None:
    fill(log, 100)
    query = Query(path)
    assert query.offsets() == list(range(100))
    assert query.offsets() == []
    fill(log, 20)
    assert query.offsets() == list(range(100, 120))


def test_the_default_start_is_the_latest(log: seglog.Log, path: Path) -> None:
    fill(log, 10)
    query = Query(path, startingOffsets="latest")
    fill(log, 5)
    assert query.offsets() == [10, 11, 12, 13, 14]


def test_starts_are_offsets_or_times_as_in_batch(log: seglog.Log, path: Path) -> None:
    for number in range(10):
        log.append(b"v", timestamp=1_000_000 + 1000 * number)
    assert Query(path, startingOffsets='{"log": {"0": 7}}').offsets() == [7, 8, 9]
    assert Query(path, startingTimestamp=1004).offsets() == [4, 5, 6, 7, 8, 9]
    assert Query(path, startingTimestamp=2000, startingOffsetsByTimestampStrategy="latest").offsets() == []
    with pytest.raises(InvalidArgument, match="option startingTimestamp"):
        Query(path, startingTimestamp=2000)
    with pytest.raises(InvalidArgument, match="option startingOffsets: offset 11"):
        Query(path, startingOffsets='{"log": {"0": 11}}')


def test_without_news_the_offset_stays_the_same_text(log: seglog.Log, path: Path) -> None:
    fill(log, 10)
    query = Query(path)
    assert query.plan() != query.offset
    query.batch()
    assert json.dumps(query.plan()) == json.dumps(query.offset)


def test_offsets_are_json_that_a_person_can_read(log: seglog.Log, path: Path) -> None:
    fill(log, 10)
    query = Query(path)
    query.batch()
    part = query.offset["log"]["0"]
    assert (part["offset"], part["from"], part["epoch"]) == (10, 0, 0)
    assert query.reader.reportLatestOffset() == {"log": {"0": 10}}


def test_offsets_of_something_else_are_refused(log: seglog.Log, path: Path) -> None:
    query = Query(path)
    begun = query.offset["log"]["0"]
    for part in (17, {**begun, "offset": float("inf")}, {**begun, "offset": "x"}, {}):
        query.offset = {"log": {"0": part}}
        with pytest.raises(InvalidArgument, match="not of format seglog"):
            query.plan()


def test_a_micro_batch_is_the_same_after_a_restart_though_the_log_has_grown(log: seglog.Log, path: Path) -> None:
    fill(log, 100)
    query = Query(path)
    end = query.plan()
    first = query.rows(end)
    fill(log, 100)
    query.restart()
    assert query.rows(end) == first


def test_the_first_micro_batch_can_be_read_again_though_latest_has_moved(log: seglog.Log, path: Path) -> None:
    fill(log, 10)
    query = Query(path, startingOffsets="latest")
    fill(log, 10)
    end = query.plan()
    fill(log, 10)
    query.restart()
    query.offset = through_json(query.reader.initialOffset())  # Spark asks again, for it has kept none
    assert [offset for _, _, offset in query.rows(end)] == list(range(10, 20))


def test_a_batch_without_new_data_reads_nothing(log: seglog.Log, path: Path) -> None:
    fill(log, 10)
    query = Query(path)
    query.batch()
    assert query.reader.partitions(query.offset, query.offset) == []


def test_columns_narrow_a_stream_too(log: seglog.Log, path: Path) -> None:
    fill(log, 3)
    query = Query(path, columns="offset,value")
    part = query.reader.partitions(query.offset, query.plan())[0]
    assert [batch.schema.names for batch in query.reader.read(part)] == [["offset", "value"]]


# --- limits


def test_a_micro_batch_holds_exactly_the_limit(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "t", partitions=3, config=SMALL) as topic:
        fill(topic.partition(0), 1000)
        fill(topic.partition(1), 10)
    query = Query(tmp_path / "t", maxOffsetsPerTrigger=33)
    assert query.reader.getDefaultReadLimit() == ReadMaxRows(33)
    batches = []
    while rows := query.batch():
        batches.append(rows)
    assert [len(rows) for rows in batches] == [33] * 30 + [20]
    assert {partition for _, partition, _ in batches[0]} == {0, 1}
    read = sorted(row for rows in batches for row in rows)
    assert read == [("t", 0, number) for number in range(1000)] + [("t", 1, number) for number in range(10)]


def test_once_takes_all_there_is_whatever_the_limit(log: seglog.Log, path: Path) -> None:
    fill(log, 50)
    assert len(Query(path, maxOffsetsPerTrigger=7, minOffsetsPerTrigger=2).batch(ReadAllAvailable())) == 50
    assert len(Query(path, minOffsetsPerTrigger=90).batch(ReadAllAvailable())) == 50


@pytest.mark.parametrize("step", [1, 3, 10])
def test_limits_count_records_and_not_the_gaps_between_them(log: seglog.Log, path: Path, step: int) -> None:
    offsets = [number * 7 + number % 3 for number in range(150)]
    for offset in offsets:
        log.append_at(offset, Record(offset, 0, None, b"%030d" % offset, ()))
    assert len(log.segments) > 3
    query = Query(path, maxOffsetsPerTrigger=step)
    read = []
    while rows := query.offsets():
        assert len(rows) == min(step, 150 - len(read))
        read += rows
    assert read == offsets


def test_a_least_number_of_records_is_waited_for_but_not_longer_than_the_delay(
    log: seglog.Log, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: now))
    query = Query(path, minOffsetsPerTrigger=10, maxTriggerDelay="60s")
    assert query.reader.getDefaultReadLimit() == ReadMinRows(10)
    fill(log, 9)
    assert query.offsets() == []
    fill(log, 1)
    assert query.offsets() == list(range(10))
    fill(log, 3)
    now += 59
    assert query.offsets() == []
    now += 1
    assert query.offsets() == [10, 11, 12]


def test_a_restart_neither_ends_the_wait_nor_forgets_the_least(
    log: seglog.Log, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    monkeypatch.setattr(stream_reader, "time", SimpleNamespace(monotonic=lambda: now))
    query = Query(path, minOffsetsPerTrigger=10, maxOffsetsPerTrigger=50, maxTriggerDelay="60s")
    fill(log, 3)
    query.restart()
    assert query.offsets() == []
    now += 60
    assert query.offsets() == [0, 1, 2]


def test_available_now_stops_where_the_log_ended_when_it_began(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "t", partitions=1, config=SMALL) as topic:
        fill(topic.partition(0), 25)
        query = Query(tmp_path / "t", maxOffsetsPerTrigger=10, minOffsetsPerTrigger=10)
        query.reader.prepareForTriggerAvailableNow()
        fill(topic.partition(0), 25)
        add_partition(tmp_path / "t")
        assert [len(query.batch()) for _ in range(4)] == [10, 10, 5, 0]
        query.restart()
        assert query.reader.latestOffset(query.offset, ReadAllAvailable())["t"]["1"]["offset"] == 5


# --- partitions and topics come and go


def add_partition(topic: Path) -> None:
    known = description.read(topic)
    with seglog.open(topic.parent / "coming", SMALL) as log:  # elsewhere: the topic may be open for writing
        fill(log, 5)
    (topic.parent / "coming").rename(topic / str(known.partitions))
    description.write(topic, description.Description(known.name, known.partitions + 1, known.id))


def test_a_new_partition_is_read_from_its_beginning(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "t", partitions=1) as topic:
        fill(topic.partition(0), 3)
    query = Query(tmp_path / "t", startingOffsets="latest")
    assert query.batch() == []
    add_partition(tmp_path / "t")
    assert query.batch() == [("t", 1, number) for number in range(5)]
    query.restart()
    add_partition(tmp_path / "t")
    assert query.batch() == [("t", 2, number) for number in range(5)]


def test_a_new_topic_that_fits_the_pattern_is_read_from_its_beginning(tmp_path: Path) -> None:
    query = Query(tmp_path, subscribePattern="orders.*")
    assert query.batch() == []
    for name in ("orders-eu", "orders-us", "bills"):
        with Topic.create(tmp_path / f"directory of {name}", partitions=1, name=name) as topic:
            fill(topic.partition(0), 2)
    assert query.batch() == [("orders-eu", 0, 0), ("orders-eu", 0, 1), ("orders-us", 0, 0), ("orders-us", 0, 1)]


def test_a_new_partition_that_has_lost_its_beginning_is_told(tmp_path: Path) -> None:
    with Topic.create(tmp_path / "t", partitions=1) as topic:
        fill(topic.partition(0), 3)
    query, lenient = Query(tmp_path / "t"), Query(tmp_path / "t", failOnDataLoss=False)
    query.batch()
    lenient.batch()
    add_partition(tmp_path / "t")
    with seglog.open(tmp_path / "t" / "1", SMALL) as log:
        lowest = expire(log)
    with pytest.raises(OffsetOutOfRange, match=r"partition 1 of topic 't' .* it is new here, but offsets 0 up to"):
        query.plan()
    assert lenient.batch()[0] == ("t", 1, lowest)


def test_a_partition_that_goes_is_loss(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Topic.create(tmp_path / "t", partitions=2) as topic:
        fill(topic.partition(0), 3)
    query, lenient = Query(tmp_path / "t"), Query(tmp_path / "t", failOnDataLoss=False)
    shutil.rmtree(tmp_path / "t" / "1")
    with pytest.raises(LogTruncated, match="partition 1 of topic 't' is gone"):
        query.plan()
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        assert len(lenient.batch()) == 3
    assert "is gone; continuing without it" in caplog.text


# --- loss


def expire(log: seglog.Log, records: int = 200) -> int:
    """Append and let retention take all but the last segments; return where the log begins then."""
    fill(log, records)
    keep = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=4096))
    path = log.path
    log.close()
    with seglog.open(path, keep) as again:
        again.expire()
        assert again.lowest_offset > 100
        return again.lowest_offset


def test_what_retention_took_before_it_was_read_is_loss(log: seglog.Log, path: Path) -> None:
    query, lenient = Query(path), Query(path, failOnDataLoss=False)
    fill(log, 10)
    end = lenient.plan()
    lowest = expire(log)
    with pytest.raises(OffsetOutOfRange, match=r"offsets 0 up to \d+ expired before they were read.*failOnDataLoss"):
        query.plan()
    assert lenient.rows(end) == []
    assert lenient.offsets()[0] == lowest


def test_retention_behind_the_stream_is_no_loss(log: seglog.Log, path: Path) -> None:
    query = Query(path)
    fill(log, 200)
    query.batch()
    assert expire(log, 20) < 200
    query.restart()
    assert query.offsets() == list(range(200, 220))


def test_a_truncate_below_the_stream_is_loss_even_if_the_log_has_grown_past_it_again(
    log: seglog.Log, path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    query, lenient = Query(path), Query(path, failOnDataLoss=False)
    fill(log, 50)
    query.batch()
    lenient.batch()
    log.truncate(30)
    with pytest.raises(LogTruncated, match="truncated below offset 50; it ends at 30"):
        query.plan()
    fill(log, 100)
    with pytest.raises(LogTruncated, match="truncated below offset 50"):
        query.plan()
    query.restart()
    with pytest.raises(LogTruncated, match="truncated below offset 50"):
        query.plan()
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        assert lenient.offsets() == list(range(30, 130))
    assert "truncated below offset 50; continuing with what exists" in caplog.text
    assert lenient.offsets() == []


def test_a_truncate_above_the_stream_is_harmless(log: seglog.Log, path: Path) -> None:
    query = Query(path, maxOffsetsPerTrigger=20)
    fill(log, 50)
    assert query.offsets() == list(range(20))
    log.truncate(20)
    assert query.offsets() == []
    fill(log, 5)
    assert query.offsets() == [20, 21, 22, 23, 24]


def test_a_truncate_between_plan_and_read_is_loss(log: seglog.Log, path: Path) -> None:
    query, lenient = Query(path), Query(path, failOnDataLoss=False)
    fill(log, 50)
    ends = query.plan(), lenient.plan()
    parts = query.reader.partitions(query.offset, ends[0])
    log.truncate(30)
    fill(log, 100)
    with pytest.raises(LogTruncated, match="truncated below offset 50"):
        [list(query.reader.read(part)) for part in parts]
    query.restart()
    with pytest.raises(LogTruncated, match="truncated below offset 50"):
        query.rows(ends[0])
    assert [offset for _, _, offset in lenient.rows(ends[1])] == list(range(30))
    lenient.offset = ends[1]
    assert lenient.offsets() == list(range(30, 130))


def test_another_log_at_the_same_path_is_loss(log: seglog.Log, path: Path) -> None:
    query, lenient = Query(path), Query(path, failOnDataLoss=False)
    fill(log, 50)
    query.batch()
    lenient.batch()
    log.remove()
    with seglog.open(path, SMALL) as anew:
        fill(anew, 80)
    with pytest.raises(LogTruncated, match="another log is in its place"):
        query.plan()
    assert lenient.offsets() == list(range(80))


def test_a_truncate_above_a_position_is_no_loss_though_the_record_before_it_has_expired(
    log: seglog.Log, path: Path
) -> None:
    query = Query(path)
    fill(log, 20)
    query.batch()
    fill(log, 300)
    log.truncate(300)
    log.close()
    with seglog.open(path, seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=4096))) as kept:
        kept.expire()
        query.offset["log"]["0"]["offset"] = kept.lowest_offset
        expected = list(range(kept.lowest_offset, 300))
    query.plan()
    assert query.offsets()[-len(expected) :] == expected


def test_many_more_partitions_than_stay_open_are_followed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seglog.spark.read.local_logs.OPEN_LOGS", 2)
    with Topic.create(tmp_path / "t", partitions=5) as topic:
        for number in range(5):
            fill(topic.partition(number), 2)
        query = Query(tmp_path / "t", maxOffsetsPerTrigger=3)
        assert [len(query.batch()) for _ in range(5)] == [3, 3, 3, 1, 0]
    assert len(list((tmp_path / "t" / "0" / "readers").iterdir())) == 0


def test_compaction_is_no_loss_neither_behind_the_stream_nor_before_it(tmp_path: Path) -> None:
    keep = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(compact=True, min_dirty_ratio=0.01))
    with seglog.open(tmp_path / "log", keep) as log:
        keys = [b"key %d" % (number % 7) for number in range(300)]
        log.append_batch(pa.table({"key": keys, "value": [b"%030d" % number for number in range(300)]}))
        query = Query(tmp_path / "log", maxOffsetsPerTrigger=100)
        assert query.offsets() == list(range(100))
        log.compact()
        left = [record.offset for record in log.scan(100)]
        assert len(left) < 100
        assert query.offsets() == left
        log.append(b"new", key=b"key 1")
        assert query.offsets() == [300]
        assert query.offsets() == []


def test_what_takes_the_place_of_records_below_the_latest_does_not_pass_for_new_ones(
    log: seglog.Log, path: Path
) -> None:
    fill(log, 100)
    query = Query(path, startingOffsets="latest")
    assert query.offsets() == []
    log.truncate(50)
    fill(log, 60)
    with pytest.raises(LogTruncated):
        query.plan()


def test_a_truncate_that_was_harmless_stays_harmless_when_a_compaction_follows(tmp_path: Path) -> None:
    keyed = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    with seglog.open(tmp_path / "log", keyed) as log:
        for number in range(50):
            log.append(b"x" * 20, key=b"%d" % (number % 5))
        query = Query(tmp_path / "log")
        assert len(query.offsets()) == 50
        log.append(b"never delivered", key=b"z")
        log.truncate(50)
        assert query.offsets() == []
        for number in range(30):
            log.append(b"y" * 20, key=b"%d" % (number % 5))
        log.compact()
        expected = [record.offset for record in log.scan(50)]
        assert query.offsets() == expected
