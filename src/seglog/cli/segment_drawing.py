"""Segments drawn as lines with bars to scale. Pure functions: figures and a width in, lines of text out.

The length of a bar is the segment's size. Its light part is the share of tombstones or, if known, of the garbage that
a compaction would remove. Columns that do not fit the width are dropped from the right. Without Unicode everything is
drawn in ASCII.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seglog.terminal.units import format_size, format_time

if TYPE_CHECKING:
    from seglog.log.info import SegmentInfo

BAR_MIN, BAR_MAX = 10, 40
GAP = "  "


@dataclass(frozen=True, slots=True)
class Glyphs:
    """The characters of bars and ranges; `parts` fill a cell from an eighth to full."""

    parts: str
    light: str
    to: str
    mark: str


@dataclass(frozen=True, slots=True)
class Keyed:
    """A segment of a log compacted by key. garbage: the share (0 to 1) of its records that a compaction would remove,
    None if compaction would not read it; exact: counted, not estimated.
    """

    state: str
    garbage: float | None
    exact: bool = False


UNICODE = Glyphs(parts="▏▎▍▌▋▊▉█", light="░", to="…", mark="·")
ASCII = Glyphs(parts="#", light=".", to="-", mark="|")


def bar(size: float, light: float, largest: float, width: int, glyphs: Glyphs) -> str:
    """Return a bar of `width` cells; a size of `largest` fills it; `light` is the light share, 0 to 1.

    Nothing rounds to zero: the smallest size fills part of a cell, the smallest light share one cell.
    """
    if size <= 0 or largest <= 0:
        return " " * width
    steps = len(glyphs.parts)
    filled = max(1, round(size / largest * width * steps))
    whole, rest = divmod(min(filled, width * steps), steps)
    drawn = glyphs.parts[-1] * whole + (glyphs.parts[rest - 1] if rest else "")
    cells = min(len(drawn), max(1, round(light * len(drawn)))) if light > 0 else 0
    return (drawn[: len(drawn) - cells] + glyphs.light * cells).ljust(width)


def _tombstone_share(segment: SegmentInfo) -> float:
    return segment.tombstones / segment.records if segment.records else 0.0


def _offsets(segment: SegmentInfo, glyphs: Glyphs) -> str:
    if segment.next_offset == segment.base_offset:
        return f"{segment.base_offset} (empty)"
    return f"{segment.base_offset} {glyphs.to} {segment.next_offset - 1}" + ("" if segment.dense else " (gaps)")


def time_range(first: int | None, last: int | None, glyphs: Glyphs) -> str:
    """Return two moments (us) as a range; the end omits the date if it is the start's."""
    if first is None or last is None:
        return ""
    start, end = (format_time(moment, precise=False) for moment in (first, last))
    if start == end:
        return start
    same_day = start[:10] == end[:10] and "T" in start
    return f"{start} {glyphs.to} {end[11:] if same_day else end}"


def _state(segment: SegmentInfo, keyed: Mapping[int, Keyed]) -> str:
    known = keyed.get(segment.base_offset)
    if known is not None:
        return known.state
    return "active" if segment.sealed_at is None else "sealed"


def _sealed_at(segment: SegmentInfo) -> str:
    return "" if segment.sealed_at is None else format_time(segment.sealed_at, precise=False)


def _share(share: float) -> str:
    return "" if not share else f"{share:.1%}" if share >= 0.001 else "<0.1%"


def _garbage(segment: SegmentInfo, keyed: Mapping[int, Keyed]) -> str:
    known = keyed.get(segment.base_offset)
    if known is None or known.garbage is None:
        return ""
    return _share(known.garbage) or "0%" if known.exact else f"~{known.garbage:.0%}"


def _compressed(segment: SegmentInfo) -> str:
    """Return the codec, and how many times smaller the store is; empty if it is plain."""
    return "" if segment.codec is None else f"{segment.codec}, {segment.plain_bytes / max(segment.bytes, 1):.1f} times"


def _light(segment: SegmentInfo, keyed: Mapping[int, Keyed]) -> float:
    known = keyed.get(segment.base_offset)
    return _tombstone_share(segment) if known is None else known.garbage or 0.0


def segment_lines(
    segments: Sequence[SegmentInfo], width: int, glyphs: Glyphs, keyed: Mapping[int, Keyed] | None = None
) -> list[str]:
    """Return a heading and a line for each segment, at most `width` wide unless that leaves no space for a bar.

    keyed: base offset -> compaction state of that segment, for a log compacted by key.
    """
    known = keyed or {}
    columns: list[tuple[str, Callable[[SegmentInfo], str], bool]] = [  # heading, cell, right-aligned
        ("offsets", lambda segment: _offsets(segment, glyphs), True),
        ("size", lambda segment: format_size(segment.bytes), True),
        ("compressed", _compressed, False),
        ("records", lambda segment: f"{segment.records:,}", True),
        ("garbage", lambda segment: _garbage(segment, known), True),
        ("state", lambda segment: _state(segment, known), False),
        ("tombstones", lambda segment: _share(_tombstone_share(segment)), True),
        ("times", lambda segment: time_range(segment.min_timestamp, segment.max_timestamp, glyphs), False),
        ("sealed at", _sealed_at, False),
    ]
    table = []
    for heading, cell, right in columns:
        cells = [heading, *(cell(segment) for segment in segments)]
        if any(cells[1:]):
            longest = max(map(len, cells))
            table.append([text.rjust(longest) if right else text.ljust(longest) for text in cells])
    while len(table) > 2 and _width_beside_bar(table) + BAR_MIN > width:
        table.pop()
    room = max(BAR_MIN, min(BAR_MAX, width - _width_beside_bar(table)))
    largest = max((segment.bytes for segment in segments), default=0)
    bars = [bar(segment.bytes, _light(segment, known), largest, room, glyphs) for segment in segments]
    table.insert(1, [" " * room, *bars])
    return [GAP.join(cells).rstrip() for cells in zip(*table, strict=True)]


def _width_beside_bar(table: list[list[str]]) -> int:
    return sum(len(column[0]) for column in table) + len(GAP) * len(table)
