"""The columns of a table in Arrow, with field ids as Iceberg requires, and typed columns as Iceberg's types. Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa
from pyarrow import types
from pyiceberg import types as iceberg
from pyiceberg.schema import Schema

from seglog.errors import InvalidArgument
from seglog.table.schema import ARROW, UNFIT, arrow_field
from seglog.table.values.fields import field_of, with_leaves
from seglog.table.values.fitting import MICROSECONDS, Units

FIXED: dict[iceberg.IcebergType, pa.DataType] = {
    iceberg.BooleanType(): pa.bool_(),
    iceberg.IntegerType(): pa.int32(),
    iceberg.LongType(): pa.int64(),
    iceberg.FloatType(): pa.float32(),
    iceberg.DoubleType(): pa.float64(),
    iceberg.DateType(): pa.date32(),
    iceberg.TimestampType(): pa.timestamp("us"),
    iceberg.TimestamptzType(): pa.timestamp("us", "UTC"),
    iceberg.StringType(): pa.string(),
    iceberg.BinaryType(): pa.binary(),
}
"""Iceberg's types without parameters, as Arrow's."""
UNITS = "seglog.units"
"""The property of a table, and the metadata of a schema, for `Units` as JSON."""
_ARROW = {kind: one for one, kind in FIXED.items()}


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table.

    arrow: as they are written, with field ids; typed: the fields of values that have a column; has_typed: whether rows
    are typed, with a column for the reason why a value does not fit; units: which fields may be numbers for times.
    """

    arrow: pa.Schema
    typed: pa.StructType
    has_typed: bool
    units: Units = field(default_factory=dict)


def with_statistics(arrow: pa.Schema) -> list[str]:
    """Return the columns that files have statistics of: not values and headers, and no element of a list."""
    return ["offset", "partition", "timestamp", "key", *_typed_leaves(arrow)]


def with_dictionary(arrow: pa.Schema) -> list[str]:
    """Return the columns whose values may repeat."""
    return ["partition", "key", *_typed_leaves(arrow)]


def _typed_leaves(arrow: pa.Schema) -> list[str]:
    return [path for field in arrow if field.name not in ARROW.names for path in _leaves(field)]


def leaf_paths(kind: pa.DataType, path: str) -> Iterator[str]:
    """Yield the paths of the columns that Parquet stores for a column."""
    if types.is_struct(kind):
        for field in kind:
            yield from leaf_paths(field.type, f"{path}.{field.name}")
    elif types.is_map(kind):
        yield from leaf_paths(kind.key_type, f"{path}.key_value.key")
        yield from leaf_paths(kind.item_type, f"{path}.key_value.value")
    elif types.is_list(kind):
        yield from leaf_paths(kind.value_type, f"{path}.list.element")
    else:
        yield path


def _leaves(field: pa.Field, path: str = "") -> Iterator[str]:
    if types.is_struct(field.type):
        for inner in field.type:
            yield from _leaves(inner, f"{path}{field.name}.")
    elif not types.is_nested(field.type):
        yield path + field.name


def units_in(text: str | bytes, owner: str) -> Units:
    """Return units that were stored as JSON. InvalidArgument if they are no units. owner: names what has them."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(unit, str) for unit in found.values()):
        raise InvalidArgument(f'{owner} has {UNITS} that are no JSON object such as {{"created": "ms"}}')
    if unknown := set(found.values()) - set(MICROSECONDS):
        raise InvalidArgument(f"{owner} has the unit {min(unknown)!r}, which is none; choose {', '.join(MICROSECONDS)}")
    return found


def time_paths(kind: pa.DataType, path: str = "") -> Iterator[str]:
    """Yield the paths of the times in a type, as `Units` has them."""
    if types.is_struct(kind):
        for field in kind:
            yield from time_paths(field.type, f"{path}.{field.name}" if path else field.name)
    elif types.is_map(kind):
        yield from time_paths(kind.key_type, f"{path}.key")
        yield from time_paths(kind.item_type, f"{path}.*")
    elif types.is_list(kind):
        yield from time_paths(kind.value_type, f"{path}[]")
    elif types.is_timestamp(kind):
        yield path


def columns_of(schema: Schema, properties: Mapping[str, str] | None = None) -> Columns:
    """Return the columns of a table. InvalidArgument if another program has added one that cannot be written.

    properties: of the table, for the units of its times.
    """
    own = {field.name: field for field in ARROW}
    arrow = pa.schema([own.get(field.name) or _arrow_of(field, field.name) for field in schema.fields])
    missing = [name for name in ARROW.names if name not in arrow.names]
    if missing:
        raise InvalidArgument(f"the table has no column {missing[0]}: another program has deleted or renamed it")
    typed = [field for field in arrow if field.name not in (*ARROW.names, UNFIT)]
    plain = pa.struct([(field_of(field.name), with_leaves(field.type, lambda kind: kind)) for field in typed])  # no ids
    units = units_in((properties or {}).get(UNITS, "{}"), "the table")
    times = set(time_paths(plain))  # another program may have renamed one
    return Columns(arrow, plain, UNFIT in arrow.names, {path: unit for path, unit in units.items() if path in times})


def _arrow_of(field: iceberg.NestedField, where: str) -> pa.Field:
    return arrow_field(field.field_id, field.name, _arrow_type(field.field_type, where), required=field.required)


def _arrow_type(kind: iceberg.IcebergType, where: str) -> pa.DataType:
    if isinstance(kind, iceberg.StructType):
        return pa.struct([_arrow_of(field, f"{where}.{field.name}") for field in kind.fields])
    if isinstance(kind, iceberg.ListType):
        return pa.list_(_arrow_of(kind.element_field, f"{where}[]"))
    if isinstance(kind, iceberg.MapType):
        return pa.map_(_arrow_of(kind.key_field, f"{where}.key"), _arrow_of(kind.value_field, f"{where}.value"))
    if isinstance(kind, iceberg.DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if kind not in FIXED:
        raise InvalidArgument(
            f"the table's column {where} is of the type {kind}, which seglog does not write: delete it"
        )
    return FIXED[kind]


_USUAL = {
    pa.int8(): pa.int32(),
    pa.int16(): pa.int32(),
    pa.uint8(): pa.int32(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.large_string(): pa.string(),
    pa.string_view(): pa.string(),
    pa.large_binary(): pa.binary(),
    pa.binary_view(): pa.binary(),
}


def usual_type(kind: pa.DataType) -> pa.DataType:
    """Return the type that a table has for one of Arrow's: without metadata, nullable, times in microseconds."""
    return with_leaves(kind, _usual_leaf)


def _usual_leaf(kind: pa.DataType) -> pa.DataType:
    if types.is_large_list(kind):
        return pa.list_(usual_type(kind.value_type))
    if types.is_timestamp(kind):
        return pa.timestamp("us", "UTC" if kind.tz else None)
    return usual_type(kind.value_type) if types.is_dictionary(kind) else _USUAL.get(kind, kind)


def iceberg_type(kind: pa.DataType, where: str) -> iceberg.IcebergType:
    """Return a type as Iceberg's; the table gives it other ids. Raises InvalidArgument if there is none."""
    return _iceberg(kind, where, count(1))


def _iceberg(kind: pa.DataType, where: str, ids: Iterator[int]) -> iceberg.IcebergType:
    if types.is_struct(kind):
        if not kind.num_fields:
            raise InvalidArgument(
                f'the schema\'s {where} has no fields: name them, as in {{"id": "long"}}, give the type of all, as in '
                f'{{"*": "long"}}, or leave {where} out'
            )
        inner = [(next(ids), field.name, _iceberg(field.type, f"{where}.{field.name}", ids)) for field in kind]
        return iceberg.StructType(*(iceberg.NestedField(number, name, one) for number, name, one in inner))
    if types.is_list(kind):
        return iceberg.ListType(next(ids), _iceberg(kind.value_type, f"{where}[]", ids), element_required=False)
    if types.is_map(kind):
        parts = _iceberg(kind.key_type, f"{where}.key", ids), _iceberg(kind.item_type, f"{where}.*", ids)
        return iceberg.MapType(next(ids), parts[0], next(ids), parts[1], value_required=False)
    if types.is_decimal(kind):
        return iceberg.DecimalType(kind.precision, kind.scale)
    if kind not in _ARROW:
        known = ", ".join(str(one) for one in _ARROW)
        raise InvalidArgument(f"the schema's {where} is of the type {kind}; choose {known}, decimal, or nested ones")
    return _ARROW[kind]
