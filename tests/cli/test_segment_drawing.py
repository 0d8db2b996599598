from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from seglog.cli import segment_drawing

DAY = 86_400_000_000


def segment(base: int, end: int, size: int, **more: Any) -> Any:
    fields = {
        "base_offset": base,
        "next_offset": end,
        "bytes": size,
        "records": end - base,
        "tombstones": 0,
        "min_timestamp": None if base == end else base * DAY,
        "max_timestamp": None if base == end else end * DAY,
        "sealed_at": end * DAY,
        "dense": True,
        "codec": None,
        "plain_bytes": size,
    }
    return SimpleNamespace(**(fields | more))


SEGMENTS = [
    segment(0, 1000, 1024),
    segment(1000, 3000, 2048, tombstones=1000),
    segment(3000, 3500, 512, records=10, dense=False, sealed_at=None),
    segment(3500, 3500, 64, sealed_at=None),
]


def test_a_bar_is_as_long_as_its_size_on_the_scale() -> None:
    assert segment_drawing.bar(8, 0, 8, 10, segment_drawing.ASCII) == "##########"
    assert segment_drawing.bar(4, 0, 8, 10, segment_drawing.ASCII) == "#####     "
    assert segment_drawing.bar(0, 0, 8, 10, segment_drawing.ASCII) == "          "
    assert segment_drawing.bar(5, 0, 16, 2, segment_drawing.UNICODE) == "▋ "


def test_the_smallest_size_and_the_smallest_garbage_still_show() -> None:
    assert segment_drawing.bar(1, 0, 10**9, 4, segment_drawing.UNICODE) == "▏   "
    assert segment_drawing.bar(8, 1e-9, 8, 4, segment_drawing.ASCII) == "###."
    assert segment_drawing.bar(8, 1.0, 8, 4, segment_drawing.ASCII) == "...."


@pytest.mark.parametrize("width", [60, 80, 100, 120, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for glyphs in (segment_drawing.UNICODE, segment_drawing.ASCII):
        lines = segment_drawing.segment_lines(SEGMENTS, width, glyphs)
        assert len(lines) == 1 + len(SEGMENTS)
        assert max(map(len, lines)) <= width


def test_the_ascii_drawing_is_ascii() -> None:
    assert "\n".join(segment_drawing.segment_lines(SEGMENTS, 200, segment_drawing.ASCII)).isascii()


def test_a_wide_terminal_shows_everything_there_is_to_say() -> None:
    lines = segment_drawing.segment_lines(SEGMENTS, 200, segment_drawing.UNICODE)
    for heading in ("offsets", "size", "records", "tombstones", "state", "times", "sealed at"):
        assert heading in lines[0]
    assert "1000 … 2999" in lines[2]
    assert "50.0%" in lines[2]
    assert "░" in lines[2]
    assert "(gaps)" in lines[3]
    assert "active" in lines[3]
    assert "3500 (empty)" in lines[4]


def test_a_log_without_tombstones_has_no_column_for_them() -> None:
    assert "tombstones" not in segment_drawing.segment_lines(SEGMENTS[:1], 200, segment_drawing.UNICODE)[0]


def test_garbage_is_marked_as_estimated_or_counted_and_is_the_light_part_of_a_bar() -> None:
    known = {
        0: segment_drawing.Keyed("clean", 0.123),
        1000: segment_drawing.Keyed("dirty", 1.0, exact=True),
        3000: segment_drawing.Keyed("fresh", None),
        3500: segment_drawing.Keyed("active", 0.0, exact=True),
    }
    lines = segment_drawing.segment_lines(SEGMENTS, 200, segment_drawing.ASCII, known)
    assert "garbage  state" in lines[0]
    assert [line[lines[0].index("records") + 7 :][:9].strip() for line in lines[1:]] == ["~12%", "100.0%", "", "0%"]
    assert [word for line in lines[1:] for word in line.split() if word in ("clean", "dirty", "fresh", "active")] == [
        *("clean", "dirty", "fresh", "active"),
    ]
    bars = [[part for part in line.split() if part.strip("#.") == ""] for line in lines[1:]]
    assert [{*bar[0]} if bar else set() for bar in bars] == [{"#", "."}, {"."}, {"#"}, {"#"}]


def test_a_range_of_times_says_the_day_once() -> None:
    assert segment_drawing.time_range(0, 3_600_000_000, segment_drawing.UNICODE) == "1970-01-01T00:00:00Z … 01:00:00Z"
    assert segment_drawing.time_range(0, DAY, segment_drawing.ASCII) == "1970-01-01T00:00:00Z - 1970-01-02T00:00:00Z"
    assert segment_drawing.time_range(5, 5, segment_drawing.ASCII) == "1970-01-01T00:00:00Z"
    assert segment_drawing.time_range(None, None, segment_drawing.ASCII) == ""
