"""Object stores to archive to: in memory, a directory, and moto's S3 server, a process of its own."""

from __future__ import annotations

import secrets
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog.archive.urls import store_at

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from seglog.archive.objects import ObjectStore

BUCKET = "logs"


@pytest.fixture(scope="session")
def s3() -> Iterator[str]:
    """Start moto's server and return its address; credentials and endpoint are in the environment meanwhile."""
    pytest.importorskip("obstore")
    pytest.importorskip("moto")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    address = f"http://127.0.0.1:{port}"
    patch = pytest.MonkeyPatch()
    for name, value in {
        "AWS_ENDPOINT_URL": address,
        "AWS_ACCESS_KEY_ID": "test",
        "AWS_SECRET_ACCESS_KEY": "test",
        "AWS_REGION": "us-east-1",
    }.items():
        patch.setenv(name, value)
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as server:
        try:
            deadline = time.monotonic() + 30
            while not _make_bucket(address):
                assert time.monotonic() < deadline, "moto's server does not answer"
                time.sleep(0.02)
            yield address
        finally:
            server.kill()
            patch.undo()


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
