"""The options and columns of writing with format "seglog": names and meaning follow Spark's Kafka sink.

Pure: reads nothing from disk.

| option | value | default |
|---|---|---|
| path | a log, a topic, or a directory of topics | (required) |
| topic | the topic of every row; overrides the column | the column `topic`, or the topic at `path` |
| createTopic | true: create the topic first if it does not exist | false |
| partitions | with createTopic: how many the new topic has | 1 |
| queryId, batchId | batch only: a write with both is stored once, however often it is repeated | every write is new |

Columns: value (binary or string; null: a tombstone), and optionally key (binary or string), headers
(array<struct<key string, value binary>>), topic (string), partition (int), timestamp. `offset` and `timestampType`,
which the source returns, are ignored: a log assigns its own offsets.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    ByteType,
    DataType,
    IntegerType,
    IntegralType,
    LongType,
    ShortType,
    StringType,
    StructField,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from seglog.errors import InvalidArgument
from seglog.log.staging import JOB
from seglog.spark.option_values import TABLE_ADVICE, boolean, canonical, count, local_path

TABLE_NAMES = ("path", "topic")  # the options of a table that apply to writing
CREATE_NAMES = ("createTopic", "partitions")
_NAMES = (*TABLE_NAMES, *CREATE_NAMES, "queryId", "batchId")
_BATCH_ONLY = ("queryId", "batchId")  # a stream has its own
_SPARKS_OWN = ("checkpointlocation",)  # passed along with a streaming query's options
_BYTES = (BinaryType, StringType)
_TYPES: Mapping[str, tuple[type[DataType], ...]] = {
    "value": _BYTES,
    "key": _BYTES,
    "topic": (StringType,),
    "partition": (ByteType, ShortType, IntegerType, LongType),
    "timestamp": (TimestampType,),
}
_IGNORED = ("offset", "timestampType")


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write.

    path: absolute, since executors have other working directories. topic: None: from the column or the path. query,
    batch: None: not named. create: whether to create a missing topic, with this many partitions (None: default).
    """

    path: str
    topic: str | None
    query: str | None
    batch: int | None
    create: bool = False
    partitions: int | None = None

    @classmethod
    def parse(cls, options: Mapping[str, str], *, streaming: bool = False) -> WriteOptions:
        """Parse option strings; names in any case. Raises InvalidArgument with the option's name."""
        if any(name.lower() == "url" for name in options):
            raise InvalidArgument(
                "option url: writing to a server is not supported; write with path, or produce with seglog.Client"
            )
        own = {name: value for name, value in options.items() if name.lower() not in _SPARKS_OWN}
        given = canonical(own, [name for name in _NAMES if not streaming or name not in _BATCH_ONLY], "writing")
        path = local_path(given)
        if not path:
            raise InvalidArgument(
                f"option path is missing: save(path) takes the directory of a log or a topic; {TABLE_ADVICE}"
            )
        query, batch = _named_batch(given)
        create, partitions = _created(given)
        return cls(str(Path(path).absolute()), given.get("topic"), query, batch, create, partitions)


def _created(given: Mapping[str, str]) -> tuple[bool, int | None]:
    create, partitions = boolean(given, "createTopic", default=False), count(given, "partitions")
    if partitions is not None and not create:
        raise InvalidArgument("option partitions needs createTopic=true: it is for a new topic")
    return create, partitions


def _named_batch(given: Mapping[str, str]) -> tuple[str | None, int | None]:
    query, number = given.get("queryId"), given.get("batchId")
    if (query is None) != (number is None):
        raise InvalidArgument("options queryId and batchId belong together: give both or none")
    if query is None or number is None:
        return None, None
    if not query or "/" in query or query.startswith((".", JOB)):
        raise InvalidArgument(f"option queryId is {query!r}; it names a file: no '/', no leading '.' or {JOB!r}")
    return query, count(given, "batchId", least=0)


def check_columns(schema: StructType) -> None:
    """Raise InvalidArgument for a column that is missing, unknown or of a wrong type."""
    if "value" not in schema.names:
        raise InvalidArgument(f"column value is missing; there are {', '.join(schema.names) or 'none'}")
    for field in schema.fields:
        if field.name in _IGNORED:
            continue
        if field.name == "headers":
            fits = _are_headers(field.dataType)
        elif field.name in _TYPES:
            fits = isinstance(field.dataType, _TYPES[field.name])
        else:
            raise InvalidArgument(
                f"column {field.name} is unknown; select value, and optionally {', '.join(list(_TYPES)[1:])}, headers"
            )
        if isinstance(field.dataType, TimestampNTZType) and field.name == "timestamp":
            raise InvalidArgument(
                "column timestamp cannot be timestamp_ntz: it has no time zone, and a record's timestamp is a moment. "
                "CAST(timestamp AS timestamp) takes the zone of the session, spark.sql.session.timeZone"
            )
        if not fits:
            raise InvalidArgument(f"column {field.name} cannot be {field.dataType.simpleString()}; {_advice(field)}")


def _advice(field: StructField) -> str:
    if field.name == "timestamp" and isinstance(field.dataType, IntegralType):
        return "timestamp_seconds, timestamp_millis or timestamp_micros makes one of a number, by its unit"
    return "cast it"


def _are_headers(kind: DataType) -> bool:
    if not isinstance(kind, ArrayType) or not isinstance(kind.elementType, StructType):
        return False
    fields = {field.name: field.dataType for field in kind.elementType.fields}
    if list(fields) != ["key", "value"]:
        return False
    return isinstance(fields["key"], StringType) and isinstance(fields["value"], _BYTES)
