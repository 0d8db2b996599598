"""A damaged file of a committed transaction: verified, repaired and opened, all or nothing of it is published."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from unittest import mock

import pyarrow as pa

from seglog import Broker, MemoryStorage
from seglog.errors import SeglogError
from seglog.storage import Subdirectory
from seglog.topic.broker import transactions_of
from seglog.topic.repair import journals, repair_place, verify_place
from seglog.topic.transactions.journal import Batch
from tests.fuzz.choices import Choices, mangled

if TYPE_CHECKING:
    from collections.abc import Iterator

TRIED = 64  # bytes of a frame in which each bit is tried: for the longest it takes a second
VALUES = {"a": [b"1", b"2"], "b": [b"3"]}


def seeds() -> Iterator[bytes]:
    yield b""
    for number in range(24):
        yield bytes([number % 3, number * 10, 1, number % 8, number, 1, 2, 3, number % 2, number % 2])


def _committed(storage: MemoryStorage) -> str:
    """Leave a transaction that is committed and not published; return the name of its file."""
    with Broker(storage) as broker:
        journal = transactions_of(broker).begin({"id": "x"})
        for name, values in VALUES.items():
            batch = Batch(name, broker.create_topic(name).id, 0, f"x {name}", len(values), {})
            transactions_of(broker).stage(journal, batch, pa.record_batch({"value": pa.array(values)}))
        transactions_of(broker).stage_offsets(journal, "g", {("a", 0): (0, "")})
        transactions_of(broker).decide(journal)
        return journal.name


def target(data: bytes) -> None:
    with mock.patch.object(journals, "TRIED_BIT_BY_BIT", TRIED):
        _look_after(data)


def _look_after(data: bytes) -> None:
    choices = Choices(data)
    storage = MemoryStorage()
    name = _committed(storage)
    place = Subdirectory(storage, ".transactions")
    file = place.open(name, writable=True)
    sound = file.pread(file.size(), 0)
    harmed = sound
    for _ in range(choices.below(3)):
        harmed = mangled(harmed, choices)
    file.truncate(0)
    file.pwrite(harmed, 0)
    if choices.flag():
        place.rename(name, name.replace(".txn", ".damaged"))
    told = verify_place(storage)
    assert harmed != sound or told.ok or place.identity(name) is None
    if choices.flag():
        repair_place(storage)
        assert verify_place(storage).problems == []
    with suppress(SeglogError), Broker(storage) as broker:
        for topic, values in VALUES.items():
            found = [record.value for record in broker.topic(topic).partition(0).scan()]
            assert found in ([], values), found
