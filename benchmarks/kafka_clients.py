"""`seglog serve --kafka` against Kafka, both used by Kafka's own programs: ProducerPerformance and ConsumerPerformance.

Both servers run all the time, the programs run against one after the other, with the same flags and new topics of one
partition. Before, both servers take five such runs: Java compiles Kafka meanwhile, which doubles its rate. acks=1 is
answered when the records are written, on both sides. acks=all is answered here when they are synced; Kafka's topics
then have flush.messages=1, so that it does the same. p99 is the time until a record is acknowledged, at full speed. A
server starts when it listens; its memory is what it has resident after each case.
"""

from __future__ import annotations

import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from pathlib import Path
from typing import NamedTuple

from confluent_kafka.admin import AdminClient, NewTopic  # type: ignore[attr-defined] # it has no __all__

from benchmarks.peers.kafka import Kafka, kafka
from benchmarks.peers.tools import free_port, server
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_rounds, settle

AGAINST = "Kafka 4.3.1"
SIZES = (("100 B", 100), ("1 KiB", 1024))
ACKS = ("1", "all")
CODECS = ("none", "lz4")
ALL_AIM, ONE_AIM, CONSUME_AIM = 1.0, 0.7, 1.0
PAIRS, STARTS = 7, 3
WARM_RUNS = 5  # of a producer, before anything is measured
CONSUMED_RUNS = 6  # whose records a consumer reads
CREATE_SECONDS = 30.0
PERCENTILE = re.compile(r"([\d.]+) records/sec .*?([\d.]+) ms 99th")


class Produced(NamedTuple):
    """Seconds per record, and until the slowest hundredth of the records was acknowledged."""

    record: float
    p99: float


@dataclass
class Broker:
    """A server that Kafka's programs use. start: seconds until it listened; flushes: configs for acks=all."""

    address: str
    pid: int
    start: float
    java: list[str]
    flushes: dict[str, str] = field(default_factory=dict)

    def create(self, topic: str, *, acks: str) -> None:
        """Create a topic with a partition."""
        configs = self.flushes if acks == "all" else {}
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(topic, 1, 1, config=configs)])[topic].result(CREATE_SECONDS)

    def produce(self, topic: str, acks: str, codec: str, size: int, records: int) -> Produced:
        """Send records twice, of which the first half warms up."""
        options = ["--topic", topic, "--throughput", "-1", "--record-size", str(size)]
        options += ["--num-records", str(2 * records), "--warmup-records", str(records)]
        said = self._run(
            "ProducerPerformance", *options, "--command-property", f"acks={acks}", f"compression.type={codec}"
        )
        found = PERCENTILE.findall(said)
        assert found, said
        rate, p99 = found[-1]
        return Produced(1 / float(rate), max(float(p99), 0.5) / 1000)  # of whole milliseconds

    def consume(self, topic: str, records: int) -> float:
        """Read records from the beginning; return the seconds of a record, without those of joining a group."""
        said = self._run("ConsumerPerformance", "--topic", topic, "--num-records", str(records))
        names, values = (line.split(", ") for line in said.strip().splitlines()[-2:])
        return 1 / float(dict(zip(names, values, strict=True))["fetch.nMsg.sec"])

    def _run(self, name: str, *options: str) -> str:
        settle()
        command = [*self.java, f"org.apache.kafka.tools.{name}", "--bootstrap-server", self.address, *options]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    @property
    def resident(self) -> float:
        """Bytes of memory."""
        found = re.search(r"VmRSS:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(found[1]) * 1024.0 if found else float("nan")


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure producing and consuming of 100 B and 1 KiB, uncompressed and with lz4; memory; starts."""
    starts = []
    for number in range(STARTS):
        with kafka(directory / f"kafka-{number}") as other:
            if other is None:
                return
            with _serving(directory / f"served-{number}", other) as ours:
                starts.append((ours.start, other.start))
                if number == STARTS - 1:
                    theirs = Broker(other.address, other.pid, other.start, other.java, {"flush.messages": "1"})
                    yield from _Comparison(ours, theirs, scale).figures()
    mine, others = zip(*starts, strict=True)
    yield Figure(name="start", against=AGAINST, ours=mine, other=others, work=1, unit="start")


@contextmanager
def _serving(root: Path, other: Kafka) -> Iterator[Broker]:
    """Serve a directory; wait until it listens."""
    port, began = free_port(), time.perf_counter()
    command = [sys.executable, "-m", "seglog", "serve", str(root), "--port", "0", "--kafka", f"127.0.0.1:{port}"]
    with server(command, port, output=root.with_name(f"{root.name}-output")) as process:
        yield Broker(f"127.0.0.1:{port}", process.pid, time.perf_counter() - began, other.java)


class _Comparison:
    """Two servers that run, ours first."""

    def __init__(self, ours: Broker, theirs: Broker, scale: Scale) -> None:
        self._sides = (ours, theirs)
        self._scale = scale
        self._pairs = min(PAIRS, scale.repeats)

    def figures(self) -> Iterator[Figure]:
        """Measure all but the start."""
        self._warm_up()
        resident = []
        for (label, size), codec, acks in product(SIZES, CODECS, ACKS):
            records = self._scale.peer_records * SIZES[0][1] // size
            topic, name = f"{size}-{codec}-{acks}", f"{label}, {codec}"
            yield from self._producing(topic, f"acks={acks}, {name}", acks, codec, size, records)
            if acks == ACKS[0]:
                yield self._consuming(topic, name, 2 * records * min(CONSUMED_RUNS, self._pairs + 1))
            resident.append([one.resident for one in self._sides])
        mine, others = zip(*resident, strict=True)
        yield Figure(name="memory", against=AGAINST, ours=mine, other=others, work=2**20, unit="MiB")

    def _warm_up(self) -> None:
        for side in self._sides:
            side.create("warm", acks=ACKS[0])
            for _ in range(min(WARM_RUNS, self._pairs)):
                side.produce("warm", ACKS[0], CODECS[0], SIZES[0][1], self._scale.peer_records)

    def _producing(self, topic: str, name: str, acks: str, codec: str, size: int, records: int) -> Iterator[Figure]:
        produced: list[list[Produced]] = [[], []]

        def produce(number: int) -> float:
            produced[number].append(self._sides[number].produce(topic, acks, codec, size, records))
            return produced[number][-1].record

        for side in self._sides:
            side.create(topic, acks=acks)
        in_rounds([partial(produce, number) for number in range(2)], repeats=self._pairs)
        mine, others = (found[1:] for found in produced)
        yield Figure(
            name=f"produce, {name}",
            against=AGAINST,
            ours=tuple(one.record for one in mine),
            other=tuple(one.record for one in others),
            work=1e-3,
            unit="k records",
            aim=ALL_AIM if acks == "all" else ONE_AIM,
        )
        p99s = [tuple(one.p99 for one in found) for found in (mine, others)]
        yield Figure(name=f"p99, {name}", against=AGAINST, ours=p99s[0], other=p99s[1], work=1, unit="record")

    def _consuming(self, topic: str, name: str, records: int) -> Figure:
        readers = [partial(side.consume, topic, records) for side in self._sides]
        mine, others = in_rounds(readers, repeats=self._pairs)
        name, unit = f"consume, {name}", "k records"
        return Figure(name=name, against=AGAINST, ours=mine, other=others, work=1e-3, unit=unit, aim=CONSUME_AIM)
