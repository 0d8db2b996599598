"""Spark's own format "kafka", batch and stream, reading and writing. Deep: Maven fetches its jars."""

from __future__ import annotations

import pytest

from seglog.client import Client
from seglog.topic.idempotency.marks import HEADER
from tests.kafka.suites import spark

pytestmark = [pytest.mark.deep, pytest.mark.needs("java", "maven")]


def text(data):
    return None if data is None else data.decode()


def test_spark_reads_and_writes_what_http_reads_and_continues_its_streams(kafka, name, tmp_path):
    def rows(_, topic):
        return [
            [
                partition,
                one.offset,
                text(one.key),
                text(one.value),
                one.timestamp // 1000,
                [[key, text(value)] for key, value in one.headers if key != HEADER] or None,  # as Kafka's clients see
            ]
            for partition in spark.PARTITIONS
            for one in http.topic(topic).records(partition)
        ]

    with Client(kafka.url) as http:
        spark.read_and_write(tmp_path, kafka.address, name, rows)
