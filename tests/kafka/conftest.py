"""What tests of Kafka's protocol share: one server for topics of their own, and bytes as no client sends them."""

from __future__ import annotations

import re
import socket
import struct
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from seglog.client import Client
from seglog.kafka.wire.buffers import Reader, Writer
from tests.conftest import Served
from tests.ports import kept_port
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path
    from typing import Any

    from seglog.kafka.wire.schema import Api


class KafkaServer(Served):
    """A real `seglog serve --kafka` process; after a restart it has the same addresses."""

    def __init__(self, root: Path, options: Sequence[str] = ()) -> None:
        self.kafka_port = kept_port(self)
        self._given = options
        super().__init__(root, ())

    def start(self) -> None:
        self._options = ("--kafka", f"127.0.0.1:{self.kafka_port}", *self._given)
        super().start()
        found = next(
            re.search(r"Kafka clients connect to .*:(\d+)", line) for line in reversed(self.said) if "Kafka" in line
        )
        self.kafka_port = int(found[1])

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.kafka_port}"

    @contextmanager
    def connection(self) -> Iterator[Raw]:
        with connected(self.address) as raw:
            yield raw


def body_of(api: Api, version: int, values: dict[str, Any]) -> bytes:
    """Return a request without its head."""
    target = Writer()
    api.request.write(target, values, api.form(version))
    return b"".join(bytes(part) for part in target.parts())


class Raw:
    """One connection on which any bytes can be sent."""

    def __init__(self, opened: socket.socket) -> None:
        self.socket = opened

    def request(self, key: int, version: int, body: bytes, correlation: int = 7) -> None:
        data = struct.pack(">hhih", key, version, correlation, -1) + body
        self.socket.sendall(struct.pack(">i", len(data)) + data)

    def send(self, api: Api, version: int, values: dict[str, Any], correlation: int = 7) -> None:
        """Send a request with these values."""
        tags = bytes(api.form(version).flexible)  # the head has none
        self.request(api.key, version, tags + body_of(api, version, values), correlation)

    def ask(self, api: Api, version: int, values: dict[str, Any]) -> dict[str, Any]:
        """Send a request; return the values of the response. Not for flexible versions of ApiVersions."""
        self.send(api, version, values)
        form = api.form(version)
        found: dict[str, Any] = api.response.read(Reader(self.response()[4 + form.flexible :]), form)
        return found

    def response(self) -> bytes:
        """Return the next response without its length; b"" if the server has closed."""
        head = self.bytes(4)
        return self.bytes(struct.unpack(">i", head)[0]) if head else b""

    def bytes(self, size: int) -> bytes:
        found = b""
        while len(found) < size:
            try:
                piece = self.socket.recv(min(size - len(found), 65536))
            except ConnectionResetError:
                return b""
            if not piece:
                return b""
            found += piece
        return found


@contextmanager
def connected(address: str) -> Iterator[Raw]:
    """Give a connection to a broker, host:port."""
    host, port = address.rsplit(":", 1)
    with closing(socket.create_connection((host, int(port)), timeout=HANG_SECONDS)) as opened:
        yield Raw(opened)


@pytest.fixture(scope="session")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[KafkaServer]:
    """One server for all tests that use topics and groups of their own."""
    server = KafkaServer(tmp_path_factory.mktemp("kafka") / "root")
    yield server
    server.stop()


@pytest.fixture
def own_kafka(tmp_path: Path, no_cover: None) -> Iterator[Callable[..., KafkaServer]]:
    """Start servers: own_kafka("--tokens", "file", ...); all are ended with the test."""
    started: list[KafkaServer] = []

    def start(*options: str) -> KafkaServer:
        started.append(KafkaServer(tmp_path / f"root{len(started)}", options))
        return started[-1]

    yield start
    for server in started:
        if server.process.poll() is None:
            server.stop()


@pytest.fixture
def name(no_cover: None) -> str:
    """A new name for a topic or a group."""
    return f"t-{uuid4().hex}"


@pytest.fixture
def topic(kafka: KafkaServer, name: str) -> str:
    """A new topic with two partitions."""
    with Client(kafka.url) as http:
        http.create_topic(name, partitions=2)
    return name
