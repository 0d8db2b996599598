"""Object stores to archive to: in memory, a directory, and moto's S3 server, a process of its own."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import urllib.request
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.archive.urls import store_at
from tests import tools
from tests.conftest import unmeasured
from tests.waiting import until

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.archive.objects import ObjectStore

BUCKET = "logs"


@contextmanager
def served(command: list[str], secret: str, port: int | None = None) -> Iterator[str]:
    """Run a server; yield its address. Credentials and endpoint are in the environment meanwhile.

    port: None if it chooses one, and tells it in its first line.
    """
    patch = pytest.MonkeyPatch()
    with unmeasured():  # tracing would slow moto
        told = subprocess.PIPE if port is None else subprocess.DEVNULL
        server = subprocess.Popen(command, stdout=told, stderr=subprocess.DEVNULL)
    with server:
        try:
            if port is None:
                assert server.stdout is not None
                port = int(server.stdout.readline())
            address = f"http://127.0.0.1:{port}"
            for name, value in {
                "AWS_ENDPOINT_URL": address,
                "AWS_ACCESS_KEY_ID": "test",
                "AWS_SECRET_ACCESS_KEY": secret,
                "AWS_REGION": "us-east-1",
            }.items():
                patch.setenv(name, value)
            yield address
        finally:
            server.kill()
            patch.undo()


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Start moto's server and return its address."""
    with served([sys.executable, "-m", "tests.moto_server"], "test") as address:
        until(lambda: _make_bucket(address))
        yield address


@pytest.fixture
def versitygw(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start versitygw, which stores objects as synced files; `go install` puts it into ~/go/bin."""
    program = shutil.which("versitygw", path=f"{os.environ['PATH']}{os.pathsep}{Path.home() / 'go' / 'bin'}")
    if program is None:
        tools.forbidden("versitygw", "it is not installed")
    root, port = tmp_path_factory.mktemp("versitygw"), free_port()
    (root / BUCKET).mkdir()
    command = [program, "--port", f"127.0.0.1:{port}", "--access", "test", "--secret", "secret", "posix", str(root)]
    with served(command, "secret", port) as address:
        until(lambda: _answers(port))
        yield address


def _answers(port: int) -> bool:
    with suppress(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    return False


def _make_bucket(address: str) -> bool:
    request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT")  # noqa: S310 - http, our own server
    with suppress(OSError):
        urllib.request.urlopen(request, timeout=5).close()  # noqa: S310 - as above
        return True
    return False


@pytest.fixture(params=["memory", "file", "s3"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty archive, on every kind of store."""
    name = secrets.token_hex(6)
    if request.param == "s3":
        request.getfixturevalue("s3")
        return f"s3://{BUCKET}/{name}"
    return f"memory://{name}/prefix" if request.param == "memory" else f"file://{tmp_path}/archive-{name}"


@pytest.fixture
def place() -> str:
    """The URL of an empty archive in memory, for tests of what does not depend on the store."""
    return f"memory://{secrets.token_hex(6)}/prefix"


@pytest.fixture
def objects(url: str) -> ObjectStore:
    return store_at(url)


SMALL = seglog.LogConfig(segment_bytes=1024)


def filled(path: Path, count: int, *, first: int = 0) -> seglog.Log:
    """Open a log of small segments and append `count` records."""
    log = seglog.open(path, SMALL if first == 0 else None)
    for number in range(first, first + count):
        log.append(b"value %d" % number, key=b"k%d" % (number % 7), timestamp=1_000_000 * number)
    return log
