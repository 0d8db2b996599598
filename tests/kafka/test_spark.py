"""Spark's own format "kafka", batch and stream, reading and writing. Deep: Maven fetches its jars."""

from __future__ import annotations

import json
import sys

import pyarrow as pa
import pytest

from seglog.client import Client
from seglog.topic.idempotency.marks import HEADER as ONCE
from tests.kafka.programs_run import run

pytestmark = [pytest.mark.deep, pytest.mark.needs("java", "maven")]
SECONDS = 600.0
PARTITIONS = (0, 1)


def append(http, name, first, count):
    """Append records with and without keys, headers and values to both partitions."""
    for partition in PARTITIONS:
        numbers = range(first, first + count)
        table = pa.table(
            {
                "key": pa.array([None if n % 5 == 0 else b"k%d" % n for n in numbers], pa.binary()),
                "value": pa.array([None if n % 7 == 0 else b"%d %d" % (partition, n) for n in numbers], pa.binary()),
                "headers": pa.array(
                    [[{"key": "n", "value": b"%d" % n}] if n % 2 else [] for n in numbers],
                    pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
                ),
            }
        )
        http.topic(name).append_batch(table, partition=partition)


def text(data):
    return None if data is None else data.decode()


def rows(http, name):
    """Return the records that HTTP reads, as the program prints them; Kafka's clients do not see idempotency keys."""
    return [
        [
            partition,
            one.offset,
            text(one.key),
            text(one.value),
            one.timestamp // 1000,
            [[key, text(value)] for key, value in one.headers if key != ONCE] or None,
        ]
        for partition in PARTITIONS
        for one in http.topic(name).records(partition)
    ]


def spark(address, directory, *topics):
    """Run the program in a process of its own; return what it has read."""
    command = [sys.executable, "-m", "tests.kafka.spark_program", address, directory, *topics]
    return json.loads(run(command, seconds=SECONDS).splitlines()[-1])


def content(http, name):
    """Return what a sink holds in each partition, in any order, without offsets and times."""
    found = [(row[0], row[2] or "", row[3] or "", str(row[5])) for row in rows(http, name)]
    return sorted(found)


def test_spark_reads_and_writes_what_http_reads_and_continues_its_streams(kafka, name, tmp_path):
    sink, streamed = f"{name}-sink", f"{name}-streamed"
    with Client(kafka.url) as http:
        for topic in (name, sink, streamed):
            http.create_topic(topic, partitions=len(PARTITIONS))
        append(http, name, 0, 500)
        first = spark(kafka.address, tmp_path, name, sink, streamed)
        expected = rows(http, name)
        assert first["all"] == expected
        assert first["range"] == [row for row in expected if row[0] == 1 or 20 <= row[1] < 30]
        assert first["since"] == [row for row in expected if row[4] >= first["time"]]
        assert first["stream"] == [row[:2] for row in expected]
        assert content(http, sink) == content(http, name)
        append(http, name, 500, 200)
        second = spark(kafka.address, tmp_path, name, sink, streamed)  # the streams continue after their checkpoints
        expected = rows(http, name)
        assert second["all"] == expected
        assert second["stream"] == [row[:2] for row in expected]
        assert len(rows(http, sink)) == 1000 + 1400
        assert [row[:4] for row in content(http, streamed)] == [(*row[:3], "None") for row in content(http, name)]
