"""Kafka Connect, standalone: a file is copied into a topic and from there into another file."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager

import pytest

from seglog.client import Client
from tests.kafka.programs_run import classpath
from tests.tools import find
from tests.waiting import until

pytestmark = [
    pytest.mark.deep,
    pytest.mark.needs("java", "maven"),
]
SECONDS = 180
WORKER = """\
bootstrap.servers={address}
key.converter=org.apache.kafka.connect.storage.StringConverter
value.converter=org.apache.kafka.connect.storage.StringConverter
offset.storage.file.filename={directory}/offsets
offset.flush.interval.ms=500
listeners=http://127.0.0.1:0
"""
CONNECTOR = """\
name={name}
connector.class=org.apache.kafka.connect.file.FileStream{kind}Connector
tasks.max=1
file={directory}/{file}
{topics}={topic}
"""


@contextmanager
def connect(*properties):
    command = [find("java"), "-Xmx256m", "-cp", classpath(), "org.apache.kafka.connect.cli.ConnectStandalone"]
    process = subprocess.Popen([*command, *map(str, properties)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)


def test_lines_of_a_file_go_through_a_topic_into_another_file(kafka, name, tmp_path):
    lines = [f"line {number}" for number in range(500)]
    (tmp_path / "in").write_text("".join(f"{line}\n" for line in lines))
    worker, source, sink = (tmp_path / f"{part}.properties" for part in ("worker", "source", "sink"))
    worker.write_text(WORKER.format(address=kafka.address, directory=tmp_path))
    places = {"directory": tmp_path, "topic": name}
    source.write_text(CONNECTOR.format(name="source", kind="Source", file="in", topics="topic", **places))
    sink.write_text(CONNECTOR.format(name="sink", kind="Sink", file="out", topics="topics", **places))
    out = tmp_path / "out"
    with connect(worker, source, sink):
        until(lambda: out.exists() and out.read_text().splitlines() == lines, SECONDS)
    with (tmp_path / "in").open("a") as more:
        more.write("one more\n")
    with connect(worker, source, sink):  # both continue where they were
        until(lambda: out.read_text().splitlines() == [*lines, "one more"], SECONDS)
    with Client(kafka.url) as http:
        assert [one.value.decode() for one in http.topic(name).records(0)] == [*lines, "one more"]
