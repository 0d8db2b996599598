"""What tests of the server share: servers with limits of their own, and requests as nobody's client would send them."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest

from tests import forked
from tests.forked import MEASURED, MEASURED_LATER
from tests.ports import kept_port
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAM = """
import json, os, sys
from pathlib import Path
from seglog.server.serving import serve
from seglog.server.settings import Limits, Settings
if "MEASURED" in os.environ:
    import coverage
    os.environ["COVERAGE_PROCESS_CONFIG"] = os.environ.pop("MEASURED")
    coverage.process_startup()
settings = json.loads(sys.argv[2])
paths = {name: Path(settings.pop(name)) for name in ("tokens", "certificate", "key", "spool") if name in settings}
limits = Limits(**settings.pop("limits", {}))
serve(sys.argv[1], Settings(**settings, **paths, limits=limits), lambda text: print(text, flush=True))
"""


class Server:
    """A real server process with settings that its command does not offer; fields of Settings, and limits."""

    def __init__(self, root: Path, limits: dict[str, Any], settings: dict[str, Any], wrapper: tuple[str, ...]) -> None:
        self.root = root
        self.settings = {"port": kept_port(self), **settings, "limits": limits}
        self._wrapper = wrapper
        self.start()

    def start(self) -> None:
        command = [*self._wrapper, sys.executable, "-c", PROGRAM, str(self.root), json.dumps(self.settings)]
        environment = dict(os.environ)
        if MEASURED in environment:  # from the end of the imports on, which `seglog serve` has as well
            environment[MEASURED_LATER] = environment.pop(MEASURED)
        self.process = forked.start(command, environment)
        said = []
        for line in self.process.stdout:
            said.append(line)
            if line.startswith("listening on "):
                self.url = line.split()[-1]
                self.port = int(self.url.rpartition(":")[2])
                self.settings["port"] = self.port
                return
        raise AssertionError("the server ended: " + "".join(said) + self.over())

    def stop(self) -> str:
        """End it as an operator does; return what it said."""
        self.process.terminate()
        return self.over()

    def kill(self) -> None:
        """End it as the kernel does."""
        self.process.kill()
        self.over()

    def over(self) -> str:
        return self.process.communicate(timeout=HANG_SECONDS)[0]

    def greatest_memory(self) -> int:
        """Return the most bytes that were ever resident."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmHWM:")[2].split()[0]) * 1024

    def client(self, **options: Any) -> httpx.Client:
        return httpx.Client(base_url=self.url, timeout=HANG_SECONDS, **options)

    @contextmanager
    def connection(self) -> Iterator[Wire]:
        """A connection on which any bytes can be sent."""
        with closing(socket.create_connection(("127.0.0.1", self.port), timeout=HANG_SECONDS)) as raw:
            yield Wire(raw)


class Wire:
    """One TCP connection, without a client's manners."""

    def __init__(self, raw: socket.socket) -> None:
        self.socket = raw

    def send(self, *parts: str | bytes) -> Wire:
        self.socket.sendall(b"".join(part.encode("latin-1") if isinstance(part, str) else part for part in parts))
        return self

    def try_to_send(self, data: bytes) -> None:
        """Send, if the server has not closed already."""
        with suppress(OSError):
            self.socket.sendall(data)

    def end(self) -> None:
        """Send nothing more."""
        with suppress(OSError):  # the server has closed already
            self.socket.shutdown(socket.SHUT_WR)

    def answers(self) -> bytes:
        """Return all that comes until the server closes; what a reset cuts off is what came before it."""
        came = b""
        try:
            while piece := self.socket.recv(65536):
                came += piece
        except ConnectionResetError:
            pass
        return came

    def answer(self) -> tuple[int, bytes]:
        """Return status and body of the next answer, which must have a length."""
        came = b""
        while b"\r\n\r\n" not in came:
            came += self._more(came)
        head, _, body = came.partition(b"\r\n\r\n")
        lengths = [line.split(b":")[1] for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while len(body) < int(lengths[0] if lengths else 0):
            body += self._more(body)
        return int(head.split()[1]), body

    def _more(self, came: bytes) -> bytes:
        piece = self.socket.recv(65536)
        assert piece, f"the server closed after {came!r}"
        return piece


class Servers:
    """Starts servers, each in a directory of its own unless one is named, and ends them all."""

    def __init__(self, directory: Callable[[str], Path]) -> None:
        self._directory = directory
        self._started: list[Server] = []

    def __call__(
        self,
        *,
        root: Path | None = None,
        limits: dict[str, Any] | None = None,
        wrapper: tuple[str, ...] = (),
        **settings: Any,
    ) -> Server:
        place = self._directory("served") / "root" if root is None else root
        self._started.append(Server(place, limits or {}, settings, wrapper))
        return self._started[-1]

    def end(self) -> None:
        for server in self._started:
            if server.process.poll() is None:
                server.stop()
            shutil.rmtree(server.root, ignore_errors=True)  # some are large


@pytest.fixture
def serve_with(tmp_path_factory: pytest.TempPathFactory, no_cover: None) -> Iterator[Servers]:
    """Start servers: serve_with(limits={"body_bytes": 10}, tokens=path); all are ended with the test."""
    servers = Servers(tmp_path_factory.mktemp)
    yield servers
    servers.end()


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module that leave no trace but in topics of their own."""
    servers = Servers(tmp_path_factory.mktemp)
    yield servers()
    servers.end()


@pytest.fixture
def http(shared: Server, no_cover: None) -> Iterator[httpx.Client]:
    """A client of the shared server."""
    with shared.client() as client:
        yield client


@pytest.fixture
def topic(http: httpx.Client) -> Callable[..., str]:
    """Make topics of the shared server: topic(partitions=2, **retention) -> a new name."""

    def make(partitions: int = 1, config: dict[str, Any] | None = None, **retention: Any) -> str:
        name = f"t-{uuid4().hex}"
        config = {**(config or {}), "retention": retention}
        answer = http.post("/topics", json={"name": name, "partitions": partitions, "config": config})
        assert answer.status_code == 201, answer.text
        return name

    return make
