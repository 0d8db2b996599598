"""The two brokers that a suite runs against: Kafka of the published jars, and `seglog serve --kafka`.

Both have one node, four partitions for topics that are created because a client uses them, and short delays of groups.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.peers.kafka_server import kafka_process
from benchmarks.peers.tools import free_port, jars, server

from tests.kafka.suites.verdicts import FAILED, PASSED, Verdict, Verdicts

KAFKA, OURS = "Kafka 4.3.1", "seglog"
SIDES = {"kafka": KAFKA, "seglog": OURS}
PARTITIONS = 4
PROPERTIES = """\
num.partitions={partitions}
auto.create.topics.enable={creates}
offsets.topic.num.partitions=4
transaction.state.log.num.partitions=4
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.min.session.timeout.ms=100
group.initial.rebalance.delay.ms=0
log.retention.hours=-1
"""


Test = Callable[[Path, str], None]
"""A test of this project's own code around other programs: it gets a new directory and the address of a broker."""


class Missing(Exception):
    """Something that a suite needs is not on this machine and cannot be fetched; the message says what."""


@dataclass(frozen=True)
class Settings:
    """What a suite wants of a broker.

    creates: a topic that a client names is created; advertised: the port that clients are given.
    """

    creates: bool = True
    advertised: int | None = None


@contextmanager
def started(side: str, settings: Settings) -> Iterator[str]:
    """Start the broker of a side ("kafka" or "seglog") in a new directory; yield its address.

    Raises:
        Missing: Java, Maven or the jars are missing.
    """
    with tempfile.TemporaryDirectory(prefix="seglog-suites-") as directory:
        start = _kafka if side == "kafka" else _ours
        with start(Path(directory), settings) as address:
            yield address


def needed(*programs: str) -> None:
    """Return if these are installed.

    Raises:
        Missing: One is not.
    """
    for program in programs:
        if shutil.which(program) is None:
            raise Missing(f"{program} is not installed")


def each(side: str, tests: Mapping[str, Test], only: str = "") -> Verdicts:
    """Run the tests whose name contains `only`, each on a broker of its own; return how each ended."""
    return {name: _verdict(side, test) for name, test in tests.items() if only in name}


def _verdict(side: str, test: Test) -> Verdict:
    with started(side, Settings()) as address, tempfile.TemporaryDirectory() as directory:
        try:
            test(Path(directory), address)
        except (AssertionError, OSError, subprocess.SubprocessError) as error:
            return Verdict(FAILED, str(error))
    return Verdict(PASSED)


def kafka_jars() -> Path:
    """Return the directory of Kafka's jars, which Maven copies into .bench/ once.

    Raises:
        Missing: Java, Maven or the jars are missing.
    """
    needed("java")
    found = jars("kafka", "kafka/pom.xml")
    if found is None:
        raise Missing("the jars of Kafka cannot be fetched")
    return found


@contextmanager
def _kafka(directory: Path, settings: Settings) -> Iterator[str]:
    properties = PROPERTIES.format(partitions=PARTITIONS, creates=str(settings.creates).lower())
    with kafka_process(directory, kafka_jars(), properties=properties, advertised=settings.advertised) as broker:
        yield f"127.0.0.1:{broker.port}"


@contextmanager
def _ours(directory: Path, settings: Settings) -> Iterator[str]:
    port, creates = free_port(), PARTITIONS if settings.creates else 0
    command = [sys.executable, "-m", "seglog", "serve", str(directory / "root"), "--port", "0"]
    command += ["--kafka", f"127.0.0.1:{port}", "--kafka-partitions", str(creates)]
    if settings.advertised:
        command += ["--kafka-advertise", f"127.0.0.1:{settings.advertised}"]
    output = directory / "output"
    with server(command, port, output=output):
        yield f"127.0.0.1:{port}"
    if found := re.findall(r"^Traceback.*(?:\n[ \t].*)*\n.*", output.read_text(), re.MULTILINE):
        print(f"the server reported {len(found)} errors, the first one:\n{found[0][-2000:]}", flush=True)
