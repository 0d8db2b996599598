"""Serializers: between the keys and values of a program and the bytes that a log stores.

    orders = Topic.open("orders", key_serializer=STRING, value_serializer=JSON)
    orders.append({"qty": 3}, key="order-19")

A topic, a producer or a consumer takes a serializer, or a function of its own for formats such as Avro and Protobuf.
Null stays null: a missing key, and the null value of a tombstone, never reach a serializer. The serialized key decides
the partition and is what compaction compares, so equal keys must be serialized to equal bytes. Without serializers keys
and values are bytes, as they are in a log.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, TypeVar, runtime_checkable

from seglog.errors import InvalidType, SerializationError
from seglog.record import Record, TopicRecord

Call = Callable[[Any], Any]
AnyRecord = TypeVar("AnyRecord", Record, TopicRecord)


@runtime_checkable
class Serializer(Protocol):
    """Both directions of one format. Either may raise any exception for what it does not accept."""

    def serialize(self, value: Any, /) -> bytes:
        """Return the bytes of a key or value, which is not None."""
        ...

    def deserialize(self, data: bytes, /) -> Any:
        """Return the key or value of bytes that `serialize` returned."""
        ...


Serialize = Serializer | Callable[[Any], bytes]
"""What a topic or producer takes: a serializer, or a function that returns bytes."""

Deserialize = Serializer | Callable[[bytes], Any]
"""What a topic or consumer takes: a serializer, or a function of bytes."""


class _Json:
    """Compact JSON in UTF-8 with sorted names, so that equal objects are equal bytes. NaN and infinity are refused."""

    def serialize(self, value: Any, /) -> bytes:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True).encode()

    def deserialize(self, data: bytes, /) -> Any:
        return json.loads(data)

    def __repr__(self) -> str:
        return "JSON"


class _String:
    """Text in UTF-8."""

    def serialize(self, value: str, /) -> bytes:
        if not isinstance(value, str):
            raise TypeError(f"it must be str, not {type(value).__name__}")
        return value.encode()

    def deserialize(self, data: bytes, /) -> str:
        return data.decode()

    def __repr__(self) -> str:
        return "STRING"


JSON: Serializer = _Json()
"""Compact JSON in UTF-8 with sorted names, so that equal objects are equal bytes. NaN and infinity are refused."""

STRING: Serializer = _String()
"""Text in UTF-8."""


class Serializers(NamedTuple):
    """The functions of one topic, producer or consumer; None: bytes stay as they are."""

    key_serializer: Call | None = None
    value_serializer: Call | None = None
    key_deserializer: Call | None = None
    value_deserializer: Call | None = None

    def serialized(
        self, topic: str, key: Any, value: Any, partition: int | None = None
    ) -> tuple[bytes | None, bytes | None]:
        """Return key and value as bytes. Raises SerializationError; nothing is stored then."""
        return self.serialized_key(topic, key, partition), (
            value
            if value is None or self.value_serializer is None
            else _called(self.value_serializer, value, "value", topic, partition)
        )

    def serialized_key(self, topic: str, key: Any, partition: int | None = None) -> bytes | None:
        """Return a key as bytes. Raises SerializationError."""
        if key is None or self.key_serializer is None:
            return key  # type: ignore[no-any-return] # bytes, as the append itself checks
        return _called(self.key_serializer, key, "key", topic, partition)

    def deserialized(self, record: AnyRecord, topic: str, partition: int | None) -> AnyRecord:
        """Return a record with its key and value as objects. Raises SerializationError with the record as stored."""
        key, value = record.key, record.value
        field = "key"
        try:
            if key is not None and self.key_deserializer is not None:
                key = self.key_deserializer(key)
            field = "value"
            if value is not None and self.value_deserializer is not None:
                value = self.value_deserializer(value)
        except Exception as error:
            raise SerializationError(
                f"the {field} at offset {record.offset} in partition {partition} of topic {topic!r} cannot be "
                f"deserialized: {type(error).__name__}: {error}. `record` of this error has its bytes; "
                f"continue at offset {record.offset + 1} to skip it",
                topic=topic,
                partition=partition,
                offset=record.offset,
                field=field,
                record=record,
            ) from error
        if isinstance(record, TopicRecord):
            return TopicRecord(topic, record.partition, record.offset, record.timestamp, key, value, record.headers)
        return record._replace(key=key, value=value)


def serializers_of(
    key_serializer: Serialize | None = None,
    value_serializer: Serialize | None = None,
    key_deserializer: Deserialize | None = None,
    value_deserializer: Deserialize | None = None,
) -> Serializers | None:
    """Return the functions of these arguments; None if none is given. Raises InvalidType."""
    if key_serializer is value_serializer is key_deserializer is value_deserializer is None:
        return None
    return Serializers(
        _function(key_serializer, "serialize", "key_serializer"),
        _function(value_serializer, "serialize", "value_serializer"),
        _function(key_deserializer, "deserialize", "key_deserializer"),
        _function(value_deserializer, "deserialize", "value_deserializer"),
    )


def _function(given: object, method: str, what: str) -> Call | None:
    if given is None:
        return None
    if isinstance(given, Serializer) and not isinstance(given, type):
        return getattr(given, method)  # type: ignore[no-any-return] # `serialize` or `deserialize`
    if callable(given):
        return given
    raise InvalidType(f"{what} must be a serializer such as seglog.serializers.JSON, or a function, not {given!r:.80}")


def _called(serialize: Call, given: Any, field: str, topic: str, partition: int | None) -> bytes:
    try:
        data = serialize(given)
        if isinstance(data, (bytes, bytearray, memoryview)):
            return bytes(data)
        problem = f"the serializer returned {type(data).__name__}, not bytes"
        cause = None
    except Exception as error:  # noqa: BLE001 - of the caller's function
        problem, cause = f"{type(error).__name__}: {error}", error
    raise SerializationError(
        f"the {field} of a record for topic {topic!r} cannot be serialized, and nothing was stored: {problem}",
        topic=topic,
        partition=partition,
        offset=None,
        field=field,
        record=None,
    ) from cause
