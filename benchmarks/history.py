"""The history of the figures: a line of JSON for each run, medians only, stored in the repository.

Compares only runs on machines of the same kind (processor, cores) that were not busy otherwise. Measures nothing.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.limits import Limit
from benchmarks.machine import commit, machine
from benchmarks.timing import Figure

HISTORY = Path(__file__).parent.parent / "docs" / "benchmarks" / "history.jsonl"
LATEST = 8
"""Number of earlier runs that a figure is compared with."""
DIGITS = 4
DISTURBED = 0.25

Name = tuple[str, str]
"""The identity of a figure: its name, and what it is measured against."""


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The stored part of a figure. benchmark: its benchmark; ours, other: median seconds; low, high: the quartiles of
    the ratio; the rest as in Figure.
    """

    benchmark: str
    name: str
    against: str
    ours: float
    other: float
    work: float
    unit: str
    aim: float | None
    ratio: float
    low: float
    high: float

    @classmethod
    def of(cls, benchmark: str, figure: Figure) -> Kept:
        """Return the stored part of a figure."""
        low, high = figure.spread
        return cls(
            benchmark=benchmark,
            name=figure.name,
            against=figure.against,
            ours=_rounded(median(figure.ours)),
            other=_rounded(median(figure.other)),
            work=_rounded(figure.work),
            unit=figure.unit,
            aim=figure.aim,
            ratio=_rounded(figure.ratio),
            low=_rounded(low),
            high=_rounded(high),
        )

    @property
    def known_by(self) -> Name:
        """The identity of the figure."""
        return self.name, self.against

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None without one."""
        return None if self.aim is None else self.ratio >= self.aim


@dataclass(frozen=True, kw_only=True)
class Run:
    """One run, complete or partial. taken: UTC, ISO 8601; load: number of runnable processes in the minute before it;
    peers: their versions; limits: absolute figures of the machine.
    """

    taken: str
    commit: str
    load: float
    machine: Mapping[str, str | int]
    peers: Mapping[str, str]
    limits: tuple[Limit, ...]
    figures: tuple[Kept, ...]

    @property
    def kind(self) -> tuple[object, object]:
        """The kind of machine."""
        return self.machine.get("cpu"), self.machine.get("cores")

    @property
    def is_disturbed(self) -> bool:
        """Whether the machine was busy at the start: load on more than a quarter of the cores."""
        return self.load > DISTURBED * int(self.machine.get("cores", 1))

    def as_line(self) -> str:
        """Return the line of JSON for `from_line`."""
        return json.dumps(asdict(self), ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_line(cls, line: str) -> Run:
        """Decode a run from its line."""
        told: dict[str, Any] = json.loads(line)
        told["limits"] = tuple(Limit(**limit) for limit in told["limits"])
        told["figures"] = tuple(Kept(**figure) for figure in told["figures"])
        return cls(**told)


def run_of(
    figures: Iterable[tuple[str, Figure]],
    limits: Iterable[Limit],
    peers: Mapping[str, str],
    *,
    taken: float,
    load: float,
) -> Run:
    """Return the stored part of a run that ended now, from (benchmark, figure) pairs.

    taken: start in seconds since the epoch; load: at the start.
    """
    return Run(
        taken=time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(taken)),
        commit=commit(),
        load=round(load, 2),
        machine=machine(),
        peers=dict(peers),
        limits=tuple(limits),
        figures=tuple(Kept.of(benchmark, figure) for benchmark, figure in figures),
    )


def read_history(path: Path = HISTORY) -> list[Run]:
    """Return the runs of a history, the oldest first; none without a file."""
    return [Run.from_line(line) for line in path.read_text().splitlines()] if path.exists() else []


def keep(run: Run, path: Path = HISTORY) -> None:
    """Append a run to a history."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as history:
        history.write(run.as_line() + "\n")


def latest(history: Sequence[Run]) -> dict[Name, tuple[Run, Kept]]:
    """Return for each figure the last result on a machine of the last run's kind, if possible of an undisturbed run."""
    runs = sorted(alike(history), key=lambda run: not run.is_disturbed)  # later runs replace earlier ones
    return {figure.known_by: (run, figure) for run in runs for figure in run.figures}


def alike(history: Sequence[Run]) -> list[Run]:
    """Return the runs on machines of the last run's kind."""
    return [run for run in history if run.kind == history[-1].kind]


def course(history: Iterable[Run], name: Name) -> list[Kept]:
    """Return one figure in every run that has it."""
    return [figure for run in history for figure in run.figures if figure.known_by == name]


def regressions(history: Sequence[Run]) -> Iterator[tuple[Kept, float]]:
    """Yield the figures of the last run that fell, each with the lowest ratio that would have passed.

    That is the median ratio of earlier runs minus their spread: the distance of the quartiles within a run or between
    runs, whichever is greater.
    """
    if not history or history[-1].is_disturbed:
        return
    earlier = [run for run in alike(history)[:-1] if not run.is_disturbed]
    for figure in history[-1].figures:
        before = course(earlier, figure.known_by)[-LATEST:]
        if before and figure.ratio < (least := _least(before)):
            yield figure, least


def _least(before: Sequence[Kept]) -> float:
    ratios = sorted(one.ratio for one in before)
    within = median(one.high - one.low for one in before)
    between = ratios[3 * len(ratios) // 4] - ratios[len(ratios) // 4]
    return median(ratios) - max(within, between)


def _rounded(value: float) -> float:
    return float(f"{value:.{DIGITS}g}")
