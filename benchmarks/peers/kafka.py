"""A Kafka broker of this machine (KRaft, one node), with its own perf tool and its own log cleaner.

Java and the published jars are all it takes (benchmarks/kafka/pom.xml). benchmarks/kafka/Feed.java fills topics. A
producer waits for acks=all, which on one node is that its record is written, not synced, Kafka's way.
"""

from __future__ import annotations

import contextlib
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.kafka_server import KafkaProcess, kafka_process
from benchmarks.peers.tools import BENCHMARKS, LOOK_AGAIN_SECONDS, end, jars, skip

PRODUCER = ("acks=all", "linger.ms=10", "batch.size=262144", "buffer.memory=134217728", "compression.type=none")
CLEAN_SECONDS = 120.0
WORDS = 150
SEGMENT_MILLISECONDS = 3_600_000
NEVER = 2**63 - 1

CLEANER = """\
log.cleaner.threads=1
log.cleaner.backoff.ms=100
"""
LOGGING = """\
logger.cleaner.name = org.apache.kafka.storage.internals.log
logger.cleaner.level = info
"""
COMPACTED: Mapping[str, object] = {
    "cleanup.policy": "compact",
    "min.cleanable.dirty.ratio": 0.01,
    "segment.bytes": 2**30,
    "segment.ms": SEGMENT_MILLISECONDS,
    "message.timestamp.after.max.ms": NEVER,
}
CLEANED = re.compile(
    r"cleaned log (?P<topic>\S+)-0 \(dirty section.*?"
    r"(?P<read>[\d,.]+) MB of log processed in [\d,.]+ seconds \((?P<rate>[\d,.]+) MB/sec\).*?"
    r"Start size: [\d,.]+ MB \((?P<records>[\d,.]+) messages\).*?"
    r"End size: [\d,.]+ MB \((?P<left>[\d,.]+) messages\)",
    re.DOTALL,
)


class Cleaning(NamedTuple):
    """What the broker tells of one pass of its cleaner. seconds: the whole pass; records, left: before and after."""

    seconds: float
    records: int
    left: int


@contextlib.contextmanager
def kafka(directory: Path) -> Iterator[Kafka | None]:
    """Start a broker in a directory of its own; None, with a word, where it cannot be had."""
    with contextlib.ExitStack() as started:
        yield _started(directory, started)


def _started(directory: Path, stack: contextlib.ExitStack) -> Kafka | None:
    if shutil.which("java") is None:
        skip("Kafka", "Java is not installed")
        return None
    if (found := jars("kafka", "kafka/pom.xml")) is None:
        return None
    try:
        return stack.enter_context(_broker(directory, found))
    except (OSError, subprocess.SubprocessError) as error:
        skip("Kafka", str(error)[-WORDS:])
        return None


@contextlib.contextmanager
def _broker(directory: Path, found: Path) -> Iterator[Kafka]:
    directory.mkdir()
    with (
        kafka_process(directory, found, properties=CLEANER, logging=LOGGING) as broker,
        _feeder(broker.java, broker.port, directory / "feeder") as feeder,
    ):
        yield Kafka(broker, feeder)


@contextlib.contextmanager
def _feeder(java: list[str], port: int, output: Path) -> Iterator[subprocess.Popen[str]]:
    command = [*java, str(BENCHMARKS / "kafka" / "Feed.java"), f"127.0.0.1:{port}"]
    with (
        output.open("w") as said,
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=said, text=True) as process,
    ):
        assert process.stdout is not None
        try:
            if process.stdout.readline() != "ready\n":
                raise OSError("Feed.java does not run; it takes a JDK")
            yield process
        finally:
            end(process)


class Kafka:
    """A broker that runs. java, start: see KafkaProcess."""

    def __init__(self, broker: KafkaProcess, feeder: subprocess.Popen[str]) -> None:
        self.address = f"127.0.0.1:{broker.port}"
        self.java, self.pid, self.start = broker.java, broker.pid, broker.start
        self._feeder, self._output = feeder, broker.output
        self._seals = 0

    def _tell(self, *words: object) -> None:
        assert self._feeder.stdin is not None
        assert self._feeder.stdout is not None
        self._feeder.stdin.write(" ".join(map(str, words)) + "\n")
        self._feeder.stdin.flush()
        said = self._feeder.stdout.readline()
        assert said == "done\n", said

    def create(self, topic: str, partitions: int, settings: Mapping[str, object]) -> None:
        """Make a topic."""
        self._tell("create", topic, partitions, ",".join(f"{name}={value}" for name, value in settings.items()))

    def delete(self, topic: str) -> None:
        """Delete a topic."""
        self._tell("delete", topic)

    def feed(self, topic: str, partitions: int, records: Path, key_bytes: int, value_bytes: int) -> None:
        """Append a file of records, key and value end to end, dealt out to the partitions in turn."""
        self._tell("feed", topic, partitions, records, key_bytes, value_bytes)

    def produce(self, topic: str, payloads: Path, records: int) -> float:
        """Append with Kafka's own perf tool, lines of a file as values; return the seconds of a record, warmed up."""
        command = [*self.java, "org.apache.kafka.tools.ProducerPerformance", "--topic", topic, "--throughput", "-1"]
        command += ["--bootstrap-server", self.address, "--num-records", str(2 * records)]
        command += ["--warmup-records", str(records), "--payload-file", str(payloads), "--command-property", *PRODUCER]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        rates = re.findall(r"records sent, ([\d.]+) records/sec", said)
        assert rates, said
        return 1 / float(rates[-1])

    def clean(self, topic: str) -> Cleaning:
        """Seal the topic's only partition, and return what its cleaner then did by itself."""
        done = len(cleanings(self._output.read_text(), topic))
        self._seals += 1
        self._tell("seal", topic, time.time_ns() // 1_000_000 + 2 * self._seals * SEGMENT_MILLISECONDS)
        ends = time.monotonic() + CLEAN_SECONDS
        while len(found := cleanings(self._output.read_text(), topic)) == done:
            assert time.monotonic() < ends, "the cleaner did not come"
            time.sleep(LOOK_AGAIN_SECONDS)
        return found[-1]


def cleanings(said: str, topic: str) -> list[Cleaning]:
    """Return what a broker's output tells of the passes over a topic's first partition, the oldest first."""
    return [_cleaning(found) for found in CLEANED.finditer(said) if found["topic"] == topic]


def _cleaning(found: re.Match[str]) -> Cleaning:
    """Return what a pass is told to have done. Seconds are told with one digit; bytes and their rate give more."""
    number = {name: float(text.replace(",", "")) for name, text in found.groupdict().items() if name != "topic"}
    return Cleaning(number["read"] / number["rate"], int(number["records"]), int(number["left"]))
