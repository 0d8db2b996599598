"""Convert decoded values to the types of columns, exactly or not at all. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import types

from seglog.clock import microseconds
from seglog.record import EPOCH

Convert = Callable[[Any], Any]
Units = Mapping[str, str]
"""Which times may be numbers since 1970, by the path of their field (order.created, times[]): s, ms, us or ns."""
NO_UNITS: Units = {}
EARLIEST, LATEST = (microseconds(one.replace(tzinfo=UTC)) for one in (datetime.min, datetime.max))
"""The times (us) of the years 1 to 9999."""
MICROSECONDS = {"s": Decimal(1_000_000), "ms": Decimal(1000), "us": Decimal(1), "ns": Decimal("0.001")}
"""Of a unit."""
NO_UNIT = " without a unit"
_BELOW_MICROSECONDS = re.compile(r"(\.[0-9]{6})[0-9]+")


@dataclass(frozen=True, slots=True)
class NoValue:
    """What a field has that no column can hold. text: names it; kind: the type of its field, if it is known."""

    text: str
    kind: pa.DataType | None = None


class Unfit(Exception):
    """A value does not fit a type; the text names it and the reason."""


def converter(kind: pa.DataType, where: str, unfit: Callable[[str], None], units: Units) -> Convert:
    """Return a function that converts a decoded value, or raises Unfit.

    Integers must be exact, also in columns of floating point; fractions are rounded to the nearest number. Texts are
    taken for times, dates and decimals, numbers for times that have a unit; what is less than a microsecond is cut off.
    None, and a field that is missing, become null.

    Args:
        kind: The type; one that `seglog.table.columns` knows.
        where: Names the column, for Unfit.
        unfit: Called with the reason for each field of an object that does not fit; it becomes null, the others stay.
        units: See `Units`.
    """
    plain = _nested(kind, where, unfit, units) or _primitive(kind, units.get(where))

    def convert(value: Any) -> Any:
        if value is None:
            return None
        try:
            return plain(value)
        except (TypeError, ValueError, OverflowError, ArithmeticError, pa.ArrowException) as error:
            is_number = types.is_timestamp(kind) and type(value) in (int, float, Decimal)
            hint = NO_UNIT if is_number and where not in units else ""
            raise Unfit(f"{where} is {_kind_of(value)}, which does not fit {kind}{hint}") from error

    return convert


def _kind_of(value: Any) -> str:
    if isinstance(value, NoValue):
        return value.text
    return {
        bool: "a boolean", int: "an integer", float: "a number", Decimal: "a number", str: "a text", dict: "an object",
        list: "an array", bytes: "bytes",
    }.get(type(value), f"a {type(value).__name__}")  # fmt: skip


def _nested(kind: pa.DataType, where: str, unfit: Callable[[str], None], units: Units) -> Convert | None:
    if types.is_struct(kind):
        names = {field.name: f"{where}.{field.name}" if where else field.name for field in kind}
        parts = [(one.name, _or_null(converter(one.type, names[one.name], unfit, units), unfit)) for one in kind]
        return lambda value: {name: convert(_mapping(value).get(name)) for name, convert in parts}
    if types.is_map(kind):
        keys = converter(kind.key_type, f"{where}.key", unfit, units)
        items = converter(kind.item_type, f"{where}.*", unfit, units)
        return lambda value: [(_key(keys(key)), items(item)) for key, item in _mapping(value).items()]
    if types.is_list(kind):
        element = converter(kind.value_type, f"{where}[]", unfit, units)
        return lambda value: [element(one) for one in _sequence(value)]
    return None


def _or_null(convert: Convert, unfit: Callable[[str], None]) -> Convert:
    """Return a function for a field of an object: null, and the reason, if it does not fit."""

    def field(value: Any) -> Any:
        try:
            return convert(value)
        except Unfit as error:
            unfit(str(error))
            return None

    return field


def _mapping(value: Any) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise TypeError
    return value


def _sequence(value: Any) -> list[Any] | tuple[Any, ...]:
    if not isinstance(value, list | tuple):
        raise TypeError
    return value


def _key(key: Any) -> Any:
    if key is None:
        raise ValueError("a map has no null keys")
    return key


def _primitive(kind: pa.DataType, unit: str | None) -> Convert:
    if types.is_boolean(kind):
        return _boolean
    if types.is_integer(kind):
        least, greatest = (-(2**63), 2**63 - 1) if kind == pa.int64() else (-(2**31), 2**31 - 1)
        return lambda value: _integer(value, least, greatest)
    if types.is_floating(kind):
        return _double if kind == pa.float64() else _float
    if types.is_string(kind):
        return _text
    if types.is_binary(kind):
        return _binary
    if types.is_timestamp(kind):
        return lambda value: _timestamp(value, unit)
    if types.is_date32(kind):
        return _date
    return lambda value: _decimal(value, kind)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise TypeError
    return value


def _integer(value: Any, least: int, greatest: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= greatest:
        raise ValueError
    return int(value)


def _double(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise TypeError
    number = float(value)
    if (isinstance(value, int) and number != value) or (math.isinf(number) and not isinstance(value, float)):
        raise ValueError
    return number


def _float(value: Any) -> float:
    number = _double(value)
    with np.errstate(over="ignore"):
        narrow = float(np.float32(number))
    if (isinstance(value, int) and narrow != value) or (np.isinf(narrow) and not np.isinf(number)):
        raise ValueError
    return narrow


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    value.encode()  # a text with half a surrogate pair has no bytes
    return value


def _binary(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(memoryview(value))


def _timestamp(value: Any, unit: str | None) -> Any:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)  # raises OverflowError
    if unit is not None and isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return EPOCH + timedelta(microseconds=math.floor(Decimal(str(value)) * MICROSECONDS[unit]))
    text = pa.scalar(_BELOW_MICROSECONDS.sub(r"\1", _text(value)))
    try:
        return text.cast(pa.timestamp("us", "UTC")).as_py()
    except pa.ArrowInvalid:  # no zone: it is UTC
        return text.cast(pa.timestamp("us")).as_py().replace(tzinfo=UTC)


def _date(value: Any) -> date:
    if isinstance(value, str):
        return date.fromisoformat(value)
    if not isinstance(value, date) or isinstance(value, datetime):
        raise TypeError
    return value


def _decimal(value: Any, kind: pa.DataType) -> Decimal:
    if isinstance(value, bool | float) or not isinstance(value, int | str | Decimal):
        raise TypeError
    pa.scalar(Decimal(value), kind)  # raises if digits would be lost
    return Decimal(value)
