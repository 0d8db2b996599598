"""Which client can do what: `python -m tests.kafka.matrix` prints a table, each cell tried against a real server.

    python -m tests.kafka.matrix                 the Python clients, as in CI
    python -m tests.kafka.matrix --go            also franz-go and sarama; needs go, which fetches their modules
    python -m tests.kafka.matrix --java          also Kafka's Java clients; needs a JDK, and Maven, which fetches them
    python -m tests.kafka.matrix --kcat          also kcat, if it is installed
    python -m tests.kafka.matrix --write         write the rows into docs/kafka.md

A feature that the server does not announce is not tried.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Collection
from pathlib import Path
from uuid import uuid4

import aiokafka
import confluent_kafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewTopic as AioTopic
from confluent_kafka.admin import AdminClient, NewTopic

import kafka as kafka_python
from seglog.kafka.messages.core import API_VERSIONS
from tests.kafka.clients import AioKafka, Confluent, KafkaPython, Sent
from tests.kafka.conftest import KafkaServer
from tests.kafka.programs_run import GO, HAS_NONE, try_go, try_java, try_kcat
from tests.kafka.transactional import TransactionalAioKafka, TransactionalConfluent, TransactionalKafkaPython
from tests.waiting import HANG_SECONDS

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "kafka.md"
FEATURES = ("admin", "produce", "idempotent", "transactional", "consume", "group", "new group protocol")
NEEDS = {"transactional": 24, "new group protocol": 68}  # AddPartitionsToTxn, ConsumerGroupHeartbeat
NOT_OFFERED = "not offered"
COUNT = 100
RECORDS = [Sent(b"%d" % number, b"k") for number in range(COUNT)]

Feature = Callable[[str, str], object]
"""Uses a feature of the broker at an address, with a topic; raises if it does not work."""


def _confluent_admin(address: str, topic: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(HANG_SECONDS)


def _confluent_group(address: str, topic: str, protocol: str = "classic") -> None:
    given = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "log_level": 0, "group.protocol": protocol}
    consumer = confluent_kafka.Consumer({"bootstrap.servers": address, "group.id": f"{protocol}-{topic}", **given})
    consumer.subscribe([topic])
    got, ends = 0, time.monotonic() + HANG_SECONDS
    while got < COUNT and time.monotonic() < ends:
        got += len(consumer.consume(COUNT, 0.5))
    consumer.commit(asynchronous=False)
    consumer.close()
    assert got >= COUNT, f"{got} records"


def _python_admin(address: str, topic: str) -> None:
    admin = kafka_python.KafkaAdminClient(bootstrap_servers=address)
    admin.create_topics([kafka_python.admin.NewTopic(topic, 1, 1)])
    admin.close()


def _python_group(address: str, topic: str) -> None:
    given = {"auto_offset_reset": "earliest", "enable_auto_commit": False, "consumer_timeout_ms": HANG_SECONDS * 1000}
    consumer = kafka_python.KafkaConsumer(topic, bootstrap_servers=address, group_id=f"g-{topic}", **given)
    for _ in range(COUNT):
        next(consumer)
    consumer.commit()
    consumer.close()


def _aio_admin(address: str, topic: str) -> None:
    async def create() -> None:
        admin = AIOKafkaAdminClient(bootstrap_servers=address)
        await admin.start()
        await admin.create_topics([AioTopic(topic, 1, 1)])
        await admin.close()

    asyncio.run(asyncio.wait_for(create(), HANG_SECONDS))


def _aio_group(address: str, topic: str) -> None:
    async def read() -> None:
        given = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
        consumer = aiokafka.AIOKafkaConsumer(topic, bootstrap_servers=address, group_id=f"g-{topic}", **given)
        await consumer.start()
        for _ in range(COUNT):
            await consumer.getone()
        await consumer.commit()
        await consumer.stop()

    asyncio.run(asyncio.wait_for(read(), HANG_SECONDS))


def _transactional(kind: type) -> Feature:
    def use(address: str, topic: str) -> None:
        """Abort a transaction, commit one with offsets of a group, and see only that."""
        target = f"{topic}-transactions"
        _confluent_admin(address, target)
        with kind(address, f"x-{topic}") as producer:
            for commit in (False, True):
                producer.begin()
                for number in range(10):
                    producer.send(target, b"%d %d" % (commit, number))
                producer.send_offsets(f"g-{target}", topic, 0, 5)
                producer.end(commit=commit)
            assert producer.committed(target, 10) == [b"1 %d" % number for number in range(10)]

    return use


def _features(
    kind: type, admin: Feature, group: Feature, idempotent: dict[str, bool], transactional: type
) -> dict[str, Feature]:
    return {
        "admin": admin,
        "produce": lambda address, topic: kind(address).produce(topic, RECORDS, acks=1),
        "idempotent": lambda address, topic: kind(address).produce(topic, RECORDS, **idempotent),
        "transactional": _transactional(transactional),
        "consume": lambda address, topic: kind(address).consume(topic, 2 * COUNT),
        "group": group,
    }


PYTHON = {
    "confluent-kafka": {
        **_features(
            Confluent, _confluent_admin, _confluent_group, {"enable.idempotence": True}, TransactionalConfluent
        ),
        "new group protocol": lambda address, topic: _confluent_group(address, topic, "consumer"),
    },
    "kafka-python": _features(
        KafkaPython, _python_admin, _python_group, {"enable_idempotence": True}, TransactionalKafkaPython
    ),
    "aiokafka": _features(AioKafka, _aio_admin, _aio_group, {"enable_idempotence": True}, TransactionalAioKafka),
}


def try_python(features: dict[str, Feature], address: str) -> dict[str, str]:
    """Return feature -> "yes", or why not."""
    topic, found = f"t-{uuid4().hex}", {}
    for feature, use in features.items():
        try:
            use(address, topic)
            found[feature] = "yes"
        except Exception as error:  # noqa: BLE001 - it is what the table shows
            found[feature] = f"no: {type(error).__name__}: {error}"[:80]
    return found


def offered(server: KafkaServer) -> set[int]:
    """Return the requests that a server announces."""
    with server.connection() as raw:
        return {one["api_key"] for one in raw.ask(API_VERSIONS, 0, {})["api_keys"]}


def rows(server: KafkaServer, others: Collection[str] = ()) -> list[str]:
    """Return the rows of the table, as Markdown. others: which of "go", "java", "kcat" are tried, too."""
    known = offered(server)
    missing = {feature: NOT_OFFERED for feature, key in NEEDS.items() if key not in known}
    found = {
        client: {"new group protocol": HAS_NONE, **try_python(features, server.address)}
        for client, features in PYTHON.items()
    }
    if "go" in others:
        for client, program in GO.items():
            found[client] = {"new group protocol": HAS_NONE, **try_go(program, server.address)}
    if "java" in others:
        names = {"transactional": "transactional", "new group protocol": "consumer"}
        found["java"] = try_java(server.address, [name for feature, name in names.items() if feature not in missing])
    if "kcat" in others:
        found["kcat"] = try_kcat(server.address)
    return [
        f"| {client} | {' | '.join({**missing, **cells}.get(feature, 'not tried') for feature in FEATURES)} |"
        for client, cells in found.items()
    ]


def table(lines: list[str]) -> list[str]:
    """Return the rows below their head."""
    return [f"| client | {' | '.join(FEATURES)} |", "|---" * (len(FEATURES) + 1) + "|", *lines]


def written(page: str, lines: list[str]) -> str:
    """Return the page with these rows instead of those of the same clients."""
    ours = {line.split("|")[1].strip(): line for line in lines}
    return "\n".join(
        ours.get(line.split("|")[1].strip(), line) if line.startswith("| ") else line for line in page.split("\n")
    )


def main(arguments: list[str]) -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.matrix", description=main.__doc__)
    for name, what in {"go": "the clients of Go", "java": "Kafka's Java clients", "kcat": "kcat"}.items():
        parser.add_argument(f"--{name}", action="append_const", dest="others", const=name, help=f"also try {what}")
    parser.add_argument("--write", action="store_true", help="write the rows into docs/kafka.md")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as directory:
        server = KafkaServer(Path(directory) / "root")
        try:
            lines = rows(server, options.others or ())
        finally:
            server.stop()
    print("\n".join(table(lines)))
    if options.write:
        PAGE.write_text(written(PAGE.read_text(), lines))


if __name__ == "__main__":
    main(sys.argv[1:])
