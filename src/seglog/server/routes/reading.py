"""Reading: one record, offsets by time, records by key."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

import pyarrow as pa
import pyarrow.compute as pc
from starlette.responses import Response

from seglog.log.log import Log
from seglog.log.view import View
from seglog.record import Record, checked_timestamp, value_size
from seglog.server.api.expose import EXPOSE, end_of
from seglog.server.api.operations import Answer, Call, Operation, json_answer
from seglog.server.api.parameters import data, integer
from seglog.server.api.schemas import BINARY, COUNT, RECORD, by_number, or_null
from seglog.server.http.bodies import IN_JSON, NDJSON, OCTETS, line_of
from seglog.server.routes.common import (
    FORCE_TIMESTAMP,
    MAX_RECORDS,
    PARTITION,
    TOPIC,
    json_of,
    log_of,
    topic_of,
    wanted_media,
)
from seglog.server.routes.record import KEY_ABOUT, shown_answer, value_answer, whole_record
from seglog.topic.partitioner import partition_of

OFFSET = integer("offset", "A record's offset.", least=0).in_path()
MAPPED_BATCHES = 4  # of about 8 MiB: what a search has mapped counts as the server's memory
RECORD_COST = 128  # bytes that a record counts beside those of its key and value: a million empty ones are large too
KEY = data("key", "A key, any bytes, percent-encoded.", required=True)


# --- one record -------------------------------------------------------------------------------------------------------


async def _read_one(call: Call) -> Response:
    media = wanted_media(call, OCTETS, "application/json")
    log, offset = await log_of(call), call.values["offset"]
    if media == "application/json":
        return await shown_answer(call, log, offset)
    return value_answer(await whole_record(call, log, offset))


# --- by time, by key --------------------------------------------------------------------------------------------------


async def _offsets_at(call: Call) -> Response:
    topic, values, expose = await topic_of(call), call.values, call.values["expose"]
    moment = checked_timestamp(values["timestamp"], force_timestamp=values["force_timestamp"] == "true")

    def offset_at(log: Log) -> int | None:
        end = end_of(log, expose)
        found = log.offset_at(moment, force_timestamp=True)
        return None if found is None or (expose == "durable" and found >= end) else found

    def find() -> dict[str, int | None]:
        return {str(number): offset_at(topic.partition(number)) for number in range(topic.partitions)}

    return json_answer({"offsets": await call.services.reads.run(find)})


async def _by_key(call: Call) -> Response:
    topic, key, most = await topic_of(call), call.values["key"], call.values["max_records"]
    number = partition_of(key, topic.partitions)
    limits, share = call.services.settings.limits, call.services.memory.share("answers")
    limit, shown = min(limits.read_bytes // 4, share // IN_JSON), limits.shown_bytes

    def find(_room: int) -> bytes:
        log = topic.partition(number)
        records = _records_of(log, end_of(log, call.values["expose"]), key, most, limit, shown)
        return b"".join(line_of(record, shown, (topic.name, number)) for record in records)

    body = await call.read(find, IN_JSON * limit, workers=call.services.scans)
    return Response(body, headers={"Seglog-Partition": str(number)}, media_type=NDJSON)


def _records_of(log: Log, end: int, key: bytes, most: int, limit: int, shown: int) -> list[Record]:
    """Return the last records of a key before `end`, the newest last, up to `limit` bytes of values.

    Reads the whole partition.
    """
    offsets: list[int] = []
    view = log.view()  # keeps the files
    for batch in all_batches(view, end):
        keys = batch.column("key").cast(pa.binary())
        hits = batch.column("offset").filter(pc.equal(keys, pa.scalar(key, pa.binary())))
        offsets = [*offsets, *hits.to_pylist()][-most:]
    records: list[Record] = []
    for offset in reversed(offsets):
        record = view.reader_of(offset).read(offset, shown)
        limit -= min(value_size(record.value), shown) + len(record.key or b"") + RECORD_COST
        if limit < 0 and records:
            break
        records.append(record)
    return records[::-1]


def all_batches(view: View, end: int) -> Iterator[pa.RecordBatch]:
    """Yield the records before `end` as views into the store, of which little is mapped at a time.

    Keep no batch: the memory of all of them is the whole store.
    """
    start, more = view.lowest_offset, True
    while more:
        more = False
        for batch in islice(view.batches(start, min(end, view.next_offset)), MAPPED_BATCHES):
            yield batch
            start, more = batch.column("offset")[-1].as_py() + 1, True


OPERATIONS = (
    Operation(
        "GET",
        "/topics/{topic}/partitions/{partition}/records/{offset}",
        "read",
        "Read one record: its value unchanged, or the record as JSON.",
        _read_one,
        "read",
        {
            200: Answer(f"The value. {KEY_ABOUT}", {OCTETS: BINARY, "application/json": RECORD}),
            204: Answer("A tombstone."),
        },
        (TOPIC, PARTITION.in_path(), OFFSET, EXPOSE),
    ),
    Operation(
        "GET",
        "/topics/{topic}/offsets",
        "offsets_at",
        "Find the first offset of each partition at or after a time; null if there is none.",
        _offsets_at,
        "read",
        {200: json_of("Offsets by partition.", {"offsets": by_number(or_null(COUNT))})},
        (TOPIC, integer("timestamp", "Microseconds since the epoch, UTC.", required=True), FORCE_TIMESTAMP, EXPOSE),
    ),
    Operation(
        "GET",
        "/topics/{topic}/keys",
        "by_key",
        "Find the last records of a key. Reads the whole partition that the key belongs to.",
        _by_key,
        "read",
        {200: Answer("The records, newest last.", {NDJSON: BINARY})},
        (TOPIC, KEY, MAX_RECORDS, EXPOSE),
    ),
)
