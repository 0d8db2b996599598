"""The process of a Kafka broker of the published jars: KRaft, one node, in a directory of its own."""

from __future__ import annotations

import base64
import contextlib
import subprocess
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.tools import free_port, server

HEAP = "1g"
PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}
advertised.listeners=PLAINTEXT://127.0.0.1:{advertised}
controller.listener.names=CONTROLLER
log.dirs={directory}/logs
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
"""
LOGGING = """\
status = error
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %p %c{1} %m%n
rootLogger.level = warn
rootLogger.appenderRef.out.ref = out
"""


class KafkaProcess(NamedTuple):
    """A broker that listens. java: the command for other programs of Kafka; start: seconds until it listened."""

    java: list[str]
    port: int
    pid: int
    output: Path
    start: float


@contextlib.contextmanager
def kafka_process(
    directory: Path, found: Path, *, properties: str = "", logging: str = "", advertised: int | None = None
) -> Iterator[KafkaProcess]:
    """Start a broker in a directory that exists; end it afterwards.

    Args:
        directory: For its files.
        found: The directory of Kafka's jars.
        properties: More lines of server.properties.
        logging: More lines of log4j2.properties.
        advertised: The port that clients are given; default: the broker's own.
    """
    port, given, log4j = free_port(), directory / "server.properties", directory / "log4j2.properties"
    places = {"port": port, "advertised": advertised or port, "controller": free_port(), "directory": directory}
    given.write_text(PROPERTIES.format(**places) + properties)
    log4j.write_text(LOGGING + logging)
    java = ["java", f"-Xms{HEAP}", f"-Xmx{HEAP}", f"-Dlog4j2.configurationFile={log4j}", "-cp", f"{found}/*"]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    formatting = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(given)]
    subprocess.run(formatting, check=True, capture_output=True)
    began, output = time.perf_counter(), directory / "output"
    with server([*java, "kafka.Kafka", str(given)], port, output=output) as process:
        yield KafkaProcess(java, port, process.pid, output, time.perf_counter() - began)
