"""Filters handed down: the same rows as without, and fewer bytes read for them."""

from __future__ import annotations

import logging
import re
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

import seglog
from seglog.errors import InvalidArgument
from seglog.spark.read.explain import explain_read
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.pushdown import EVERYTHING, push
from seglog.spark.read.scan import RangeScan
from seglog.storage.local import LocalStorage
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

MOMENT = datetime(2024, 2, 29, 12, tzinfo=UTC)
MICROS = int(MOMENT.timestamp()) * 1_000_000
OPERATORS = {
    EqualTo: lambda a, b: a == b,
    LessThan: lambda a, b: a < b,
    LessThanOrEqual: lambda a, b: a <= b,
    GreaterThan: lambda a, b: a > b,
    GreaterThanOrEqual: lambda a, b: a >= b,
    In: lambda a, b: a in b,
}


def timestamp(offset: int) -> int:
    """Rise by a second each record, but go back by up to 9 within every ten."""
    return MICROS + 1_000_000 * (offset - offset % 10 + (9 - offset % 10))


@pytest.fixture(scope="module")
def topic_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two partitions of 1000 records in segments of about 50."""
    path = tmp_path_factory.mktemp("pushdown") / "orders"
    with Topic.create(path, partitions=2, config=seglog.LogConfig(segment_bytes=4096)) as topic:
        for number in range(2):
            rows = {
                "value": [b"%050d" % offset for offset in range(1000)],
                "timestamp": pa.array([timestamp(offset) for offset in range(1000)], pa.timestamp("us", "UTC")),
            }
            topic.partition(number).append_batch(pa.table(rows))
    return path


def rows_and_bytes(path: Path, *filters: Filter, **options: str) -> tuple[list[tuple[int, int]], int]:
    """Read as the tasks do; return (partition, offset) of the rows and the bytes of stores that were read."""
    parsed = ReadOptions.parse({"path": str(path), "columns": "partition,offset", **options})
    rows, size = [], 0
    for part in explain_read(path, filters, **options).ranges:
        scan = RangeScan(part, parsed.columns, push(filters)[0], fail_on_data_loss=True)
        rows += [(row["partition"], row["offset"]) for batch in scan for row in batch.to_pylist()]
        size += scan.bytes_read
    return rows, size


# --- what is accepted


@pytest.mark.parametrize(
    "one",
    [
        EqualTo(("value",), 5),
        EqualTo(("headers", "offset"), 5),
        EqualTo(("offset",), "5"),
        EqualTo(("offset",), True),
        EqualTo(("offset",), None),
        In(("offset",), (1, "2")),
        Not(EqualTo(("offset",), 5)),
        EqualTo(("timestamp",), 5),
        EqualTo(("timestamp",), datetime(2024, 2, 29)),
        GreaterThan(("topic",), "a"),
        StringStartsWith(("topic",), "a"),
        IsNotNull(("key",)),
        Not(In(("partition",), (1,))),
    ],
)
def test_what_cannot_be_kept_exactly_is_left_to_spark(one: Filter) -> None:
    assert push([one]) == (EVERYTHING, [one])


def test_accepted_filters_hold_together() -> None:
    restriction, left = push(
        [
            GreaterThanOrEqual(("offset",), 5),
            LessThan(("offset",), 9),
            In(("offset",), (1, 5, 6, 8, 12, None)),
            EqualNullSafe(("partition",), 1),
            In(("topic",), ("a", "b")),
            EqualTo(("topic",), "b"),
            IsNotNull(("timestamp",)),
        ]
    )
    assert left == []
    assert restriction.offsets == ((5, 7), (8, 9))
    assert restriction.admits("b", 1)
    assert not restriction.admits("a", 1)
    assert not restriction.admits("b", 0)


def test_timestamps_of_any_zone_are_instants() -> None:
    elsewhere = MOMENT.astimezone(timezone(timedelta(hours=5)))
    assert push([EqualTo(("timestamp",), elsewhere)])[0].timestamps == ((MICROS, MICROS + 1),)


def test_what_contradicts_itself_reads_nothing(topic_path: Path) -> None:
    assert rows_and_bytes(topic_path, LessThan(("offset",), 3), GreaterThan(("offset",), 3)) == ([], 0)
    assert rows_and_bytes(topic_path, In(("offset",), ())) == ([], 0)
    assert rows_and_bytes(topic_path, In(("timestamp",), ())) == ([], 0)


@settings(max_examples=60)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["offset", "timestamp", "partition"]),
            st.sampled_from(list(OPERATORS)),
            st.lists(st.integers(-2, 1002), max_size=5),
            st.integers(-2, 1002),
        ),
        max_size=3,
    )
)
def test_any_filters_give_the_rows_they_ask_for(topic_path: Path, drawn: list[Any]) -> None:
    wanted = [(partition, offset) for partition in range(2) for offset in range(1000)]
    filters = []
    for column, kind, many, one in drawn:
        values = many if kind is In else [one]
        if column == "timestamp":
            values = [MOMENT + timedelta(seconds=value) for value in values]
        filters.append(kind((column,), tuple(values) if kind is In else values[0]))
        wanted = [row for row in wanted if OPERATORS[kind](seen(column, *row), filters[-1].value)]
    assert rows_and_bytes(topic_path, *filters)[0] == wanted


def seen(column: str, partition: int, offset: int) -> Any:
    if column == "timestamp":
        return datetime.fromtimestamp(timestamp(offset) // 1_000_000, UTC)
    return offset if column == "offset" else partition


# --- what is not read


def test_fewer_bytes_are_read_for_a_filter_and_the_plan_tells_how_many(topic_path: Path) -> None:
    all_rows, all_bytes = rows_and_bytes(topic_path)
    assert len(all_rows) == 2000
    late = GreaterThanOrEqual(("timestamp",), MOMENT + timedelta(seconds=900))
    for one, share in [
        (EqualTo(("partition",), 1), 0.5),
        (GreaterThanOrEqual(("offset",), 900), 0.1),
        (late, 0.1),
        (LessThan(("timestamp",), MOMENT + timedelta(seconds=100)), 0.1),
    ]:
        rows, size = rows_and_bytes(topic_path, one)
        assert len(rows) == 2000 * share
        assert size < all_bytes * share * 1.9
        figures = explain_read(topic_path, [one]).figures
        assert figures.bytes < (figures.bytes + figures.bytes_skipped) * share * 1.9


def test_bytes_read_are_what_the_operating_system_is_asked_for(
    topic_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"bytes": 0}
    real = LocalStorage.open

    class Counting:
        def __init__(self, file: Any) -> None:
            self._file = file

        def pread(self, length: int, position: int) -> bytes:
            data: bytes = self._file.pread(length, position)
            asked["bytes"] += len(data)
            return data

        def __getattr__(self, name: str) -> Any:
            return getattr(self._file, name)

    def counting(storage: LocalStorage, name: str, **how: bool) -> Any:
        file = real(storage, name, **how)
        return Counting(file) if name.endswith(".store") else file

    monkeypatch.setattr(LocalStorage, "open", counting)
    rows_and_bytes(topic_path)
    everything, asked["bytes"] = asked["bytes"], 0
    rows_and_bytes(topic_path, EqualTo(("partition",), 1), GreaterThan(("offset",), 950))
    assert 0 < asked["bytes"] < everything / 10


def test_the_figures_are_logged(topic_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "seglog.spark"):
        explain_read(topic_path, [EqualTo(("partition",), 1)])
    assert "logs=1, logs_skipped=1" in caplog.text


def test_a_filter_that_is_not_handed_down_cannot_be_explained(topic_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="is not pushed down"):
        explain_read(topic_path, [EqualTo(("value",), b"")])


def test_a_damaged_segment_that_no_filter_asks_for_is_not_read(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", seglog.LogConfig(segment_bytes=4096)) as log:
        log.append_batch(pa.table({"value": [b"%050d" % number for number in range(300)]}))
        store = tmp_path / "log" / log.segments[0].name
    data = bytearray(store.read_bytes())
    data[len(data) // 2] ^= 1
    store.write_bytes(data)
    assert len(rows_and_bytes(tmp_path / "log", GreaterThanOrEqual(("offset",), 200))[0]) == 100


# --- in Spark


@pytest.mark.spark
@pytest.mark.parametrize(
    ("condition", "handed_down"),
    [
        ("offset >= 10 AND offset < 20 AND partition = 1", True),
        ("offset IN (5, 500, 5000) AND topic = 'orders'", True),
        ("timestamp >= TIMESTAMP '2024-02-29 12:15:00Z'", True),
        ("partition = 7", True),
        ("offset <> 3", False),
        ("offset % 2 = 0 AND partition <=> 0", False),
        ("offset < 5 OR partition = 1", False),
        ("value = cast(lpad('7', 50, '0') AS binary)", False),
    ],
)
def test_spark_gives_the_same_rows_with_filters_handed_down_and_without(
    spark: SparkSession, topic_path: Path, condition: str, handed_down: bool
) -> None:
    found = {}
    setting = "spark.sql.python.filterPushdown.enabled"
    assert spark.conf.get(setting) == "true"
    for way in ("true", "false"):
        spark.conf.set(setting, way)
        try:
            frame = spark.read.format("seglog").option("pushFilters", "true").load(str(topic_path))
            frame = frame.where(condition).select("partition", "offset")
            found[way] = sorted(map(tuple, frame.collect()))
            plan = frame._jdf.queryExecution().executedPlan().toString()
        finally:
            spark.conf.set(setting, "true")
        if way == "true":
            assert (re.search(r"\bFilter\b", plan) is None) == handed_down
    assert found["true"] == found["false"]


@pytest.mark.spark
def test_a_frame_that_several_queries_use_gives_each_its_own_rows(spark: SparkSession, topic_path: Path) -> None:
    """Spark keeps what one query of a frame pushed for the next ones, so nothing is pushed unless it is asked for."""
    frame = spark.read.format("seglog").load(str(topic_path))
    records = frame.count()
    few = frame.where("offset < 5")
    assert few.count() < records
    assert frame.count() == records
    assert few.union(frame).count() == records + few.count()
