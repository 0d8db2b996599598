"""Spark's own format "kafka" against a broker; a process of its own runs it, since a JVM keeps its first jars.

    python -m tests.kafka.suites.spark_program BROKER DIRECTORY TOPIC SINK STREAM_SINK

It prints one JSON object: what each kind of reading returned. A second run continues the streams of the first one.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.peers.tools import jars
from benchmarks.spark_io import KAFKA_SOURCE

from seglog.spark.session import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SECONDS = 120


def session() -> SparkSession:
    """Start Spark with its Kafka source, which Maven copies into .bench/ once."""
    found = jars("spark-kafka", "kafka/spark.xml", f"-DincludeArtifactIds={','.join(KAFKA_SOURCE)}")
    assert found is not None, "the jars of Spark's Kafka source cannot be had"
    given = {"spark.jars": ",".join(map(str, sorted(found.glob("*.jar")))), "spark.sql.shuffle.partitions": "2"}
    return local_session("format kafka", master="local[2]", config=given)


class Program:
    """The same broker and topics for each kind of reading and writing."""

    def __init__(self, spark: SparkSession, broker: str, directory: Path, topic: str) -> None:
        self.spark, self.directory, self.topic = spark, directory, topic
        self.server = {"kafka.bootstrap.servers": broker}

    def read(self, **options: str) -> DataFrame:
        """Return the records of a range as a batch; without options all."""
        given = {**self.server, "subscribe": self.topic, "includeHeaders": "true", **options}
        return self.spark.read.format("kafka").options(**given).load()

    def rows(self, frame: DataFrame) -> list[list[object]]:
        """Return the records in order: partition, offset, key, value, time in ms, headers."""
        shown = frame.selectExpr(
            "partition",
            "offset",
            "decode(key, 'UTF-8')",
            "decode(value, 'UTF-8')",
            "unix_millis(timestamp)",
            "transform(headers, h -> array(h.key, decode(h.value, 'UTF-8')))",
        )
        return sorted([*row] for row in shown.collect())

    def read_stream(self) -> list[list[object]]:
        """Let a stream read what is new into Parquet files, and end; return what it has read in all runs."""
        stream = self.spark.readStream.format("kafka").options(**self.server, subscribe=self.topic)
        frame = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", 150).load()
        place, checkpoint = self.directory / "read", self.directory / "read-checkpoint"
        write = frame.writeStream.format("parquet").option("checkpointLocation", str(checkpoint))
        self._finish(write.option("path", str(place)))
        return sorted([*row] for row in self.spark.read.parquet(str(place)).select("partition", "offset").collect())

    def write(self, sink: str) -> None:
        """Append all records to another topic, with their keys, headers and partitions."""
        columns = self.read().select("key", "value", "headers", "partition")
        columns.write.format("kafka").options(**self.server, topic=sink, includeHeaders="true").save()

    def write_stream(self, sink: str) -> None:
        """Let a stream append what is new to another topic, and end."""
        stream = self.spark.readStream.format("kafka").options(**self.server, subscribe=self.topic)
        frame = stream.option("startingOffsets", "earliest").load().select("key", "value", "partition")
        write = frame.writeStream.format("kafka").options(**self.server, topic=sink)
        self._finish(write.option("checkpointLocation", str(self.directory / "write-checkpoint")))

    @staticmethod
    def _finish(write: object) -> None:
        query = write.trigger(availableNow=True).start()  # type: ignore[attr-defined] # pyspark has no stubs here
        assert query.awaitTermination(SECONDS), "the stream does not end"


def main(broker: str, directory: str, topic: str, sink: str, stream_sink: str) -> None:
    """Read and write in all ways; print what was read."""
    spark = session()
    program = Program(spark, broker, Path(directory), topic)
    every = program.rows(program.read())
    ends = json.dumps({topic: {"0": 30, "1": -1}})
    times = every[len(every) // 4][4]  # both partitions have later ones
    found = {
        "all": every,
        "range": program.rows(
            program.read(startingOffsets=json.dumps({topic: {"0": 20, "1": -2}}), endingOffsets=ends)
        ),
        "time": times,
        "since": program.rows(program.read(startingTimestamp=str(times))),
        "stream": program.read_stream(),
    }
    program.write(sink)
    program.write_stream(stream_sink)
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
