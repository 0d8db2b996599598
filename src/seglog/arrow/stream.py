"""Arrow data of any library -> tables of bounded size; a range of a log -> a stream for any library.

Libraries exchange Arrow data through the C interface: `__arrow_c_stream__` (polars, pandas, DuckDB,
RecordBatchReader) or `__arrow_c_array__`. Knows no log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from seglog.errors import InvalidArgument, InvalidType

PIECE_BYTES = 16 * 1024 * 1024  # of a stream, appended as one batch


def pieces_of(data: Any) -> Iterator[pa.Table | pa.RecordBatch]:
    """Yield the rows of Arrow data in order: at least one piece, which may have no rows.

    A table or record batch is one piece. A stream is read lazily, up to PIECE_BYTES or one batch of the stream at a
    time. Raises InvalidType if `data` has neither interface, InvalidArgument if its stream fails.
    """
    if isinstance(data, (pa.Table, pa.RecordBatch)):
        yield data
    elif hasattr(data, "__arrow_c_stream__"):
        yield from _gathered(_reader(data))
    elif hasattr(data, "__arrow_c_array__"):
        yield _converted(pa.record_batch, data)
    else:
        raise InvalidType(
            f"a batch must be a pyarrow Table or RecordBatch, or an object with __arrow_c_stream__ or "
            f"__arrow_c_array__ (data frames of polars, pandas and DuckDB), not {type(data).__name__}"
        )


def whole(data: Any) -> pa.Table:
    """Return Arrow data as one table; errors as `pieces_of`."""
    pieces = [piece if isinstance(piece, pa.Table) else pa.Table.from_batches([piece]) for piece in pieces_of(data)]
    return pieces[0] if len(pieces) == 1 else pa.concat_tables(pieces)


def _reader(data: Any) -> pa.RecordBatchReader:
    return data if isinstance(data, pa.RecordBatchReader) else _converted(pa.RecordBatchReader.from_stream, data)


def _converted(convert: Any, data: Any) -> Any:
    try:
        return convert(data)
    except (pa.ArrowException, TypeError, ValueError) as error:  # for example a single column
        kind = type(data).__name__
        raise InvalidType(f"a batch must have named columns; this {kind} has none: {error}") from error


def _gathered(reader: pa.RecordBatchReader) -> Iterator[pa.Table]:
    batches, size, is_first = list[pa.RecordBatch](), 0, True
    for batch in _read(reader):
        batches.append(batch)
        size += batch.nbytes
        if size >= PIECE_BYTES:
            yield pa.Table.from_batches(batches)
            batches, size, is_first = [], 0, False
    if batches or is_first:
        yield pa.Table.from_batches(batches, schema=reader.schema)


def _read(reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
    while True:
        try:
            batch = reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowException, OSError) as error:
            raise InvalidArgument(f"the stream of record batches failed: {error}") from error
        if not batch.schema.equals(reader.schema):  # pyarrow does not check a reader over a Python generator
            found, wanted = (
                ", ".join(f"{field.name}: {field.type}" for field in schema) for schema in (batch.schema, reader.schema)
            )
            raise InvalidArgument(
                f"the stream of record batches failed: a batch has ({found}) instead of the stream's ({wanted})"
            )
        yield batch


def stream_of(schema: pa.Schema, batches: Iterable[pa.RecordBatch], requested: Any) -> Any:
    """Return the capsule of an Arrow stream that reads `batches` lazily; see `__arrow_c_stream__`."""
    return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(requested)
