"""The whole demo on real data: it ends well, can be run again, and fails loudly when a result is wrong."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from seglog import demo
from seglog.demo import output, queries, story
from seglog.demo.expected import compute
from seglog.demo.flights import data_directory
from seglog.demo.progress import Steps
from seglog.demo.stream import STOP_AFTER, Streamed
from seglog.errors import InvalidArgument
from seglog.topic import Topic

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

LIMIT = 30_000


@pytest.mark.spark
@pytest.mark.parametrize(
    "before",
    [pytest.param((), marks=pytest.mark.proof), pytest.param((LIMIT,), marks=pytest.mark.deep)],
    ids=["once", "twice over"],
)
def test_the_demo_checks_its_results_and_writes_a_report(
    spark: SparkSession, tmp_path: Path, capsys: pytest.CaptureFixture[str], before: tuple[int, ...]
) -> None:
    for limit in before:  # what an earlier run left is replaced
        assert demo.run(tmp_path / "out", limit=limit) == 0
    assert demo.run(tmp_path / "out", limit=LIMIT // 10) == 0

    told = capsys.readouterr().out
    assert str(tmp_path / "out" / "report.html") in told
    batches = re.findall(r"(\d+) micro-batches, stopped on purpose; (\d+) after the restart", told)
    assert all(int(first) >= STOP_AFTER and int(second) > 0 for first, second in batches)
    assert len(batches) == 1 + len(before)
    assert re.findall(r"aircraft before, (\d+) differ after", told) == ["0"] * len(batches)
    answers = re.findall(r"(Spark|DuckDB|Polars): [\d.]+ s, [\d,]+ rows, (\d+) differ", told)
    assert answers == [("Spark", "0"), ("DuckDB", "0"), ("Polars", "0")] * len(batches)
    for limit in (*before, LIMIT // 10):
        assert re.search(rf"{limit:,} records, .* [KM]iB -> [\d,]+ records", told)
    with Topic.open(tmp_path / "out" / output.TOPIC, mode="r") as topic:
        assert sum(len(topic.partition(number)) for number in range(topic.partitions)) == LIMIT // 10
    assert len(pq.read_table(tmp_path / "out" / output.AIRCRAFT)) > 1000
    report = (tmp_path / "out" / output.REPORT).read_text(encoding="utf-8")
    assert "3,000" in report
    assert "The same answer from Spark, DuckDB and Polars" in report


@pytest.mark.spark
@pytest.mark.proof
def test_a_wrong_query_ends_the_demo_with_1_and_says_what_differs(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = queries.delay_statistics

    def wrong(records: DataFrame) -> DataFrame:
        return right(records.where("NOT (partition = 0 AND offset = 0)"))

    monkeypatch.setattr(queries, "delay_statistics", wrong)
    assert demo.run(tmp_path / "out", limit=2000) == 1
    message = capsys.readouterr().err
    assert "DIFFER from the CSV" in message
    assert message.count("delays:") == 1
    assert not (tmp_path / "out" / output.REPORT).exists()


@pytest.mark.spark
@pytest.mark.proof
def test_a_compaction_that_loses_a_state_ends_the_demo_with_1(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    right = queries.read_topic

    def without_the_last(session: SparkSession, topic: Path) -> DataFrame:
        events = right(session, topic)
        last = events.where("key IS NOT NULL AND partition = 0").selectExpr("max(offset)").first()
        return events.where(f"NOT (partition = 0 AND offset = {last[0] if last else -1})")

    monkeypatch.setattr(queries, "read_topic", without_the_last)
    assert demo.run(tmp_path / "out", limit=2000) == 1
    message = capsys.readouterr().err
    assert "CHANGED the latest state" in message
    assert not (tmp_path / "out" / output.REPORT).exists()


def test_every_kind_of_tampering_is_found() -> None:
    archive = data_directory() / "flights.csv.zip"
    right = compute(archive, limit=1000)
    tail, state = next(iter(right.aircraft.items()))
    place, statistics = next(iter(right.delays.items()))

    def differences(aircraft: dict[str, object], delays: dict[tuple[str, int], object]) -> list[str]:
        states = {**right.aircraft, **aircraft}
        results = story.Results(
            {key: value for key, value in states.items() if value},  # type: ignore[misc] # None: take it out
            {},
            {**right.delays, **delays},  # type: ignore[dict-item] # tampered on purpose
            Streamed(3, 9),
        )
        return story._check(Steps(1), archive, 1000, results)

    assert differences({}, {}) == []
    assert tail in differences({tail: None}, {})[0]
    assert "should not be there" in differences({"N0": state}, {})[0]
    assert tail in differences({tail: state._replace(dest="XXX")}, {})[0]
    assert place[0] in differences({}, {place: statistics._replace(mean_delay=1e-9)})[0]


@pytest.mark.needs("java")
def test_the_demo_refuses_a_directory_it_did_not_make(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("years of work")
    with pytest.raises(InvalidArgument, match="not changed"):
        demo.run(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["thesis.tex"]
