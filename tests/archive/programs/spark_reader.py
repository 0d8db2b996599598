"""Read an archive with Spark, in batch and as a stream; print what was read as JSON.

spark_reader.py URL TOPIC
"""

from __future__ import annotations

import json
import sys
import tempfile

from pyspark.sql import SparkSession

import seglog.spark
from seglog.spark.java import use_java


def main(url: str, topic: str) -> None:
    use_java()
    settings = {"spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2"}
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    read = spark.read.format("seglog").option("subscribe", topic)
    batch = read.load(url)
    found = sorted(row.value.decode() for row in batch.collect())
    late = [
        row.offset
        for row in read.option("startingOffsets", json.dumps({topic: {"0": 10, "1": 12}})).load(url).collect()
    ]
    with tempfile.TemporaryDirectory() as directory:
        stream = (
            spark.readStream.format("seglog")
            .option("subscribe", topic)
            .option("startingOffsets", "earliest")
            .load(url)
            .writeStream.format("memory")
            .queryName("streamed")
            .option("checkpointLocation", directory)
            .trigger(availableNow=True)
            .start()
        )
        stream.awaitTermination()
        streamed = spark.table("streamed").count()
    print(json.dumps({"values": found, "late": sorted(late), "streamed": streamed}))
    spark.stop()


if __name__ == "__main__":
    assert seglog.spark
    main(sys.argv[1], sys.argv[2])
