"""Appending: one record, with the body as its value, or many, as NDJSON or Arrow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import Any

from starlette.responses import Response

from seglog.errors import InvalidArgument
from seglog.log.appends.group import Draft
from seglog.log.log import Log
from seglog.server.api.operations import ANYTHING, Call, Operation, json_answer
from seglog.server.api.parameters import choice, data, integer
from seglog.server.api.schemas import BINARY, BOOLEAN, COUNT, by_number, object_of
from seglog.server.http.bodies import ARROW, NDJSON, decoding_bytes, table_of
from seglog.server.problems import HttpProblem
from seglog.server.routes.common import ACKS, FORCE_TIMESTAMP, ONCE, PARTITION, TOPIC, json_of, partition_log, topic_of
from seglog.server.runtime.appends import Append
from seglog.server.runtime.memory import Claim
from seglog.server.runtime.mirroring import Written
from seglog.server.runtime.spool import Body
from seglog.topic.topic import Topic

KEY = data("key", "The record's key, any bytes, percent-encoded.")
TIMESTAMP = integer("timestamp", "Microseconds since the epoch, UTC; default: the server's time.")
EXPECTED = integer("expected_offset", "Append only if this is the offset the record gets; needs `partition`.", least=0)
HEADER = data(
    "header",
    "A header of the record, `name:value`, percent-encoded; repeatable.",
    pattern="^[^:]*:",
    many=True,
)
TOMBSTONE = choice("tombstone", "Whether the record is a tombstone: no value, and the body is empty.", "false", "true")
HEAD_BYTES = 16 * 1024  # more than a record of common size needs besides its value
SMALL = 1024 * 1024  # up to this size a value is written by one call in the partition's queue; longer ones are streamed


async def _append_one(call: Call) -> Response:
    values, topic = call.values, await topic_of(call)
    if values["partition"] is not None:
        partition_log(topic, values["partition"])
    elif values["expected_offset"] is not None:
        _take_the_only(topic, values)
    async with call.spooled() as body:
        record = Draft(
            value=None,
            key=values["key"],
            timestamp=values["timestamp"],
            force_timestamp=values["force_timestamp"] == "true",
            headers=tuple(_header(pair) for pair in values["header"]),
            expected_offset=values["expected_offset"],
        )
        tombstone = values["tombstone"] == "true"
        partition, offset = await store(call, topic, body, record, partition=values["partition"], tombstone=tombstone)
    await acknowledged(call, topic, [(partition, offset)])
    durable = values["ack"] != "appended"
    return json_answer({"partition": partition, "offset": offset, "durable": durable})


def _take_the_only(topic: Topic, values: dict[str, Any]) -> None:
    """Allow expected_offset without `partition` if the topic has only one."""
    if topic.partitions > 1:
        raise HttpProblem(409, f"expected_offset needs `partition`: topic {topic.name!r} has {topic.partitions}")
    values["partition"] = 0


def _header(pair: bytes) -> tuple[str, bytes]:
    name, found, value = pair.partition(b":")
    try:
        if found:
            return name.decode(), value
    except UnicodeDecodeError:
        pass
    raise InvalidArgument(f"a header must be name:value, with the name in UTF-8, not {pair[:80]!r}")


async def store(
    call: Call, topic: Topic, body: Body, record: Draft, *, partition: int | None, tombstone: bool = False
) -> tuple[int, int]:
    """Append the record with the body as its value; return (partition, offset). `acknowledged` follows."""
    _prepare(call, topic)
    durable, once = call.values["ack"] != "appended", call.values["Idempotency-Key"]
    if tombstone and body.size:
        raise InvalidArgument("a tombstone has no value: send it with an empty body")
    writer = topic.writer(topic.route(record.key, once) if partition is None else partition)
    result: tuple[int, int]
    if body.size <= SMALL and body.in_memory:
        record = record._replace(value=None if tombstone else body.data())
        async with call.services.appends.alone(topic.name, once):
            result = await call.services.appends.append(Append(writer, record, once, durable), body.size + HEAD_BYTES)
    else:
        result = await _stream(call, topic, writer.place[1], body, record, once, durable)
    call.services.metrics.appended(writer.place[0], 1, body.size)
    return result


def _prepare(call: Call, topic: Topic) -> None:
    """Prepare for `ack`: refuse "archived" if this server has no archive; note epochs for "mirrored"."""
    if call.values["ack"] == "archived" and call.services.archiving is None:
        raise HttpProblem(409, "this server has no archive; start it with `seglog serve --archive URL`")
    if call.values["ack"] == "mirrored":
        call.epochs = {number: topic.partition(number).epoch for number in range(topic.partitions)}


async def acknowledged(call: Call, topic: Topic, last: Iterable[tuple[int, int]]) -> None:
    """Wait, beyond a sync, for what `ack` asks. last: partition and offset of the last record in each partition.

    The request holds no body any more. All calls that wait for the archive share a round.
    """
    values, services = call.values, call.services
    if values["ack"] == "archived" and services.archiving is not None:
        await asyncio.wrap_future(services.archiving.archived())
    if values["ack"] == "mirrored":
        waits = [Written(topic.partition(number), offset, call.epochs[number]) for number, offset in last]
        seconds = min(values["wait"], services.settings.limits.wait_seconds)
        await asyncio.gather(*(services.mirroring.mirrored(one, values["copies"], seconds) for one in waits))


async def _stream(
    call: Call, topic: Topic, number: int, body: Body, record: Draft, once: str | None, durable: bool
) -> Any:
    if record.expected_offset is not None:
        raise HttpProblem(409, f"expected_offset is only for values of up to {SMALL} bytes")

    def append() -> tuple[int, int]:
        digest = None if once is None else body.digest()
        return topic.append_stream(
            body.pieces(),
            key=record.key,
            timestamp=record.timestamp,
            force_timestamp=record.force_timestamp,
            headers=record.headers,
            length=body.size,
            partition=number,
            once=once,
            digest=digest,
        )

    def written(result: tuple[int, int]) -> Iterable[tuple[int, Log]]:
        return [(result[0], topic.partition(result[0]))]

    async with call.services.appends.alone(topic.name, once):
        return await call.services.appends.batch(topic.name, written, append, durable=durable)


async def _append_many(call: Call) -> Response:
    values, topic = call.values, await topic_of(call)
    media = call.headers.get("content-type", "").partition(";")[0].strip().lower()
    if media not in (ARROW, NDJSON):
        raise HttpProblem(415, f"a batch must be {ARROW} or {NDJSON}, not {media or 'without a content type'}")
    if values["partition"] is not None:
        partition_log(topic, values["partition"])
    _prepare(call, topic)
    once, durable = values["Idempotency-Key"], values["ack"] != "appended"
    limits, claim = call.services.settings.limits, Claim(call.services.memory, "decoding")
    call.held.callback(claim.close)
    async with call.spooled(limits.batch_bytes) as body:

        def append() -> dict[int, range]:
            table, forced = table_of(body, media, limits), values["force_timestamp"] == "true"
            return topic.append_batch(table, partition=values["partition"], once=once, force_timestamp=forced)

        def written(offsets: dict[int, range]) -> Iterable[tuple[int, Log]]:
            return [(number, topic.partition(number)) for number in offsets]

        room = partial(claim.wait, decoding_bytes(body, media, limits))
        async with call.services.appends.alone(topic.name, once):
            offsets = await call.services.appends.batch(topic.name, written, append, durable=durable, first=room)
        records = sum(len(one) for one in offsets.values())
        call.services.metrics.appended(topic.name, records, body.size)
    claim.close()
    await acknowledged(call, topic, [(number, at.stop - 1) for number, at in offsets.items()])
    partitions = {str(number): {"first_offset": at.start, "next_offset": at.stop} for number, at in offsets.items()}
    return json_answer({"records": records, "partitions": partitions, "durable": durable})


RANGE = object_of({"first_offset": COUNT, "next_offset": COUNT})
WHERE = {"topic": "$request.path.topic", "partition": "$response.body#/partition"}
OPERATIONS = (
    Operation(
        "POST",
        "/topics/{topic}/records",
        "append",
        "Append one record; the body is its value. The server reads it completely before it stores anything.",
        _append_one,
        "write",
        {200: json_of("It is stored.", {"partition": COUNT, "offset": COUNT, "durable": BOOLEAN})},
        (TOPIC, KEY, TIMESTAMP, FORCE_TIMESTAMP, PARTITION, EXPECTED, HEADER, TOMBSTONE, *ACKS, ONCE),
        {ANYTHING: BINARY},
        links={"read": WHERE | {"offset": "$response.body#/offset"}, "read_range": WHERE},
    ),
    Operation(
        "POST",
        "/topics/{topic}/batches",
        "append_batch",
        "Append many records; the part for each partition is appended completely or not at all.",
        _append_many,
        "write",
        {
            200: json_of(
                "They are stored.",
                {
                    "records": COUNT,
                    "partitions": by_number(RANGE),
                    "durable": BOOLEAN,
                },
            )
        },
        (TOPIC, PARTITION, FORCE_TIMESTAMP, *ACKS, ONCE),
        {ARROW: BINARY, NDJSON: BINARY},
    ),
)
