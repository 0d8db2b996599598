"""append of one record at a time against os.write of the same record's bytes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import seglog
from benchmarks.data import KEY_BYTES, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, recycle, stopwatch

VALUE_BYTES = 100


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 100 B with keys of 16 B and given timestamps; neither side buffers or syncs."""
    key, value, record = bytes(KEY_BYTES), bytes(VALUE_BYTES), bytes(record_bytes(VALUE_BYTES))
    place, raw = directory / "singles", directory / "raw"

    def ours() -> float:
        recycle(directory, scale.calls * len(record))
        log = seglog.open(place)
        append = log.append
        with stopwatch() as watch:
            for number in range(scale.calls):
                append(value, key=key, timestamp=number)
        log.remove()
        return watch.seconds

    def other() -> float:
        recycle(directory, scale.calls * len(record))
        descriptor = os.open(raw, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        write = os.write
        with stopwatch() as watch:
            for _ in range(scale.calls):
                write(descriptor, record)
        os.close(descriptor)
        raw.unlink()
        return watch.seconds

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    yield Figure(
        name="single append, 100 B",
        against="os.write of the same bytes",
        ours=mine,
        other=others,
        work=scale.calls,
        unit="call",
    )
