"""A broker for Kafka's clients in this process, to test programs that use Kafka without a container.

    with KafkaBroker() as kafka:
        producer = confluent_kafka.Producer({"bootstrap.servers": kafka.address})

Its topics are in memory, or in a directory. It is the broker of `seglog serve --kafka` without HTTP. Needs the extra
`seglog[kafka]`. `seglog.testing.kafka_fixtures` has it as a fixture of pytest.
"""

from __future__ import annotations

import asyncio
import os
import threading
from ssl import SSLContext
from types import TracebackType
from typing import Self

from seglog.kafka.listener import KafkaListener
from seglog.kafka.settings import KafkaSettings
from seglog.server.app import services_of
from seglog.server.services import DEFAULT_TOPIC, Services
from seglog.server.settings import Settings
from seglog.storage import MemoryStorage, Storage
from seglog.topic.broker import Broker

TICK_SECONDS = 0.1
STOP_SECONDS = 2.0


class KafkaBroker:
    """A broker that serves as long as the context lasts.

    Attributes:
        address: Where clients connect, "127.0.0.1:PORT"; a broker that is entered again has the same.
        broker: The topics and groups, to look at them without a client.
    """

    address: str
    broker: Broker
    _tls: SSLContext | None = None

    def __init__(
        self, root: str | os.PathLike[str] | Storage | None = None, *, port: int = 0, topic_partitions: int = 1
    ) -> None:
        """Describe a broker; `with` starts it.

        Args:
            root: A directory, or a Storage; None: in memory.
            port: The port; 0: any free one.
            topic_partitions: Partitions of a topic that a client creates by using it; 0: none is created.
        """
        self._root = MemoryStorage() if root is None else root
        self._settings = KafkaSettings(port=port, topic_partitions=topic_partitions)

    def __enter__(self) -> Self:
        """Start the broker. Raises the errors of `seglog.Broker`, and ConfigError if the port is in use."""
        self._listener = KafkaListener(self._settings)
        self._listener.bind()
        try:
            self._listener.listen()
            self._services = _services(self._root)
        except BaseException:
            self._listener.close()
            raise
        self.address, self.broker = self._listener.address, self._services.broker
        self._settings = KafkaSettings(
            port=int(self.address.rpartition(":")[2]), topic_partitions=self._settings.topic_partitions
        )
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="seglog-kafka", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Finish the running requests, sync, and stop."""
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        self._listener.close()
        self._services.close()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:  # ends what is left of requests
            runner.run(self._serve())

    async def _serve(self) -> None:
        await self._listener.start(self._services, self._tls)
        while not self._ending.is_set():
            self._services.appends.syncing.tick()
            try:
                async with asyncio.timeout(TICK_SECONDS):
                    await self._ending.wait()
            except TimeoutError:
                continue
        self._services.waiting.stop()
        await self._listener.stop(STOP_SECONDS)


def _services(root: str | os.PathLike[str] | Storage) -> Services:
    """Return the parts of a server, without the topic that a server creates for HTTP."""
    broker = Broker(root)
    try:
        is_new = DEFAULT_TOPIC not in broker.topics()
        services = services_of(broker, Settings())
        if is_new:
            broker.delete_topic(DEFAULT_TOPIC)
    except BaseException:
        broker.close()
        raise
    return services
