"""Kafka Connect, standalone: lines of a file go through a topic into another file, with a restart between."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.kafka.programs_run import classpath
from tests.kafka.suites.sides import each, needed
from tests.kafka.suites.topics import create, messages
from tests.kafka.suites.verdicts import Verdicts
from tests.tools import find
from tests.waiting import until

TITLE = "Kafka 4.3.1's Connect, standalone, with FileStreamSource and FileStreamSink"
LINES = [f"line {number}" for number in range(500)]
SECONDS = 180.0
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


def verdicts(side: str, only: str = "") -> Verdicts:
    """Copy the lines on a side."""
    needed("java", "mvn")
    return each(side, {f"{len(LINES) + 1} lines through a topic": copy_lines}, only)


def copy_lines(directory: Path, address: str, topic: str = "lines") -> None:
    """Copy the lines, end Connect, and copy one more: both connectors continue where they were."""
    create(address, [topic])
    (directory / "in").write_text("".join(f"{line}\n" for line in LINES))
    worker, source, sink = (directory / f"{part}.properties" for part in ("worker", "source", "sink"))
    worker.write_text(WORKER.format(address=address, directory=directory))
    places = {"directory": directory, "topic": topic}
    source.write_text(CONNECTOR.format(name="source", kind="Source", file="in", topics="topic", **places))
    sink.write_text(CONNECTOR.format(name="sink", kind="Sink", file="out", topics="topics", **places))
    out, expected = directory / "out", [*LINES, "one more"]
    with _connect(worker, source, sink):
        until(lambda: out.exists() and out.read_text().splitlines() == LINES, SECONDS)
    with (directory / "in").open("a") as more:
        more.write("one more\n")
    with _connect(worker, source, sink):
        until(lambda: out.read_text().splitlines() == expected, SECONDS)
    assert [one.value().decode() for one in messages(address, topic)] == expected


@contextmanager
def _connect(*properties: Path) -> Iterator[None]:
    command = [find("java"), "-Xmx256m", "-cp", classpath(), "org.apache.kafka.connect.cli.ConnectStandalone"]
    process = subprocess.Popen([*command, *map(str, properties)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait(60)
