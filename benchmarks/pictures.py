"""The pictures of the page: ratios with their aims, and the history of each figure."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.figure import Figure as Canvas
from matplotlib.ticker import LogLocator, NullLocator

from benchmarks.history import Kept

Course = Sequence[tuple[bool, Kept]]
"""One figure over the runs, the oldest first: whether the machine was busy, and the figure."""

MET, MISSED, PLAIN, LINE = "#15803d", "#c2410c", "#334155", "#888888"
ROW_INCHES, HEAD_INCHES = 0.42, 0.9
COURSE_INCHES = 0.72
SIZES = ("bytes", "segments")  # what the size of a log is counted in
mpl.rcParams["svg.hashsalt"] = "seglog"  # the same picture from the same figures
mpl.rcParams["svg.fonttype"] = "none"


def draw_aims(figures: Sequence[Kept], path: Path) -> None:
    """Draw every figure with an aim: its ratio as a fraction of the aim, one line each."""
    canvas = Canvas(figsize=(10, HEAD_INCHES + 0.3 * len(figures)), layout="constrained")
    axis = canvas.subplots()
    for place, figure in enumerate(figures):
        aim = figure.aim or 1.0
        _bar(axis, place, [one / aim for one in (figure.low, figure.ratio, figure.high)], _colour(figure))
    axis.axvline(1.0, color=LINE, linewidth=1.2)
    _name(axis, [f"{figure.name} / {figure.against}" for figure in figures])
    axis.set_title("ratio as a part of its aim (line: the aim; bar: quartiles)")
    _save(canvas, path)


def draw_benchmark(figures: Sequence[Kept], courses: Sequence[Course], path: Path) -> None:
    """Draw the figures of one benchmark: on the left ratios with quartiles and aims, on the right their history."""
    height = HEAD_INCHES + COURSE_INCHES * len(figures)
    canvas = Canvas(figsize=(12, height), layout="constrained")
    halves = canvas.subfigures(1, 2, squeeze=False, width_ratios=(2.4, 1))
    left, right = halves[0, 0], halves[0, 1]
    axis = left.subplots()
    for place, figure in enumerate(figures):
        _bar(axis, place, [figure.low, figure.ratio, figure.high], _colour(figure))
        if figure.aim is not None:
            axis.plot([figure.aim] * 2, [place - 0.35, place + 0.35], color=LINE, linewidth=1.6)
    axis.axvline(1.0, color=LINE, linewidth=0.8, linestyle=":")
    _name(axis, [f"{figure.name}\n{figure.against}" for figure in figures])
    axis.set_title("ratio (bar: quartiles; line: aim)")
    rows = right.subplots(len(figures), 1, squeeze=False)[:, 0]
    for row, figure, over in zip(rows, figures, courses, strict=True):
        _course(row, figure, over)
    rows[0].set_title("its course over the runs (hollow: beside other work)", fontsize=9)
    _save(canvas, path)


def draw_growth(figures: Sequence[Kept], path: Path) -> None:
    """Draw the rate of each kind of call by the size of a log, from names "KIND, NUMBER bytes" and "..., segments"."""
    units = dict[str, dict[str, list[tuple[int, float]]]]()
    for figure in figures:
        least, _, unit = figure.against.partition(" ")
        kind, _, size = figure.name.removesuffix(f" {unit}").rpartition(", ")
        if kind and unit in SIZES and size.replace(",", "").isdigit():
            lines = units.setdefault(unit, {})
            lines.setdefault(kind, [(_number(least), figure.other)]).append((_number(size), figure.ours))
    if not units:
        return
    canvas = Canvas(figsize=(7 * len(units), 7), layout="constrained")
    for axis, (unit, lines) in zip(canvas.subplots(1, len(units), squeeze=False)[0], units.items(), strict=True):
        for kind, points in lines.items():
            numbers, seconds = zip(*sorted(points), strict=True)
            axis.plot(numbers, [1 / one for one in seconds], marker="o", markersize=4, linewidth=1.4, label=kind)
        axis.set(xscale="log", yscale="log", xlabel=f"{unit} of the log", ylabel="calls per second")
        axis.grid(alpha=0.3)
        axis.legend(fontsize=8, loc="upper center", bbox_to_anchor=(0.5, -0.1), ncols=2)
    _save(canvas, path)


def _number(text: str) -> int:
    return int(text.replace(",", ""))


def _course(axis: Any, figure: Kept, over: Course) -> None:
    places, ratios = range(len(over)), [one.ratio for _, one in over]
    axis.fill_between(places, [one.low for _, one in over], [one.high for _, one in over], color=PLAIN, alpha=0.15)
    axis.plot(places, ratios, color=PLAIN, linewidth=1)
    faces = ["white" if disturbed else PLAIN for disturbed, _ in over]
    axis.scatter(places, ratios, s=14, color=PLAIN, facecolors=faces, linewidths=1, zorder=3)
    shown = [one for _, run in over for one in (run.low, run.high)]
    if figure.aim is not None:
        axis.axhline(figure.aim, color=LINE, linewidth=1)
        shown.append(figure.aim)
    room = 0.1 * max(shown)
    axis.set(ylim=(max(0.0, min(shown) - room), max(shown) + room), xlim=(-0.5, max(len(over) - 0.5, 0.5)), xticks=[])
    axis.tick_params(labelsize=7)
    axis.grid(alpha=0.2)


def _bar(axis: Any, place: int, ratios: Sequence[float], colour: str) -> None:
    low, ratio, high = ratios
    axis.plot([low, high], [place, place], color=colour, linewidth=5, alpha=0.35, solid_capstyle="butt")
    axis.plot([ratio], [place], color=colour, marker="o", markersize=6)
    axis.annotate(f"{ratio:.2f}", (ratio, place), (0, 6), textcoords="offset points", ha="center", fontsize=7)


def _name(axis: Any, names: Sequence[str]) -> None:
    axis.set_yticks(range(len(names)), names, fontsize=8)
    axis.set_ylim(len(names) - 0.4, -0.6)
    axis.set_xscale("log")
    axis.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    axis.xaxis.set_minor_locator(NullLocator())
    axis.grid(axis="x", alpha=0.3)


def _colour(figure: Kept) -> str:
    return {None: PLAIN, True: MET, False: MISSED}[figure.met]


def _save(canvas: Canvas, path: Path) -> None:
    canvas.savefig(path, metadata={"Date": None})
