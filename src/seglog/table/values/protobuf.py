"""A message of Protobuf as fields: integers stay integers, and a field without presence has its default.

Knows messages by their descriptors, so that it needs no Protobuf.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC
from typing import Any

import pyarrow as pa

from seglog.table.values.fitting import NoValue


def _time(message: Any) -> Any:
    try:
        return message.ToDatetime(UTC)
    except (ValueError, OverflowError):
        return NoValue("a Timestamp outside the years 1 to 9999, or with invalid nanos", pa.timestamp("us", "UTC"))


_REPEATED = 3  # FieldDescriptor.LABEL_REPEATED, of versions without is_repeated
_KNOWN: dict[str, Callable[[Any], Any]] = {
    "google.protobuf.Timestamp": _time,
    "google.protobuf.Struct": lambda message: {name: _message(one) for name, one in message.fields.items()},
    "google.protobuf.ListValue": lambda message: [_message(one) for one in message.values],
    "google.protobuf.Value": lambda message: _chosen(message, message.WhichOneof("kind")),
}
_WRAPPERS = "google/protobuf/wrappers.proto"


class Map(dict[Any, Any]):
    """Entries whose keys are no names of fields."""


def fields_of_message(decoded: Any) -> Any:
    """Return the fields of a message by their names in the .proto file; another object unchanged.

    A field that may be absent (optional, of a oneof, a message) and is, is None. An enum is the name of its value, or
    its number as text if it has none; a Timestamp is a datetime, in microseconds; a wrapper, a Struct and a Value are
    what they contain.
    """
    return _message(decoded) if hasattr(decoded, "DESCRIPTOR") else decoded


def _message(message: Any) -> Any:
    kind = message.DESCRIPTOR
    if kind.full_name in _KNOWN:
        return _KNOWN[kind.full_name](message)
    if kind.file.name == _WRAPPERS:
        return message.value
    return {field.name: _field(message, field) for field in kind.fields}


def _chosen(message: Any, name: str | None) -> Any:
    return None if name in (None, "null_value") else fields_of_message(getattr(message, name))


def _field(message: Any, field: Any) -> Any:
    value = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        items = field.message_type.fields_by_name["value"]
        return Map((key, _value(value[key], items)) for key in value)
    if getattr(field, "is_repeated", None) or getattr(field, "label", None) == _REPEATED:
        return [_value(one, field) for one in value]
    return None if field.has_presence and not message.HasField(field.name) else _value(value, field)


def _value(value: Any, field: Any) -> Any:
    if field.message_type is not None:
        return _message(value)
    if field.enum_type is not None:
        named = field.enum_type.values_by_number.get(value)
        return str(value) if named is None else named.name
    return value
