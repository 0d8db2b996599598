"""Kill -9 of the broker every few seconds under load: nothing lost, doubled, or read although it was aborted.

    python -m tests.kafka.kills --minutes 10

Two clients (librdkafka and aiokafka) each produce idempotently, and in transactions over two partitions and a group,
of which every third is aborted. At the end all that was acknowledged is read and compared. An outcome that a client
does not know may be either, but all of it.
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pyarrow as pa

from seglog.client import Client
from seglog.topic.broker import Broker
from tests.kafka.conftest import KafkaServer
from tests.kafka.transactional import TransactionalAioKafka, TransactionalConfluent
from tests.waiting import HANG_SECONDS, until

POSITIONS = "positions"  # whose offsets the transactions commit: the number of the transaction
MOST = 200_000
ROWS = 20  # of a transaction in each partition
BATCH = 50
KILL_SECONDS = 2.0, 5.0


class Load(threading.Thread):
    """Work that is repeated until it is to stop; an error of the work itself ends it."""

    def __init__(self, name: str, work: Callable[[], object]) -> None:
        super().__init__(name=name, daemon=True)
        self._work = work
        self.ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            while not self.ending.is_set():
                self._work()
        except BaseException as error:  # noqa: BLE001 - it is raised where the load is stopped
            self.error = error

    def stop(self) -> None:
        self.ending.set()
        self.join(HANG_SECONDS)
        assert not self.is_alive(), f"{self.name} hangs"
        if self.error is not None:
            raise self.error


class IdempotentConfluent:
    """librdkafka; unknown: what it gave up."""

    def __init__(self, address: str) -> None:
        given = {"bootstrap.servers": address, "log_level": 0, "reconnect.backoff.max.ms": 200, "linger.ms": 1}
        self._producer = confluent_kafka.Producer({**given, "enable.idempotence": True})
        self.unknown: set[int] = set()

    def send(self, topic: str, numbers: range) -> None:
        for number in numbers:
            self._producer.produce(topic, b"%d" % number, on_delivery=self._delivered)
        left = self._producer.flush(90)
        assert not left, f"{left} records were not delivered"

    def _delivered(self, error: Any, message: Any) -> None:
        if error is not None:
            self.unknown.add(int(message.value()))

    def close(self) -> None:
        """Nothing is left open: librdkafka ends with the object."""


class IdempotentAioKafka:
    """aiokafka, with an event loop of its own."""

    def __init__(self, address: str) -> None:
        self._runner, self.unknown = asyncio.Runner(), set[int]()

        async def start() -> Any:
            producer = aiokafka.AIOKafkaProducer(bootstrap_servers=address, enable_idempotence=True)
            await producer.start()
            return producer

        self._producer = self._runner.run(start())

    def send(self, topic: str, numbers: range) -> None:
        async def send() -> None:
            waiting = [await self._producer.send(topic, b"%d" % number) for number in numbers]
            found = await asyncio.gather(*waiting, return_exceptions=True)
            self.unknown |= {number for number, one in zip(numbers, found, strict=True) if isinstance(one, Exception)}

        self._runner.run(send())

    def close(self) -> None:
        with closing(self._runner):
            self._runner.run(self._producer.stop())


class Idempotent:
    """One producer for all batches of a client, as sequences count only within one."""

    def __init__(self, client: str, address: str) -> None:
        self.topic, self.sent = f"idempotent-{client}", 0
        self._producer = CLIENTS[client][0](address)

    def work(self) -> None:
        numbers = range(self.sent, self.sent + BATCH)
        self._producer.send(self.topic, numbers)
        self.sent += BATCH

    def close(self) -> None:
        self._producer.close()

    def check(self, kafka: KafkaServer) -> dict[str, int]:
        found = values(kafka, self.topic)
        certain = set(range(self.sent)) - self._producer.unknown
        doubled = len(found) - len(set(found))
        return {
            "sent": self.sent,
            "unknown": len(self._producer.unknown),
            "lost": len(certain - set(found)),
            "doubled": doubled,
        }


CLIENTS: dict[str, tuple[Any, Any]] = {
    "confluent": (IdempotentConfluent, TransactionalConfluent),
    "aiokafka": (IdempotentAioKafka, TransactionalAioKafka),
}


class Transactional:
    """Transactions of one id: each number in both partitions, and as the offset of a group."""

    def __init__(self, client: str, address: str) -> None:
        self.topic, self._address = f"transactional-{client}", address
        self._kind = CLIENTS[client][1]
        self._producer: Any = None
        self.number = 0
        self.outcomes: dict[int, str] = {}

    def work(self) -> None:
        if self._producer is None:
            try:
                self._producer = self._kind(self._address, self.topic)
            except Exception:  # noqa: BLE001 - the server is down just now
                time.sleep(0.1)
                return
        self.number += 1
        commit = self.number % 3 != 0
        self.outcomes[self.number] = "unknown"
        try:
            self._producer.begin()
            for row in range(ROWS):
                for partition in range(2):
                    self._producer.send(self.topic, b"%d %d" % (self.number, row), partition)
            self._producer.send_offsets(self.topic, POSITIONS, 0, self.number)
            self._producer.flush()
            self._producer.end(commit=commit)
            self.outcomes[self.number] = "committed" if commit else "aborted"
        except Exception:  # noqa: BLE001 - the producer is done; the next one of its id aborts what is open
            if not commit:
                self.outcomes[self.number] = "aborted"  # whatever the client knows
            self.close()

    def close(self) -> None:
        """End the producer, which may have failed before."""
        producer, self._producer = self._producer, None
        if producer is not None:
            with suppress(Exception):
                producer.__exit__()

    def finish(self) -> None:
        """Commit one more transaction: what was open before is ended then."""
        until(lambda: self.work() or self.outcomes.get(self.number) == "committed", seconds=HANG_SECONDS)

    def check(self, kafka: KafkaServer) -> dict[str, int]:
        parts = [Counter(values(kafka, self.topic, partition)) for partition in range(2)]
        certain = {outcome: {one for one, said in self.outcomes.items() if said == outcome} for outcome in OUTCOMES}
        seen = set(parts[0]) | set(parts[1])
        complete = {one for one in seen if all(part[one] == ROWS for part in parts)}
        with Client(kafka.url) as http:
            offset = http.committed(self.topic)[POSITIONS][0]
        return {
            **{outcome: len(ones) for outcome, ones in certain.items()},
            "lost": len(certain["committed"] - complete),
            "doubled": sum(count > ROWS for part in parts for count in part.values()),
            "aborted but read": len(certain["aborted"] & seen),
            "in part": len(seen - complete),
            "wrong offset": int(offset != max(complete)),
        }


OUTCOMES = ("committed", "aborted", "unknown")
FAULTS = ("lost", "doubled", "aborted but read", "in part", "wrong offset")


def values(kafka: KafkaServer, topic: str, partition: int = 0) -> list[int]:
    """Return the first number of each record."""
    with Client(kafka.url) as http:
        return [int((record.value or b"").split()[0]) for record in http.topic(topic).records(partition)]


def prepare(root: Path) -> None:
    """Create the topics."""
    with Broker(root) as broker:
        for client in CLIENTS:
            broker.create_topic(f"idempotent-{client}")
            broker.create_topic(f"transactional-{client}", partitions=2)
        broker.create_topic(POSITIONS).append_batch(pa.table({"value": pa.array([b""] * MOST)}), partition=0)


def run(root: Path, seconds: float, seed: int) -> dict[str, dict[str, int]]:
    """Put a broker under load and kill it again and again; return what was found, by topic."""
    for name in ("aiokafka", "asyncio"):  # each lost connection is a line
        logging.getLogger(name).setLevel(logging.CRITICAL)
    prepare(root)
    kafka, chance = KafkaServer(root), random.Random(seed)
    try:
        loads = [kind(client, kafka.address) for client in CLIENTS for kind in (Idempotent, Transactional)]
        threads = [Load(load.topic, load.work) for load in loads]
        for thread in threads:
            thread.start()
        kills, ends = 0, time.monotonic() + seconds
        while time.monotonic() < ends:
            time.sleep(chance.uniform(*KILL_SECONDS))
            kafka.kill()
            kafka.start()
            kills += 1
        for thread in threads:
            thread.ending.set()
        for thread in threads:
            thread.stop()
        for load in loads:
            if isinstance(load, Transactional):
                load.finish()
            load.close()
        return {"all": {"kills": kills}} | {load.topic: load.check(kafka) for load in loads}
    finally:
        kafka.stop()


def faults(found: dict[str, dict[str, int]]) -> dict[str, int]:
    """Return the sums of what must not be."""
    return {fault: sum(one.get(fault, 0) for one in found.values()) for fault in FAULTS}


def main(arguments: list[str]) -> int:
    """Print what was found; the exit code is 1 if anything is wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.kills", description=main.__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long; default 10")
    parser.add_argument("--seed", type=int, default=0, help="of the times of the kills; default 0")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        found = run(Path(directory) / "root", options.minutes * 60, options.seed)
    for name, counts in found.items():
        print(f"{name}: {', '.join(f'{count} {what}' for what, count in counts.items())}")
    print(f"in all: {', '.join(f'{count} {what}' for what, count in faults(found).items())}")
    return int(any(faults(found).values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
