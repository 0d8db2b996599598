"""Options and columns of writing: what is understood, and one clear error that names the rest. No Spark is started."""

from __future__ import annotations

import pytest
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DateType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from seglog.errors import InvalidArgument
from seglog.spark.write.options import WriteOptions, check_columns

BINARY, STRING, INT, LONG, TIMESTAMP = BinaryType(), StringType(), IntegerType(), LongType(), TimestampType()


def parse(options: dict[str, str] | None = None, *, streaming: bool = False) -> WriteOptions:
    return WriteOptions.parse({"path": "/log", **(options or {})}, streaming=streaming)


def columns(**kinds: DataType) -> StructType:
    schema = StructType()
    for name, kind in kinds.items():
        schema.add(name, kind)
    return schema


def pairs(key: str = "key", key_type: DataType = STRING, value_type: DataType = BINARY) -> ArrayType:
    return ArrayType(columns(**{key: key_type, "value": value_type}))


# --- options


def test_the_path_alone_is_enough() -> None:
    assert parse() == WriteOptions(path="/log", topic=None, query=None, batch=None)


def test_names_are_understood_in_any_case() -> None:
    options = WriteOptions.parse({"PATH": "/log", "Topic": "t", "QUERYID": "q", "batchid": "7"})
    assert options == WriteOptions(path="/log", topic="t", query="q", batch=7)


def test_a_file_url_is_a_path() -> None:
    assert parse({"path": "file:///a b/log"}).path == "/a b/log"


def test_what_spark_itself_adds_to_a_stream_is_let_through() -> None:
    assert parse({"checkpointLocation": "/checkpoint"}, streaming=True).path == "/log"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": ""}, "option path is missing"),
        (
            {"partitionBy": "key"},
            "option partitionBy is unknown; writing takes path, topic, createTopic",
        ),
        ({"startingOffsets": "earliest"}, "option startingOffsets is unknown"),
        ({"partitions": "4"}, "option partitions needs createTopic=true"),
        ({"createTopic": "true", "partitions": "0"}, "option partitions is '0'"),
        ({"createTopic": "yes"}, "option createTopic is 'yes'; it must be true or false"),
        ({"queryId": "q"}, "options queryId and batchId belong together"),
        ({"batchId": "1"}, "options queryId and batchId belong together"),
        ({"queryId": "q", "batchId": "-1"}, "option batchId is '-1'"),
        ({"queryId": "q", "batchId": "1.0"}, "option batchId is '1.0'"),
        ({"queryId": "q", "batchId": "٣"}, "option batchId is '٣'"),
        ({"queryId": "", "batchId": "1"}, "option queryId is ''"),
        ({"queryId": "a/b", "batchId": "1"}, "option queryId is 'a/b'"),
        ({"queryId": "../up", "batchId": "1"}, "option queryId is '../up'"),
        ({"queryId": ".hidden", "batchId": "1"}, "option queryId is '.hidden'"),
        ({"queryId": "job-1", "batchId": "1"}, "option queryId is 'job-1'"),
    ],
)
def test_a_bad_option_is_refused_by_its_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        parse(options)
    assert str(caught.value).startswith(message)


@pytest.mark.parametrize("name", ["queryId", "batchId"])
def test_a_stream_has_names_of_its_own_and_takes_none(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name} is unknown; writing takes [a-zA-Z, ]*partitions$"):
        parse({name: "1"}, streaming=True)


# --- columns


@pytest.mark.parametrize(
    "schema",
    [
        columns(value=BINARY),
        columns(value=STRING, key=STRING),
        columns(value=BINARY, key=BINARY, topic=STRING, partition=INT, timestamp=TIMESTAMP, headers=pairs()),
        columns(value=STRING, timestamp=TIMESTAMP, partition=LONG),
        columns(value=STRING, headers=pairs(value_type=STRING)),
        columns(value=STRING, offset=LONG, timestampType=INT),
        columns(value=STRING, offset=STRING, timestampType=ArrayType(INT)),
    ],
)
def test_columns_that_fit_are_let_through(schema: StructType) -> None:
    check_columns(schema)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        (columns(), "column value is missing; there are none"),
        (columns(key=BINARY), "column value is missing; there are key"),
        (columns(Value=BINARY), "column value is missing; there are Value"),
        (columns(value=BINARY, colour=STRING), "column colour is unknown; select value, and optionally key, topic"),
        (columns(value=INT), "column value cannot be int; cast it"),
        (columns(value=STRING, key=LONG), "column key cannot be bigint"),
        (columns(value=STRING, topic=BINARY), "column topic cannot be binary"),
        (columns(value=STRING, partition=STRING), "column partition cannot be string"),
        (
            columns(value=STRING, timestamp=LONG),
            "column timestamp cannot be bigint; timestamp_seconds, timestamp_millis",
        ),
        (columns(value=STRING, timestamp=DateType()), "column timestamp cannot be date"),
        (columns(value=STRING, timestamp=TimestampNTZType()), "column timestamp cannot be timestamp_ntz"),
        (columns(value=STRING, headers=MapType(STRING, BINARY)), "column headers cannot be map<string,binary>"),
        (columns(value=STRING, headers=ArrayType(STRING)), "column headers cannot be array<string>"),
        (columns(value=STRING, headers=pairs("name")), "column headers cannot be array"),
        (columns(value=STRING, headers=pairs(key_type=BINARY)), "column headers cannot be array"),
        (columns(value=STRING, headers=pairs(value_type=INT)), "column headers cannot be array"),
    ],
)
def test_a_column_that_cannot_be_is_refused_by_its_name(schema: StructType, message: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        check_columns(schema)
    assert str(caught.value).startswith(message)
