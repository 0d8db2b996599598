"""JSON schemas of the answers: exact, so that a client may rely on them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from seglog.log.info import CompactionReport, CompressionReport, SegmentInfo
from seglog.server.api.models import NAME
from seglog.topic.cleaning.state import LogState

Schema = Mapping[str, Any]

INTEGER: Schema = {"type": "integer", "format": "int64"}
COUNT: Schema = {**INTEGER, "minimum": 0}  # or an offset
NUMBER: Schema = {"type": "number"}
STRING: Schema = {"type": "string"}
BINARY: Schema = {"type": "string", "format": "binary"}
BOOLEAN: Schema = {"type": "boolean"}


def object_of(properties: Mapping[str, Schema]) -> Schema:
    """Describe an object with exactly these properties."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": [*properties],
        "additionalProperties": False,
    }


def list_of(schema: Schema) -> Schema:
    """Describe an array of such values."""
    return {"type": "array", "items": schema}


def or_null(schema: Schema) -> Schema:
    """Describe such a value, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def by_name(schema: Schema) -> Schema:
    """Describe an object: a topic's or a group's name -> such a value."""
    return {"type": "object", "patternProperties": {f"^{NAME}$": schema}, "additionalProperties": False}


def by_number(schema: Schema) -> Schema:
    """Describe an object: a partition's number -> such a value."""
    return {"type": "object", "patternProperties": {"^[0-9]{1,5}$": schema}, "additionalProperties": False}


def fields_of(kind: type, **others: Schema) -> dict[str, Schema]:
    """Describe the fields of a dataclass of ours: counts, unless they are named among the others."""
    return {one.name: others.get(one.name, COUNT) for one in fields(kind)}


# --- topics -----------------------------------------------------------------------------------------------------------

TOPIC: Mapping[str, Schema] = {
    "name": STRING,
    "id": STRING,
    "partitions": COUNT,
    "records": COUNT,
    "bytes": COUNT,
    "retention": {"$ref": "#/components/schemas/RetentionModel"},
    "policies": {"$ref": "#/components/schemas/PoliciesModel"},
    "config": {"$ref": "#/components/schemas/ConfigModel"},
}
TOPICS: Mapping[str, Schema] = {"topics": list_of(object_of(TOPIC)), "failed": by_name(STRING)}
STATE: Mapping[str, Schema] = {
    **dict.fromkeys(("lowest_offset", "next_offset", "durable_offset", "bytes", "initial_offset"), COUNT),
    "log": STRING,
    **dict.fromkeys(("epoch", "version", "cuts_from"), COUNT),
    "cuts": list_of(list_of(COUNT)),
}
TOPIC_WITH_PARTITIONS: Mapping[str, Schema] = {
    **TOPIC,
    "partition_states": list_of(object_of({"partition": COUNT, **STATE, "segments": COUNT})),
}
REPORT = object_of(fields_of(CompactionReport, damaged=list_of(STRING)))
COMPRESSION = object_of(fields_of(CompressionReport, damaged=list_of(STRING)))
SEGMENT = object_of(
    {
        **fields_of(
            SegmentInfo,
            min_timestamp=or_null(INTEGER),
            max_timestamp=or_null(INTEGER),
            sealed_at=or_null(INTEGER),
            created=INTEGER,
            dense=BOOLEAN,
            name=STRING,
            codec=or_null(STRING),
        ),
        "file": COUNT,
        "garbage": or_null(NUMBER),
    }
)
STANDING = object_of(
    {
        "due": or_null(STRING),
        "dirty_bytes": COUNT,
        "total_bytes": COUNT,
        "ratio": NUMBER,
        "next_at": or_null(INTEGER),
        "pinned": or_null(COUNT),
        "to_compress": COUNT,
    }
)
CLEANER = object_of(
    fields_of(
        LogState,
        name=STRING,
        doing=STRING,
        due=or_null(STRING),
        ratio=NUMBER,
        next_at=or_null(INTEGER),
        looked_at=or_null(INTEGER),
        error=or_null(STRING),
        next_try_at=or_null(INTEGER),
        report=or_null(REPORT),
        compacted_at=or_null(INTEGER),
        damaged=list_of(STRING),
        compression=or_null(COMPRESSION),
        compressed_at=or_null(INTEGER),
    )
)
PARTITION: Mapping[str, Schema] = {
    "topic": STRING,
    "partition": COUNT,
    **STATE,
    "segments": list_of(SEGMENT),
    "compaction": STANDING,
    "cleaner": or_null(CLEANER),
    "groups": by_name(COUNT),
}

# --- records ----------------------------------------------------------------------------------------------------------

SHOWN_BYTES: Schema = {"anyOf": [STRING, object_of({"base64": STRING}), {"type": "null"}]}
WHOLE_RECORD: Mapping[str, Schema] = {
    "offset": COUNT,
    "timestamp": INTEGER,
    "key": SHOWN_BYTES,
    "value": SHOWN_BYTES,
    "headers": list_of(object_of({"key": STRING, "value": SHOWN_BYTES})),
}
VALUE_BYTES: Schema = {
    **COUNT,
    "description": "Length of the whole value, if it is longer than --shown-bytes and `value` is cut.",
}
RECORD: Schema = {
    **object_of({**WHOLE_RECORD, "value_bytes": VALUE_BYTES}),
    "required": [*WHOLE_RECORD],
}

EVENT: Schema = {"type": "object", "properties": dict.fromkeys(("id", "event", "data"), STRING), "required": ["data"]}

# --- groups -----------------------------------------------------------------------------------------------------------

PLACE: Schema = {"type": "array", "items": {"anyOf": [STRING, COUNT]}, "minItems": 2, "maxItems": 2}  # topic, partition
ASSIGNMENT = list_of(PLACE)
MEMBERSHIP: Mapping[str, Schema] = {"member": STRING, "generation": COUNT, "assignment": ASSIGNMENT}
OFFSETS = by_name(by_number(COUNT))
MEMBER = object_of(
    {
        "id": STRING,
        "topics": list_of(STRING),
        "assignment": ASSIGNMENT,
        "session_timeout": NUMBER,
        "seen_at": or_null(INTEGER),
        "local": BOOLEAN,
    }
)
GROUP: Mapping[str, Schema] = {
    "name": STRING,
    "generation": COUNT,
    "members": list_of(MEMBER),
    "committed": OFFSETS,
    "lag": OFFSETS,
}
FAILURE = object_of({"log": STRING, "doing": STRING, "error": STRING, "failures": COUNT})
