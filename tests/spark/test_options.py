"""Option strings: every name and value that is understood, and one clear error that names the option otherwise."""

from __future__ import annotations

import logging

import pytest

from seglog.errors import InvalidArgument
from seglog.spark.read.options import COLUMNS, EARLIEST, LATEST, Mode, ReadOptions


def parse(mode: Mode = "batch", /, **options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/log", **options}, mode)


def test_the_path_alone_reads_everything_without_headers() -> None:
    options = parse()
    assert (options.path, options.include_headers, options.columns) == ("/log", False, COLUMNS[:-1])
    assert (options.start.everywhere, options.stop.everywhere) == (EARLIEST, LATEST)
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)
    assert options.fail_on_data_loss
    assert options.selection.wants("anything")


def test_a_stream_starts_at_the_latest_and_batch_at_the_earliest() -> None:
    assert parse("stream").start.everywhere == LATEST
    assert parse("stream", startingOffsets="earliest").start.everywhere == EARLIEST
    assert parse("batch").start.everywhere == EARLIEST


def test_names_are_understood_in_any_case() -> None:
    options = ReadOptions.parse({"PATH": "/log", "includeheaders": "TRUE", "MINPARTITIONS": "7"})
    assert (options.path, options.include_headers, options.min_partitions) == ("/log", True, 7)


def test_offsets_by_partition_are_read_from_json() -> None:
    options = parse(startingOffsets='{"t": {"0": 5, "1": -2}}', endingOffsets='{"t": {"0": 9, "1": -1}}')
    assert options.start.by_topic == {"t": {0: 5, 1: EARLIEST}}
    assert options.stop.by_topic == {"t": {0: 9, 1: LATEST}}
    assert parse("stream", startingOffsets='{"t": {"0": -1}}').start.by_topic == {"t": {0: LATEST}}


def test_of_several_starts_and_ends_the_first_in_kafkas_order_counts() -> None:
    starts = {
        "startingTimestamp": "7",
        "startingOffsetsByTimestamp": '{"t": {"0": 8}}',
        "startingOffsets": '{"t": {"0": 9}}',
    }
    assert parse(**starts).start.option == "startingTimestamp"
    assert parse(**starts).start.everywhere == 7
    del starts["startingTimestamp"]
    assert (parse(**starts).start.option, parse(**starts).start.by_time) == ("startingOffsetsByTimestamp", True)
    ends = {name.replace("starting", "ending"): value for name, value in starts.items()}
    assert parse(**ends).stop.option == "endingOffsetsByTimestamp"
    assert parse(**ends, endingTimestamp="5").stop.everywhere == 5


def test_a_selection_names_topics_partitions_or_a_pattern() -> None:
    assert parse(subscribe="a, b").selection.topics == ("a", "b")
    assert parse(assign='{"a": [2, 0]}').selection.partitions == {"a": (0, 2)}
    pattern = parse(subscribePattern="or.*").selection
    assert pattern.wants("orders")
    assert not pattern.wants("my orders")


def test_columns_are_named_in_any_case_and_order() -> None:
    assert parse(columns="OFFSET, key").columns == ("offset", "key")
    assert parse(columns="headers", includeHeaders="true").columns == ("headers",)


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a b", "/a b"),
        ("file:/a", "/a"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("a/b:/c", "a/b:/c"),
    ],
)
def test_a_file_url_is_a_path(path: str, found: str) -> None:
    assert ReadOptions.parse({"path": path}).path == found


@pytest.mark.parametrize(
    ("text", "seconds"), [("500ms", 0.5), ("30s", 30), ("15m", 900), ("2min", 120), ("1h", 3600), ("250", 0.25)]
)
def test_a_delay_is_read_as_spark_reads_times(text: str, seconds: float) -> None:
    assert parse("stream", maxTriggerDelay=text).max_trigger_delay == pytest.approx(seconds)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", "5"),
        ("startingOffsets", "{"),
        ("startingOffsets", '{"t": 5}'),
        ("startingOffsets", '{"t": {"x": 5}}'),
        ("startingOffsets", '{"t": {"01": 5}}'),
        ("startingOffsets", '{"t": {"0": -1}}'),
        ("startingOffsets", '{"t": {"0": -3}}'),
        ("startingOffsets", '{"t": {"0": "5"}}'),
        ("startingOffsets", '{"t": {"0": true}}'),
        ("startingTimestamp", "-5"),
        ("startingTimestamp", "yesterday"),
        ("startingOffsetsByTimestamp", '{"t": {"0": -2}}'),
        ("startingOffsetsByTimestamp", "[]"),
        ("startingOffsetsByTimestampStrategy", "guess"),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"t": {"0": -2}}'),
        ("endingTimestamp", "1.5"),
        ("includeHeaders", "yes"),
        ("failOnDataLoss", "maybe"),
        ("columns", "key,colour"),
        ("columns", "key,KEY"),
        ("columns", ""),
        ("columns", "headers"),
        ("assign", "[0]"),
        ("assign", "{}"),
        pytest.param("assign", "[" * 100_000, id="assign-deep"),
        ("assign", '{"t": 0}'),
        ("assign", '{"t": []}'),
        ("assign", '{"t": [-1]}'),
        ("assign", '{"t": [0, 0]}'),
        ("subscribe", "a,,b"),
        ("subscribePattern", "("),
        ("subscribePattern", ""),
        ("minPartitions", "0"),
        ("minPartitions", "many"),
        ("minPartitions", "-1"),
        ("maxRecordsPerPartition", "1.5"),
        ("maxOffsetsPerTrigger", "0"),
        ("minOffsetsPerTrigger", "-1"),
        ("maxTriggerDelay", "soon"),
        ("path", ""),
        ("path", "hdfs://host/log"),
        ("path", "file://elsewhere/log"),
    ],
)
def test_a_bad_value_is_refused_by_the_options_name(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name}"):
        parse(**{name: value})


@pytest.mark.parametrize("name", ["endingOffsets", "endingTimestamp", "endingOffsetsByTimestamp"])
def test_an_end_is_refused_in_a_stream(name: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name} is for batch"):
        parse("stream", **{name: "{}"})


def test_limits_on_a_trigger_are_ignored_in_batch_with_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        parse(maxOffsetsPerTrigger="5")
    assert "option maxOffsetsPerTrigger is for streams" in caplog.text


def test_options_that_contradict_each_other_are_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="options path and url"):
        parse(url="http://localhost:3000")
    with pytest.raises(InvalidArgument, match="options assign and subscribe"):
        parse(assign='{"a": [0]}', subscribe="a")
    with pytest.raises(InvalidArgument, match="minOffsetsPerTrigger is 9, above maxOffsetsPerTrigger, 5"):
        parse("stream", minOffsetsPerTrigger="9", maxOffsetsPerTrigger="5")


def test_a_url_says_what_to_read_as_well_as_a_path() -> None:
    options = ReadOptions.parse({"URL": " https://logs.example:3000/seglog/ ", "Token": "abc"})
    assert (options.path, options.url, options.token) == ("", "https://logs.example:3000/seglog", "abc")
    assert options.where == options.url


def test_a_token_comes_from_the_environment_where_no_option_gives_one() -> None:
    environment = {"SEGLOG_TOKEN": "from there\n"}
    url = {"url": "http://localhost:3000"}
    assert ReadOptions.parse(url, environment=environment).token == "from there"  # noqa: S105 - no secret
    assert ReadOptions.parse({**url, "token": "mine"}, environment=environment).token == "mine"  # noqa: S105 - as above
    assert ReadOptions.parse({"path": "/log"}, environment=environment).token is None
    assert ReadOptions.parse(url).token is None


def test_a_token_does_not_show() -> None:
    options = ReadOptions.parse({"url": "http://localhost:3000", "token": "hush"})
    assert "hush" not in f"{options} {options!r}"
    with pytest.raises(InvalidArgument, match="option token: a token must be printable ASCII") as caught:
        ReadOptions.parse({"url": "http://localhost:3000", "token": "hush\u2026"})
    assert "hush" not in str(caught.value)
    with pytest.raises(InvalidArgument, match="option token needs option url"):
        parse(token="hush")  # noqa: S106 - as above


@pytest.mark.parametrize(
    "url",
    [
        "",
        "localhost:3000",
        "ftp://localhost",
        "http://",
        "http://me:hush@localhost",
        "http://localhost?token=hush",
        "http://localhost#hush",
        "http://localhost:hush",
        "http://[hush",
    ],
)
def test_a_url_that_is_no_servers_is_refused_without_repeating_it(url: str) -> None:
    with pytest.raises(InvalidArgument, match="option url must be like") as caught:
        ReadOptions.parse({"url": url})
    assert "hush" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match=r"option kafka\.bootstrap\.servers is unknown"):
        ReadOptions.parse({"path": "/log", "kafka.bootstrap.servers": "here"})


def test_a_missing_path_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="option path is missing"):
        ReadOptions.parse({})
