from __future__ import annotations

from argparse import ArgumentTypeError

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.terminal import units


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("512", 512),
        ("0", 0),
        ("64MiB", 64 * 2**20),
        ("1GB", 10**9),
        ("1.5 KiB", 1536),
        ("2gib", 2**31),
        ("7B", 7),
    ],
)
def test_a_size_is_read_in_bytes(text: str, size_bytes: int) -> None:
    assert units.parse_size(text) == size_bytes


@pytest.mark.parametrize("text", ["", "M", "64M", "-1", "1.0001KB", "1 2", "GiB", "1e3", "9" * 5000])
def test_a_size_that_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        units.parse_size(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90s", 90), ("15m", 900), ("7d", 604_800), ("1h30m", 5400), ("2.5", 2.5), ("500ms", 0.5)],
)
def test_a_duration_is_read_in_seconds(text: str, seconds: float) -> None:
    assert units.parse_duration(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "x", "5 years", "-1s", "1h-3m", "inf", "1.5.5", "9" * 400, "9" * 5000 + "h", "1" * 40 + "!"]
)
def test_a_duration_that_is_unclear_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "moment_us"),
    [
        ("0", 0),
        ("-5", -5),
        ("1714564800000000", 1_714_564_800_000_000),
        ("2024-05-01", 1_714_521_600_000_000),
        ("2024-05-01T12:00", 1_714_564_800_000_000),
        ("2024-05-01T12:00:00.000001Z", 1_714_564_800_000_001),
        ("2024-05-01T14:00:00+02:00", 1_714_564_800_000_000),
        ("1969-12-31T23:59:59.999999Z", -1),
    ],
)
def test_a_time_is_read_in_microseconds_and_is_utc_where_no_zone_stands(text: str, moment_us: int) -> None:
    assert units.parse_time(text) == moment_us


def test_blanks_of_any_kind_around_a_number_are_passed_over() -> None:
    assert units.parse_time("\x1e5 ") == units.parse_offset("\x1e5 ") == 5


@pytest.mark.parametrize("text", ["", "-1", "1.0", "9" * 5000])
def test_an_offset_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        units.parse_offset(text)


@pytest.mark.parametrize("text", ["", "yesterday", "2024-13-01", str(2**63), "9" * 5000])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ArgumentTypeError):
        units.parse_time(text)


@given(st.integers(min_value=-62_135_596_800_000_000, max_value=253_402_300_799_999_999))
def test_a_time_that_is_printed_is_read_back_to_the_microsecond(moment_us: int) -> None:
    assert units.parse_time(units.format_time(moment_us)) == moment_us


def test_a_time_beyond_the_calendar_is_printed_as_a_number() -> None:
    assert units.format_time(2**63 - 1) == "9223372036854775807 us"


def test_a_delimiter_may_be_written_with_escapes() -> None:
    assert units.parse_delimiter(r"\t") == b"\t"
    assert units.parse_delimiter(r"\0") == b"\0"
    assert units.parse_delimiter(r"a\\n") == b"a\\n"
    assert units.parse_delimiter("→") == "→".encode()
    with pytest.raises(ArgumentTypeError):
        units.parse_delimiter("")


def test_a_header_is_split_at_the_first_equals_sign_and_may_have_no_value() -> None:
    assert units.parse_header("a=b=c") == ("a", b"b=c")
    assert units.parse_header("a=") == ("a", b"")
    assert units.parse_header("a") == ("a", None)
    for wrong in ("=b", "\udcff=b"):
        with pytest.raises(ArgumentTypeError):
            units.parse_header(wrong)


@pytest.mark.parametrize(
    ("size_bytes", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1536, "1.5 KiB"),
        (2**20 - 1, "1.0 MiB"),
        (2**30, "1.0 GiB"),
        (2**60, "1024.0 PiB"),
    ],
)
def test_a_size_is_printed_for_people(size_bytes: int, text: str) -> None:
    assert units.format_size(size_bytes) == text
