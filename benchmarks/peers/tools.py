"""Finding what peers are made of, or making it once below `.bench/`, and starting servers. Knows no peer's protocol.

What cannot be had is skipped with a line that says why; nothing is fetched where it is installed.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BENCHMARKS = Path(__file__).parent.parent
CACHE = BENCHMARKS.parent / ".bench"
START_SECONDS = 120.0
FETCH_SECONDS = 600.0
STOP_SECONDS = 20.0
LOOK_AGAIN_SECONDS = 0.02

NATS = "github.com/nats-io/nats-server/v2@v2.15.2"


def skip(what: str, why: str) -> None:
    """Say that something is not measured."""
    print(f"({what}: skipped, {why})", flush=True)


def module(name: str) -> Any:
    """Return a module that the extra `bench` installs; None, with a word, where it is not."""
    try:
        return importlib.import_module(name)
    except ImportError:
        skip(name, "it is not installed")
        return None


def program(name: str) -> str | None:
    """Return the path of a program, installed or made here before; None where there is none."""
    return shutil.which(name) or shutil.which(name, path=CACHE / "bin")


def nats_server() -> str | None:
    """Return the path of nats-server, built with Go where it is not installed; None, with a word, where neither is."""
    name = "nats-server"
    if (found := program(name)) is not None:
        return found
    if (go := shutil.which("go")) is None:
        skip(name, "neither it nor Go is installed")
        return None
    _fetch(name, [go, "install", NATS], {"GOBIN": str(CACHE / "bin")})
    return program(name)


def redis_server() -> str | None:
    """Return the path of redis-server; None, with a word, where it is not installed."""
    found = program("redis-server")
    if found is None:
        skip("redis-server", "it is not installed")
    return found


def jars(name: str, project: str, *settings: str) -> Path | None:
    """Return the directory of the jars that a pom below benchmarks/ asks for, copied there by Maven if need be."""
    target = CACHE / name
    if target.is_dir():
        return target
    if (maven := shutil.which("mvn")) is None:
        skip(name, "its jars are not in .bench/ and Maven is not installed")
        return None
    growing = CACHE / f"{name}.growing"
    command = [maven, "-q", "-B", "-f", str(BENCHMARKS / project), "dependency:copy-dependencies"]
    if _fetch(name, [*command, "-DincludeScope=runtime", f"-DoutputDirectory={growing}", *settings], {}):
        growing.rename(target)  # whole, or not there
        return target
    return None


def made(name: str, command: Sequence[str], environment: dict[str, str], directory: Path) -> bool:
    """Build a program where its sources are; say so, and whether it could be."""
    print(f"({name}: built, once)", flush=True)
    try:
        subprocess.run(command, cwd=directory, env=environment, check=True, timeout=FETCH_SECONDS, capture_output=True)
    except (OSError, subprocess.SubprocessError):
        skip(name, f"{Path(command[0]).name} could not build it")
        return False
    return True


def _fetch(name: str, command: Sequence[str], environment: dict[str, str]) -> bool:
    print(f"({name}: fetched into .bench/, once)", flush=True)
    CACHE.mkdir(exist_ok=True)
    try:
        subprocess.run(
            command, env={**os.environ, **environment}, check=True, timeout=FETCH_SECONDS, capture_output=True
        )
    except (OSError, subprocess.SubprocessError):
        skip(name, f"{Path(command[0]).name} could not fetch it")
        return False
    return True


def told_version(command: Sequence[str]) -> str:
    """Return the version that a program tells of itself, "" where it tells none."""
    said = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    found = re.search(r"\d+\.\d+(\.\d+)?", said)
    return found[0] if found else ""


def free_port() -> int:
    """Return a port of this machine that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def server(command: Sequence[str], port: int, *, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Start a server and wait until it listens; end it afterwards. OSError where it does not; output: what it says."""
    with output.open("wb") as said, subprocess.Popen(command, stdout=said, stderr=said) as process:
        try:
            _wait(process, port)
            yield process
        finally:
            end(process)


def end(process: subprocess.Popen[Any]) -> None:
    """End a process that was started here: asked first, then made to."""
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()


def _wait(process: subprocess.Popen[bytes], port: int) -> None:
    ends = time.monotonic() + START_SECONDS
    while process.poll() is None and time.monotonic() < ends:
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        time.sleep(LOOK_AGAIN_SECONDS)
    raise OSError(f"{process.args!r}: does not listen")
