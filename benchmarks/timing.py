"""The timing that all figures share: two sides in turn, a warm-up pair discarded, medians of the ratios of pairs.

Knows nothing of what is measured.
"""

from __future__ import annotations

import gc
import mmap
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

Side = Callable[[], float]
"""Does the work once and returns the seconds it took; what it prepares and clears away is not in them."""

BLOCK_BYTES = 1024 * 1024
RECYCLED_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table.

    ours, other: seconds of every repeat, in order, a pair each. work, unit: what one repeat did, in units that the
    table divides by the seconds ("GB"), or that divide the seconds ("call"). aim: the least ratio wanted, None: none.
    """

    name: str
    against: str
    ours: tuple[float, ...]
    other: tuple[float, ...]
    work: float
    unit: str
    aim: float | None = None

    @property
    def ratios(self) -> tuple[float, ...]:
        """Our speed as a part of the other side's, for each pair."""
        return tuple(other / ours for ours, other in zip(self.ours, self.other, strict=True))

    @property
    def ratio(self) -> float:
        """The median of the ratios."""
        return median(self.ratios)

    @property
    def spread(self) -> tuple[float, float]:
        """The quartiles of the ratios: half of the pairs lie between them."""
        low, _, high = quantiles(self.ratios, n=4, method="inclusive")
        return low, high

    @property
    def met(self) -> bool | None:
        """Whether the aim is met; None where there is none."""
        return None if self.aim is None else self.ratio >= self.aim


def limited(
    name: str, ours: tuple[float, ...], limit: float, *, work: float, unit: str, aim: float | None = 1.0
) -> Figure:
    """Return a figure that has a limit in place of another side: seconds, or bytes with unit "B"; less is better."""
    return Figure(name=name, against="wanted", ours=ours, other=(limit,) * len(ours), work=work, unit=unit, aim=aim)


def settled(side: Side) -> Side:
    """Return a side that begins when nothing waits to be written to the disk."""

    def run() -> float:
        settle()
        return side()

    return run


def settle() -> None:
    """Bring to the disk what waits to be written, so that it does not go there beside what is timed."""
    with suppress(AttributeError):  # not on every platform
        os.sync()


def in_turn(ours: Side, other: Side, *, repeats: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the seconds of `repeats` pairs, ours and the other's: A B A B, so that both meet the same machine."""
    mine, others = in_rounds((ours, other), repeats=repeats)
    return mine, others


def in_rounds(sides: Sequence[Side], *, repeats: int) -> list[tuple[float, ...]]:
    """Return the seconds of each of any number of sides, a round of all after another; a warm-up round is discarded."""
    rounds = [[side() for side in sides] for _ in range(repeats + 1)][1:]
    return list(zip(*rounds, strict=True))


@dataclass
class Watch:
    """What `stopwatch` has measured."""

    seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Watch]:
    """Time what happens within, with Python's garbage collector held off."""
    watch = Watch()
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    try:
        yield watch
    finally:
        watch.seconds = time.perf_counter() - start
        gc.enable()


@contextmanager
def on_one_core() -> Iterator[None]:
    """Hold every thread of this process to one processor meanwhile. Linux alone."""
    allowed = os.sched_getaffinity(0)
    _hold({min(allowed)})
    try:
        yield
    finally:
        _hold(allowed)


def _hold(cores: set[int]) -> None:
    for thread in Path("/proc/self/task").iterdir():
        with suppress(ProcessLookupError):  # it has ended
            os.sched_setaffinity(int(thread.name), cores)


def pages(size: int) -> memoryview:
    """Return so much memory from the beginning of a page on: what the fastest copy to and from the page cache takes.

    The data of bytes and bytearrays begins some bytes into a page. On the processor that docs/benchmarks.md names it
    takes a quarter longer to write from them, and three times as long to read into a bytearray.
    """
    return memoryview(mmap.mmap(-1, size))


def recycle(directory: Path, size: int) -> None:
    """Write three times `size` bytes to a file and delete it, before a side that writes `size` to a fresh file.

    A virtual machine pays for memory when it first touches it: five to ten times what a write costs; what lies idle for
    two seconds it gives back. Both sides are to be given pages that were just let go. Of small blocks the system would
    make small pages, and find others, cold ones, for a side that writes large blocks.
    """
    write_blocks(
        directory / "recycled",
        pages(RECYCLED_BYTES),
        times=3 * -(-size // RECYCLED_BYTES),
        block_bytes=RECYCLED_BYTES,
    )
    (directory / "recycled").unlink()


def write_blocks(path: Path, data: memoryview, *, times: int = 1, block_bytes: int = BLOCK_BYTES) -> float:
    """Write `data` to a fresh file in blocks, `times` over; return the seconds that write(2) took."""
    blocks = [data[start : start + block_bytes] for start in range(0, len(data), block_bytes)]
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        with stopwatch() as watch:
            for _ in range(times):
                for block in blocks:
                    os.write(descriptor, block)
    finally:
        os.close(descriptor)
    return watch.seconds
