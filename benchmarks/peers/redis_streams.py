"""Redis streams with an append-only file, and its Python client.

They keep what they are given as our side does ("appended": written, not synced, unless said). What is timed ends when
every record is acknowledged, and what was stored is counted afterwards.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import redis

from benchmarks.peers.tools import free_port, server
from benchmarks.timing import stopwatch

REDIS_WINDOW = 1000  # commands in a pipeline
REDIS_PAGE = 10_000


class RedisStreams:
    """redis-server with appendonly, synced every second as is its default, and redis-py with pipelines of XADD."""

    name = "Redis"

    def __init__(self, program: str, directory: Path) -> None:
        port = free_port()
        command = [program, "--bind", "127.0.0.1", "--port", str(port), "--dir", str(directory), "--save", ""]
        self._server = contextlib.ExitStack()
        self._server.enter_context(
            server([*command, "--appendonly", "yes"], port, output=directory.with_suffix(".output"))
        )
        self._client = redis.Redis(port=port)

    def sync_always(self, always: bool) -> None:
        """Let every append be on the medium before it is answered, or as is the default."""
        self._client.config_set("appendfsync", "always" if always else "everysec")

    def append_many(self, values: Sequence[bytes], keys: Sequence[bytes] | None) -> float:
        """See Peer."""
        self._client.delete("bench")
        rows: list[tuple[bytes, ...]] = [(b"v", value) for value in values]
        if keys is not None:
            rows = [(b"k", key, *row) for key, row in zip(keys, rows, strict=True)]
        with stopwatch() as watch:
            for start in range(0, len(rows), REDIS_WINDOW):
                pipeline = self._client.pipeline(transaction=False)
                add: Any = pipeline.execute_command
                for row in rows[start : start + REDIS_WINDOW]:
                    add("XADD", "bench", "*", *row)
                pipeline.execute()
        stored = self._client.xlen("bench")
        assert stored == len(values), stored
        return watch.seconds

    def append_singly(self, value: bytes, calls: int) -> list[float]:
        """See Peer."""
        self._client.delete("bench")
        taken = []
        for _ in range(calls):
            begun = time.perf_counter()
            self._client.xadd("bench", {b"v": value})
            taken.append(time.perf_counter() - begun)
        return taken

    def read_all(self, records: int) -> float:
        """See Peer."""
        seen, begin = 0, b"-"
        with stopwatch() as watch:
            while seen < records:
                page: Any = self._client.xrange("bench", min=begin, count=REDIS_PAGE)
                seen += len(page)
                begin = b"(" + page[-1][0]
        return watch.seconds

    def close(self) -> None:
        """End the connection and the server."""
        self._client.close()
        self._server.close()
