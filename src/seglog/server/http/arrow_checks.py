"""Check an Arrow stream from a client before it is used.

A column of an unexpected type, or with offsets outside its data, would crash code that reads its rows. A small stream
can also expand to any size: a null column has rows without bytes, and a dictionary or a view can repeat the same bytes.
The log checks again what it encodes; this module checks what comes before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyarrow import types

from seglog.arrow.columns import byte_rows, is_bytes, is_text
from seglog.arrow.heads import head_bytes, most_headers
from seglog.arrow.to_rows import ArrowBatch
from seglog.errors import InvalidArgument
from seglog.server.problems import HttpProblem

if TYPE_CHECKING:
    from seglog.server.settings import Limits


def check_schema(schema: pa.Schema) -> None:
    """Raise InvalidArgument for an unknown, duplicate or missing column, or for a type that it must not have."""
    if "value" not in schema.names or len(set(schema.names)) < len(schema.names):
        raise InvalidArgument("a batch needs a column 'value', and no column twice")
    for field in schema:
        if field.name not in _ALLOWED:
            raise InvalidArgument(f"unknown column {field.name!r}; a batch may have {', '.join(_ALLOWED)}")
        if not _ALLOWED[field.name](field.type):
            raise InvalidArgument(f"column {field.name!r} must not have type {str(field.type)[:200]}")


def check_heads(table: pa.Table, most: int) -> None:
    """HttpProblem (413) where a record's key and headers are longer than `most` together: answers show them whole."""
    names = [name for name in ("key", "headers") if name in table.schema.names]
    for batch in table.select(names).to_batches() if names else ():
        if batch.nbytes > most:
            longest = int(head_bytes(batch).max(initial=0))
            if longest > most:
                raise HttpProblem(413, f"a record's key and headers have {longest} bytes; they may have {most}")


def checked_table(table: pa.Table, size: int, limits: Limits) -> pa.Table:
    """Check the data and return the table without view types, which a topic cannot split.

    size: bytes of the body. Raises ArrowInvalid or InvalidArgument if the data is damaged, HttpProblem (413) if it
    expands to more bytes of keys and values than a batch may have.
    """
    table.validate(full=True)
    _check_headers(table, limits.record_headers)
    limit = limits.batch_bytes
    if "headers" in table.schema.names:  # check all before the first row is stored in any partition
        ArrowBatch.prepare(table.select(["value", "headers"]), now=0)
    if table.num_rows > size:
        raise InvalidArgument(f"{table.num_rows} rows in {size} bytes: every row needs its own value, or null")
    total = sum(_stands_for(table, name) for name in ("key", "value") if name in table.schema.names)
    if total > limit:
        raise HttpProblem(413, f"keys and values have {total} bytes in total; a batch may have {limit}: send several")
    for position, field in enumerate(table.schema):
        plain = _plain_of(field.type)
        if plain is not None:
            table = table.set_column(position, field.name, table.column(position).cast(plain))
    return table


def _check_headers(table: pa.Table, most: int) -> None:
    """Refuse a record with too many headers: each becomes an object in a reader."""
    for chunk in table.column("headers").chunks if "headers" in table.schema.names else ():
        longest = most_headers(chunk)
        if longest > most:
            raise InvalidArgument(f"a record has {longest} headers; the limit is {most}")


def _plain_of(kind: Any) -> Any:
    if types.is_string_view(kind):
        return pa.large_string()
    return pa.large_binary() if types.is_binary_view(kind) else None


def _stands_for(table: pa.Table, name: str) -> int:
    """Return the expanded bytes of columns that can repeat bytes; 0 for others, whose size is already known."""
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
