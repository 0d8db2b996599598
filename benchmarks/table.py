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
ratio: our speed divided by the other side's, the median over pairs measured alternately (A B A B)
after a warm-up pair; spread: its quartiles. Both sides write fresh files in one directory, into the
page cache; nothing is synced except where a name or this text mentions it. Before each measurement
at least as many bytes are written and deleted, so that both sides get warm memory; write(2) gets
page-aligned memory, with which it is fastest. Opening and closing a log is not timed, except in the
lines on starting, opening and recovery; everything else is. Files that are read are in the page
cache.
Batches, scans and compactions use two processors if there are two; if one of them is busy, they
drop to about the speed of one. A compaction and the copy that it is compared with end in fdatasync.
Where the other side is "wanted", it is a limit, not a measurement. Rolls and publishes are synced.
Servers (http, kafka) answer as soon as a record is written, except in the lines marked durable or
acks=all, and client and server of both sides are on this machine.
laminarmq is called from Rust, in its own process; what it and our buffered appends hold back (128
KiB) is not written.
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
    """Format the speed of one side; work, unit: as in Figure."""
    if unit in RATES:
        return f"{work / seconds:.2f} {RATES[unit]}"
    if unit == "MiB":
        return f"{seconds / work:.0f} MiB"
    if unit == "B":
        return f"{seconds / work:.1f} B"
    each = seconds / work
    if each >= 1:
        return f"{each:.2f} s"
    return f"{each * 1e3:.1f} ms" if each >= 1e-3 else f"{each * 1e6:.2f} us"


def write_json(path: Path, run: Run, figures: Iterable[Figure]) -> None:
    """Write the figures with every repeat, and the facts of the run."""
    content = {
        **{name: value for name, value in asdict(run).items() if name != "figures"},
        "figures": [
            {**asdict(figure), "ratio": figure.ratio, "spread": figure.spread, "met": figure.met} for figure in figures
        ],
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
