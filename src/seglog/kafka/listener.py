"""Kafka's protocol beside HTTP: started and stopped by the server, in its event loop."""

from __future__ import annotations

import asyncio
import socket
from contextlib import suppress
from typing import TYPE_CHECKING

from seglog.kafka.connection import LOG, Connection
from seglog.kafka.groups.coordinator import Coordinator
from seglog.kafka.incoming import FIRST_BYTES
from seglog.kafka.overview import KafkaOverview
from seglog.kafka.producers.registry import Producers
from seglog.kafka.requests.call import Parts
from seglog.kafka.topic_ids import TopicIds
from seglog.kafka.transactions.transactions import Transactions
from seglog.server.beside import bound, listen
from seglog.server.http.handshakes import Handshakes
from seglog.server.runtime.repeated_warnings import RepeatedWarnings

if TYPE_CHECKING:
    from ssl import SSLContext

    from seglog.kafka.settings import KafkaSettings
    from seglog.server.services import Services

BACKLOG = 1024
TURNS = 3  # of the event loop, from accepting a connection until it is one of ours
MEMBERS_SHARE = 1 / 8
"""Of the server's memory: what the members of groups may hold, beside the budget that requests share."""
PRODUCERS_SHARE = 1 / 8
"""The same: what partitions remember of idempotent producers."""


class KafkaListener:
    """A listener for Kafka's clients; see `seglog.server.beside`."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._listener: socket.socket | None = None
        self._server: asyncio.Server | None = None
        self._connections: set[Connection] = set()
        self._coordinator: Coordinator | None = None
        self._handshakes: Handshakes | None = None
        self._transactions: Transactions | None = None

    def bind(self) -> None:
        """Take the address. Raises ConfigError if it cannot be used."""
        self._listener = bound(self._settings.host, self._settings.port, "--kafka")

    @property
    def address(self) -> str:
        """The address, host:port."""
        assert self._listener is not None  # noqa: S101 - bound before
        host = f"[{self._settings.host}]" if ":" in self._settings.host else self._settings.host
        return f"{host}:{self._listener.getsockname()[1]}"

    def listen(self) -> str:
        """Let clients connect, who wait until `start`; return what to show to the operator.

        Raises ConfigError if another listener has the address, such as that of HTTP.
        """
        assert self._listener is not None  # noqa: S101 - bound before
        listen(self._listener, BACKLOG, "--kafka or --port")
        return f"Kafka clients connect to {self.address}"

    async def start(self, services: Services, tls: SSLContext | None) -> None:
        """Accept connections."""
        assert self._listener is not None  # noqa: S101 - bound before
        most = int(services.settings.limits.memory_bytes * MEMBERS_SHARE)
        self._coordinator = Coordinator(services.broker.groups, services.groups, most)
        self._transactions = Transactions(services)
        await self._transactions.start()
        producers = Producers(services.scans, int(services.settings.limits.memory_bytes * PRODUCERS_SHARE))
        ids = TopicIds(services.broker)
        parts = Parts(services, self._settings, self._coordinator, producers, self._transactions, ids)
        services.kafka = KafkaOverview(parts, lambda: [one.sender for one in self._connections], self.address)

        shared, warnings = bytearray(FIRST_BYTES), RepeatedWarnings(LOG)

        def connection() -> Connection:
            return Connection(parts, self._connections, shared, warnings)

        self._handshakes = None if tls is None else Handshakes(tls, connection)
        self._server = await asyncio.get_running_loop().create_server(
            self._handshakes or connection, sock=self._listener, backlog=BACKLOG
        )

    async def stop(self, seconds: float) -> None:
        """Accept nothing more, and close the connections after their responses, at the latest in `seconds`."""
        if self._server is None:
            return
        await self._accept_no_more()
        self._server.close()
        if self._handshakes is not None:
            self._handshakes.abort()
        if self._coordinator is not None:
            self._coordinator.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._end_connections()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)  # asyncio closes their sockets in its next turn
        if self._transactions is not None:
            await self._transactions.stop()

    async def _accept_no_more(self) -> None:
        """Let connections that were just accepted be made: asyncio loses their sockets if its server is closed first.

        uvloop does not, and has no reader to remove.
        """
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener.fileno())
        for _ in range(TURNS):
            await asyncio.sleep(0)

    async def _end_connections(self) -> None:
        """Close the connections after their responses, also those that were accepted just before."""
        while True:
            for connection in list(self._connections):
                connection.close()
            await asyncio.sleep(0.01)
            if not self._connections:
                return

    def close(self) -> None:
        """Release the address."""
        if self._listener is not None:
            self._listener.close()
