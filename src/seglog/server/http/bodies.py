"""Records as HTTP bodies: NDJSON and Arrow IPC streams, parsed into tables and written from records. No event loop."""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from seglog.arrow.convert import record_schema
from seglog.errors import InvalidArgument, SeglogError
from seglog.format.lines import encode_bytes
from seglog.record import Record, value_size
from seglog.server.http.arrow_checks import check_heads, check_schema, checked_table
from seglog.server.http.compressed_arrow import waste_of
from seglog.server.http.json_lines import SHORTEST_LINE, table_of_lines
from seglog.server.problems import HttpProblem

if TYPE_CHECKING:
    from seglog.server.runtime.spool import Body
    from seglog.server.settings import Limits
    from seglog.topic.layout.places import Partition

NDJSON = "application/x-ndjson"
ARROW = "application/vnd.apache.arrow.stream"
OCTETS = "application/octet-stream"
LONGEST_CHARACTER = 4  # bytes, in UTF-8
GROWING_BYTES = 1024 * 1024  # up to this size a body is written to a growing buffer, a longer one to one of its size
ROW_BYTES = 160  # memory for a row of a batch on its way into the log, besides its own bytes; measured
LONG_BYTES = 64 * 1024  # a value from this size on takes a while to encode as JSON
IN_JSON = 14  # times its bytes that a record may take while it is encoded as JSON: up to 6 per byte, and copies
COPIES = 2  # of the bytes: decoded, and split by partition

_LONG = Lock()
_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


# --- in ---------------------------------------------------------------------------------------------------------------


def table_of(body: Body, media: str, limits: Limits) -> pa.Table:
    """Return the records of a body as a table for `append_batch`. Raises InvalidArgument if the body is malformed.

    An Arrow table is not copied: it reads from the body, which must stay open.
    """
    table = _arrow_table(body, limits) if media == ARROW else table_of_lines(body.view(), limits)
    check_heads(table, limits.head_bytes)
    return table


def decoding_bytes(body: Body, media: str, limits: Limits) -> int:
    """Return the most memory that a body may take as records, besides the body itself."""
    rows = body.size if media == ARROW else body.size // SHORTEST_LINE + 1
    return COPIES * body.size + ROW_BYTES * min(rows, limits.batch_records)


def _arrow_table(body: Body, limits: Limits) -> pa.Table:
    if body.size == 0:
        raise InvalidArgument("the body is empty; an Arrow stream starts with its schema")
    source = pa.BufferReader(pa.py_buffer(body.view()))
    try:
        waste = waste_of(source)
        if waste is not None:
            raise HttpProblem(415, f"the Arrow stream {waste}")
        source.seek(0)
        with pa.ipc.open_stream(source) as reader:
            check_schema(reader.schema)
            table = pa.Table.from_batches(_counted(reader, limits), reader.schema)
            _check_end(source)
        return checked_table(table, body.size, limits)
    except SeglogError:
        raise
    except (pa.ArrowException, OSError, ValueError) as error:
        raise InvalidArgument(f"the body is not a readable Arrow stream: {error}") from None


def _counted(reader: Iterable[pa.RecordBatch], limits: Limits) -> list[pa.RecordBatch]:
    """Return all batches; HttpProblem (413) for too many rows, added up here: of nulls there may be 2^62 in each."""
    batches, rows = [], 0
    for batch in reader:
        batches.append(batch)
        rows += batch.num_rows
        if rows > limits.batch_records:
            raise HttpProblem(413, f"{rows} records; a batch may have {limits.batch_records}: send several batches")
    return batches


def _check_end(source: pa.BufferReader) -> None:
    left = source.size() - source.tell()
    if left:
        raise InvalidArgument(f"{left} bytes follow the end of the Arrow stream; send one stream")


# --- out --------------------------------------------------------------------------------------------------------------


def shown_record(record: Record, most: int, place: Partition | None = None) -> dict[str, Any]:
    """Return a record as JSON values, as `seglog export` writes them; after topic and partition, if given.

    most: longest value in bytes; a longer one is cut, and "value_bytes" is its length.
    """
    named = {} if place is None else {"topic": place[0], "partition": place[1]}
    return {
        **named,
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": encode_bytes(record.key),
        **_shown_value(record.value, most),
        "headers": [{"key": name, "value": encode_bytes(value)} for name, value in record.headers],
    }


def _shown_value(value: bytes | None, most: int) -> dict[str, Any]:
    size = value_size(value)
    if value is None or size <= most:
        return {"value": encode_bytes(value)}
    return {"value": encode_bytes(_whole_characters(value[:most])), "value_bytes": size}


def _whole_characters(data: bytes) -> bytes:
    """Drop an incomplete UTF-8 character at the end; otherwise cut text would not be recognised as text."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        if error.end == len(data) and len(data) - error.start < LONGEST_CHARACTER:
            return data[: error.start]
    return data


def line_of(record: Record, most: int, place: Partition | None = None) -> bytes:
    """Return a record as a line of NDJSON; most: as in `shown_record`."""
    return as_json(shown_record(record, most, place), record) + b"\n"


def as_json(shown: dict[str, Any], record: Record) -> bytes:
    """Return the shown record as JSON.

    Long records are encoded one at a time: each holds the GIL for some milliseconds, and the event loop would wait for
    one per thread.
    """
    if value_size(record.value) < LONG_BYTES:
        return _encode(shown).encode()
    with _LONG:
        return _encode(shown).encode()


def arrow_body(batches: Sequence[pa.RecordBatch], schema: pa.Schema | None = None) -> bytes | memoryview:
    """Return record batches as one Arrow stream, which has the schema even without batches."""
    schema = record_schema("binary") if schema is None else schema
    if sum(batch.nbytes for batch in batches) <= GROWING_BYTES:
        out = io.BytesIO()
        _write_stream(out, batches, schema)
        return out.getvalue()
    measure = pa.MockOutputStream()
    _write_stream(measure, batches, schema)
    body = pa.allocate_buffer(measure.size())
    with pa.FixedSizeBufferWriter(body) as whole:
        _write_stream(whole, batches, schema)
    return memoryview(body).cast("B")


def _write_stream(out: Any, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    with pa.ipc.new_stream(out, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def placed_schema() -> pa.Schema:
    """Return the schema of records of several partitions: topic, partition, then a log's columns."""
    return pa.schema([pa.field("topic", pa.string()), pa.field("partition", pa.int32()), *record_schema("binary")])


def placed(batch: pa.RecordBatch, place: Partition) -> pa.RecordBatch:
    """Return a batch with its topic and partition in front."""
    topic = pa.repeat(pa.scalar(place[0], pa.string()), batch.num_rows)
    partition = pa.repeat(pa.scalar(place[1], pa.int32()), batch.num_rows)
    return pa.RecordBatch.from_arrays([topic, partition, *batch.columns], schema=placed_schema())
