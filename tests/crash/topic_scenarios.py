"""What the proofs put a broker through: each scenario makes one, and then does one thing to it, opening included."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

import pyarrow as pa

import seglog
from seglog.log.staging import Stage, StagedSegment
from seglog.storage import Storage, Subdirectory
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from seglog.topic.broker import Broker
from tests.crash.topic_ledger import Rules, TopicLedger

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
EACH = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64, flush_records=1)
Step = Callable[[Storage, TopicLedger], None]
ONCE: dict[str, dict[int, list[bytes]]] = {
    "one": {0: [b"once: one"]},
    "two": {1: [b"once: two"]},
    "many": {
        0: [b"once: many %d" % number for number in range(3)],
        1: [b"once: more %d" % number for number in range(2)],
    },
}
"""Idempotency key -> partition -> the values appended under it: a repetition stores nothing twice."""


class Scenario(NamedTuple):
    """prepare: makes the broker that the run begins with, all of it durable; run: what is under proof."""

    name: str
    prepare: Step
    run: Step


def clock() -> int:
    """A constant time: sessions do not end."""
    return 1_700_000_000_000_000


def opened(storage: Storage, ledger: TopicLedger) -> Broker:
    """Open the broker: what is found is what is known, and opening has made it durable."""
    broker = Broker(storage, clock=clock)
    ledger.settle(broker)
    return broker


def nothing(storage: Storage, ledger: TopicLedger) -> None:
    """No broker at all."""


def orders(config: seglog.LogConfig = SMALL, partitions: int = 2) -> Step:
    """Return a step that makes a broker of one topic, whose first two partitions hold some records, and a group."""

    def prepare(storage: Storage, ledger: TopicLedger) -> None:
        with opened(storage, ledger) as broker:
            ledger.create(broker, "orders", partitions, config)
            for number in range(4):
                ledger.append(broker, "orders", number % 2, b"old %d" % number)
            ledger.commit(broker, {("orders", 0): 1})
            ledger.sync(broker, "orders")
            ledger.commit(broker, {("orders", 1): 1}, durable=True)

    return prepare


def create(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.create(broker, "orders", 2, SMALL)
    ledger.append(broker, "orders", 1, b"first")


def delete(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.append(broker, "orders", 0, b"new")
    ledger.delete(broker, "orders")
    ledger.create(broker, "orders", 2, SMALL)
    ledger.append(broker, "orders", 0, b"of another topic")


def add_partitions(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.add_partitions(broker, "orders", 4)
    ledger.append(broker, "orders", 3, b"to a new one")
    ledger.commit(broker, {("orders", 3): 1})


def once(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    for key in ("one", "two"):
        ((number, values),) = ONCE[key].items()
        ledger.append(broker, "orders", number, values[0], once=key)
    ledger.append_batch(broker, "orders", ONCE["many"], once="many")
    ledger.sync(broker, "orders")
    ledger.append(broker, "orders", 0, b"after")


def batches(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    for number in range(3):
        shares = {part: [b"batch %d, %d/%d" % (number, part, row) for row in range(2)] for part in range(2)}
        ledger.append_batch(broker, "orders", shares, once=None)
    ledger.sync(broker, "orders")


def staged(storage: Storage, values: Mapping[int, list[bytes]], batch: int) -> dict[int, list[StagedSegment]]:
    """Stage values (partition -> values) as the tasks of a batch do."""
    found = {}
    for number, rows in values.items():
        with Stage(Subdirectory(storage, f"orders/{number}"), f"q-{batch}", clock=clock) as stage:
            stage.append_batch(pa.table({"value": rows}))
            found[number] = stage.finish()
    return found


def publish(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.append(broker, "orders", 0, b"before")
    for batch in range(2):
        values = {number: [b"published %d to %d" % (batch, number)] for number in range(2)}
        ledger.publish(broker, "orders", staged(storage, values, batch), values, batch)
    ledger.append(broker, "orders", 1, b"behind")


def groups(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.join(broker, "a", ["orders"])
    ledger.append(broker, "orders", 0, b"new")
    ledger.commit(broker, {("orders", 0): 3, ("orders", 1): 2}, member="a")
    ledger.commit(broker, {("orders", 0): 2}, member="a", durable=True)
    ledger.join(broker, "b", ["orders"])
    ledger.leave(broker, "a")
    ledger.leave(broker, "b")
    ledger.commit(broker, {("orders", 1): 1}, durable=True)


def alter(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.alter(broker, "orders", Rules(10**6))
    ledger.append(broker, "orders", 1, b"after")
    ledger.alter(broker, "orders", Rules(10**5, copies=1))
    ledger.alter(broker, "orders", Rules(10**5))


def of_an_earlier_version(storage: Storage, ledger: TopicLedger) -> None:
    orders()(storage, ledger)
    with opened(storage, ledger) as broker:
        ledger.as_an_earlier_version(broker, "orders", copies=2)


def upgrade(storage: Storage, ledger: TopicLedger) -> None:
    broker = opened(storage, ledger)
    ledger.append(broker, "orders", 1, b"after")
    ledger.alter(broker, "orders", Rules(copies=0))


SCENARIOS = [
    Scenario("create a topic", nothing, create),
    Scenario("delete a topic and create another", orders(), delete),
    Scenario("add partitions", orders(), add_partitions),
    Scenario("append once", orders(), once),
    Scenario("append once, each record durable", orders(EACH), once),
    Scenario("batches over partitions", orders(), batches),
    Scenario("publish to partitions", orders(), publish),
    Scenario("groups", orders(), groups),
    Scenario("alter four partitions", orders(partitions=4), alter),
    Scenario("take policies of an earlier version, and alter them", of_an_earlier_version, upgrade),
]


def killed(run: Step, at: int) -> Step:
    """Return a step whose process is killed at its call number `at`, and another process does it all: the kernel keeps
    what the first wrote, but no sync of it has happened that was not asked for.
    """

    def step(storage: Storage, ledger: TopicLedger) -> None:
        dying = FaultyStorage(storage, Fault(at=at))
        try:
            run(dying, ledger)
        except Crashed:
            dying.crash()
            with opened(storage, ledger) as broker:
                if "orders" not in broker.topics():
                    ledger.create(broker, "orders", 2, SMALL)
                values = {number: [b"published to %d at last" % number] for number in range(2)}
                ledger.publish(broker, "orders", staged(storage, values, 9), values, 9)

    return step
