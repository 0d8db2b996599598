"""What docs/table.md shows of Spark, of functions that decode values and of retention works as it stands.

tests/test_docs.py runs the page's other examples, which need neither a session nor names from a reader's program.
"""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import fastavro
import pyarrow as pa
import pytest
from google.protobuf.struct_pb2 import Struct
from pyarrow.parquet import read_table

import seglog
from seglog import LogConfig, Retention
from seglog.topic import Topic
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.pages import Examples

pytestmark = pytest.mark.examples("table.md", "py")
PLACES = re.compile(r'"(shop|visits|warehouse|checkpoints|large)\b')
SMALL = LogConfig(segment_bytes=4096)
ORDER = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}


def run(examples: Examples, marker: str, directory: Path, **names: Any) -> None:
    """Run the page's one example that contains the marker in a directory, with these names.

    Its paths are made absolute, because the JVM of the session has a current directory of its own.
    """
    (block,) = [block for _, block in examples.take("py") if marker in block]
    exec(PLACES.sub(rf'"{directory}/\1', block), {"seglog": seglog, **names})  # noqa: S102 - an example of our own


def fill(topic: Topic, value: bytes) -> None:
    """Append until there are sealed segments, which alone the examples put into tables."""
    topic.append_batch(pa.table({"value": [value] * 1000}))
    topic.sync()


def rows(table: Path) -> pa.Table:
    """Read the rows of a table, as an engine that knows Parquet alone; files have the columns of their time."""
    return pa.concat_tables(map(read_table, (table / "data").glob("*.parquet")), promote_options="default")


@pytest.fixture
def orders(tmp_path: Path) -> Iterator[Topic]:
    """A topic `shop/orders` with two records in the table `warehouse/orders`."""
    with Topic.create(tmp_path / "shop" / "orders", partitions=2, config=SMALL) as topic:
        topic.append(b"hello", key=b"k1")
        topic.append(b"world", key=b"k2")
        topic.sync()
        seglog.table.sync(topic.path, tmp_path / "warehouse", active=True)
        yield topic


def test_every_block_of_the_page_is_run_by_one_of_these_tests(examples: Examples):
    blocks = [block for _, block in examples.take("py")]
    markers = ("spark.sql", "table_stream", "fastavro", "LogConfig")
    assert len(blocks) == len(markers)
    assert all(sum(marker in block for block in blocks) == 1 for marker in markers)


@pytest.mark.spark
def test_sql_reads_a_table_and_the_log_after_it(examples: Examples, spark: SparkSession, orders: Topic, tmp_path: Path):
    orders.append(b"later")
    orders.sync()
    run(examples, "spark.sql", tmp_path, spark=spark)
    assert spark.sql("SELECT count(*) FROM orders").first()[0] == 3
    spark.catalog.dropTempView("orders")


@pytest.mark.spark
def test_a_stream_reads_the_table_and_then_the_log(
    examples: Examples, spark: SparkSession, orders: Topic, tmp_path: Path
):
    run(examples, "table_stream", tmp_path, spark=spark)
    (query,) = spark.streams.active
    try:
        query.processAllAvailable()
        orders.append(b"later")
        orders.sync()
        until(lambda: spark.read.parquet(str(tmp_path / "large")).count() == 3)
    finally:
        query.stop()


def test_functions_decode_avro_and_protobuf(examples: Examples, orders: Topic, tmp_path: Path):
    data = io.BytesIO()
    fastavro.schemaless_writer(data, ORDER, {"id": 7})
    fill(orders, data.getvalue())
    with Topic.create(tmp_path / "shop" / "visits", partitions=1, config=SMALL) as visits:
        message = Struct()
        message.update({"page": "home", "new": False, "tags": [1, None]})
        fill(visits, message.SerializeToString())
    run(examples, "fastavro", tmp_path, avro_schema=ORDER, Visit=Struct)
    assert rows(tmp_path / "warehouse" / "orders").column("id").to_pylist().count(7) > 0
    visited = rows(tmp_path / "warehouse" / "visits")
    assert visited.column("page").to_pylist().count("home") > 0
    assert visited.column("new").to_pylist().count(False) > 0
    assert visited.column("tags").to_pylist()[-1] == [1, None]


def test_the_log_of_the_last_block_waits_for_its_tables(examples: Examples, tmp_path: Path):
    run(examples, "LogConfig", tmp_path, LogConfig=LogConfig, Retention=Retention)
    with seglog.open(tmp_path / "visits") as log:
        assert log.config.retention == Retention(age=3600, after="table")
