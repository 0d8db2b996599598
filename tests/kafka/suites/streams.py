"""Kafka's system tests that are Java programs: of Kafka Streams, and the copier of records in transactions.

StreamsSmokeTest generates records and verifies twelve results of three processes of a topology, of which one is
stopped, or killed, on the way. BrokerCompatibilityTest copies a record by a topology. TransactionalMessageCopier copies
a topic in transactions, of which it aborts some at random, and is killed and started again.
"""

from __future__ import annotations

import re
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import confluent_kafka
from benchmarks.peers.tools import jars

from tests.kafka.suites.sides import Missing, Test, each
from tests.kafka.suites.topics import create, messages
from tests.kafka.suites.verdicts import Verdicts
from tests.tools import find
from tests.waiting import until

POM = Path(__file__).parents[1] / "programs" / "streams" / "pom.xml"
TITLE = "Kafka 4.3.1's StreamsSmokeTest, BrokerCompatibilityTest, TransactionalMessageCopier"
TESTS = "org.apache.kafka.streams.tests"
RESULTS = "echo max min min-suppressed min-raw dif sum sws-raw sws-suppressed cnt avg tagg fk"
TOPICS = ("data", *RESULTS.split(" "))
COMPATIBLE = ("brokerCompatibilitySourceTopic", "brokerCompatibilitySinkTopic")
PARTITIONS = 5
DRIVER_SECONDS, SECONDS = 900.0, 240.0
COPIED, TRANSACTION = 5000, 100
AT_LEAST, EXACTLY = "at_least_once", "exactly_once_v2"
PROPERTIES = """\
bootstrap.servers={address}
state.dir={directory}/state
processing.guarantee={guarantee}
num.stream.threads=2
num.standby.replicas=1
commit.interval.ms=1000
auto.offset.reset=earliest
acks=all
acceptable.recovery.lag=9223372036854775807
session.timeout.ms=10000
"""


class Program:
    """A Java program that runs, with its output in a file."""

    def __init__(self, directory: Path, words: Sequence[object], found: Path | None = None) -> None:
        """found: the directory of its jars; default: those of Kafka Streams."""
        directory.mkdir()
        self.output = directory / "output"
        command = [find("java"), "-Xmx512m", "-cp", f"{found or classes()}/*", *map(str, words)]
        with self.output.open("wb") as said:
            self.process = subprocess.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=directory)

    @property
    def said(self) -> str:
        """What it has printed."""
        return self.output.read_text(errors="replace")

    def wait_for(self, pattern: str, seconds: float = SECONDS) -> None:
        """Wait until it has printed something; fail if it ends before."""

        def seen() -> bool:
            found = bool(re.search(pattern, self.said))
            assert found or self.process.poll() is None, f"it ended: {self.said[-500:]}"
            return found

        until(seen, seconds)

    def end(self, number: signal.Signals = signal.SIGTERM) -> None:
        """End it by a signal, and wait."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        self.process.wait(SECONDS)


def classes() -> Path:
    """Return the directory of the jars, which Maven copies into .bench/ once.

    Raises:
        Missing: Java, Maven or the jars are missing.
    """
    found = jars("streams", str(POM))
    if found is None or find("java") is None:
        raise Missing("Java or the jars of Kafka Streams cannot be had")
    return found


def verdicts(side: str, only: str = "") -> Verdicts:
    """Run the tests whose name contains `only`, each on a broker of its own."""
    classes()
    tests: dict[str, Test] = {
        f"StreamsSmokeTest, {guarantee}, {'a kill' if kills else 'a stop'}": partial(
            _smoke, guarantee=guarantee, kills=kills
        )
        for guarantee, kills in ((AT_LEAST, False), (EXACTLY, False), (AT_LEAST, True), (EXACTLY, True))
    }
    tests |= {
        f"BrokerCompatibilityTest, {guarantee}": partial(_compatible, guarantee=guarantee)
        for guarantee in (AT_LEAST, EXACTLY)
    }
    for name, options in {"": (), ", groups": ("--group-mode", "--use-group-metadata")}.items():
        tests[f"TransactionalMessageCopier{name}, a kill"] = partial(_copies, options=options)
    return each(side, tests, only)


@contextmanager
def _program(directory: Path, *words: object) -> Iterator[Program]:
    program = Program(directory, words)
    try:
        yield program
    finally:
        program.end(signal.SIGKILL)


def _smoke(directory: Path, address: str, *, guarantee: str, kills: bool) -> None:
    """Let three processes work one after the other, while the driver generates and then verifies."""
    create(address, TOPICS, PARTITIONS)

    def smoke(stack: ExitStack, name: str, command: str) -> Program:
        given = directory / f"{name}.properties"
        given.write_text(PROPERTIES.format(address=address, directory=directory / name, guarantee=guarantee))
        return stack.enter_context(_program(directory / name, f"{TESTS}.StreamsSmokeTest", given, command))

    with ExitStack() as stack:
        driver = smoke(stack, "driver", "run")
        first = smoke(stack, "first", "process")
        first.wait_for(r"REBALANCING -> RUNNING")
        driver.wait_for(r" 1000 records produced")
        second, third = smoke(stack, "second", "process"), smoke(stack, "third", "process")
        second.wait_for(r"REBALANCING -> RUNNING")
        third.wait_for(r"REBALANCING -> RUNNING")
        first.end(signal.SIGKILL if kills else signal.SIGTERM)
        driver.process.wait(DRIVER_SECONDS)
        for program in (second, third):
            program.end()
        said = driver.said
    wanted = "SUCCESS|PROCESSED-MORE-THAN-GENERATED" if kills and guarantee == AT_LEAST else "SUCCESS"
    assert re.search(wanted, said), said[-600:]


def _compatible(directory: Path, address: str, *, guarantee: str) -> None:
    create(address, COMPATIBLE)
    given = directory / "properties"
    given.write_text(PROPERTIES.format(address=address, directory=directory, guarantee=guarantee))
    with _program(directory / "run", f"{TESTS}.BrokerCompatibilityTest", given, guarantee) as program:
        program.process.wait(SECONDS)
        assert program.process.returncode == 0, program.said[-600:]
        assert "close Kafka Streams" in program.said, program.said[-600:]


def _copies(directory: Path, address: str, *, options: Sequence[str]) -> None:
    """Copy a topic; kill the copier on the way, and start it again. Each record is there once, in order."""
    create(address, ("source", "copy"))
    producer = confluent_kafka.Producer({"bootstrap.servers": address})
    expected = [b"%d" % number for number in range(COPIED)]
    for value in expected:
        producer.produce("source", value, key=value)
    assert producer.flush(SECONDS) == 0
    words = ["org.apache.kafka.tools.TransactionalMessageCopier", "--broker-list", address, "--input-topic", "source"]
    words += ["--input-partition", "0", "--output-topic", "copy", "--consumer-group", "copiers", "--transactional-id"]
    words += ["copier", "--transaction-size", str(TRANSACTION), "--enable-random-aborts", *options]
    with _program(directory / "killed", *words) as killed:
        until(lambda: remaining(killed) <= COPIED // 2, SECONDS)
        killed.end(signal.SIGKILL)
    with _program(directory / "copier", *words) as copier:
        until(lambda: remaining(copier) == 0, SECONDS)
        copier.end()
    assert [one.value() for one in messages(address, "copy")] == expected


def remaining(copier: Program) -> int:
    """Return how many records a copier has left, as it reports after each transaction."""
    found = re.findall(r'"remaining":"?(\d+)', copier.said)
    assert copier.process.poll() is None, f"it ended: {copier.said[-500:]}"
    return int(found[-1]) if found else COPIED
