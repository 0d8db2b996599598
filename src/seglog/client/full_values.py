"""Records with all of their values, however long: the server cuts long ones in JSON, and has no room for very long ones
in Arrow, so these are fetched alone. No I/O.
"""

from __future__ import annotations

import json
from collections.abc import Generator, Mapping
from typing import Any

from seglog.client.models import Fetched, Page
from seglog.client.requests import topic_calls
from seglog.client.requests.call import Call, Flow
from seglog.client.retrying import Retries, retrying
from seglog.config import Expose
from seglog.errors import OffsetError, RecordTooLarge, SnapshotExpired
from seglog.record import Cut, Record


def read(topic: str, partition: int, offset: int, retries: Retries, expose: Expose = "appended") -> Flow[Record]:
    """Read one record."""
    record = yield from retrying(topic_calls.read(topic, partition, offset, expose), retries)
    return (yield from _whole(topic, partition, record, retries))


def with_key(
    topic: str, key: bytes, max_records: int, retries: Retries, expose: Expose = "appended"
) -> Flow[list[tuple[int, Record]]]:
    """Read the last records of a key, newest last, each with its partition."""
    found = yield from retrying(topic_calls.with_key(topic, key, max_records, expose), retries)
    records = []
    for partition, record in found:
        records.append((partition, (yield from _whole(topic, partition, record, retries))))
    return records


def _whole(topic: str, partition: int, record: Record, retries: Retries) -> Generator[Any, Any, Record]:
    if not isinstance(record.value, Cut):
        return record
    value = yield from retrying(topic_calls.value(topic, partition, record.offset), retries)
    return record._replace(value=value)


def page(
    topic: str,
    partition: int,
    start: int,
    stop: int,
    max_records: int,
    max_bytes: int,
    retries: Retries,
    expose: Expose,
    snapshot: str,
) -> Flow[Page]:
    """Read a page of a range; of the one record if the server has no room for it in Arrow.

    Raises SnapshotExpired if that record is gone: the server keeps a range for its pages, not for single records.
    """
    try:
        limits = {"max_records": max_records, "max_bytes": max_bytes}
        call = topic_calls.read_range(topic, partition, start, stop, **limits, expose=expose, snapshot=snapshot)
        return (yield from retrying(call, retries))
    except RecordTooLarge as error:
        if getattr(error, "offset", None) is None:  # not of this kind
            raise
    from seglog.client import arrow  # noqa: PLC0415 - pyarrow loads when it is needed

    record, read = yield from retrying(topic_calls.read_line(topic, partition, start, stop, snapshot), retries)
    try:
        batch = arrow.batch_of_record((yield from _whole(topic, partition, record, retries)))
        now = (yield from retrying(topic_calls.states(topic), retries))[partition]
    except (OffsetError, KeyError) as gone:
        raise SnapshotExpired(record.offset, stop, f"partition {partition} of topic {topic!r}") from gone
    if (now.log, now.epoch) != (read.log, read.epoch):  # the value may be that of another record
        raise SnapshotExpired(record.offset, stop, f"partition {partition} of topic {topic!r}")
    return read._replace(batches=[batch], size=batch.nbytes)


def fetched(call: Call[Fetched], positions: Mapping[str, Mapping[int, int]], retries: Retries) -> Flow[Fetched]:
    """Fetch from several partitions; from the one alone of which a record has no room in Arrow."""
    try:
        return (yield from retrying(call, retries))
    except RecordTooLarge as error:
        topic, number = getattr(error, "topic", None), getattr(error, "partition", None)
        if not (isinstance(topic, str) and isinstance(number, int)):
            raise
    from seglog.client import arrow  # noqa: PLC0415 - pyarrow loads when it is needed

    one = {topic: {number: positions[topic][number]}}
    found = yield from retrying(
        topic_calls.fetch(one, max_records=1, max_bytes=1, wait=0, accept=topic_calls.NDJSON), retries
    )
    reached = {name: {**of} for name, of in positions.items()}
    reached[topic][number] = found.next_offsets[topic][number]
    record = topic_calls.record_of(json.loads(bytes(found.body)))
    body = arrow.placed_stream(topic, number, (yield from _whole(topic, number, record, retries)))
    return found._replace(body=body, next_offsets=reached)
