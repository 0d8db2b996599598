"""The properties of a table's catalog, which may be secrets, appear in nothing that Spark shows or stores."""

from __future__ import annotations

import json
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import seglog
import seglog.spark
from seglog.spark.load import load
from seglog.table import sync

pytestmark = pytest.mark.spark
MODES = ("simple", "extended", "codegen", "cost", "formatted")


@pytest.fixture
def hidden() -> str:
    return secrets.token_hex(16)


@pytest.fixture
def catalog(tmp_path: Path, hidden: str) -> dict[str, str]:
    """Without a word by which Spark recognizes secrets."""
    return {"type": "sql", "uri": f"sqlite:///{tmp_path}/server.db", "adls.account-key": hidden}


@pytest.fixture
def table(tmp_path: Path, catalog: dict[str, str]) -> Path:
    """A table with less than its log."""
    with seglog.open(tmp_path / "orders") as log:
        for number in range(10):
            log.append(b"%d" % number)
            log.sync()
            if number == 4:
                sync(tmp_path / "orders", tmp_path / "warehouse", active=True, catalog=catalog)
    return tmp_path / "warehouse" / "orders"


@contextmanager
def event_log(spark: SparkSession, directory: Path) -> Iterator[None]:
    """Let Spark log its events in a directory, as with spark.eventLog.enabled."""
    jvm, context = java(spark)._jvm, java(spark)._jsc.sc()
    directory.mkdir()
    place = jvm.java.net.URI(directory.as_uri())
    listener = jvm.org.apache.spark.scheduler.EventLoggingListener(
        "run", jvm.scala.Option.empty(), place, context.conf()
    )
    listener.start()
    context.addSparkListener(listener)
    try:
        yield
    finally:
        context.listenerBus().waitUntilEmpty()
        context.removeSparkListener(listener)
        listener.stop()


def java(thing: Any) -> Any:
    """What has attributes of Java's side that pyspark does not declare."""
    return thing


def content(path: Path) -> bytes:
    with pa.input_stream(str(path), compression="zstd" if path.suffix == ".zstd" else None) as stream:
        read: bytes = stream.read()
    return read


def plans(spark: SparkSession, frame: DataFrame) -> str:
    """The plan of a frame, in every form."""
    execution, modes = java(frame)._jdf.queryExecution(), java(spark)._jvm.org.apache.spark.sql.execution.ExplainMode
    possible = [mode for mode in MODES if mode != "codegen" or not frame.isStreaming]
    texts = [execution.toString(), *(execution.explainString(modes.fromString(mode)) for mode in possible)]
    assert "seglog" in "".join(texts)
    return "".join(texts)


def sql_tab(spark: SparkSession) -> str:
    """What Spark's pages show of all queries."""
    executions = java(spark)._jsparkSession.sharedState().statusStore().executionsList()
    found = [executions.apply(number) for number in range(executions.size())]
    return "".join(f"{one.description()}{one.details()}{one.physicalPlanDescription()}" for one in found)


def test_no_secret_of_a_catalog_is_shown_by_spark(
    spark: SparkSession, tmp_path: Path, table: Path, catalog: dict[str, str], hidden: str
) -> None:
    checkpoint = tmp_path / "checkpoint"
    with event_log(spark, tmp_path / "events"):
        frame = seglog.spark.table(spark, table, catalog=catalog)
        assert frame.count() == 10
        stream = seglog.spark.table_stream(spark, table, checkpoint=checkpoint, catalog=catalog)
        writer = stream.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        query = writer.trigger(availableNow=True).start(str(tmp_path / "out"))
        query.awaitTermination()
        load(spark, tmp_path / "orders", tmp_path / "warehouse", active=True, catalog=catalog)
        shown = plans(spark, frame) + plans(spark, stream) + java(query)._jsq.explainInternal(True) + sql_tab(spark)
        shown += "".join(str(one) for one in query.recentProgress)
    assert hidden not in shown
    written = {path: content(path) for path in tmp_path.rglob("*") if path.is_file()}
    assert any(b"SparkListenerSQLExecutionStart" in one for one in written.values())
    assert [path for path, one in written.items() if hidden.encode() in one] == []


@pytest.mark.parametrize(
    "changed",
    [
        lambda catalog: json.dumps({**catalog, "type": "unknown"}),
        lambda catalog: json.dumps({**catalog, "uri": "sqlite:////missing/directory/server.db"}),
        lambda catalog: json.dumps([catalog]),
        lambda catalog: json.dumps({**catalog, "number": 1}),
        str,
    ],
    ids=["unknown type", "no database", "a list", "a number", "no JSON"],
)
def test_no_secret_of_a_catalog_is_in_an_error(
    spark: SparkSession, tmp_path: Path, table: Path, catalog: dict[str, str], hidden: str, changed: Any
) -> None:
    with seglog.open(tmp_path / "orders") as log:
        log.delete_before(3)
    reader = spark.read.format("seglog").option("table", str(table))
    with pytest.raises(Exception, match="seglog") as raised:
        reader.option("tableCatalogCredentials", changed(catalog)).load(str(tmp_path / "orders")).count()
    assert hidden not in str(raised.value) + repr(raised.value)
