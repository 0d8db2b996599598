"""Requests that append: one record, a streamed record, a batch. In the style of `calls`."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from seglog.client.requests.call import Answer, Call
from seglog.client.requests.topic_calls import (
    ARROW,
    NDJSON,
    body_of,
    fields,
    json_body,
    target,
    time_query,
    topic_path,
)
from seglog.errors import InvalidArgument
from seglog.format.codec import encode_headers
from seglog.format.lines import encode_bytes
from seglog.record import (
    Header,
    Headers,
    Record,
    Timestamp,
    checked_bytes,
    checked_headers,
    checked_key,
    checked_offset,
    checked_timestamp,
)

if TYPE_CHECKING:
    from seglog.client.requests.topic_calls import Acknowledgement
    from seglog.client.upload import Upload

_OCTETS = b"application/octet-stream"
_LONG_HEAD = 16 * 1024


def append(
    name: str,
    value: bytes | None,
    *,
    key: bytes | None,
    timestamp: Timestamp | None,
    force_timestamp: bool,
    headers: Iterable[Header],
    partition: int | None,
    expected_offset: int | None,
    once: str,
    ack: Acknowledgement,
) -> Call[tuple[int, int]]:
    """Append one record, its value as the body; a key or headers too long for a head go as a batch of one."""
    key, settled = checked_key(key), _settled(headers)
    moment = None if timestamp is None else checked_timestamp(timestamp, force_timestamp=force_timestamp)
    value = None if value is None else checked_bytes(value, "value")
    if (settled and not _fit_the_head(settled)) or (key is not None and len(key) > _LONG_HEAD):
        if expected_offset is not None:
            raise InvalidArgument("expected_offset cannot be combined with such a long key or headers over HTTP")
        return _batch_of_one(name, Record(0, moment or 0, key, value, settled), moment, partition, once, ack)
    query = _append_query(key, moment, settled, partition, expected_offset, ack)
    if value is None:
        query["tombstone"] = "true"
    head = fields(content=_OCTETS, once=once)
    path = target(topic_path(name, "/records"), query)
    return Call("POST", path, _place, value or b"", head, wait=ack.patience)


def append_stream(
    name: str,
    body: Upload,
    *,
    key: bytes | None,
    timestamp: Timestamp | None,
    force_timestamp: bool,
    headers: Iterable[Header],
    partition: int | None,
    once: str,
    ack: Acknowledgement,
) -> Call[tuple[int, int]]:
    """Append one record with a streamed value."""
    key, settled = checked_key(key), _settled(headers)
    moment = None if timestamp is None else checked_timestamp(timestamp, force_timestamp=force_timestamp)
    if not _fit_the_head(settled) or (key is not None and len(key) > _LONG_HEAD):
        raise InvalidArgument(
            "the key or headers are too long for a streamed request; make them shorter, or use append"
        )
    query = _append_query(key, moment, settled, partition, None, ack)
    path = target(topic_path(name, "/records"), query)
    head = fields(content=_OCTETS, once=once)
    return Call("POST", path, _place, body, head, repeatable=body.again, wait=ack.patience)


def append_batch(
    name: str,
    body: bytes | memoryview,
    *,
    partition: int | None,
    once: str,
    ack: Acknowledgement,
    content: str = ARROW,
    forced: object = None,
) -> Call[dict[int, range]]:
    """Append many records; return partition -> their offsets. forced: the parameter force_timestamp, None for none."""

    def read(answer: Answer) -> dict[int, range]:
        found = body_of(answer)["partitions"]
        return {int(number): range(one["first_offset"], one["next_offset"]) for number, one in found.items()}

    path = target(topic_path(name, "/batches"), {"partition": partition, "force_timestamp": forced, **ack.query()})
    return Call("POST", path, read, body, fields(content=content.encode(), once=once), wait=ack.patience)


def _append_query(
    key: bytes | None,
    timestamp: int | None,
    headers: Headers,
    partition: int | None,
    expected_offset: int | None,
    ack: Acknowledgement,
) -> dict[str, object]:
    query: dict[str, object] = {"key": key, **time_query(timestamp), **ack.query()}
    if partition is not None:
        query["partition"] = checked_offset(partition, "partition")
    if expected_offset is not None:
        if partition is None:
            raise InvalidArgument("expected_offset needs partition: each partition has its own offsets")
        query["expected_offset"] = checked_offset(expected_offset, "expected_offset")
    if headers:
        query["header"] = [name.encode() + b":" + (value or b"") for name, value in headers]
    return query


def _settled(headers: Iterable[Header]) -> Headers:
    """Return headers in the form of a log; raise the error that a log would raise."""
    found = checked_headers(headers)
    encode_headers(found)
    return found


def _fit_the_head(headers: Headers) -> bool:
    """Whether headers fit the form `name:value`: null does not, nor does a name with a colon."""
    size = sum(len(name) + len(value or b"") for name, value in headers)
    return size <= _LONG_HEAD and all(value is not None and ":" not in name and name for name, value in headers)


def _batch_of_one(
    name: str, record: Record, timestamp: int | None, partition: int | None, once: str, ack: Acknowledgement
) -> Call[tuple[int, int]]:
    line: dict[str, Any] = {
        "value": encode_bytes(record.value),
        "key": encode_bytes(record.key),
        "headers": [{"key": header, "value": encode_bytes(value)} for header, value in record.headers],
    }
    if timestamp is not None:
        line["timestamp"] = timestamp
    body, forced = json_body(line) + b"\n", time_query(timestamp)["force_timestamp"]
    call = append_batch(name, body, partition=partition, once=once, ack=ack, content=NDJSON, forced=forced)

    def read(answer: Answer) -> tuple[int, int]:
        ((number, offsets),) = call.read(answer).items()
        return number, offsets.start

    return Call(call.method, call.target, read, call.body, call.headers, wait=call.wait)


def _place(answer: Answer) -> tuple[int, int]:
    found = json.loads(answer.body)
    return found["partition"], found["offset"]
