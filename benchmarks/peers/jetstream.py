"""NATS JetStream with file storage, and its Python client.

It keeps what it is given as our side does ("appended": written, not synced). What is timed ends when every record is
acknowledged, and what was stored is counted afterwards.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any

import nats
import uvloop
from nats.aio.msg import Msg
from nats.js.api import StreamConfig

from benchmarks.peers.tools import free_port, server
from benchmarks.timing import stopwatch

NATS_WINDOW = 5000  # acknowledgements that are waited for at a time


class Jetstream:
    """nats-server with nats-py on uvloop.

    `js.publish_async` makes a future of each acknowledgement and comes to 28,000 records/s; here all acknowledgements
    come to one subscription that counts them, which is 2.7 times as fast. A key is a header: JetStream has none.
    """

    name = "JetStream"

    def __init__(self, program: str, directory: Path) -> None:
        port = free_port()
        command = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", str(directory)]
        self._server = contextlib.ExitStack()
        self._server.enter_context(server(command, port, output=directory.with_suffix(".output")))
        self._runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
        self._connection = self._run(nats.connect(f"nats://127.0.0.1:{port}"))
        self._streams = self._connection.jetstream()
        self._acknowledged = 0
        self._wanted = 0
        self._there = asyncio.Event()
        self._inbox = self._connection.new_inbox()
        self._run(self._connection.subscribe(self._inbox, cb=self._count))

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._runner.run(work)

    async def _count(self, message: Msg) -> None:
        assert b'"error"' not in message.data, message.data
        self._acknowledged += 1
        if self._acknowledged == self._wanted:
            self._there.set()

    async def _fresh_stream(self) -> None:
        with contextlib.suppress(nats.js.errors.NotFoundError):
            await self._streams.delete_stream("bench")
        await self._streams.add_stream(StreamConfig(name="bench", subjects=["bench"]))  # file storage is its default

    def append_many(self, values: Sequence[bytes], keys: Sequence[bytes] | None) -> float:
        """See Peer."""
        return float(self._run(self._append_many(values, keys)))

    async def _append_many(self, values: Sequence[bytes], keys: Sequence[bytes] | None) -> float:
        await self._fresh_stream()
        headers = None if keys is None else [{"key": key.hex()[: len(key)]} for key in keys]
        publish, inbox = self._connection.publish, self._inbox
        with stopwatch() as watch:
            for start in range(0, len(values), NATS_WINDOW):
                window = values[start : start + NATS_WINDOW]
                self._there.clear()
                self._wanted = self._acknowledged + len(window)
                if headers is None:
                    for value in window:
                        await publish("bench", value, inbox)
                else:
                    for value, header in zip(window, headers[start : start + NATS_WINDOW], strict=True):
                        await publish("bench", value, inbox, header)
                await self._there.wait()
        stored = (await self._streams.stream_info("bench")).state.messages
        assert stored == len(values), stored
        return watch.seconds

    def append_singly(self, value: bytes, calls: int) -> list[float]:
        """See Peer."""
        found: list[float] = self._run(self._append_singly(value, calls))
        return found

    async def _append_singly(self, value: bytes, calls: int) -> list[float]:
        await self._fresh_stream()
        taken = []
        for _ in range(calls):
            begun = time.perf_counter()
            await self._streams.publish("bench", value)
            taken.append(time.perf_counter() - begun)
        return taken

    def read_all(self, records: int) -> float:
        """See Peer. An ordered push consumer: three times as fast as pulling in batches."""
        return float(self._run(self._read_all(records)))

    async def _read_all(self, records: int) -> float:
        seen, last = 0, asyncio.Event()

        async def take(_: Msg) -> None:
            nonlocal seen
            seen += 1
            if seen == records:
                last.set()

        with stopwatch() as watch:
            reading = await self._streams.subscribe("bench", cb=take, ordered_consumer=True)
            await last.wait()
        await reading.unsubscribe()
        return watch.seconds

    def close(self) -> None:
        """End the connection and the server."""
        self._run(self._connection.close())
        self._runner.close()
        self._server.close()
