"""JSON values as typed columns, a block at a time, by pyarrow's reader. Pure.

The reader takes lines, and does not care where a value ends: two values could be read as one, or one as two. So each
line begins with a field of our own, with a random name, that no value can know. A block is right if it has this field
once in each row and nothing else went wrong; else it is read in parts, and the small parts that the reader refuses by
Python's json. So rows that do not fit cost the parts that they are in, not the block.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import date
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
from pyarrow import types

from seglog.record import EPOCH
from seglog.table.values.decoded import Typed, decoded, from_json, from_json_exactly, typed
from seglog.table.values.fields import LeftOut, inferred, usable, with_leaves
from seglog.table.values.fitting import EARLIEST, LATEST, NO_UNITS, Units

PARTS = 8
SMALLEST = 64  # rows that Python reads if the reader refuses them
SAMPLE = 1000  # values that are searched for fields if the reader refuses a block
FIRST = 100  # values that are searched for maps, which the reader would take for objects with very many fields
LARGEST = 256 << 20  # bytes of a block; the reader counts in 32 bits
MOST_OPENINGS = 2000  # of objects and arrays in a value: the reader's inference recurses, and a thread's stack is small
_MARK = secrets.token_hex(8)
_BEGIN = f'{{"{_MARK}":true,'.encode()
_END = 2**31 - 1
_SPACE = b" \t\r\n"
_BOUNDS = {
    pa.timestamp("us", "UTC"): (EARLIEST, LATEST),
    pa.timestamp("us"): (EARLIEST, LATEST),
    pa.date32(): (date.min.toordinal() - EPOCH.toordinal(), date.max.toordinal() - EPOCH.toordinal()),
}


class Block:
    """A block of values. `found` searches it for fields, `typed` reads it as columns."""

    def __init__(self, values: pa.Array) -> None:
        """Take the values; null: a record without one."""
        self._values = values
        first, second = _first_bytes(values)
        self._plain = (first == ord("{")) & (second == ord('"'))
        self._other = np.isin(first, [ord("{"), *_SPACE]) & ~self._plain  # for Python's json
        self._whole: pa.StructArray | None = None  # the plain values, if the reader could read them all at once

    def found(self, known: pa.StructType, left_out: LeftOut) -> pa.StructType:
        """Return the fields of the values, as far as they can be columns.

        known: the columns that there are; left_out: gets the other fields, as in `usable`.
        """
        if not can_be_read(known) or not can_be_read(self._inferred(self._values.slice(0, FIRST), known, {})):
            return self._inferred(self._values, known, left_out)
        rest = _rest(self._values, self._plain)
        table = None if _too_deep(rest) else _read(rest, _wider(known), "infer")
        if table is None:
            return self._inferred(self._values[:: max(1, len(self._values) // SAMPLE)], known, left_out)
        kinds = {field.name: field.type for field in table.schema if field.name != _MARK}
        for field in known:
            narrow = _cast(table.column(field.name), field.type)
            if narrow is not None:  # else a column becomes wider
                kinds[field.name] = _unless_wider(kinds[field.name], field.type)
                table = table.set_column(table.schema.get_field_index(field.name), field.name, narrow)
        whole = _struct_of(table, known)
        self._whole = whole if _in_range(whole) else None
        return usable(pa.struct(list(kinds.items())), left_out) or pa.struct([])

    def _inferred(self, values: pa.Array, known: pa.StructType, left_out: LeftOut) -> pa.StructType:
        return inferred(decoded(values.to_pylist(), from_json), known, left_out)

    def typed(self, fields: pa.StructType, units: Units = NO_UNITS) -> Typed:
        """Return the values as these fields; what does not fit is null, with the reason. units: see `Units`."""
        count = len(self._values)
        positions = np.flatnonzero(self._plain)
        plain = self._values if len(positions) == count else self._values.take(pa.array(positions))
        if self._whole is not None and self._whole.type == fields:
            parts = list(_checked(plain, self._whole, units))
        else:
            parts = list(_in_parts(plain, fields, units))
        if len(positions) == count:
            return _joined(parts, fields)
        others = np.flatnonzero(self._other)
        given = np.asarray(pc.is_valid(self._values))
        neither = np.flatnonzero(given & ~self._plain & ~self._other)
        absent = np.flatnonzero(~given)
        parts.append(_by_python(self._values.take(pa.array(others)), fields, units))
        parts.append(Typed(pa.nulls(len(neither), fields), pa.repeat("it is not a JSON object", len(neither))))
        parts.append(Typed(pa.nulls(len(absent), fields), _no_reasons(len(absent))))
        order = pa.array(np.argsort(np.concatenate([positions, others, neither, absent]), kind="stable"))
        joined = _joined(parts, fields)
        return Typed(joined.fields.take(order), joined.unfit.take(order))


def can_be_read(kind: pa.DataType) -> bool:
    """Return whether the reader knows a type. It knows no maps."""
    if types.is_struct(kind):
        return all(can_be_read(field.type) for field in kind)
    return can_be_read(kind.value_type) if types.is_list(kind) else not types.is_map(kind)


def is_json(kind: pa.DataType) -> bool:
    """Return whether JSON has values of a type: the keys of its maps are texts."""
    if types.is_map(kind):
        return types.is_string(kind.key_type) and is_json(kind.item_type)
    if types.is_struct(kind):
        return all(is_json(field.type) for field in kind)
    return not types.is_list(kind) or is_json(kind.value_type)


def _by_python(values: pa.Array, fields: pa.StructType, units: Units) -> Typed:
    return typed(decoded(values.to_pylist(), from_json_exactly), fields, units)


def _no_reasons(count: int) -> pa.StringArray:
    return pa.nulls(count, pa.string())


def _joined(parts: list[Typed], fields: pa.StructType) -> Typed:
    if len(parts) <= 1:
        return parts[0] if parts else Typed(pa.nulls(0, fields), _no_reasons(0))
    return Typed(pa.concat_arrays([one.fields for one in parts]), pa.concat_arrays([one.unfit for one in parts]))


def _first_bytes(values: pa.Array) -> tuple[Any, Any]:
    """Return the first and the second byte of each value; 0 where there is none."""
    _, ends, data = values.buffers()
    offsets = np.frombuffer(ends, np.int32)[values.offset : values.offset + len(values) + 1].astype(np.int64)
    lengths = np.diff(offsets) * np.asarray(pc.is_valid(values))
    text = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(1, np.uint8)
    found = []
    for place in (0, 1):
        at = np.minimum(offsets[:-1] + place, text.size - 1)
        found.append(np.where(lengths > place, text[at], 0))
    return found[0], found[1]


def _in_parts(values: pa.Array, fields: pa.StructType, units: Units) -> Iterator[Typed]:
    """Yield the values, all of which begin an object, in order: what the reader takes at once, and the rest."""
    count = len(values)
    is_known = can_be_read(fields)
    rows = _rows(values, fields, units) if count and is_known and values.nbytes <= LARGEST else None
    if rows is not None:
        yield from _checked(values, rows, units)
    elif count <= SMALLEST or not is_known:
        yield _by_python(values, fields, units)
    else:
        size = -(-count // PARTS)
        for start in range(0, count, size):
            yield from _in_parts(values.slice(start, size), fields, units)


def _rows(values: pa.Array, fields: pa.StructType, units: Units) -> pa.StructArray | None:
    """Return what the reader takes the values for; None if it refuses one. Times with a unit are read as numbers."""
    kinds = [(one.name, pa.int64() if one.name in units else one.type) for one in fields]
    table = _read(pc.binary_slice(values, 1, _END), pa.struct(kinds), "ignore")
    if table is None:
        return None
    for name in units.keys() & set(table.column_names):
        at = table.schema.get_field_index(name)
        times = _times(table.column(name), units[name])
        if times is None:
            return None
        table = table.set_column(at, name, times)
    rows = _cast(_struct_of(table, fields), fields)
    return rows if rows is None or _in_range(rows) else None


def _in_range(rows: pa.StructArray) -> bool:
    """Return whether no decimal has more digits than its type, and every time is in the years 1 to 9999."""
    for leaf in _leaves(rows):
        if types.is_decimal(leaf.type):
            try:
                leaf.validate(full=True)  # the reader does not
            except pa.ArrowInvalid:
                return False
        elif leaf.type in _BOUNDS:
            least, greatest = _BOUNDS[leaf.type]
            bounds = pc.min_max(leaf)
            if bounds["min"].is_valid and (bounds["min"].value < least or bounds["max"].value > greatest):
                return False
    return True


def _times(numbers: pa.ChunkedArray, unit: str) -> pa.ChunkedArray | None:
    """Return numbers since 1970 as times; None if one is in no year of 1 to 9999."""
    try:
        times = numbers.cast(pa.timestamp(unit, "UTC")).cast(pa.timestamp("us", "UTC"))
    except pa.ArrowException:
        return None
    bounds = pc.min_max(times.cast(pa.int64()))
    low, high = bounds["min"].as_py(), bounds["max"].as_py()
    return times if low is None or (low >= EARLIEST and high <= LATEST) else None


def _checked(values: pa.Array, rows: pa.StructArray, units: Units) -> Iterator[Typed]:
    """Yield what the reader returned, but let Python's json read the few rows that may have lost digits, or NaN."""
    suspects = _suspects(values, rows)
    if suspects is None:
        yield Typed(rows, _no_reasons(len(rows)))
        return
    at = 0
    for position in [*suspects.tolist(), len(rows)]:
        if position > at:
            yield Typed(rows.slice(at, position - at), _no_reasons(position - at))
        if position < len(rows):
            yield _by_python(values.slice(position, 1), rows.type, units)
        at = position + 1


def _suspects(values: pa.Array, rows: pa.StructArray) -> Any:
    """Return the positions of values with a number that floating point may not hold, None if there is none."""
    digits = 0
    for leaf in _leaves(rows):
        if not types.is_floating(leaf.type):
            continue
        limit, least = (2**53, 16) if leaf.type == pa.float64() else (2**24, 8)
        bounds = pc.min_max(leaf)
        low, high = bounds["min"].as_py(), bounds["max"].as_py()
        if low is not None and (low <= -limit or high >= limit or pc.any(pc.is_nan(leaf)).as_py()):
            digits = min(digits or least, least)
        elif low is None and leaf.null_count < len(leaf):  # only NaN
            digits = digits or least
    if not digits:
        return None
    marked = np.asarray(pc.match_substring_regex(values.cast(pa.string()), rf"[0-9]{{{digits}}}|NaN|Inf"))
    return np.flatnonzero(marked)


def _leaves(array: pa.Array) -> Iterator[pa.Array]:
    """Yield the columns that are not nested, of all levels."""
    if types.is_struct(array.type):
        for child in array.flatten():
            yield from _leaves(child)
    elif types.is_list(array.type):
        yield from _leaves(array.flatten())
    else:
        yield array


def _rest(values: pa.Array, plain: Any) -> pa.Array:
    """Return what follows the first byte of the plain values."""
    chosen = values if plain.all() else values.filter(pa.array(plain))
    return pc.binary_slice(chosen, 1, _END)


def _too_deep(rest: pa.Array) -> bool:
    if not len(rest) or rest.nbytes > LARGEST:
        return True
    counts = pc.add(pc.count_substring(rest, "{"), pc.count_substring(rest, "["))
    return bool(pc.max(counts).as_py() > MOST_OPENINGS)


def _read(rest: pa.Array, fields: pa.StructType, unknown: Literal["infer", "ignore"]) -> pa.Table | None:
    """Read values without their first byte; None if the reader refuses one of them, or takes it for something else."""
    schema = pa.schema([pa.field(_MARK, pa.bool_()), *(pa.field(one.name, _as_read(one.type)) for one in fields)])
    try:
        rest.cast(pa.string())  # the reader does not check UTF-8
        lines = pc.binary_join_element_wise(pa.scalar(_BEGIN), rest, pa.scalar(b"\n"), pa.scalar(b""))
        data = lines.buffers()[2]  # one after another
        table = pj.read_json(
            pa.BufferReader(data),
            pj.ReadOptions(use_threads=False, block_size=data.size + 1),
            pj.ParseOptions(explicit_schema=schema, newlines_in_values=True, unexpected_field_behavior=unknown),
        )
    except pa.ArrowException:
        return None
    mark = table.column(_MARK)
    return table if table.num_rows == len(rest) and mark.null_count == 0 and pc.all(mark).as_py() else None


def _as_read(kind: pa.DataType) -> pa.DataType:
    """Return the type as which the reader reads a column: it would take times for dates."""
    return with_leaves(kind, lambda leaf: pa.string() if types.is_date32(leaf) else leaf)


def _wider(kind: pa.DataType) -> pa.DataType:
    """Return a type with long for int: whether int is enough is seen afterwards."""
    return with_leaves(kind, lambda leaf: pa.int64() if leaf == pa.int32() else leaf)


def _struct_of(table: pa.Table, fields: pa.StructType) -> pa.StructArray:
    """Return the columns of these fields as one array."""
    columns = [table.column(field.name).combine_chunks() for field in fields]
    if not columns:
        return pa.array([{}] * table.num_rows, pa.struct([]))
    return pa.StructArray.from_arrays(columns, names=[field.name for field in fields])


def _unless_wider(found: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Return what was found, with int where it is known as int."""
    if types.is_struct(found) and types.is_struct(known):
        kinds = {field.name: field.type for field in known}
        return pa.struct(
            [(one.name, _unless_wider(one.type, kinds[one.name]) if one.name in kinds else one.type) for one in found]
        )
    if types.is_list(found) and types.is_list(known):
        return pa.list_(_unless_wider(found.value_type, known.value_type))
    return known if (found, known) == (pa.int64(), pa.int32()) else found


def _cast(values: Any, kind: pa.DataType) -> Any:
    """Return an array as a type, None if a value does not fit."""
    try:
        return values if values.type == kind else values.cast(kind)
    except pa.ArrowException:
        return None
