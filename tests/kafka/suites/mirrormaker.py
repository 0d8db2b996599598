"""MirrorMaker 2 moves topics from a Kafka: records, configs, partitions and groups; then it copies exactly once.

The Kafka is the source on both sides. What MirrorMaker logs is part of the result: any warning or error is a failure,
but for those that it has of itself.
"""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.peers.kafka_server import LOGGING
from benchmarks.peers.tools import jars
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, NewPartitions

from tests.kafka.suites.sides import Missing, Settings, each, needed, started
from tests.kafka.suites.streams import Program
from tests.kafka.suites.topics import create, messages
from tests.kafka.suites.verdicts import Verdicts
from tests.waiting import until

TITLE = "Kafka 4.3.1's MirrorMaker 2, from a Kafka 4.3.1"
POM = Path(__file__).parents[1] / "programs" / "mirrormaker" / "pom.xml"
PAGE = Path(__file__).parents[3] / "docs" / "kafka.md"
SECONDS = 400.0
TOPIC, ALTERED, GROUP = "orders", "prices", "shipping"
PARTITIONS = (0, 1)
COUNT, MORE = 1000, 100
QUICK = """\
sync.topic.configs.interval.seconds = 2
refresh.topics.interval.seconds = 2
refresh.groups.interval.seconds = 2
sync.group.offsets.interval.seconds = 2
emit.checkpoints.interval.seconds = 2
seglog.offset.flush.interval.ms = 2000
seglog.task.shutdown.graceful.timeout.ms = 120000
"""
EXACTLY_ONCE = """\
seglog.exactly.once.source.support = enabled
dedicated.mode.enable.internal.rest = true
listeners = http://127.0.0.1:0
"""
CHANGES: tuple[Mapping[str, str], ...] = (
    {"retention.ms": "3600000"},
    {"cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.25"},
    {"max.message.bytes": "500000"},
    {"segment.bytes": "16777216", "segment.ms": "7200000", "flush.ms": "1000", "flush.messages": "100"},
    {"segment.jitter.ms": "5", "index.interval.bytes": "8192", "retention.ms": "7200000"},
)
OWN = (  # of MirrorMaker between two Kafkas, too
    r"All plugins have ServiceLoader manifests",
    r"Close timed out with \d+ pending requests to coordinator",
    r"Catching up to assignment's config offset",
    r"Unable to sync offsets for consumer group .* consumers currently using this group",  # it joined at that moment
    r"Cannot accept new calls when AdminClient is closing",  # it does not wait for its schedules before it ends
)
Row = tuple[Any, ...]
"""Key, value, headers, kind and time of a timestamp in ms."""


def verdicts(side: str, only: str = "") -> Verdicts:
    """Move topics to the broker of a side."""
    needed("java", "mvn")
    return each(side, {"a move, with a restart": move, "exactly once, with a kill -9": copy_exactly_once}, only)


def move(directory: Path, target: str) -> None:
    """Let everything follow the source; a group goes on at the target; a restart repeats nothing."""
    with started("kafka", Settings()) as source:
        create(source, [TOPIC, ALTERED], len(PARTITIONS))
        _produce(source, range(COUNT))
        _consume(source, COUNT)
        with _mirroring(directory / "first", source, target):
            _wait_for_rows(source, target)
            for changes in CHANGES:
                _follow(source, target, changes)
            admin = AdminClient(_client(source))
            admin.create_partitions([NewPartitions(ALTERED, 3)])[ALTERED].result(SECONDS)
            until(
                lambda: len(AdminClient(_client(target)).list_topics(ALTERED).topics[ALTERED].partitions) == 3, SECONDS
            )
            until(lambda: _committed(target) == _committed(source), SECONDS)
            _produce(source, range(COUNT, COUNT + MORE))
            found = _consume(target, MORE)
            assert sorted(found) == [b"v%d" % number for number in range(COUNT, COUNT + MORE)]
        _produce(source, range(COUNT + MORE, COUNT + 2 * MORE))
        with _mirroring(directory / "second", source, target):
            _wait_for_rows(source, target)


def copy_exactly_once(directory: Path, target: str) -> None:
    """Kill MirrorMaker while it copies in transactions; the next one repeats and loses nothing."""
    with started("kafka", Settings()) as source:
        create(source, [TOPIC], len(PARTITIONS))
        _produce(source, range(COUNT))
        with _mirroring(directory / "first", source, target, EXACTLY_ONCE) as killed:
            _wait_for_rows(source, target)
            _produce(source, range(COUNT, 5 * COUNT))
            until(lambda: _count(target) > COUNT, SECONDS)
            killed.end(signal.SIGKILL)
        _produce(source, range(5 * COUNT, 5 * COUNT + MORE))
        with _mirroring(directory / "second", source, target, EXACTLY_ONCE):
            _wait_for_rows(source, target)


@contextmanager
def _mirroring(directory: Path, source: str, target: str, more: str = "") -> Iterator[Program]:
    """Run MirrorMaker; end it, and fail if it has logged a warning or an error that is not its own."""
    given, logging = directory.with_suffix(".properties"), directory.with_suffix(".log4j2.properties")
    given.write_text(documented(source, target) + QUICK + more)
    logging.write_text(LOGGING)
    words = [f"-Dlog4j2.configurationFile={logging}", "org.apache.kafka.connect.mirror.MirrorMaker", given]
    program = Program(directory, words, _jars())
    try:
        yield program
    finally:
        program.end()
    assert not (found := complaints(program.said)), "\n".join(found)


def documented(source: str, target: str) -> str:
    """Return the properties file of docs/kafka.md with these addresses."""
    [found] = re.findall(r"^```properties\n(.*?)^```", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    return str(found).replace("kafka.example:9092", source).replace("seglog.example:9092", target)


def complaints(logged: str) -> list[str]:
    """Return the warnings and errors of a log with their lines, without those that are MirrorMaker's own."""
    entries = re.split(r"^(?=(?:WARN|ERROR|FATAL) )", logged, flags=re.MULTILINE)[1:]
    return [one for one in entries if not any(re.search(own, one) for own in OWN)]


def _jars() -> Path:
    found = jars("mirrormaker", str(POM))
    if found is None:
        raise Missing("the jars of MirrorMaker 2 cannot be fetched")
    return found


def _client(address: str, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": address, "log_level": 0, **more}


# --- configs ----------------------------------------------------------------------------------------------------------


def _follow(source: str, target: str, changes: Mapping[str, str]) -> None:
    """Alter configs of the source, then delete them; the target shows both."""
    before = _described(target)
    wanted = {**before, **{name: value for name, value in changes.items() if name in before}}
    _alter(source, changes)
    until(lambda: _described(target) == wanted, SECONDS, what=f"{changes} at the target")
    _alter(source, dict.fromkeys(changes))
    until(lambda: _described(target) == before, SECONDS, what=f"the default of {', '.join(changes)} at the target")


def _alter(address: str, changes: Mapping[str, str | None]) -> None:
    kinds = {True: AlterConfigOpType.DELETE, False: AlterConfigOpType.SET}
    entries = [ConfigEntry(name, value, incremental_operation=kinds[value is None]) for name, value in changes.items()]
    resource = ConfigResource(ConfigResource.Type.TOPIC, ALTERED, incremental_configs=entries)
    admin = AdminClient(_client(address))
    admin.incremental_alter_configs([resource])[resource].result(SECONDS)


def _described(address: str) -> dict[str, str]:
    resource = ConfigResource(ConfigResource.Type.TOPIC, ALTERED)
    admin = AdminClient(_client(address))
    return {name: one.value for name, one in admin.describe_configs([resource])[resource].result(SECONDS).items()}


# --- records ----------------------------------------------------------------------------------------------------------


def _produce(address: str, numbers: range) -> None:
    """Send records with and without keys, with headers and their own times, in turn to each partition."""
    producer, began = Producer(_client(address)), int(time.time() * 1000)
    for number in numbers:
        producer.produce(
            TOPIC,
            b"v%d" % number,
            key=b"k%d" % (number % 100) if number % 10 else None,
            headers=[("n", b"%d" % number), ("n", None), ("empty", b"")],
            partition=number % len(PARTITIONS),
            timestamp=began - 60_000 + number,
        )
    assert producer.flush(SECONDS) == 0


def _rows(address: str) -> list[list[Row]]:
    """Return the committed records of each partition."""
    return [
        [(one.key(), one.value(), one.headers(), *one.timestamp()) for one in messages(address, TOPIC, partition)]
        for partition in PARTITIONS
    ]


def _count(address: str) -> int:
    known = AdminClient(_client(address)).list_topics().topics
    return sum(map(len, _rows(address))) if TOPIC in known else 0


def _wait_for_rows(source: str, target: str) -> None:
    wanted = sum(map(len, _rows(source)))
    until(lambda: _count(target) >= wanted, SECONDS, what=f"{wanted} records at the target")
    assert _rows(target) == _rows(source)


def _consume(address: str, count: int) -> list[bytes]:
    """Return the values of the next records of the group, and commit them."""
    settings = _client(address, **{"group.id": GROUP, "auto.offset.reset": "earliest", "enable.auto.commit": False})
    consumer, found = Consumer(settings), list[bytes]()
    consumer.subscribe([TOPIC])

    def has_all() -> bool:
        found.extend(one.value() for one in consumer.consume(count, 0.5) if not one.error())
        return len(found) >= count

    until(has_all, SECONDS, what=f"{count} records of the group at {address}")
    consumer.commit(asynchronous=False)
    consumer.close()
    return found


def _committed(address: str) -> list[int]:
    consumer = Consumer(_client(address, **{"group.id": GROUP}))
    try:
        return [one.offset for one in consumer.committed([TopicPartition(TOPIC, each) for each in PARTITIONS], SECONDS)]
    finally:
        consumer.close()
