"""The report's figures as HTML and SVG without a library: no script, no image, colours from the page's style.

Shapes are placed in percent and text in pixels, so a figure is readable on a phone and fills a wide screen. Every
figure takes plain values; none knows of logs or Spark. Each mark has a title, which browsers show as a tooltip.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from typing import NamedTuple

HOT_MINUTES = 40  # the heat map's scale ends here: single hours far beyond would hide the differences
FEW_DEPARTURES = 20  # below this a mean means little, so its cell is drawn faint
_NUMBER = ' class="number"'
_LANE, _LANE_GAP, _AXIS = 44, 20, 26


class Cell(NamedTuple):
    """One cell of the heat map. mean: minutes; departed: departures in it."""

    mean: float
    departed: int


class Bar(NamedTuple):
    """One bar: its label, its height, the height as text, and more text for the tooltip."""

    label: str
    value: float
    text: str
    title: str


class Block(NamedTuple):
    """One segment on a time lane. start, end: microseconds since the epoch; size: bytes; active: still
    written to.
    """

    start: int
    end: int
    size: int
    active: bool
    title: str


def heat_map(names: Mapping[str, str], hours: Sequence[int], cells: Mapping[tuple[str, int], Cell]) -> str:
    """Return carriers (code -> name, in order) down, hours across; a pair without departures stays empty."""
    rows = [
        f'<div class="heat" role="table" style="--columns:{len(hours)}">',
        '<div class="corner" role="cell"></div>',
        *(f'<div class="hour" role="columnheader">{hour}</div>' for hour in hours),
    ]
    for code, name in names.items():
        name = escape(name)
        label = f"<b>{escape(code)}</b><span>{name}</span>"
        rows.append(f'<div class="carrier" role="rowheader" title="{name}">{label}</div>')
        rows += [_cell(name, hour, cells.get((code, hour))) for hour in hours]
    return "\n".join([*rows, "</div>"])


def _cell(name: str, hour: int, cell: Cell | None) -> str:
    if cell is None:
        return '<div class="cell none" role="cell"></div>'
    heat = round(100 * min(max(cell.mean, 0), HOT_MINUTES) / HOT_MINUTES)
    classes = "cell" + (" few" if cell.departed < FEW_DEPARTURES else "") + (" deep" if heat > 55 else "")
    title = f"{name}, {hour}:00 to {hour}:59: {cell.mean:.1f} min late on average, {cell.departed:,} departures"
    attributes = f'class="{classes}" role="cell" style="--heat:{heat}%" title="{title}"'
    return f"<div {attributes}><i>{round(cell.mean)}</i></div>"


def bars(series: Sequence[Bar], *, label: str, every: int = 1) -> str:
    """Return upright bars on one scale from zero; each `every`-th is labelled below, the highest above."""
    height, base = 190, 164
    top = max(bar.value for bar in series) or 1.0
    width = 100 / len(series)
    parts = [f'<svg class="chart" height="{height}" role="img" aria-label="{escape(label)}">']
    for number, bar in enumerate(series):
        tall = max(1.0, (base - 22) * max(bar.value, 0) / top)
        middle = (number + 0.5) * width
        left = number * width + width * 0.12
        parts.append(_rect("bar", bar.title, left, base - tall, width * 0.76, tall))
        if number % every == 0:
            parts.append(_text(middle, base + 18, bar.label, "tick"))
        if bar.value == top:
            parts.append(_text(middle, base - tall - 6, bar.text, "peak"))
    parts.append(f'<line class="axis" x1="0" x2="100%" y1="{base + 0.5}" y2="{base + 0.5}"/></svg>')
    return "".join(parts)


def lanes(partitions: Sequence[Sequence[Block]]) -> str:
    """Return one lane per partition: each segment as wide as the time of its records, as high as its bytes."""
    blocks = [block for lane in partitions for block in lane]
    low, high = min(block.start for block in blocks), max(block.end for block in blocks)
    span, largest = max(high - low, 1), max(block.size for block in blocks)
    height = len(partitions) * (_LANE + _LANE_GAP) + _AXIS
    parts = [f'<svg class="chart" height="{height}" role="img" aria-label="Segments of every partition over time">']
    parts += _months(low, high, height)  # first, so that blocks lie over the grid
    for number, lane in enumerate(partitions):
        floor = number * (_LANE + _LANE_GAP) + _LANE + _LANE_GAP - 4
        for block in lane:
            tall = max(1.5, _LANE * block.size / largest)
            left, wide = 100 * (block.start - low) / span, 100 * (block.end - block.start) / span
            kind = "active" if block.active else "segment"
            parts.append(_rect(kind, block.title, left, floor - tall, max(wide, 0.15), tall))
        parts.append(f'<line class="axis" x1="0" x2="100%" y1="{floor + 0.5}" y2="{floor + 0.5}"/>')
        parts.append(f'<text class="lane" x="0" y="{floor - _LANE - 2}">partition {number}</text>')
    return "".join([*parts, "</svg>"])


def _months(low: int, high: int, height: int) -> list[str]:
    """Return a tick at the start of every month between two times; every third stays on a narrow screen."""
    ticks = []
    first = datetime.fromtimestamp(low / 1e6, UTC)
    for count in range(1, 1000):
        year, month = divmod(first.year * 12 + first.month - 1 + count, 12)
        moment = datetime(year, month + 1, 1, tzinfo=UTC)
        at = 100 * (moment.timestamp() * 1e6 - low) / max(high - low, 1)
        if at >= 97:
            break
        ticks.append(f'<line class="month" x1="{at:.3f}%" x2="{at:.3f}%" y1="0" y2="{height - _AXIS}"/>')
        ticks.append(_text(at, height - 8, f"{moment:%b}", "tick" if count % 3 == 0 else "tick wide"))
    return ticks


def _rect(kind: str, title: str, x: float, y: float, width: float, height: float) -> str:
    """Return a rectangle with a tooltip; x and width in percent, y and height in pixels."""
    place = f'x="{x:.3f}%" y="{y:.1f}" width="{width:.3f}%" height="{height:.1f}" rx="2"'
    return f'<g><title>{escape(title)}</title><rect class="{kind}" {place}/></g>'


def _text(x: float, y: float, text: str, kind: str) -> str:
    return f'<text class="{kind}" x="{x:.3f}%" y="{y:.1f}" text-anchor="middle">{escape(text)}</text>'


def durations(seconds: Mapping[str, float]) -> str:
    """Return one line per step: its title, a bar to scale and its seconds."""
    longest = max(seconds.values()) or 1.0
    return shares(
        {
            title: (taken / longest, f"{taken:.{1 if taken >= 1 else 2 if taken >= 0.1 else 3}f} s")
            for title, taken in seconds.items()
        }
    )


def shares(lines: Mapping[str, tuple[float, str]]) -> str:
    """Return a line for each title: a bar as long as its share (0 to 1) of the width, and a text."""
    items = [
        f'<li><span>{escape(title)}</span><em style="--share:{100 * share:.1f}%"></em><b>{escape(text)}</b></li>'
        for title, (share, text) in lines.items()
    ]
    return '<ol class="steps">' + "".join(items) + "</ol>"


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return a plain table that scrolls on its own on a narrow screen; numbers are right-aligned."""
    numeric = [isinstance(value, (int, float)) for value in rows[0]] if rows else [False] * len(head)
    titles = "".join(
        f"<th{_NUMBER if is_number else ''}>{escape(title)}</th>"
        for title, is_number in zip(head, numeric, strict=True)
    )
    body = "".join("<tr>" + "".join(_field(value) for value in row) + "</tr>" for row in rows)
    whole = f"<table><thead><tr>{titles}</tr></thead><tbody>{body}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{whole}</div>'


def _field(value: object) -> str:
    if isinstance(value, (int, float)):
        return f"<td{_NUMBER}>{value:{',' if isinstance(value, int) else '.1f'}}</td>"
    return f"<td>{escape('' if value is None else str(value))}</td>"
