"""Whether an Arrow stream from anywhere is what it says, looked at before anything is done with it.

A column of an odd type, or one whose offsets point outside its data, would bring down whatever takes rows from it. And
a small stream can stand for any amount: a column of nulls has rows without bytes, a dictionary or a view names the same
bytes again and again. The log looks once more at what it encodes; this is about what stands before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import types

from seglog.errors import InvalidArgument
from seglog.log.arrow_columns import byte_rows, is_bytes, is_text
from seglog.log.arrow_in import ArrowBatch
from seglog.server.problems import HttpProblem

if TYPE_CHECKING:
    from seglog.server.settings import Limits


def check_schema(schema: pa.Schema) -> None:
    """InvalidArgument for a column that a batch does not have, or has twice or not, or a type that it cannot have."""
    if "value" not in schema.names or len(set(schema.names)) < len(schema.names):
        raise InvalidArgument("a batch has a column 'value', and each column once")
    for field in schema:
        if field.name not in _ALLOWED:
            raise InvalidArgument(f"a batch has no column {field.name!r}; it may have {', '.join(_ALLOWED)}")
        if not _ALLOWED[field.name](field.type):
            raise InvalidArgument(f"column {field.name!r} cannot be of type {str(field.type)[:200]}")


def checked_table(table: pa.Table, size: int, limits: Limits) -> pa.Table:
    """Look at the data, and return it with its views made plain: a topic cannot deal those out.

    size: bytes that it came in. ArrowInvalid or InvalidArgument where it is damaged, HttpProblem (413) where it stands
    for more rows, or bytes of keys and values, than a batch may have.
    """
    if table.num_rows > limits.batch_records:
        raise HttpProblem(
            413, f"{table.num_rows} records; a batch may have {limits.batch_records}: send several batches"
        )
    table.validate(full=True)
    _check_headers(table, limits.record_headers)
    limit = limits.batch_bytes
    if "headers" in table.schema.names:  # all of them before the first row is stored, in whichever partition
        ArrowBatch.prepare(table.select(["value", "headers"]), now=0)
    if table.num_rows > size:
        raise InvalidArgument(f"{table.num_rows} rows in {size} bytes: each row must have a value, or null, of its own")
    total = sum(_stands_for(table, name) for name in ("key", "value") if name in table.schema.names)
    if total > limit:
        raise HttpProblem(413, f"keys and values are {total} bytes together; a batch may have {limit}")
    for position, field in enumerate(table.schema):
        plain = _plain_of(field.type)
        if plain is not None:
            table = table.set_column(position, field.name, table.column(position).cast(plain))
    return table


def _check_headers(table: pa.Table, most: int) -> None:
    """Refuse a record with too many headers: each becomes an object in whatever reads it."""
    for chunk in table.column("headers").chunks if "headers" in table.schema.names else ():
        if types.is_null(chunk.type) or not len(chunk):
            continue
        longest = pc.max(pc.list_value_length(chunk.cast(_as_list(chunk.type)))).as_py()
        if longest is not None and longest > most:
            raise InvalidArgument(f"a record has {longest} headers; a record may have {most}")


def _as_list(kind: Any) -> Any:
    return pa.list_(kind.field(0)) if types.is_map(kind) else kind


def _plain_of(kind: Any) -> Any:
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else None


def _stands_for(table: pa.Table, name: str) -> int:
    """Return the bytes of columns that may name the same bytes twice; 0 for others: they are as large as they look."""
    total = 0
    for position in table.schema.get_all_field_indices(name):
        kind = table.schema.field(position).type
        if types.is_dictionary(kind) or types.is_binary_view(kind) or types.is_string_view(kind):
            lengths = byte_rows(table.column(position), name).lengths
            total += int(lengths[lengths > 0].sum())
    return total


def _is_data(kind: Any) -> bool:
    return is_text(kind) or is_bytes(kind)


def _is_time(kind: Any) -> bool:
    return bool(types.is_integer(kind) or types.is_timestamp(kind) or types.is_null(kind))


def _is_headers(kind: Any) -> bool:
    if types.is_null(kind):
        return True
    if types.is_map(kind):
        return _is_plain(kind.key_type) and _is_plain(kind.item_type)
    pairs = kind.value_type if types.is_list(kind) or types.is_large_list(kind) else None
    if pairs is None or not types.is_struct(pairs):
        return False
    return sorted(field.name for field in pairs) == ["key", "value"] and all(_is_plain(field.type) for field in pairs)


def _is_plain(kind: Any) -> bool:
    plain = (types.is_string, types.is_large_string, types.is_binary, types.is_large_binary, types.is_null)
    return any(is_kind(kind) for is_kind in plain)


_ALLOWED = {
    "value": _is_data,
    "key": _is_data,
    "timestamp": _is_time,
    "headers": _is_headers,
    "partition": types.is_integer,
    "offset": types.is_integer,
}
