"""Values that were decoded one by one, as typed columns; and which values do not fit, and why. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from seglog.table.values.fitting import NO_UNITS, NoValue, Units, converter
from seglog.table.values.protobuf import fields_of_message

Decode = Callable[[bytes], Any]
"""Returns the fields of a value as a mapping, such as a dict, or as a message of Protobuf; raises any Exception for a
value of another format."""

LONGEST_REASON = 200


class Typed(NamedTuple):
    """A value per row.

    fields: a struct per value, null where it is absent or no object, with null for a field that does not fit; unfit:
    why.
    """

    fields: pa.StructArray
    unfit: pa.StringArray


class Failed(NamedTuple):
    """What a value that cannot be decoded becomes. reason: why."""

    reason: str


def decoded(values: Iterable[bytes | None], decode: Decode) -> list[Any]:
    """Return what `decode` returns for each value; Failed where it raises; None for no value."""
    return [None if value is None else _decoded(value, decode) for value in values]


def _decoded(value: bytes, decode: Decode) -> Any:
    try:
        return fields_of_message(decode(value))
    except RecursionError:
        return Failed("it is nested too deeply")
    except Exception as error:  # noqa: BLE001 - of a function of the user; the record is kept, with the reason
        return Failed(f"it cannot be decoded: {type(error).__name__}: {error}")


def from_json(value: bytes) -> Any:
    """Decode JSON as RFC 8259 defines it, in UTF-8. NaN and Infinity fit no type."""
    return json.loads(value.decode(), parse_constant=NoValue)


def from_json_exactly(value: bytes) -> Any:
    """Decode JSON; fractions are decimals with all their digits."""
    return json.loads(value.decode(), parse_float=Decimal, parse_constant=NoValue)


def typed(objects: Iterable[Any], fields: pa.StructType, units: Units = NO_UNITS) -> Typed:
    """Return what `decoded` returned as columns."""
    unfit: list[str] = []
    convert = converter(fields, "", unfit.append, units)
    rows: list[Any] = []
    reasons: list[str | None] = []
    for one in objects:
        unfit.clear()
        rows.append(_row(one, convert, unfit))
        reasons.append(_short("; ".join(unfit)) if unfit else None)
    return Typed(pa.array(rows, fields), pa.array(reasons, pa.string()))


def _row(one: Any, convert: Callable[[Any], Any], unfit: list[str]) -> Any:
    if isinstance(one, Failed):
        unfit.append(one.reason)
    elif one is not None and not isinstance(one, Mapping):
        unfit.append("it is not an object with fields")
    else:
        return convert(one)
    return None


def _short(reason: str) -> str:
    return reason.encode(errors="replace").decode()[:LONGEST_REASON]
