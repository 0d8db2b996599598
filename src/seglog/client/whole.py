"""Records with complete values: the server cuts long ones in JSON and sends them whole on request. No I/O."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from seglog.client import calls
from seglog.client.flows import retrying
from seglog.record import Cut

if TYPE_CHECKING:
    from seglog.client.call import Flow
    from seglog.client.flows import Retries
    from seglog.record import Record


def read(topic: str, partition: int, offset: int, retries: Retries) -> Flow[Record]:
    """Read one record."""
    record = yield from retrying(calls.read(topic, partition, offset), retries)
    return (yield from _whole(topic, partition, record, retries))


def with_key(topic: str, key: bytes, max_records: int, retries: Retries) -> Flow[list[Record]]:
    """Read the last records of a key, newest last."""
    found = yield from retrying(calls.with_key(topic, key, max_records), retries)
    records = []
    for partition, record in found:
        records.append((yield from _whole(topic, partition, record, retries)))
    return records


def _whole(topic: str, partition: int, record: Record, retries: Retries) -> Generator[Any, Any, Record]:
    if not isinstance(record.value, Cut):
        return record
    value = yield from retrying(calls.value(topic, partition, record.offset), retries)
    return record._replace(value=value)
