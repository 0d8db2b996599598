"""Which fields of values become columns, and how the types of columns may change: as Iceberg allows it. Pure.

A column is null where a value lacks its field, so fields only ever come in addition. A type becomes wider (int to long,
float to double, decimal to more digits); no other change of a type keeps the rows that are there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from datetime import date, datetime
from typing import Any

import pyarrow as pa
from pyarrow import types

MOST_FIELDS = 1000  # of all levels together
LONGEST_NAME = 128
DEEPEST = 32
RESERVED = frozenset({"offset", "partition", "timestamp", "key", "value", "headers", "unfit"})
_PREFIX = "value_"


def column_of(field: str) -> str:
    """Return the name of the column of a field: value_NAME where a record has a column of that name itself."""
    return _PREFIX + field if field.lower() in RESERVED else field


def field_of(column: str) -> str:
    """Return the name of the field of a column."""
    bare = column.removeprefix(_PREFIX)
    return bare if bare.lower() in RESERVED else column


def can_be_column(name: str) -> bool:
    """Return whether a field can become a column: its name is one in every engine, and no other field's column."""
    return (
        0 < len(name) <= LONGEST_NAME
        and name.isprintable()
        and name == name.strip()
        and not set(name) & set('.`"')
        and field_of(name) == name
    )


def with_leaves(kind: pa.DataType, change: Callable[[pa.DataType], pa.DataType]) -> pa.DataType:
    """Return a type with every type in it that is not nested changed; all fields nullable, without metadata."""
    if types.is_struct(kind):
        return pa.struct([pa.field(field.name, with_leaves(field.type, change)) for field in kind])
    if types.is_map(kind):
        return pa.map_(with_leaves(kind.key_type, change), with_leaves(kind.item_type, change))
    return pa.list_(with_leaves(kind.value_type, change)) if types.is_list(kind) else change(kind)


def usable(kind: pa.DataType, depth: int = 0) -> pa.DataType | None:
    """Return what an inferred type becomes in a table; None: no column yet, as with fields that were always null."""
    if types.is_struct(kind) and depth < DEEPEST:
        inner = {field.name: usable(field.type, depth + 1) for field in kind if can_be_column(field.name)}
        known = _without_doubles({name: one for name, one in inner.items() if one is not None})
        return pa.struct(list(known.items())) if known else None
    if types.is_list(kind) and depth < DEEPEST:
        element = usable(kind.value_type, depth + 1)
        return None if element is None else pa.list_(element)
    if types.is_timestamp(kind) and kind.unit == "s":  # pyarrow takes some texts for times
        return pa.string()
    plain = (types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_binary, types.is_date32)
    return kind if types.is_timestamp(kind) or any(one(kind) for one in plain) else None


def _without_doubles(named: Mapping[str, pa.DataType]) -> dict[str, pa.DataType]:
    """Keep the first of names that differ in upper and lower case only: to many engines they are the same."""
    seen: dict[str, str] = {}
    for name in named:
        seen.setdefault(name.lower(), name)
    return {name: named[name] for name in seen.values()}


def merged(known: pa.StructType, found: pa.StructType) -> pa.StructType:
    """Return the known fields with those that were found in addition, and wider types where Iceberg allows it."""
    result = {field.name: field.type for field in known}
    cases = {name.lower(): name for name in result}
    left = MOST_FIELDS - _count(known)
    for field in found:
        name = cases.get(field.name.lower())
        if name is None and _count(field.type) + 1 <= left:
            result[field.name] = field.type
            cases[field.name.lower()] = field.name
            left -= _count(field.type) + 1
        elif name == field.name:
            result[name] = _joined(result[name], field.type)
    return pa.struct(list(result.items()))


def _joined(known: pa.DataType, found: pa.DataType) -> pa.DataType:
    if types.is_struct(known) and types.is_struct(found):
        return merged(known, found)
    if types.is_list(known) and types.is_list(found):
        return pa.list_(_joined(known.value_type, found.value_type))
    return found if widens(known, found) else known


def widens(known: pa.DataType, wider: pa.DataType) -> bool:
    """Return whether Iceberg can change a column from a type to a wider one."""
    if types.is_decimal(known) and types.is_decimal(wider):
        return bool(known.scale == wider.scale and known.precision < wider.precision)
    return (known, wider) in [(pa.int32(), pa.int64()), (pa.float32(), pa.float64())]


def lacking(known: pa.StructType, wanted: pa.StructType, where: str = "") -> list[str]:
    """Return why columns cannot take the types that are wanted; empty: `merged` has them all."""
    result: list[str] = []
    for field in wanted:
        here = f"{where}{field.name}"
        index = known.get_field_index(field.name)
        if index < 0:
            result.append(f"{here} is one field too many, or differs from another one in upper and lower case only")
        else:
            result += _differences(known.field(index).type, field.type, here)
    return result


def _differences(known: pa.DataType, wanted: pa.DataType, where: str) -> list[str]:
    if types.is_struct(known) and types.is_struct(wanted):
        return lacking(known, wanted, f"{where}.")
    if types.is_list(known) and types.is_list(wanted):
        return _differences(known.value_type, wanted.value_type, f"{where}[]")
    return [] if known == wanted or widens(wanted, known) else [f"{where} is {known}, not {wanted}"]


def _count(kind: pa.DataType) -> int:
    if types.is_struct(kind):
        return sum(1 + _count(field.type) for field in kind)
    return _count(kind.value_type) if types.is_list(kind) else 0


def inferred(values: Iterable[Any]) -> pa.StructType:
    """Return the fields of decoded objects. Where types differ the first one counts; integers and fractions: double."""
    kind: pa.DataType = pa.struct([])
    for value in values:
        if isinstance(value, Mapping):
            kind = _both(kind, _type_of(value))
    return usable(kind) or pa.struct([])


def _both(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if types.is_null(one):
        return other
    if types.is_struct(one) and types.is_struct(other):
        result = {field.name: field.type for field in one}
        for field in other:
            result[field.name] = _both(result[field.name], field.type) if field.name in result else field.type
        return pa.struct(list(result.items()))
    if types.is_list(one) and types.is_list(other):
        return pa.list_(_both(one.value_type, other.value_type))
    return other if (one, other) == (pa.int64(), pa.float64()) else one


_PLAIN = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
}


def _type_of(value: Any, depth: int = 0) -> pa.DataType:
    if depth >= DEEPEST:
        return pa.null()
    if isinstance(value, Mapping):
        named = {name: one for name, one in value.items() if isinstance(name, str) and can_be_column(name)}
        return pa.struct([(name, _type_of(one, depth + 1)) for name, one in named.items()])
    if isinstance(value, list | tuple):
        kind: pa.DataType = pa.null()
        for one in value:
            kind = _both(kind, _type_of(one, depth + 1))
        return pa.list_(kind)
    if isinstance(value, datetime):
        return pa.timestamp("us", "UTC")
    return _PLAIN.get(type(value), pa.null())
