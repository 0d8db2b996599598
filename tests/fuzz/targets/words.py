"""Texts that users write: sizes, durations, times, offsets, delimiters, headers, positions; accepted or refused."""

from __future__ import annotations

from argparse import ArgumentTypeError
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from seglog.cli.config_options import parse_share
from seglog.errors import InvalidArgument
from seglog.server.api.parameters import data as data_parameter
from seglog.server.api.parameters import integer, read_query, seconds
from seglog.terminal import units
from seglog.topic import read_trace
from seglog.topic.positions import flat, from_json, nested, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PARSERS: tuple[Callable[[str], Any], ...] = (
    units.parse_size,
    units.parse_duration,
    units.parse_time,
    units.parse_offset,
    units.parse_delimiter,
    units.parse_header,
    parse_share,
)
QUERY = (
    integer("start", "", least=0),
    seconds("wait", "", most=60),
    data_parameter("key", ""),
    data_parameter("header", "", many=True),
)


def seeds() -> Iterator[bytes]:
    words = ["64MiB", "1.5GB", "1h30m", "2024-05-01T12:00Z", "2024-05-01", "-5", "12", r"\t\0x", "K=V", "0.5", "٣", "²"]
    words += ["9" * 400, "9" * 5000 + "MiB", "1" * 400 + "h", "9" * 5000, "0001-01-01T00:00+23:59", "1.", "1" * 400]
    words += ['{"orders": {"0": 5, "1": {"offset": 7}}}', "[" * 3000, '{"a": {"x": 1}}', '{"a": ["ab", 1, null, 2]}']
    words += ['{"orders": {"0": ["ab", 1, null, 2]}}', '{"a": 1e999}', "start=5&wait=0.5&key=%ff+x&header=a&header=b"]
    yield from (word.encode() for word in words)


def target(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    for parse in PARSERS:
        with suppress(ArgumentTypeError):
            parse(text)
    with suppress(InvalidArgument):
        found = from_json(text, "positions")
        assert from_json(to_json(found), "again") == found
        assert flat(nested(flat(found))) == flat(found)
    with suppress(ValueError, TypeError, AttributeError, RecursionError):  # all that its one caller expects
        read_trace.from_json(text)
    with suppress(InvalidArgument):
        values = read_query(data, QUERY)
        assert set(values) == {"start", "wait", "key", "header"}
