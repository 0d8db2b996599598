"""The cost of starting: `import seglog` and `seglog --help`, against Python alone and against the limits."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_turn, limited, stopwatch

STARTS = (("import seglog", ("-c", "import seglog"), 0.060), ("seglog --help", ("-m", "seglog", "--help"), 0.250))


def figures(_: Path, scale: Scale) -> Iterator[Figure]:
    """Measure whole processes, including the interpreter's start."""
    for name, arguments, limit in STARTS:
        mine, others = in_turn(_process(*arguments), _process("-c", "pass"), repeats=scale.starts)
        yield Figure(name=name, against="python -c pass", ours=mine, other=others, work=1, unit="start")
        yield limited(name, mine, limit, work=1, unit="start")


def _process(*arguments: str) -> Side:
    def run() -> float:
        with stopwatch() as watch:
            subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
        return watch.seconds

    return run
