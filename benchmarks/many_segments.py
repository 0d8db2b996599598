"""A log of 10,000 segments: the cost of opening, holding and reading it, and whether the number slows down appends.

Every opening, and the first roll after it, writes or reads the whole manifest, one line per segment; later rolls append
to it. The figures of appends include the rolls, and show them alone.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import seglog
from benchmarks.data import KEY_BYTES, SEED, keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_turn, limited, recycle, stopwatch
from seglog.format.store import HEADER_BYTES

FEW = 10
AIM = 0.95
VALUE_BYTES = 100
SMALL = seglog.LogConfig(segment_bytes=512)  # two records of 400 B do not fit
OPEN_SECONDS = 0.2
RESIDENT_BYTES = 160 * 2**20
ROLLS, READS = 20, 2000
MODES: tuple[tuple[str, Literal["a", "r"]], ...] = (("write", "a"), ("read", "r"))
RESIDENT = """
import sys, seglog
with seglog.open(sys.argv[1], mode=sys.argv[2]) as log:
    assert log.segments and log.read(log.lowest_offset)
    print(next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM:")))
"""


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure a log of scale.segments segments, one record of 400 B in each, against limits and one of ten segments."""
    many, few = (log_of(directory / str(number), number) for number in (scale.segments, FEW))
    yield from _opening(many, scale)
    yield from _resident(many, scale)

    def compared(
        name: str,
        side: Callable[[seglog.Log], Side],
        config: seglog.LogConfig | None = None,
        *,
        work: float,
        unit: str,
        aim: float | None = None,
    ) -> Figure:
        with seglog.open(many, config) as long, seglog.open(few, config) as short:
            mine, others = in_turn(side(long), side(short), repeats=scale.repeats)
        return Figure(name=name, against=f"{FEW} segments", ours=mine, other=others, work=work, unit=unit, aim=aim)

    yield compared("read at random, 64 segments open", _reading, work=READS, unit="call")
    yield compared("log.segments", _listing, work=1, unit="call")
    yield compared(
        "append and a roll, synced", lambda log: _appending(log, directory, ROLLS, 400), work=ROLLS, unit="roll"
    )
    size = scale.calls * record_bytes(VALUE_BYTES)
    yield compared(
        f"append, a roll every {size / 2**20:.0f} MiB",
        lambda log: _appending(log, directory, scale.calls, VALUE_BYTES),
        seglog.LogConfig(segment_bytes=size),
        work=scale.calls,
        unit="call",
        aim=AIM,
    )
    table = keyed_table(VALUE_BYTES, scale.file_bytes)
    yield compared(
        f"append_batch, a roll every {scale.file_bytes / 2**20:.0f} MiB",
        lambda log: _batch(log, directory, table),
        seglog.LogConfig(segment_bytes=len(table) * record_bytes(VALUE_BYTES) + HEADER_BYTES),
        work=scale.file_bytes / 1e9,
        unit="GB",
        aim=AIM,
    )


def log_of(place: Path, segments: int) -> Path:
    """Make a log of `segments` segments on the disk; first in memory, which is faster."""
    memory = seglog.MemoryStorage()
    with seglog.open(memory, SMALL) as log:
        for _ in range(segments):
            log.append(bytes(400))
        assert len(log.segments) == segments
    place.mkdir()
    for name, size in memory.sizes().items():
        (place / name).write_bytes(memory.open(name).pread(size, 0))
    return place


def _opening(place: Path, scale: Scale) -> Iterator[Figure]:
    for verb, mode in MODES:
        mine, _ = in_turn(opened(place, mode), lambda: OPEN_SECONDS, repeats=scale.repeats)
        yield limited(f"open {scale.segments:,} segments to {verb}", mine, OPEN_SECONDS, work=1, unit="open")


def opened(place: Path, mode: Literal["a", "r"]) -> Side:
    """Open a log; the seconds are without those of closing it."""

    def run() -> float:
        with stopwatch() as watch:
            log = seglog.open(place, mode=mode)
        log.close()
        return watch.seconds

    return run


def _resident(place: Path, scale: Scale) -> Iterator[Figure]:
    """Yield the peak memory of a process, including the interpreter, per segment: bytes instead of seconds."""
    for verb, mode in MODES:
        command = [sys.executable, "-c", RESIDENT, str(place), mode]
        answers = [subprocess.run(command, check=True, capture_output=True, text=True).stdout for _ in range(3)]
        held = tuple(float(answer) * 1024 for answer in answers)
        yield limited(f"resident to {verb}, per segment", held, RESIDENT_BYTES, work=scale.segments, unit="B")


def _reading(log: seglog.Log) -> Side:
    """Read offsets at random: with many segments, nearly every read opens one and evicts another."""
    offsets = random.Random(SEED).choices(range(log.next_offset), k=READS)

    def run() -> float:
        with stopwatch() as watch:
            for offset in offsets:
                log.read(offset)
        return watch.seconds

    return run


def _listing(log: seglog.Log) -> Side:
    def run() -> float:
        with stopwatch() as watch:
            assert log.segments
        return watch.seconds

    return run


def _appending(log: seglog.Log, directory: Path, calls: int, value_bytes: int) -> Side:
    """Append one by one, then truncate: the next run finds the same number of segments, and one more."""
    key, value = bytes(KEY_BYTES), bytes(value_bytes)

    def run() -> float:
        recycle(directory, calls * record_bytes(value_bytes))
        end, append = log.next_offset, log.append
        with stopwatch() as watch:
            for number in range(calls):
                append(value, key=key, timestamp=number)
        log.truncate(end)
        return watch.seconds

    return run


def _batch(log: seglog.Log, directory: Path, table: Any) -> Side:
    """Append a table with one call that rolls first; otherwise as `_appending`."""

    def run() -> float:
        recycle(directory, table.nbytes)
        end = log.next_offset
        log.append(b"", key=b"")  # so that the batch no longer fits
        with stopwatch() as watch:
            log.append_batch(table)
        assert log.segments[-1].records == len(table)
        log.truncate(end)
        return watch.seconds

    return run
