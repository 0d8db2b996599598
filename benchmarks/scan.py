"""A full verified scan to Arrow views against read(2) of the same file in blocks of 1 MiB.

"one core": every thread of the process is bound to one processor, so that both sides have the same.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import seglog
from benchmarks.data import keyed_table
from benchmarks.scale import Scale
from benchmarks.timing import BLOCK_BYTES, Figure, in_turn, on_one_core, stopwatch

CASES = (("100 B", 100, (0.3, 0.5)), ("1 KiB", 1024, (0.5, 0.9)))


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 100 B and of 1 KiB with keys of 16 B."""
    for label, value_bytes, (one_core, all_cores) in CASES:
        place = directory / f"scan-{value_bytes}"
        with seglog.open(place, seglog.LogConfig(segment_bytes=2 * scale.file_bytes)) as log:
            log.append_batch(keyed_table(value_bytes, scale.file_bytes))
        if hasattr(os, "sched_setaffinity"):
            with on_one_core():
                yield _figure(place, scale, f"scan to Arrow, one core, {label}", one_core)
        yield _figure(place, scale, f"scan to Arrow, {label}", all_cores)


def _figure(place: Path, scale: Scale, name: str, aim: float) -> Figure:
    store = next(place.glob("*.store"))

    def ours() -> float:
        with seglog.open(place, mode="r") as log:
            rows = 0
            with stopwatch() as watch:
                for batch in log.batches():
                    rows += batch.num_rows
            assert rows == log.next_offset
        return watch.seconds

    def other() -> float:
        descriptor = os.open(store, os.O_RDONLY)
        with stopwatch() as watch:
            while os.read(descriptor, BLOCK_BYTES):
                pass
        os.close(descriptor)
        return watch.seconds

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    return Figure(
        name=name,
        against="read(2), 1 MiB blocks",
        ours=mine,
        other=others,
        work=store.stat().st_size / 1e9,
        unit="GB",
        aim=aim,
    )
