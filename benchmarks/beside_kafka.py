"""Kafka on this machine: batches over HTTP against its producer perf tool, compaction against its cleaner, Spark
against Spark's Kafka source.

Both sides get the same records, one side after the other, in topics with as many partitions. On both sides a record is
acknowledged when it is written (acks=all on one node), without a sync. The cleaner reports its own seconds, for a pass
over a log that is half clean, half dirty, as ours is; both cleaner and compaction sync what they write.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import seglog
from benchmarks.compaction import Clock, make_half_dirty, twin, updates_of
from benchmarks.data import KEY_BYTES, SEED, keyed_table, record_bytes
from benchmarks.over_http import serving
from benchmarks.peers.kafka import COMPACTED, Kafka, kafka
from benchmarks.peers.tools import skip
from benchmarks.scale import Scale
from benchmarks.spark_io import noop, session
from benchmarks.timing import Figure, in_rounds, in_turn, recycle, settled, stopwatch
from seglog.client.client import Client
from seglog.client.topic import RemoteTopic

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUE_BYTES = 100
BATCHES_AIM, CLEANER_AIM, SPARK_AIM = 1.0, 3.0, 3.0
CASES = (("100 B", 100), ("1 KiB", 1024))
PARTITIONS = 2
DELETED = {"cleanup.policy": "delete"}


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure batches of 100 B, and compaction of 100 B and 1 KiB with keys of 16 B."""
    with kafka(directory / "kafka") as broker:
        if broker is None:
            return
        yield from _batches(broker, directory, scale)
        for label, value_bytes in CASES:
            records = scale.peer_records * record_bytes(VALUE_BYTES) // record_bytes(value_bytes)
            place = directory / f"compacted-{value_bytes}"
            yield _compaction(
                broker, place, keyed_table(value_bytes, records * record_bytes(value_bytes)), scale, label
            )
            shutil.rmtree(place)


def spark_figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure reading 100 B with keys of 16 B in Spark."""
    with kafka(directory / "kafka") as broker:
        if broker is not None:
            yield from _spark(broker, directory, scale)


# --- batches over HTTP ----------------------------------------------------------------------------------------------


def _batches(broker: Kafka, directory: Path, scale: Scale) -> Iterator[Figure]:
    """Append values of letters without keys, because the perf tool reads lines."""
    random = np.random.default_rng(SEED)
    letters = random.integers(ord("a"), ord("z") + 1, (scale.peer_records, VALUE_BYTES), np.uint8)
    values, payloads = [row.tobytes() for row in letters], directory / "payloads"
    payloads.write_bytes(b"\n".join(values))
    with serving(directory / "served") as url, Client(url) as client:
        producing = _Producing(broker, client, payloads, scale.peer_records)
        table, few = pa.table({"value": values}), values[: scale.peer_records // 5]
        for partitions, text in ((1, "1 partition"), (4, "4 partitions")):
            sides = (
                partial(producing.ours, partitions, len(table), lambda topic: topic.append_batch(table)),
                partial(producing.ours, partitions, len(few), lambda topic: _sent(client, topic.name, few)),
                partial(producing.theirs, partitions),
            )
            batches, singly, others = in_rounds([settled(side) for side in sides], repeats=scale.peer_repeats)
            for name, seconds, aim in (("batches", batches, BATCHES_AIM), ("record by record", singly, None)):
                yield Figure(
                    name=f"HTTP {name}, {text}",
                    against="Kafka's producer perf tool",
                    ours=seconds,
                    other=others,
                    work=1e-3,
                    unit="k records",
                    aim=aim,
                )


def _sent(client: Client, topic: str, values: list[bytes]) -> None:
    """Pass a producer one record after another, as Kafka's perf tool does."""
    with client.producer(topic) as producer:
        for value in values:
            producer.send(value)


class _Producing:
    """Both sides append to new topics, and return the seconds per record."""

    def __init__(self, broker: Kafka, client: Client, payloads: Path, records: int) -> None:
        self._broker, self._client, self._payloads, self._records = broker, client, payloads, records
        self._names = (f"batches-{number}" for number in itertools.count())

    def ours(self, partitions: int, records: int, append: Callable[[RemoteTopic], object]) -> float:
        """Append to our server."""
        topic = self._client.create_topic(next(self._names), partitions=partitions)
        with stopwatch() as watch:
            append(topic)
        stored = sum(bounds.next_offset for bounds in topic.bounds().values())
        assert stored == records, stored
        self._client.delete_topic(topic.name)
        return watch.seconds / records

    def theirs(self, partitions: int) -> float:
        """Let the perf tool append to the broker."""
        topic = next(self._names)
        self._broker.create(topic, partitions, DELETED)
        seconds = self._broker.produce(topic, self._payloads, self._records)
        self._broker.delete(topic)
        return seconds


# --- compaction -----------------------------------------------------------------------------------------------------


def _compaction(broker: Kafka, directory: Path, table: pa.Table, scale: Scale, label: str) -> Figure:
    half_dirty, place, topic, clock = directory / "half-dirty", directory / "log", directory.name, Clock()
    stored = table.nbytes + len(table) * record_bytes(0)
    make_half_dirty(half_dirty, clock, table, 2 * stored)  # one segment of each table, as in the topic
    value_bytes = len(table["value"][0].as_buffer())
    updates = itertools.cycle([_file(directory / f"updates-{n}", one) for n, one in enumerate(updates_of(table))])
    broker.create(topic, 1, COMPACTED)
    broker.feed(topic, 1, _file(directory / "first", table), KEY_BYTES, value_bytes)
    broker.clean(topic)
    left: set[int] = set()

    def ours() -> float:
        shutil.copytree(half_dirty, place, copy_function=twin)
        log = seglog.open(place, clock=clock)
        recycle(directory, stored)
        with stopwatch() as watch:
            report = log.compact()
        left.add(report.records_after)
        log.remove()
        return watch.seconds

    def other() -> float:
        broker.feed(topic, 1, next(updates), KEY_BYTES, value_bytes)
        recycle(directory, stored)
        cleaning = broker.clean(topic)
        assert 0 <= cleaning.records - 2 * len(table) <= 2, cleaning  # the extra ones seal segments
        left.add(cleaning.left - 1)
        return cleaning.seconds

    mine, others = in_turn(settled(ours), settled(other), repeats=scale.peer_repeats)
    assert left == {len(table)}, left
    return Figure(
        name=f"compaction, {label}",
        against="Kafka's cleaner",
        ours=mine,
        other=others,
        work=2 * len(table) / 1e3,
        unit="k records",
        aim=CLEANER_AIM,
    )


def _file(path: Path, table: pa.Table) -> Path:
    """Write keys and values in sequence, record by record."""
    columns = [
        np.frombuffer(b"".join(table[name].to_pylist()), np.uint8).reshape(len(table), -1) for name in ("key", "value")
    ]
    path.write_bytes(np.hstack(columns).tobytes())
    return path


# --- Spark ----------------------------------------------------------------------------------------------------------


def _spark(broker: Kafka, directory: Path, scale: Scale) -> Iterator[Figure]:
    """Read all columns of the same records as a batch: the columns of Kafka's source, which ours has, too."""
    rows, place, topic = scale.spark_rows // PARTITIONS, directory / "spark", "spark"
    table = keyed_table(VALUE_BYTES, rows * record_bytes(VALUE_BYTES))
    with seglog.open(place) as log:
        log.append_batch(table)
    broker.create(topic, PARTITIONS, DELETED)
    broker.feed(topic, PARTITIONS, _file(directory / "records", table), KEY_BYTES, VALUE_BYTES)
    with session() as spark:

        def theirs() -> DataFrame:
            options = {"kafka.bootstrap.servers": broker.address, "subscribe": topic, "startingOffsets": "earliest"}
            return spark.read.format("kafka").options(**options).load()

        if not _reads(spark, theirs, len(table)):
            return
        ours, other = noop(lambda: spark.read.format("seglog").load(str(place))), noop(theirs)
        mine, others = in_turn(ours, other, repeats=scale.peer_repeats)
        yield Figure(
            name="Spark read, noop, 100 B",
            against="Spark's Kafka source",
            ours=mine,
            other=others,
            work=len(table) / 1e3,
            unit="k records",
            aim=SPARK_AIM,
        )


def _reads(spark: SparkSession, theirs: Any, records: int) -> bool:
    """Whether Spark's Kafka source is available and returns every record; print if it is not available."""
    try:
        found = theirs().count()
    except Exception as error:  # noqa: BLE001 - any error of the JVM, such as a source for another version of Spark
        skip(f"Kafka source of Spark {spark.version}", str(error).splitlines()[0][:120])
        return False
    assert found == records, found
    return True
