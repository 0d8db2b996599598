"""Run Spark's jobs that only read on each place; print what they find as JSON, a list for each.

spark_jobs.py PLACE... DESTINATION
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from seglog.spark.audit import audit
from seglog.spark.export import export
from seglog.spark.replay import replay
from seglog.spark.replay.classroom import Classroom
from seglog.spark.session import local_session
from seglog.spark.snapshot import bootstrap, snapshot

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def found_in(spark: SparkSession, place: str, destination: str) -> list[object]:
    rows = snapshot(spark, place).collect()
    first = bootstrap(spark, place, as_of={"orders": {0: 20, 1: 20}}, incomplete=True)
    report = export(spark, place, destination)
    states = replay(spark, place, Classroom(), per="partition").collect()
    with audit(spark, place, delivered={"orders": {0: 10}}) as checked:
        audited = [[log.topic, log.partition, log.records] for log in checked.report.logs]
        undelivered = checked.undelivered.count()
    return [
        sorted([row.partition, row.offset, row.value.decode()] for row in rows),
        [first.state.count(), first.next_offsets["orders"]],
        [report.records, spark.read.parquet(destination).count()],
        sorted([row.partition, row.offset, row.state.decode()] for row in states),
        [checked.report.ok, audited, undelivered],
    ]


def main(places: list[str], destination: str) -> None:
    spark = local_session("seglog tests", master="local[2]", config={"spark.sql.shuffle.partitions": "2"})
    found = [found_in(spark, place, f"{destination}-{number}") for number, place in enumerate(places)]
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:-1], sys.argv[-1])
