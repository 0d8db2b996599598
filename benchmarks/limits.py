"""The speed of the plainest calls on the machine, measured in every run: absolute figures to read the ratios with.

The ratios are never computed from these, but from the same call measured in turn with our side.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import xxhash

from benchmarks.data import SEED
from benchmarks.scale import Scale
from benchmarks.timing import BLOCK_BYTES, Side, in_rounds, pages, recycle, settle, stopwatch, write_blocks

SYNCED_BYTES = 1024
SYNCS = 100


@dataclass(frozen=True, kw_only=True)
class Limit:
    """One limit. value: the median, in `unit`; low, high: minimum and maximum."""

    name: str
    value: float
    low: float
    high: float
    unit: str


def limits(directory: Path, scale: Scale) -> Iterator[Limit]:
    """Measure write(2), read(2), memcpy, XXH64 and fdatasync."""
    size = scale.file_bytes
    data, target = pages(size), pages(size)
    data[:] = random.Random(SEED).randbytes(size)
    source = directory / "limit"
    source.write_bytes(data)

    def written() -> float:
        recycle(directory, size)
        seconds = write_blocks(directory / "raw", data)
        (directory / "raw").unlink()
        return seconds

    sides: dict[str, Side] = {
        "write(2), 1 MiB blocks, page cache": written,
        "read(2), 1 MiB blocks, page cache": lambda: _read(source),
        "memcpy": lambda: _copied(data, target),
        "XXH64, 1 MiB blocks in memory": lambda: _checksummed(data),
    }
    for name, seconds in zip(sides, in_rounds(list(sides.values()), repeats=scale.repeats), strict=True):
        yield _limit(name, [size / 1e9 / one for one in seconds], "GB/s")
    yield _limit("fdatasync after 1 KiB", [1e3 * one for one in _synced(directory / "synced")], "ms")


def _limit(name: str, values: list[float], unit: str) -> Limit:
    value, low, high = (float(f"{one:.3g}") for one in (median(values), min(values), max(values)))
    return Limit(name=name, value=value, low=low, high=high, unit=unit)


def _read(path: Path) -> float:
    descriptor = os.open(path, os.O_RDONLY)
    with stopwatch() as watch:
        while os.read(descriptor, BLOCK_BYTES):
            pass
    os.close(descriptor)
    return watch.seconds


def _copied(data: memoryview, target: memoryview) -> float:
    with stopwatch() as watch:
        target[:] = data
    return watch.seconds


def _checksummed(data: memoryview) -> float:
    blocks = [data[start : start + BLOCK_BYTES] for start in range(0, len(data), BLOCK_BYTES)]
    with stopwatch() as watch:
        for block in blocks:
            xxhash.xxh64_intdigest(block)
    return watch.seconds


def _synced(path: Path) -> list[float]:
    """Return the seconds of each sync of a growing file."""
    descriptor, taken, block = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY), [], bytes(SYNCED_BYTES)
    settle()
    for _ in range(SYNCS):
        os.write(descriptor, block)
        with stopwatch() as watch:
            os.fdatasync(descriptor)
        taken.append(watch.seconds)
    os.close(descriptor)
    return taken
