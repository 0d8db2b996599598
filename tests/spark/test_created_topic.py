"""A topic that the ingest job makes: it stays only if the job succeeds, or another job uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from seglog.log.staging import Stage
from seglog.spark.ingest import __main__ as program
from seglog.spark.ingest import create_topic, created_topic
from seglog.storage import LocalStorage
from seglog.topic import Topic
from seglog.topic.layout.description import is_topic

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    create_topic(tmp_path / "orders", 1)
    return tmp_path / "orders"


def contents(place: Path) -> set[str]:
    return {str(one.relative_to(place)) for one in place.rglob("*")}


def test_a_run_that_fails_leaves_no_topic_that_it_made(
    spark: SparkSession, topic: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    (tmp_path / "a.csv").write_text("id\n1\nx\n")
    (tmp_path / "empty").mkdir()
    before = contents(tmp_path)
    source, schema = str(tmp_path / "a.csv"), ["--schema", "id INT", "--partitions", "2"]
    for place in ("new", "far/below/new", "empty"):
        for wrong in ([], ["--option", "mode=PERMISSIVE", "--key", "no_column"], ["--run", "a/b"], ["--batch", "1"]):
            assert program.main([str(tmp_path / place), source, *schema, *wrong]) == 2, (place, wrong)
            assert contents(tmp_path) - {"empty/.seglog.lock"} == before, (place, wrong)
    assert b"a row is malformed" in capfdbinary.readouterr().err
    assert program.main([str(topic), source, *schema]) == 2
    with Topic.open(topic, mode="r") as opened:
        assert len(opened.partition(0)) == 0
    assert program.main([str(tmp_path / "far/new"), source, "--partitions", "2"]) == 0
    with pytest.raises(KeyboardInterrupt), created_topic(tmp_path / "new", 1):
        raise KeyboardInterrupt
    assert not (tmp_path / "new").exists()


def test_a_topic_that_another_job_has_begun_to_use_is_left_to_it(tmp_path: Path) -> None:
    def append(place: Path) -> None:
        with Topic.open(place) as opened:
            opened.append(b"1")

    def append_and_delete(place: Path) -> None:
        with Topic.open(place) as opened:
            opened.append(b"1")
            opened.partition(0).delete_before(1)

    def stage(place: Path) -> None:
        with Stage(LocalStorage(place / "0"), "another-0") as staged:
            staged.append_batch(pa.table({"value": [b"1"]}))
            staged.finish()

    uses: list[Callable[[Path], object]] = [
        append,
        append_and_delete,
        stage,
        lambda place: (place / "txn").mkdir(),
        Topic.open,
    ]
    for number, use in enumerate(uses):
        place = tmp_path / f"topic{number}"
        with pytest.raises(ValueError, match="fails"), created_topic(place, 1):
            opened = use(place)
            raise ValueError("fails")
        assert is_topic(place), number
        del opened
