"""Spark's own format "kafka", batch and stream, reading and writing, with a restart between."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from confluent_kafka import Producer

from tests.kafka.programs_run import run
from tests.kafka.suites.sides import each, needed
from tests.kafka.suites.topics import create, messages
from tests.kafka.suites.verdicts import Verdicts

TITLE = "Spark's own format kafka"
PARTITIONS = (0, 1)
FIRST, SECOND = 500, 200
SECONDS = 600.0
Row = list[Any]
"""Partition, offset, key, value, time in ms, headers or None."""


def verdicts(side: str, only: str = "") -> Verdicts:
    """Read and write on a side."""
    needed("java", "mvn")
    return each(side, {"batches and streams, both ways, with a restart": read_and_write}, only)


def rows(address: str, topic: str) -> list[Row]:
    """Return the records of a topic as confluent-kafka reads them."""
    return [
        [
            partition,
            one.offset(),
            _text(one.key()),
            _text(one.value()),
            one.timestamp()[1],
            [[name, _text(value)] for name, value in one.headers() or []] or None,
        ]
        for partition in PARTITIONS
        for one in messages(address, topic, partition)
    ]


def read_and_write(
    directory: Path, address: str, name: str = "events", read: Callable[[str, str], list[Row]] = rows
) -> None:
    """Let Spark read and copy topics, in two processes; compare with what another client reads."""
    sink, streamed = f"{name}-sink", f"{name}-streamed"
    create(address, [name, sink, streamed], len(PARTITIONS))
    _produce(address, name, range(FIRST))
    first = _spark(address, directory, name, sink, streamed)
    expected = read(address, name)
    assert first["all"] == expected
    assert first["range"] == [row for row in expected if row[0] == 1 or 20 <= row[1] < 30]
    assert first["since"] == [row for row in expected if row[4] >= first["time"]]
    assert first["stream"] == [row[:2] for row in expected]
    assert _content(read(address, sink)) == _content(expected)
    _produce(address, name, range(FIRST, FIRST + SECOND))
    second = _spark(address, directory, name, sink, streamed)  # the streams continue after their checkpoints
    expected = read(address, name)
    assert second["all"] == expected
    assert second["stream"] == [row[:2] for row in expected]
    assert len(read(address, sink)) == len(PARTITIONS) * (FIRST + FIRST + SECOND)
    assert [row[:3] for row in _content(read(address, streamed))] == [row[:3] for row in _content(expected)]


def _produce(address: str, topic: str, numbers: range) -> None:
    """Send records with and without keys, headers and values to both partitions."""
    producer = Producer({"bootstrap.servers": address})
    for partition in PARTITIONS:
        for n in numbers:
            producer.produce(
                topic,
                None if n % 7 == 0 else b"%d %d" % (partition, n),
                key=None if n % 5 == 0 else b"k%d" % n,
                headers=[("n", b"%d" % n)] if n % 2 else None,
                partition=partition,
            )
    assert producer.flush(SECONDS) == 0


def _spark(address: str, directory: Path, *topics: str) -> dict[str, Any]:
    """Run the program in a process of its own; return what it has read."""
    command = [sys.executable, "-m", "tests.kafka.suites.spark_program", address, directory, *topics]
    found: dict[str, Any] = json.loads(run(command, seconds=SECONDS).splitlines()[-1])
    return found


def _content(found: list[Row]) -> list[Row]:
    """Return what a topic holds in each partition, in any order, without offsets and times; the headers are last."""
    return sorted([row[0], row[2] or "", row[3] or "", str(row[5])] for row in found)


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode()
