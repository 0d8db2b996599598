"""Kafka Connect, standalone: a file is copied into a topic and from there into another file."""

from __future__ import annotations

import pytest

from seglog.client import Client
from tests.kafka.suites import connect

pytestmark = [pytest.mark.deep, pytest.mark.needs("java", "maven")]


def test_lines_of_a_file_go_through_a_topic_into_another_file(kafka, name, tmp_path):
    connect.copy_lines(tmp_path, kafka.address, name)
    with Client(kafka.url) as http:
        assert [one.value.decode() for one in http.topic(name).records(0)] == [*connect.LINES, "one more"]
