"""What seglog is measured against, on the same machine with the same records and the same durability.

Servers keep streams behind a socket (`servers`, `kafka`), libraries keep files (`libraries`). Each is looked for, and
made once where it can be; seglog itself depends on none. One that cannot be had is skipped with a word.
"""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

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
    from benchmarks.peers.servers import Jetstream, RedisStreams  # noqa: PLC0415 - their clients, for this alone

    found: list[Peer] = []
    with contextlib.ExitStack() as started:
        for find, kind in ((tools.nats_server, Jetstream), (tools.redis_server, RedisStreams)):
            if (program := find()) is None:
                continue
            place = directory / kind.name
            place.mkdir()
            found.append(started.enter_context(contextlib.closing(kind(program, place))))
        yield found


def peer_versions() -> dict[str, str]:
    """Return the versions of the peers that are here."""
    found = {"sqlite3": sqlite3.sqlite_version, **versions(LIBRARIES)}
    for name in ("nats-server", "redis-server"):
        if (program := tools.program(name)) is not None:
            found[name] = tools.told_version([program, "--version"])
    for name in ("kafka", "spark-kafka"):
        for jar in (tools.CACHE / name).glob("kafka-tools-*.jar" if name == "kafka" else "spark-sql-kafka-*.jar"):
            found[name] = re.sub(r".*-(?=\d+\.\d+\.\d+)", "", jar.stem)
    return found
