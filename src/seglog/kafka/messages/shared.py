"""Fields that many messages have."""

from __future__ import annotations

from seglog.kafka.wire.schema import INT16, INT32, NULLABLE_STRING, STRING, Array, Field, Struct

UNKNOWN_RIGHTS = -(2**31)
"""What a response has instead of the rights of its caller, which this server does not list."""
ERROR = Field("error_code", INT16, default=0)
MESSAGE = Field("error_message", NULLABLE_STRING, default=None)


def throttle(since: int) -> Field:
    """Return the field for how long the client should send nothing, which responses have from version `since` on."""
    return Field("throttle_time_ms", INT32, since=since, default=0)


THROTTLE = throttle(0)


def rows(*fields: Field, nullable: bool = False, nullable_since: int = 0) -> Array:
    """Return the type of an array of structures."""
    return Array(Struct(*fields), nullable, nullable_since)


def topics(*fields: Field) -> Field:
    """Return the field for partitions by topic. fields: of each partition."""
    return Field("topics", rows(Field("name", STRING), Field("partitions", rows(*fields))))
