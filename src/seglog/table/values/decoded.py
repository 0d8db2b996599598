"""Values that were decoded one by one, as typed columns; and which values do not fit, and why. Pure."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from typing import Any, NamedTuple

import pyarrow as pa

from seglog.table.values.fitting import Unfit, converter

Decode = Callable[[bytes], Any]
"""Returns the fields of a value as a mapping, such as a dict; raises any Exception for a value of another format."""

LONGEST_REASON = 200


class Typed(NamedTuple):
    """A value per row. fields: a struct per value, null where it is absent or does not fit; unfit: why it does not."""

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
        return decode(value)
    except RecursionError:
        return Failed("it is nested too deeply")
    except Exception as error:  # noqa: BLE001 - of a function of the user; the record is kept, with the reason
        return Failed(f"it cannot be decoded: {type(error).__name__}: {error}")


def from_json(value: bytes) -> Any:
    """Decode JSON as RFC 8259 defines it, in UTF-8. NaN and Infinity fit no type."""
    return json.loads(value.decode(), parse_constant=_NotANumber)


def from_json_exactly(value: bytes) -> Any:
    """Decode JSON; fractions are decimals with all their digits."""
    return json.loads(value.decode(), parse_float=Decimal, parse_constant=_NotANumber)


class _NotANumber:
    """NaN or Infinity."""

    def __init__(self, _text: str) -> None:
        """Stand for the text."""


def typed(objects: Iterable[Any], fields: pa.StructType) -> Typed:
    """Return what `decoded` returned as columns."""
    convert = converter(fields, "")
    rows: list[Any] = []
    reasons: list[str | None] = []
    for one in objects:
        row, reason = _row(one, convert)
        rows.append(row)
        reasons.append(reason)
    return Typed(pa.array(rows, fields), pa.array(reasons, pa.string()))


def _row(one: Any, convert: Callable[[Any], Any]) -> tuple[Any, str | None]:
    if one is None:
        return None, None
    if isinstance(one, Failed):
        return None, _short(one.reason)
    if not isinstance(one, Mapping):
        return None, "it is not an object with fields"
    try:
        return convert(one), None
    except Unfit as error:
        return None, _short(str(error))


def _short(reason: str) -> str:
    return reason.encode(errors="replace").decode()[:LONGEST_REASON]
