"""Figures as a table for people and as JSON for machines. Measures nothing."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.timing import Figure

if TYPE_CHECKING:
    from benchmarks.history import Run

COLUMNS = ("name", "ours", "other side", "ratio", "spread", "aim", "met")
WIDTHS = (38, 11, 36, 6, 12, 5, 4)
RATES = {"GB": "GB/s", "M keys": "M/s", "k records": "k/s"}
FOOTNOTE = """
ratio: our speed as a part of the other side's, the median over pairs that ran in turn (A B A B) after a warm-up pair;
spread: its quartiles. Both sides write fresh files in one directory, into the page cache, without fsync, each just
after as many bytes or more were written and deleted, so that both are given warm memory; write(2) is given memory that
begins with a page, from which it is fastest. Opening and closing a log is not timed (but in the lines on starting,
opening and recovery), all else is. Files that are read are in the page cache.
Batches, scans and compactions use two processors where there are two; with one of them taken they fall to about what
one gives. A compaction and the copy beside it end in fdatasync. Where the other side is "wanted" it is a limit, not a
measurement. Servers (http) answer for a record as soon as it is written; nothing is synced but where it says durable,
and both sides are on this machine, server and client.
laminarmq is called from Rust, in its own process; what it and our buffered appends hold back (128 KiB) is not written.
"""


def line(cells: Iterable[str]) -> str:
    """Return one line of the table."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, WIDTHS, strict=True)).rstrip()


def row(figure: Figure) -> str:
    """Return the line of one figure."""
    low, high = figure.spread
    met = {None: "", True: "yes", False: "no"}[figure.met]
    ours, other = (speed(median(seconds), figure.work, figure.unit) for seconds in (figure.ours, figure.other))
    aim = "" if figure.aim is None else f"{figure.aim:.2f}"
    cells = (figure.name, ours, f"{other} {figure.against}", f"{figure.ratio:.2f}", f"{low:.2f} - {high:.2f}", aim, met)
    return line(cells)


def speed(seconds: float, work: float, unit: str) -> str:
    """Return what one side reached, as people read it; work, unit: as in Figure."""
    if unit in RATES:
        return f"{work / seconds:.2f} {RATES[unit]}"
    if unit == "B":
        return f"{seconds / work:.1f} B"
    each = seconds / work
    if each >= 1:
        return f"{each:.2f} s"
    return f"{each * 1e3:.1f} ms" if each >= 1e-3 else f"{each * 1e6:.2f} us"


def write_json(path: Path, run: Run, figures: Iterable[Figure]) -> None:
    """Write the figures with every repeat, and what they were taken on."""
    content = {
        **{name: value for name, value in asdict(run).items() if name != "figures"},
        "figures": [
            {**asdict(figure), "ratio": figure.ratio, "spread": figure.spread, "met": figure.met} for figure in figures
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
