"""What seglog is measured against, on the same machine with the same records and the same durability.

Servers keep streams behind a socket (`jetstream`, `redis_streams`, `kafka`), libraries keep files (`libraries`), those
of other languages in programs of their own (`logs`). Each is looked for, and made once where it can be; seglog itself
depends on none. One that cannot be had is skipped with a word.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

from benchmarks.machine import versions
from benchmarks.peers import tools

LIBRARIES = ("lmdb", "nats-py", "persist-queue", "redis")


class Peer(Protocol):
    """A server that keeps streams, empty ones. Rates in seconds for all records, latencies in seconds each."""

    name: str

    def append_many(self, values: Sequence[bytes], keys: Sequence[bytes] | None) -> float:
        """Append all as fast as it goes to a fresh stream; return the seconds."""
        ...

    def append_singly(self, value: bytes, calls: int) -> list[float]:
        """Append one record after another, each acknowledged before the next; return the seconds of each."""
        ...

    def read_all(self, records: int) -> float:
        """Read what the last `append_many` wrote; return the seconds."""
        ...


@contextmanager
def peers(directory: Path) -> Iterator[list[Peer]]:
    """Start the servers that can be had; say which cannot."""
    found: list[Peer] = []
    with contextlib.ExitStack() as started:
        for client, find, start in SERVERS:
            if tools.module(client) is None or (program := find()) is None:
                continue
            place = directory / client
            place.mkdir()
            try:
                found.append(started.enter_context(contextlib.closing(start(program, place))))
            except OSError as error:
                tools.skip(program, str(error))
        yield found


def _jetstream(program: str, directory: Path) -> Any:
    from benchmarks.peers.jetstream import Jetstream  # noqa: PLC0415 - its client may not be installed

    return Jetstream(program, directory)


def _redis_streams(program: str, directory: Path) -> Any:
    from benchmarks.peers.redis_streams import RedisStreams  # noqa: PLC0415 - as above

    return RedisStreams(program, directory)


SERVERS: tuple[tuple[str, Callable[[], str | None], Callable[[str, Path], Any]], ...] = (
    ("nats", tools.nats_server, _jetstream),
    ("redis", tools.redis_server, _redis_streams),
)
"""The module of a client, what finds the server's program, what starts it."""


def peer_versions() -> dict[str, str]:
    """Return the versions of the peers that are here."""
    found = {"sqlite3": sqlite3.sqlite_version, **versions(LIBRARIES)}
    for name in ("nats-server", "redis-server"):
        if (program := tools.program(name)) is not None:
            found[name] = tools.told_version([program, "--version"])
    for name in ("kafka", "spark-kafka"):
        for jar in (tools.CACHE / name).glob("kafka-tools-*.jar" if name == "kafka" else "spark-sql-kafka-*.jar"):
            found[name] = re.sub(r".*-(?=\d+\.\d+\.\d+)", "", jar.stem)
    for jar in (tools.CACHE / "chronicle").glob("chronicle-queue-*.jar"):
        found["chronicle-queue"] = jar.stem.removeprefix("chronicle-queue-")
    for folder, asked, name in (("raftwal", "go.mod", "raft-wal"), ("raftengine", "Cargo.toml", "raft-engine")):
        if stated := re.search(rf'{name}"? ?=? ?"?[=v]+([\d.]+)', (tools.BENCHMARKS / folder / asked).read_text()):
            found[name] = stated[1]
    return found
