"""The columns of a table: as Spark's source shows a topic, with field ids as Iceberg requires. Pure."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import (
    BinaryType,
    IntegerType,
    ListType,
    LongType,
    NestedField,
    StringType,
    StructType,
    TimestamptzType,
)

OFFSET_ID, PARTITION_ID, TIMESTAMP_ID, HEADERS_ID = 1, 2, 3, 6
EARLIEST, LATEST = -62_135_510_400_000_000, 253_402_214_399_999_999
"""The timestamps (us) of a table: 0001-01-02 to 9999-12-30, which are in years 1 to 9999 in every time zone."""
TRUE_TIME = "seglog-timestamp"
"""The header of a row whose record has an earlier or a later timestamp: that timestamp (us), as text."""
UNFIT = "unfit"
"""The column of a typed table for the reason why a value has no typed columns."""
_HEADER = StructType(NestedField(8, "key", StringType(), required=True), NestedField(9, "value", BinaryType()))
SCHEMA = Schema(
    NestedField(OFFSET_ID, "offset", LongType(), required=True),
    NestedField(PARTITION_ID, "partition", IntegerType(), required=True),
    NestedField(TIMESTAMP_ID, "timestamp", TimestamptzType(), required=True),
    NestedField(4, "key", BinaryType()),
    NestedField(5, "value", BinaryType()),
    NestedField(HEADERS_ID, "headers", ListType(7, _HEADER, element_required=True)),
)
SPEC = PartitionSpec(PartitionField(PARTITION_ID, 1000, IdentityTransform(), "partition"))


def arrow_field(number: int, name: str, kind: pa.DataType, *, required: bool = False) -> pa.Field:
    """Return a field that Parquet stores with an id."""
    return pa.field(name, kind, not required, {"PARQUET:field_id": str(number)})


_KEY_AND_VALUE = pa.struct([arrow_field(8, "key", pa.string(), required=True), arrow_field(9, "value", pa.binary())])
_HEADERS = pa.list_(arrow_field(7, "element", _KEY_AND_VALUE, required=True))
ARROW = pa.schema(
    [
        arrow_field(OFFSET_ID, "offset", pa.int64(), required=True),
        arrow_field(PARTITION_ID, "partition", pa.int32(), required=True),
        arrow_field(TIMESTAMP_ID, "timestamp", pa.timestamp("us", "UTC"), required=True),
        arrow_field(4, "key", pa.binary()),
        arrow_field(5, "value", pa.binary()),
        arrow_field(HEADERS_ID, "headers", _HEADERS),
    ]
)
"""The same columns as pyarrow writes them to Parquet."""


def with_shown_times(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows whose timestamps every engine can show; rows that had another one get a header with the original.

    Iceberg's libraries and Spark's show years 1 to 9999 in some time zone, a record may have any 64 bits.
    """
    times = rows.column("timestamp").cast(pa.int64())
    is_beyond = pc.or_(pc.less(times, EARLIEST), pc.greater(times, LATEST))
    if not pc.any(is_beyond).as_py():
        return rows
    shown = pc.min_element_wise(pc.max_element_wise(times, EARLIEST), LATEST).cast(rows.schema.field("timestamp").type)
    headers = rows.column("headers").to_pylist()
    for number in np.flatnonzero(is_beyond.to_numpy(zero_copy_only=False)):
        mark = {"key": TRUE_TIME, "value": str(times[int(number)].as_py()).encode()}
        headers[number] = [*(headers[number] or ()), mark]
    marked = pa.array(headers, rows.schema.field("headers").type)
    return rows.set_column(TIMESTAMP_ID - 1, rows.schema.field("timestamp"), shown).set_column(
        HEADERS_ID - 1, rows.schema.field("headers"), marked
    )


def clamped_in(rows: pa.RecordBatch) -> int:
    """Return how many rows have another timestamp than their record; see `with_shown_times`."""
    times = rows.column("timestamp").cast(pa.int64())
    return pc.sum(pc.or_(pc.equal(times, EARLIEST), pc.equal(times, LATEST))).as_py() or 0


def rows_of(batch: pa.RecordBatch, partition: int) -> pa.RecordBatch:
    """Return a batch of a log's records (`Log.batches(values="binary")`) as rows of the table. Copies no values."""
    headers = batch.column("headers")
    without = pc.equal(headers.value_lengths(), 0)  # a record without headers has null, as in Spark's sources
    entries = headers.values  # a struct array; its fields take the names and the nullability of ARROW
    keyed = pa.StructArray.from_arrays(entries.flatten(), fields=list(_KEY_AND_VALUE))
    columns = [
        batch.column("offset"),
        pa.repeat(pa.scalar(partition, pa.int32()), batch.num_rows),
        batch.column("timestamp"),
        batch.column("key"),
        batch.column("value"),
        pa.ListArray.from_arrays(headers.offsets, keyed, type=_HEADERS, mask=without),
    ]
    return with_shown_times(pa.RecordBatch.from_arrays(columns, schema=ARROW))
