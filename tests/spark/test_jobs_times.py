"""Times on the command line of the jobs: what an error says that one may write instead works."""

from __future__ import annotations

import importlib
import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from seglog.errors import SeglogError
from seglog.spark.export import __main__ as export
from seglog.spark.ingest import __main__ as ingest
from seglog.spark.ingest import create_topic
from seglog.terminal.exits import message_of
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

SECONDS = 1_714_564_800
MOMENTS = [
    ("snapshot", "--as-of-time", []),
    ("export", "--start-time", ["out"]),
    ("export", "--stop-time", ["out"]),
    ("replay", "--stop-time", ["--machine", "seglog.spark.replay.classroom:Classroom"]),
]


def alternatives(told: str) -> list[str]:
    """Return what the error about a number of another unit says to write: as that unit, and as microseconds."""
    found = re.search(r"write (\S+) for seconds, or (\S+) for microseconds", told)
    assert found, told
    return [*found.groups()]


@pytest.mark.parametrize("number", [SECONDS, SECONDS * 1000 + 250])
@pytest.mark.parametrize(("job", "option", "others"), MOMENTS)
def test_a_number_of_another_unit_is_refused_with_what_every_job_takes(
    job: str, option: str, others: list[str], number: int
) -> None:
    parser = importlib.import_module(f"seglog.spark.{job}.__main__").build_parser()
    with pytest.raises(SeglogError) as caught:
        parser.parse_args(["orders", *others, option, str(number)])
    assert "--force" not in message_of(caught.value)
    parsed = [
        getattr(parser.parse_args(["orders", *others, option, text]), option.strip("-").replace("-", "_"))
        for text in alternatives(message_of(caught.value))
    ]
    assert parsed == [number * (1_000_000 if number == SECONDS else 1000), number]


@pytest.fixture
def run(capfdbinary: pytest.CaptureFixture[bytes]) -> Callable[..., tuple[int, Any]]:
    def run(program: Any, *words: object) -> tuple[int, Any]:
        """Run a program with --json; return its exit code, and its report or its error."""
        code = program.main([*map(str, words), "--json"])
        told = capfdbinary.readouterr()
        return code, json.loads((told.err if code else told.out).splitlines()[-1])

    return run


def test_the_times_that_an_error_offers_select_the_records(
    spark: SparkSession, tmp_path: Path, run: Callable[..., tuple[int, Any]]
) -> None:
    with Topic.create(tmp_path / "orders", partitions=1) as topic:
        for number in range(3):
            topic.append(b"v", timestamp=(SECONDS + number) * 1_000_000)
    code, error = run(export, tmp_path / "orders", tmp_path / "a", "--start-time", SECONDS + 1)
    assert code == 2
    for number, (text, records) in enumerate(zip(alternatives(error["message"]), (2, 3), strict=True)):
        code, report = run(export, tmp_path / "orders", tmp_path / str(number), "--start-time", text)
        assert (code, report["records"]) == (0, records)


def test_the_functions_that_an_error_offers_for_a_column_of_numbers_store_its_times(
    spark: SparkSession, tmp_path: Path, run: Callable[..., tuple[int, Any]]
) -> None:
    create_topic(tmp_path / "orders", 1)
    (tmp_path / "a.csv").write_text(f"s,ms,us\n{SECONDS},{SECONDS}000,{SECONDS}000000\n")
    words = [tmp_path / "orders", tmp_path / "a.csv", "--schema", "s BIGINT, ms BIGINT, us BIGINT", "--timestamp"]
    code, error = run(ingest, *words, "s")
    assert code == 2
    offered = re.findall(r"timestamp_\w+", error["message"])
    for function, column in zip(offered, ("s", "ms", "us"), strict=True):
        assert run(ingest, *words, f"{function}({column})")[0] == 0
    with Topic.open(tmp_path / "orders", mode="r") as topic:
        assert [record.timestamp for record in topic.partition(0).scan()] == [SECONDS * 1_000_000] * 3


def test_the_cast_that_an_error_offers_for_times_without_a_zone_stores_them(
    spark: SparkSession, tmp_path: Path, run: Callable[..., tuple[int, Any]]
) -> None:
    create_topic(tmp_path / "orders", 1)
    (tmp_path / "a.csv").write_text("timestamp\n2024-05-01T12:00:00\n")
    words = [tmp_path / "orders", tmp_path / "a.csv", "--schema", "timestamp TIMESTAMP_NTZ", "--timestamp"]
    code, error = run(ingest, *words, "timestamp")
    assert code == 2
    [cast] = re.findall(r"CAST\(timestamp AS timestamp\)", error["message"])
    assert run(ingest, *words, cast)[0] == 0
    with Topic.open(tmp_path / "orders", mode="r") as topic:
        assert [record.timestamp for record in topic.partition(0).scan()] == [SECONDS * 1_000_000]
