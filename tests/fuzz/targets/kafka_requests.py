"""What a server of Kafka's protocol makes of requests: a response that a client can read, or a closed connection."""

from __future__ import annotations

import asyncio
import atexit
import logging
from contextlib import suppress
from functools import cache
from typing import TYPE_CHECKING, Any

from seglog import Broker, MemoryStorage
from seglog.errors import SeglogError
from seglog.kafka.dispatch import answer
from seglog.kafka.groups.coordinator import Coordinator
from seglog.kafka.producers.registry import Producers
from seglog.kafka.requests.call import Parts, Sender
from seglog.kafka.requests.catalog import CATALOG
from seglog.kafka.settings import KafkaSettings
from seglog.kafka.topic_ids import TopicIds
from seglog.kafka.transactions.transactions import Transactions
from seglog.kafka.wire.buffers import Reader, Writer
from seglog.kafka.wire.schema import Api, Array, Bool, Data, Field, Form, Identity, Kind, Maybe, Number, Struct, Text
from seglog.server.app import services_of
from seglog.server.rights.access import ANYBODY
from seglog.server.settings import Limits, Settings
from tests.fuzz.choices import Choices, mangled
from tests.fuzz.targets.kafka_batches import BATCH

if TYPE_CHECKING:
    from collections.abc import Iterator

APIS = [known.api for known in CATALOG.values()]
SECONDS = 0.2  # of waiting for other members of a group, then the client goes away
NAMES = ("t", "g", "", "default", "consumer", "range", "retention.ms", "5000", "a b")
NUMBERS = (0, 1, -1, -2, 100, 2**31 - 1)


def seeds() -> Iterator[bytes]:
    for number in range(len(APIS)):
        for version in range(15):
            yield bytes([number, version, *([version] * 40)])


MEMBERS_BYTES = 1_000_000


@cache
def _server() -> tuple[asyncio.AbstractEventLoop, Parts]:
    logger = logging.getLogger("seglog.kafka")  # only this one: `make test` runs the target among other tests
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    loop = asyncio.new_event_loop()
    atexit.register(loop.close)
    limits = Limits(wait_seconds=0.01, partitions=3, groups=20, batch_bytes=1_000_000)

    async def start() -> Parts:
        services = services_of(Broker(MemoryStorage()), Settings(limits=limits))
        coordinator = Coordinator(services.broker.groups, services.groups, MEMBERS_BYTES)
        transactions = Transactions(services)
        await transactions.start()
        producers = Producers(services.scans, 1_000_000)
        return Parts(services, KafkaSettings(), coordinator, producers, transactions, TopicIds(services.broker))

    return loop, loop.run_until_complete(start())


def target(data: bytes) -> None:
    choices = Choices(data)
    api = choices.of(APIS)
    form = api.form(choices.of(list(api.versions)))
    target = Writer()
    for size, value in ((2, api.key), (2, form.version), (4, 7), (2, -1)):
        target.number(size, value)
    if form.flexible:
        target.varint(0)
    api.request.write(target, _values(api.request, form, choices), form)
    request = b"".join(bytes(part) for part in target.parts())
    if choices.below(3) == 1:
        request = mangled(request, choices)
    loop, parts = _server()
    loop.run_until_complete(_ask(parts, api, form, request))


async def _ask(parts: Parts, api: Api, form: Form, request: bytes) -> None:
    sender = Sender(("127.0.0.1", 9092), "127.0.0.1", ANYBODY)
    with suppress(SeglogError, TimeoutError):
        async with asyncio.timeout(SECONDS):
            call, response = await answer(parts, sender, memoryview(bytearray(request)), lambda: None, lambda: None)
            if call is not None:
                call.held.close()
            if (
                response
                and call is not None
                and (call.version, request[:2]) == (form.version, api.key.to_bytes(2, "big"))
            ):
                source = Reader(b"".join(bytes(part) for part in response), 4)
                source.number(4)
                if form.flexible and api.name != "ApiVersions":
                    source.varint()
                api.response.read(source, form)
                assert not source.left
    assert not any(parts.services.memory.held.values()), parts.services.memory.held


def _values(kind: Kind, form: Form, choices: Choices, field: Field | None = None) -> Any:
    if isinstance(kind, Struct):
        return {one.name: _values(one.kind, form, choices, one) for one in kind.fields if one.is_in(form.version)}
    if isinstance(kind, Maybe):
        return _values(kind.of, form, choices) if choices.flag() else None
    if isinstance(kind, Array):
        if kind.nullable and form.version >= kind.nullable_since and choices.below(8) == 1:
            return None
        return [_values(kind.of, form, choices, field) for _ in range(1 + choices.below(2))]
    if isinstance(kind, Text):
        return choices.of(NAMES) if choices.below(4) else choices.text(20)
    if isinstance(kind, Data):
        return BATCH if field is not None and field.name == "records" and choices.below(4) else choices.some(40)
    return _plain(kind, choices)


def _plain(kind: Kind, choices: Choices) -> Any:
    if isinstance(kind, Identity):
        return choices.some(16).ljust(16, b"\0").hex()
    if isinstance(kind, Bool):
        return choices.flag()
    assert isinstance(kind, Number)
    limit = 1 << (8 * kind.least - 1)
    return max(min(choices.of(NUMBERS), limit - 1), -limit)
