"""Tables of Spark's catalog over logs and topics, as SQL users make and use them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import lit

from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
TABLES = ("orders", "copies", "bad", "made")


@pytest.fixture
def root(tmp_path: Path, spark: SparkSession) -> Iterator[Path]:
    """A directory of two topics; tables are dropped at the end."""
    for name in ("orders", "copies"):
        Topic.create(tmp_path / name, partitions=2).close()
    yield tmp_path
    for name in TABLES:
        spark.sql(f"DROP TABLE IF EXISTS {name}")


def stored(path: Path) -> list[tuple[bytes | None, bytes | None]]:
    with Topic.open(path, mode="r") as topic:
        return sorted(
            (one.key, one.value) for number in range(topic.partitions) for one in topic.partition(number).scan()
        )


def create(spark: SparkSession, name: str, path: Path, *more: str) -> None:
    options = ", ".join([f"path '{path}'", *more])
    spark.sql(f"CREATE TABLE {name} USING seglog OPTIONS ({options})")


def refusal(spark: SparkSession, text: str) -> str:
    with pytest.raises(Exception) as caught:
        spark.sql(text).collect()
    return str(caught.value)


def test_a_table_is_created_filled_and_queried_in_sql(spark: SparkSession, root: Path) -> None:
    create(spark, "orders", root / "orders")
    spark.sql("INSERT INTO orders (key, value) VALUES (X'61', X'31'), (X'62', X'32')")
    assert stored(root / "orders") == [(b"a", b"1"), (b"b", b"2")]
    assert [bytes(row.value) for row in spark.sql("SELECT value FROM orders ORDER BY key").collect()] == [b"1", b"2"]
    assert spark.table("orders").where("key = X'62'").count() == 1
    spark.sql("CREATE TEMPORARY VIEW keys AS SELECT cast(key AS string) AS word FROM orders")
    assert sorted(row.word for row in spark.table("keys").collect()) == ["a", "b"]
    spark.sql("DROP VIEW keys")


def test_an_insert_from_one_table_goes_into_the_other_one(spark: SparkSession, root: Path) -> None:
    create(spark, "orders", root / "orders")
    spark.sql(
        f"CREATE TABLE copies USING seglog LOCATION '{root}/copies' COMMENT 'of orders' TBLPROPERTIES ('x' = 'y')"
    )
    spark.sql("INSERT INTO orders (key, value) VALUES (X'61', X'31')")
    frame = spark.table("orders").withColumn("topic", lit(None).cast("string"))  # the very names and types of the table
    frame.writeTo("copies").append()
    assert (stored(root / "orders"), stored(root / "copies")) == ([(b"a", b"1")], [(b"a", b"1")])
    told = refusal(spark, "INSERT INTO copies SELECT * FROM orders")  # whose column topic says orders
    assert "a row has topic 'orders', but" in told
    assert str(root / "copies") in told
    assert (stored(root / "orders"), stored(root / "copies")) == ([(b"a", b"1")], [(b"a", b"1")])


@pytest.mark.proof
@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("spark.sql.legacy.charVarcharAsString", "true"),
        ("spark.sql.preserveCharVarcharTypeInfo", "true"),
        ("spark.sql.storeAssignmentPolicy", "STRICT"),
    ],
)
def test_no_setting_of_types_makes_an_insert_go_elsewhere(
    spark: SparkSession, root: Path, setting: str, value: str
) -> None:
    before = spark.conf.get(setting)
    spark.conf.set(setting, value)
    try:
        test_an_insert_from_one_table_goes_into_the_other_one(spark, root)
    finally:
        spark.conf.set(setting, before)


def test_an_insert_from_files_of_the_same_columns_finds_the_table(spark: SparkSession, root: Path) -> None:
    create(spark, "orders", root / "orders")
    spark.sql("INSERT INTO orders (key, value) VALUES (X'61', X'31')")
    frame = spark.read.format("seglog").load(str(root / "orders"))
    frame.write.parquet(str(root / "saved"))
    spark.read.parquet(str(root / "saved")).writeTo("orders").append()
    assert stored(root / "orders") == [(b"a", b"1"), (b"a", b"1")]


def test_a_dropped_table_leaves_its_records(spark: SparkSession, root: Path) -> None:
    create(spark, "orders", root / "orders")
    spark.sql("INSERT INTO orders (value) VALUES (X'31')")
    spark.sql("DROP TABLE orders")
    assert stored(root / "orders") == [(None, b"1")]


def test_a_table_keeps_its_options_and_a_stream_reads_it(spark: SparkSession, root: Path) -> None:
    create(spark, "orders", root, "subscribe 'orders'", "topic 'orders'", "startingOffsets 'earliest'")
    spark.sql("INSERT INTO orders (value) VALUES (X'31')")
    assert stored(root / "copies") == []
    stream = spark.readStream.table("orders").select("topic", "value")
    query = (
        stream.writeStream.format("parquet").option("checkpointLocation", str(root / "c")).trigger(availableNow=True)
    )
    query.start(str(root / "out")).awaitTermination()
    assert [(row.topic, bytes(row.value)) for row in spark.read.parquet(str(root / "out")).collect()] == [
        ("orders", b"1")
    ]


def test_a_table_can_create_its_topic(spark: SparkSession, root: Path) -> None:
    create(spark, "made", root / "new", "createTopic 'true'", "partitions '3'")
    spark.sql("INSERT INTO made (key, value) VALUES (X'61', X'31')")
    assert stored(root / "new") == [(b"a", b"1")]
    with Topic.open(root / "new", mode="r") as topic:
        assert topic.partitions == 3


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("CREATE TABLE bad USING seglog OPTIONS (path '{root}/orders', acks 'all')", "option acks is unknown; a table"),
        ("CREATE TABLE bad USING seglog OPTIONS (url 'http://h', token 's')", "option token cannot be part of a table"),
        (
            "CREATE TABLE bad USING seglog OPTIONS (path '{root}/orders', columns 'key')",
            "option columns cannot be part",
        ),
        ("INSERT OVERWRITE orders (value) VALUES (X'31')", "mode overwrite is not supported"),
    ],
)
def test_what_a_table_cannot_do_is_said(spark: SparkSession, root: Path, statement: str, message: str) -> None:
    create(spark, "orders", root / "orders")
    assert message in refusal(spark, statement.format(root=root))
    assert stored(root / "orders") == []


def test_a_table_with_a_list_of_columns_says_how_to_create_it(spark: SparkSession, root: Path) -> None:
    spark.sql(f"CREATE TABLE bad (value binary) USING seglog OPTIONS (path '{root}/orders')")
    for statement in ("SELECT * FROM bad", "INSERT INTO bad VALUES (X'31')"):
        told = refusal(spark, statement)
        assert "a table takes its options from CREATE TABLE ... USING seglog OPTIONS (path '...')" in told


def test_a_frame_of_a_table_is_saved_where_its_path_says(spark: SparkSession, root: Path) -> None:
    create(spark, "orders", root / "orders")
    spark.sql("INSERT INTO orders (value) VALUES (X'31')")
    options: dict[str, Any] = {"topic": "copies"}
    spark.table("orders").write.format("seglog").mode("append").options(**options).save(str(root / "copies"))
    assert (stored(root / "orders"), stored(root / "copies")) == ([(None, b"1")], [(None, b"1")])
