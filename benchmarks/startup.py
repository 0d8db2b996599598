"""What it costs to begin: `import seglog` and `seglog --help` against Python alone, and a log of many segments."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import seglog
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_turn, stopwatch

STARTS = (("import seglog", ("-c", "import seglog")), ("seglog --help", ("-m", "seglog", "--help")))
SEGMENT_BYTES = 512
VALUE_BYTES = 400


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure whole processes, and the opening of a log for writing."""
    for name, arguments in STARTS:
        mine, others = in_turn(_process(*arguments), _process("-c", "pass"), repeats=scale.starts)
        yield Figure(name=name, against="python -c pass", ours=mine, other=others, work=1, unit="start")
    many, one = _log(directory / "many", scale.segments), _log(directory / "one", 1)
    mine, others = in_turn(_opening(many), _opening(one), repeats=scale.repeats)
    name = f"open {scale.segments:,} segments"
    yield Figure(name=name, against="open of 1 segment", ours=mine, other=others, work=1, unit="open")


def _process(*arguments: str) -> Side:
    def run() -> float:
        with stopwatch() as watch:
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return watch.seconds

    return run


def _log(place: Path, segments: int) -> Path:
    """Make a log of so many segments, one record in each."""
    with seglog.open(place, seglog.LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
        for _ in range(segments):
            log.append(bytes(VALUE_BYTES))
        assert len(log.segments) == segments
    return place


def _opening(place: Path) -> Side:
    def run() -> float:
        with stopwatch() as watch:
            log = seglog.open(place)
        log.close()
        return watch.seconds

    return run
