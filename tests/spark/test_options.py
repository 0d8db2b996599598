"""Option strings: every name and value that is understood, and one clear error that names the option
otherwise.
"""

from __future__ import annotations

import pytest

from seglog.errors import InvalidArgument
from seglog.spark.options import EARLIEST, LATEST, ReadOptions


def parse(**options: str) -> ReadOptions:
    return ReadOptions.parse({"path": "/log", **options})


def test_the_path_alone_reads_everything_without_headers() -> None:
    options = parse()
    assert (options.path, options.include_headers) == ("/log", False)
    assert (options.start.everywhere, options.stop.everywhere) == (EARLIEST, LATEST)
    assert (options.min_partitions, options.max_records_per_partition) == (None, None)


def test_names_are_understood_in_any_case() -> None:
    options = ReadOptions.parse({"PATH": "/log", "includeheaders": "TRUE", "MINPARTITIONS": "7"})
    assert (options.path, options.include_headers, options.min_partitions) == ("/log", True, 7)


def test_offsets_by_partition_are_read_from_json() -> None:
    options = parse(startingOffsets='{"t": {"0": 5, "1": -2}}', endingOffsets='{"t": {"0": 9, "1": -1}}')
    assert options.start.by_topic == {"t": {0: 5, 1: EARLIEST}}
    assert options.stop.by_topic == {"t": {0: 9, 1: LATEST}}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("startingOffsets", "latest"),
        ("startingOffsets", "5"),
        ("startingOffsets", "{"),
        ("startingOffsets", '{"t": 5}'),
        ("startingOffsets", '{"t": {"x": 5}}'),
        ("startingOffsets", '{"t": {"0": -1}}'),
        ("startingOffsets", '{"t": {"0": -3}}'),
        ("startingOffsets", '{"t": {"0": "5"}}'),
        ("startingOffsets", '{"t": {"0": true}}'),
        ("endingOffsets", "earliest"),
        ("endingOffsets", '{"t": {"0": -2}}'),
        ("includeHeaders", "yes"),
        ("minPartitions", "0"),
        ("minPartitions", "many"),
        ("minPartitions", "-1"),
        ("maxRecordsPerPartition", "1.5"),
        ("path", ""),
    ],
)
def test_a_bad_value_is_refused_by_the_options_name(name: str, value: str) -> None:
    with pytest.raises(InvalidArgument, match=f"option {name}"):
        parse(**{name: value})


def test_an_unknown_option_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="option subscribe is unknown"):
        parse(subscribe="t")


def test_a_missing_path_is_refused_by_name() -> None:
    with pytest.raises(InvalidArgument, match="option path is missing"):
        ReadOptions.parse({})
