"""append_batch against write(2) of the same bytes that it writes to the store, in blocks of 1 MiB from page-aligned
memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import seglog
from benchmarks.data import keyed_table
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, pages, recycle, stopwatch, write_blocks

CASES = (("100 B", 100, 0.85), ("1 KiB", 1024, 0.95))


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 100 B and of 1 KiB with keys of 16 B."""
    for label, value_bytes, aim in CASES:
        yield _figure(directory, scale, label, value_bytes, aim)


def _figure(directory: Path, scale: Scale, label: str, value_bytes: int, aim: float) -> Figure:
    table = keyed_table(value_bytes, scale.file_bytes)
    config = seglog.LogConfig(segment_bytes=2 * scale.file_bytes)
    place, raw = directory / "batches", directory / "raw"
    stored = memoryview(b"")

    def ours() -> float:
        nonlocal stored
        recycle(directory, scale.file_bytes)
        log = seglog.open(place, config)
        with stopwatch() as watch:
            log.append_batch(table)
        if not stored:
            data = next(place.glob("*.store")).read_bytes()
            stored = pages(len(data))
            stored[:] = data
        log.remove()  # so that nothing of it is written to the disk, which would slow down the other side
        return watch.seconds

    def other() -> float:
        recycle(directory, scale.file_bytes)
        seconds = write_blocks(raw, stored)
        raw.unlink()
        return seconds

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    return Figure(
        name=f"batch append, {label}",
        against="write(2), 1 MiB blocks",
        ours=mine,
        other=others,
        work=len(stored) / 1e9,
        unit="GB",
        aim=aim,
    )
