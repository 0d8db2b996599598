"""Requests that real clients have sent to a broker, changed: a response that a client can read, or a closed connection.

An input is a session: one request after another, each after its length (u32), as on a connection. It is replayed on a
broker of its own, whose ids are predictable, so an unchanged session gets the answers that its client got.
`python -m tests.fuzz.record` writes the sessions, corpus/kafka_sessions.txt.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import struct
from contextlib import contextmanager, suppress
from functools import cache
from time import monotonic
from types import SimpleNamespace
from typing import TYPE_CHECKING

from seglog import Broker, MemoryStorage
from seglog.errors import SeglogError
from seglog.kafka.dispatch import answer
from seglog.kafka.groups import group
from seglog.kafka.groups.coordinator import Coordinator
from seglog.kafka.messages.core import API_VERSIONS
from seglog.kafka.producers import registry
from seglog.kafka.producers.registry import Producers
from seglog.kafka.requests.call import Parts, Sender
from seglog.kafka.requests.catalog import CATALOG
from seglog.kafka.requests.read_ahead import forget_ahead
from seglog.kafka.settings import KafkaSettings
from seglog.kafka.topic_ids import TopicIds
from seglog.kafka.transactions.transactions import Transactions
from seglog.kafka.wire.buffers import Reader
from seglog.server.app import services_of
from seglog.server.rights.access import ANYBODY
from seglog.server.settings import Limits, Settings
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.server.runtime.memory import Memory

LONGEST = 16 * 1024
LENGTH = struct.Struct(">I")
SECONDS = 0.2  # of waiting for other members of a group, then the client goes away
LIMITS = Limits(wait_seconds=0.005, partitions=3, groups=20, batch_bytes=1_000_000, memory_bytes=32 * 1024 * 1024)


def seeds() -> Iterator[bytes]:
    yield b""
    yield joined([struct.pack(">hhih", API_VERSIONS.key, 0, 1, -1)])


def joined(requests: list[bytes]) -> bytes:
    """Return requests as an input."""
    return b"".join(LENGTH.pack(len(one)) + one for one in requests)


def split(data: bytes) -> Iterator[bytes]:
    """Yield the requests of an input; the last one may be cut."""
    at = 0
    while at + LENGTH.size <= len(data):
        start = at + LENGTH.size
        at = start + LENGTH.unpack_from(data, at)[0]
        yield data[start:at]


@contextmanager
def predictable() -> Iterator[None]:
    """Let producers and members have the ids 1, 2, 3, ..., and groups wait for nobody."""
    numbers = itertools.count(1)
    before = registry.secrets, group.secrets, group.FIRST_SECONDS
    counted = SimpleNamespace(
        randbits=lambda _bits: next(numbers), token_hex=lambda size: f"{next(numbers):0{2 * size}x}"
    )
    registry.secrets, group.secrets, group.FIRST_SECONDS = counted, counted, 0.0  # type: ignore[attr-defined,assignment] # modules
    try:
        yield
    finally:
        registry.secrets, group.secrets, group.FIRST_SECONDS = before  # type: ignore[attr-defined] # as above


@cache
def _loop() -> asyncio.AbstractEventLoop:
    logger = logging.getLogger("seglog.kafka")
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return asyncio.new_event_loop()


def target(data: bytes) -> None:
    with predictable():
        _loop().run_until_complete(_replay([*split(data)]))


async def _replay(requests: list[bytes]) -> None:
    services = services_of(Broker(MemoryStorage()), Settings(limits=LIMITS))
    coordinator = Coordinator(services.broker.groups, services.groups, LIMITS.memory_bytes // 8)
    transactions = Transactions(services)
    await transactions.start()
    producers = Producers(services.scans, 1_000_000)
    parts = Parts(services, KafkaSettings(), coordinator, producers, transactions, TopicIds(services.broker))
    sender = Sender(("127.0.0.1", 9092), "127.0.0.1", ANYBODY)
    try:
        for one in requests:
            await _ask(parts, sender, one)
        forget_ahead(sender)
        await _until_released(services.memory)
    finally:
        coordinator.close()
        services.waiting.stop()
        await transactions.stop()
        services.close()


async def _until_released(memory: Memory) -> None:
    """Wait for threads that still read for a request that has been given up; they release its memory."""
    ends = monotonic() + HANG_SECONDS
    while any(memory.held.values()):
        assert monotonic() < ends, memory.held
        await asyncio.sleep(0.001)


async def _ask(parts: Parts, sender: Sender, request: bytes) -> None:
    with suppress(SeglogError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            call, response = await answer(parts, sender, memoryview(bytearray(request)), lambda: None, lambda: None)
            if call is None:
                return
            call.held.close()
            if response:
                api = CATALOG[int.from_bytes(request[:2], "big")].api
                form = api.form(call.version)
                source = Reader(b"".join(bytes(part) for part in response), 4)
                source.number(4)
                if form.flexible and api is not API_VERSIONS:
                    source.varint()
                api.response.read(source, form)
                assert not source.left
