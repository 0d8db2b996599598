"""Which fields of values become columns, and how the types of columns may change: as Iceberg allows it. Pure.

A column is null where a value lacks its field, so fields only ever come in addition. A type becomes wider (int to long,
float to double, decimal to more digits); no other change of a type keeps the rows that are there.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
from pyarrow import types

from seglog.table.values.fitting import NoValue
from seglog.table.values.protobuf import Map

MOST_FIELDS = 1000  # of all levels together
LONGEST_NAME = 128
DEEPEST = 32
MOST_KEYS = 200  # of an object; one with more that are of one type is a map
MOST_DIGITS = 38  # of a decimal
RESERVED = frozenset({"offset", "partition", "timestamp", "key", "value", "headers", "unfit"})
_PREFIX = "value_"
_OTHER_CASE = "another field differs in upper and lower case only"
LeftOut = dict[str, str]
"""Fields of values that have no column: their path, and why."""


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


def usable(kind: pa.DataType, left_out: LeftOut, where: str = "", depth: int = 0) -> pa.DataType | None:
    """Return what an inferred type becomes in a table; None: no column, as with fields that were always null.

    left_out: gets the fields that are not always null and have no column, with the reason.
    """
    if types.is_null(kind):
        return None
    if types.is_nested(kind) and depth >= DEEPEST:
        left_out[where] = f"it is nested more than {DEEPEST} deep"
        return None
    mapped = _as_map(kind) if types.is_struct(kind) and depth else None
    if mapped is not None or types.is_map(kind):
        kind = mapped or kind
        keys = usable(kind.key_type, left_out, f"{where}.key", depth + 1)
        items = usable(kind.item_type, left_out, f"{where}.*", depth + 1)
        return None if keys is None or items is None else pa.map_(keys, items)
    if types.is_struct(kind):
        return _usable_fields(kind, left_out, where, depth)
    if types.is_list(kind):
        element = usable(kind.value_type, left_out, f"{where}[]", depth + 1)
        return None if element is None else pa.list_(element)
    if types.is_timestamp(kind) and kind.unit == "s":  # pyarrow takes some texts for times
        return pa.string()
    if any(is_one(kind) for is_one in _COLUMN_TYPES):
        return kind
    left_out[where] = "no column can have its type"
    return None


def _usable_fields(kind: pa.StructType, left_out: LeftOut, where: str, depth: int) -> pa.StructType | None:
    seen: dict[str, str] = {}
    named: dict[str, pa.DataType] = {}
    for field in kind:
        here = f"{where}.{field.name}" if where else field.name
        inner = usable(field.type, left_out, here, depth + 1)
        if inner is None:
            continue
        if not can_be_column(field.name):
            left_out[here] = "no column can have its name"
        elif seen.setdefault(field.name.lower(), field.name) != field.name:  # to many engines they are the same
            left_out[here] = _OTHER_CASE
        else:
            named[field.name] = inner
    return pa.struct(list(named.items())) if named else None


def _as_map(kind: pa.StructType) -> pa.MapType | None:
    """Return the type of an object with many fields of one type as a map."""
    if kind.num_fields <= MOST_KEYS:
        return None
    items: pa.DataType = pa.null()
    for field in kind:
        items = _both(items, field.type)
    return pa.map_(pa.string(), items) if all(_holds(items, field.type) for field in kind) else None


def _holds(kind: pa.DataType, other: pa.DataType) -> bool:
    """Return whether a type that `_both` returned also holds the values of one that it was given."""
    if types.is_struct(kind) and types.is_struct(other):
        return all(_holds(kind.field(field.name).type, field.type) for field in other)
    if types.is_list(kind) and types.is_list(other):
        return _holds(kind.value_type, other.value_type)
    both = types.is_decimal(kind) and types.is_decimal(other)
    return both or kind == other or types.is_null(other) or (kind, other) == (pa.float64(), pa.int64())


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
    if types.is_map(known) and types.is_map(found):
        return pa.map_(known.key_type, _joined(known.item_type, found.item_type))
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
    if types.is_map(known) and types.is_map(wanted) and known.key_type == wanted.key_type:
        return _differences(known.item_type, wanted.item_type, f"{where}.*")
    return [] if known == wanted or widens(wanted, known) else [f"{where} is {known}, not {wanted}"]


def without_column(known: pa.DataType, found: pa.DataType, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield the found fields, of all levels, that `merged` did not take, and why."""
    if types.is_list(known) and types.is_list(found):
        yield from without_column(known.value_type, found.value_type, f"{where}[]")
    elif types.is_map(known) and types.is_map(found):
        yield from without_column(known.item_type, found.item_type, f"{where}.*")
    elif types.is_struct(known) and types.is_map(found):
        yield where, f"it has more than {MOST_KEYS} fields now, and was no map when it got its column"
    elif types.is_struct(known) and types.is_struct(found):
        cases = {field.name.lower() for field in known}
        for field in found:
            here = f"{where}.{field.name}" if where else field.name
            index = known.get_field_index(field.name)
            if index >= 0:
                yield from without_column(known.field(index).type, field.type, here)
            elif field.name.lower() in cases:
                yield here, _OTHER_CASE
            elif _count(field.type):
                yield (
                    here,
                    f"its fields ({_count(field.type):,}) are too many for what is left of {MOST_FIELDS} columns",
                )
            else:
                yield here, f"there are {MOST_FIELDS} typed columns"


def _count(kind: pa.DataType) -> int:
    if types.is_struct(kind):
        return sum(1 + _count(field.type) for field in kind)
    if types.is_map(kind):
        return _count(kind.item_type)
    return _count(kind.value_type) if types.is_list(kind) else 0


def inferred(values: Iterable[Any], known: pa.StructType, left_out: LeftOut) -> pa.StructType:
    """Return the fields of decoded objects. Where types differ the first one counts; integers and fractions: double.

    known: the columns that there are: an object whose column is a map is one, however few keys it has; left_out: as in
    `usable`.
    """
    kinds: dict[str, pa.DataType] = {}
    for value in values:
        for name, one in value.items() if isinstance(value, Mapping) else ():
            if isinstance(name, str):
                kinds[name] = _both(kinds.get(name, pa.null()), _type_of(one, 1))
    return usable(_as_known(pa.struct(list(kinds.items())), known), left_out) or pa.struct([])


def _as_known(found: pa.DataType, known: pa.DataType) -> pa.DataType:
    """Return a type with maps for objects whose column is a map, as their keys are no fields; known fields first."""
    if types.is_map(known) and types.is_struct(found):
        items = functools.reduce(_both, (field.type for field in found), pa.null())
        found = pa.map_(known.key_type, items)
    if types.is_map(known) and types.is_map(found):
        return pa.map_(found.key_type, _as_known(found.item_type, known.item_type))
    if types.is_list(known) and types.is_list(found):
        return pa.list_(_as_known(found.value_type, known.value_type))
    if types.is_struct(known) and types.is_struct(found):
        kinds = {field.name: field.type for field in known}
        ordered = sorted(found, key=lambda field: field.name not in kinds)
        return pa.struct([(one.name, _as_known(one.type, kinds.get(one.name, pa.null()))) for one in ordered])
    return found


def _both(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    if types.is_null(one) or types.is_null(other):
        return other if types.is_null(one) else one
    if types.is_struct(one) and types.is_map(other):
        return _both(other, one)
    if types.is_map(one) and (types.is_map(other) or types.is_struct(other)):
        items = [other.item_type] if types.is_map(other) else [field.type for field in other]
        return pa.map_(one.key_type, functools.reduce(_both, items, one.item_type))
    if types.is_struct(one) and types.is_struct(other):
        result = {field.name: field.type for field in one}
        for field in other:
            result[field.name] = _both(result[field.name], field.type) if field.name in result else field.type
        joined = pa.struct(list(result.items()))
        return _as_map(joined) or joined
    if types.is_list(one) and types.is_list(other):
        return pa.list_(_both(one.value_type, other.value_type))
    if types.is_decimal(one) and types.is_decimal(other):
        return one if one.scale >= other.scale else other
    return other if (one, other) == (pa.int64(), pa.float64()) else one


_COLUMN_TYPES = (
    types.is_boolean, types.is_integer, types.is_floating, types.is_string, types.is_binary, types.is_date32,
    types.is_timestamp, types.is_decimal,
)  # fmt: skip
_PLAIN = {
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    bytes: pa.binary(),
    date: pa.date32(),
}


UNKNOWN = pa.month_day_nano_interval()
"""For a value that no type of a table can hold."""


def _type_of(value: Any, depth: int) -> pa.DataType:
    if value is None:
        return pa.null()
    if depth > DEEPEST:
        return UNKNOWN
    if isinstance(value, Mapping):
        kinds = [(name, _type_of(one, depth + 1)) for name, one in value.items()]
        if isinstance(value, Map) or not all(isinstance(name, str) for name in value):
            keys = functools.reduce(_both, (_type_of(name, depth + 1) for name in value), pa.null())
            items = functools.reduce(_both, (kind for _, kind in kinds), pa.null())
            return keys if types.is_null(keys) else pa.map_(keys, items)
        kind = pa.struct(kinds)
        return _as_map(kind) or kind
    if isinstance(value, list | tuple):
        return pa.list_(functools.reduce(_both, (_type_of(one, depth + 1) for one in value), pa.null()))
    if isinstance(value, NoValue):
        return UNKNOWN if value.kind is None else value.kind
    if isinstance(value, datetime):
        return pa.timestamp("us", "UTC")
    return _decimal(value) if isinstance(value, Decimal) else _PLAIN.get(type(value), UNKNOWN)


def _decimal(value: Decimal) -> pa.DataType:
    """Return a type with the fraction digits of a value, and as many others as there can be."""
    exponent = value.as_tuple().exponent
    scale = max(0, -exponent) if isinstance(exponent, int) else 0
    return pa.decimal128(MOST_DIGITS, scale) if scale <= MOST_DIGITS else UNKNOWN
