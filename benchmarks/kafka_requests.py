"""Where the time of one Produce of Kafka goes, for batches of few and of many records of 100 B.

"ours" is `seglog serve --kafka`, called through a plain socket with one request after another, acks=1. The other sides
do less of the same: the request is answered in the process, without a connection; its records are appended to a log, as
Arrow. So a ratio of 0.5 is a path that takes half of the time.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path

import pyarrow as pa

import seglog
from benchmarks.data import keyed_table, record_bytes
from benchmarks.peers.tools import free_port, server
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_rounds, stopwatch
from seglog.client.client import Client
from seglog.format.cuts import Cuts
from seglog.kafka.dispatch import answer
from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.records.encode import MOST_BYTES, Room, encode
from seglog.kafka.requests.call import Sender
from seglog.kafka.wire.buffers import Writer
from seglog.server.rights.access import ANYBODY
from seglog.testing.kafka import KafkaBroker

RECORDS = (1, 15, 150, 5000)
VALUE_BYTES = 100
LONGEST_CALLS = 200_000  # records of one pass
TOPIC = "one"
PATHS = ("the same, without a connection", "Log.append_batch")
LENGTH = struct.Struct(">i")
VERSION = 8  # the last whose head and values have no tags


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure one Produce after another on one connection, unsynced, on every path."""
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaBroker(directory / "inside"))
        kafka.broker.create_topic(TOPIC, partitions=1)
        port = stack.enter_context(_serving(directory / "served"))
        log = stack.enter_context(seglog.open(directory / "log"))
        for records in RECORDS:
            table = keyed_table(VALUE_BYTES, records * record_bytes(VALUE_BYTES)).select(["value"])
            request, calls = _request(table), min(scale.calls // 50, LONGEST_CALLS // records)
            sides = (
                partial(_on_wire, port, request, calls),
                partial(_inside, kafka, request, calls),
                partial(_appended, log, table, calls),
            )
            ours, *others = in_rounds(sides, repeats=scale.repeats)
            for against, taken in zip(PATHS, others, strict=True):
                title = f"one Produce, {records} records"
                yield Figure(name=title, against=against, ours=ours, other=taken, work=calls, unit="call")


@contextmanager
def _serving(root: Path) -> Iterator[int]:
    """Serve a directory; yield the port for Kafka's clients."""
    http, kafka = free_port(), free_port()
    options = ["--port", str(http), "--kafka", f"127.0.0.1:{kafka}"]
    command = [sys.executable, "-m", "seglog", "serve", str(root), *options]
    with server(command, http, output=root.with_name(f"{root.name}-output")):
        with Client(f"http://127.0.0.1:{http}") as client:
            client.create_topic(TOPIC)
        yield kafka


def _request(table: pa.Table) -> bytes:
    """Return a Produce of these records, without its length."""
    with seglog.open(seglog.MemoryStorage()) as log:
        log.append_batch(table)
        [batch] = encode(log.view(), 0, log.next_offset, Cuts(), Room(MOST_BYTES, 1))
    target = Writer()
    target.number(2, PRODUCE.key)
    target.number(2, VERSION)
    target.number(4, 7)  # its number
    target.number(2, -1)  # no client id
    values = {
        "acks": 1,
        "timeout_ms": 30_000,
        "topic_data": [{"name": TOPIC, "partition_data": [{"index": 0, "records": batch.data}]}],
    }
    PRODUCE.request.write(target, values, PRODUCE.form(VERSION))
    return b"".join(bytes(part) for part in target.parts())


def _on_wire(port: int, request: bytes, calls: int) -> float:
    """Send the request and receive its response, time after time."""
    with closing(socket.create_connection(("127.0.0.1", port))) as wire:
        wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        data = LENGTH.pack(len(request)) + request
        with stopwatch() as watch:
            for _ in range(calls):
                wire.sendall(data)
                response = wire.recv(4096)
                while len(response) < LENGTH.size + LENGTH.unpack_from(response)[0]:
                    response += wire.recv(4096)
    _check(response[LENGTH.size :])
    return watch.seconds


def _inside(kafka: KafkaBroker, request: bytes, calls: int) -> float:
    """Answer the request in the event loop of a broker in this process."""
    parts = kafka._services.kafka._parts  # type: ignore[union-attr] # of its listener
    sender = Sender(("127.0.0.1", 0), "127.0.0.1", ANYBODY)

    async def answered() -> tuple[float, bytes]:
        with stopwatch() as watch:
            for _ in range(calls):
                call, response = await answer(parts, sender, memoryview(request), lambda: None, lambda: None)
                assert call is not None
                call.held.close()
        return watch.seconds, b"".join(bytes(part) for part in response)[LENGTH.size :]

    seconds, response = asyncio.run_coroutine_threadsafe(answered(), kafka._loop).result()
    _check(response)
    return seconds


def _check(response: bytes) -> None:
    """Fail unless the last response says that the records were appended."""
    error = response[4 + 4 + 2 + len(TOPIC) + 4 + 4 :][:2]
    assert error == bytes(2), response


def _appended(log: seglog.Log, table: pa.Table, calls: int) -> float:
    with stopwatch() as watch:
        for _ in range(calls):
            log.append_batch(table)
    return watch.seconds
