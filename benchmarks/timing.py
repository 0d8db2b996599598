"""The timing of all figures: two sides in turn, a discarded warm-up pair, medians of the ratios of pairs.

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
"""Does the work once and returns its seconds, without those of preparation and cleanup."""

BLOCK_BYTES = 1024 * 1024
RECYCLED_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, kw_only=True)
class Figure:
    """One line of the table.

    ours, other: seconds of every repeat, in order, in pairs. work, unit: what one repeat did, in units that are divided
    by the seconds ("GB"), or that divide the seconds ("call"). aim: the minimum ratio; None without one.
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
        """Our speed divided by the other side's, for each pair."""
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
        """Whether the aim is met; None without one."""
        return None if self.aim is None else self.ratio >= self.aim


def limited(
    name: str, ours: tuple[float, ...], limit: float, *, work: float, unit: str, aim: float | None = 1.0
) -> Figure:
    """Return a figure with a limit instead of another side: seconds, or bytes with unit "B"; lower is better."""
    return Figure(name=name, against="wanted", ours=ours, other=(limit,) * len(ours), work=work, unit=unit, aim=aim)


def growing(
    kind: str, sizes: Sequence[int], unit: str, taken: Sequence[tuple[float, ...]], aim: float | None = None
) -> Iterator[Figure]:
    """Yield figures that compare calls on something of each size with those on the least, the first one.

    kind: of the calls; unit: of the sizes, "segments"; taken: seconds per call, as of `in_rounds`.
    """
    for size, seconds in list(zip(sizes, taken, strict=True))[1:]:
        yield Figure(
            name=f"{kind}, {size:,} {unit}",
            against=f"{sizes[0]:,} {unit}",
            ours=seconds,
            other=taken[0],
            work=1,
            unit="call",
            aim=aim,
        )


def settled(side: Side) -> Side:
    """Return a side that begins when nothing is waiting to be written to the disk."""

    def run() -> float:
        settle()
        return side()

    return run


def settle() -> None:
    """Sync everything to the disk, so that it is not written during a measurement."""
    with suppress(AttributeError):  # not on every platform
        os.sync()


def in_turn(ours: Side, other: Side, *, repeats: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the seconds of `repeats` pairs, ours and the other's: A B A B, so that both meet the same conditions."""
    mine, others = in_rounds((ours, other), repeats=repeats)
    return mine, others


def in_rounds(sides: Sequence[Side], *, repeats: int) -> list[tuple[float, ...]]:
    """Return the seconds of each side, run in rounds of all sides; a warm-up round is discarded."""
    rounds = [[side() for side in sides] for _ in range(repeats + 1)][1:]
    return list(zip(*rounds, strict=True))


@dataclass
class Watch:
    """The result of `stopwatch`."""

    seconds: float = 0.0


@contextmanager
def stopwatch() -> Iterator[Watch]:
    """Time the enclosed code, with Python's garbage collector disabled."""
    watch = Watch()
    gc.collect()
    gc.disable()
    start = time.perf_counter()
    try:
        yield watch
    finally:
        watch.seconds = time.perf_counter() - start
        gc.enable()


def timed(work: Callable[[], object]) -> Side:
    """Return a side that only does the work."""

    def side() -> float:
        with stopwatch() as watch:
            work()
        return watch.seconds

    return side


@contextmanager
def on_one_core() -> Iterator[None]:
    """Bind every thread of this process to one processor meanwhile. Linux only."""
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
    """Return page-aligned memory, from and to which copies of the page cache are fastest.

    The data of bytes and bytearrays begins some bytes into a page. On the processor named in docs/benchmarks.md,
    writing from them takes a quarter longer, and reading into a bytearray three times as long.
    """
    return memoryview(mmap.mmap(-1, size))


def recycle(directory: Path, size: int) -> None:
    """Write three times `size` bytes to a file and delete it, before a side that writes `size` to a new file.

    A virtual machine pays for memory at its first use, five to ten times the cost of a write, and returns it after two
    idle seconds. So both sides should get pages that were freed just now. Small blocks would make the system use small
    pages, and find other, cold ones for a side that writes large blocks.
    """
    write_blocks(
        directory / "recycled",
        pages(RECYCLED_BYTES),
        times=3 * -(-size // RECYCLED_BYTES),
        block_bytes=RECYCLED_BYTES,
    )
    (directory / "recycled").unlink()


def write_blocks(path: Path, data: memoryview, *, times: int = 1, block_bytes: int = BLOCK_BYTES) -> float:
    """Write `data` to a new file in blocks, `times` over; return the seconds that write(2) took."""
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
