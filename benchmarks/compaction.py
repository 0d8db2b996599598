"""Compaction by key: a whole `log.compact()` against copying the same bytes, and the memory of its key map.

The log is half clean and half dirty, like one that is compacted regularly: every key once, compacted; as many updates,
uniformly distributed over the keys, compacted; and as many updates again. The copy reads the stores in blocks of 1 MiB
into one buffer, writes of each block the fraction that survives, and ends with fdatasync, as a compaction does. On
tmpfs (`--directory /dev/shm`) a sync costs neither side anything, and only the work of the processors remains. The
sources are not unlinked while a compaction is timed, because the copy removes none.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import seglog
from benchmarks.data import SEED, keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import BLOCK_BYTES, Figure, in_turn, limited, pages, recycle, stopwatch
from seglog.compaction.keymap import KeyMap, Keys

CASES = (("100 B", 100), ("1 KiB", 1024))
COPY_RATIO = 0.6
KEYS_PER_SECOND = 10e6
BYTES_PER_KEY = 27.0
RUN = 8192  # keys mapped per call, about as many as a window of a store holds
NO_LIMIT = 2**40
KEPT = seglog.Retention(compact=True, dedupe_bytes=NO_LIMIT)

MEMORY = """
import re, sys, seglog
from pathlib import Path
def status(name): return 1024 * int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1])
with seglog.open(sys.argv[1]) as small: small.compact()  # the compiler's memory, and the libraries', is not of the pass
with seglog.open(sys.argv[2]) as log:
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    before = status("VmRSS")
    keys = log.compact().keys
    print((status("VmHWM") - before) / keys)
"""


class Clock:
    """A clock that only advances on request, so that the benchmark decides when segments are sealed."""

    def __init__(self) -> None:
        self.now = 1_700_000_000_000_000

    def __call__(self) -> int:
        """Return the time in us since the epoch."""
        return self.now


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure compactions of values of 100 B and of 1 KiB with keys of 16 B, then the map."""
    for label, value_bytes in CASES:
        yield _compaction(directory / label.replace(" ", ""), scale, label, value_bytes)
    keys = 25 * scale.records
    yield from _mapping(keys, scale.repeats)
    yield _array_bytes(keys)
    if sys.platform == "linux":
        yield _process_bytes(directory, keys)


# --- whole compactions ----------------------------------------------------------------------------------------------


def _compaction(directory: Path, scale: Scale, label: str, value_bytes: int) -> Figure:
    half_dirty, place, clock = directory / "half-dirty", directory / "log", Clock()
    stores = make_half_dirty(half_dirty, clock, keyed_table(value_bytes, scale.file_bytes), scale.file_bytes // 2)
    read, written, buffer = sum(store.stat().st_size for store in stores), 0, pages(BLOCK_BYTES)

    def ours() -> float:
        nonlocal written
        shutil.copytree(half_dirty, place, copy_function=twin)
        recycle(directory, scale.file_bytes)
        log = seglog.open(place, clock=clock)
        view = log.view()  # prevents the sources from being unlinked
        with stopwatch() as watch:
            written = log.compact().bytes_after
        del view
        log.remove()
        return watch.seconds

    def other() -> float:
        recycle(directory, scale.file_bytes)
        return _copy(stores, directory / "copy", buffer, share=written / read)

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    return Figure(
        name=f"compaction, {label}",
        against="read(2), write(2), fdatasync",
        ours=mine,
        other=others,
        work=read / 1e9,
        unit="GB",
        aim=COPY_RATIO,
    )


def make_half_dirty(place: Path, clock: Clock, table: pa.Table, segment_bytes: int) -> list[Path]:
    """Make a log of about twice the table and return its sealed stores."""
    config = seglog.LogConfig(segment_bytes=segment_bytes, segment_age=1, retention=KEPT)
    with seglog.open(place, config, clock=clock) as log:
        for rows in (table, *updates_of(table)):
            log.compact()
            log.append_batch(rows)
            clock.now += 2_000_000
            log.expire()  # the last segment is sealed
        return [place / segment.name for segment in log.segments[:-1]]


def updates_of(table: pa.Table) -> list[pa.Table]:
    """Return two tables with as many updates each, uniformly distributed over the keys."""
    random = np.random.default_rng(SEED)
    return [table.take(random.integers(0, len(table), len(table))) for _ in range(2)]


def twin(source: str, target: str) -> str:
    """Link a sealed store, which does not change, and copy the rest: copies would have to be written to the disk."""
    (os.link if Path(source).stat().st_size > BLOCK_BYTES else shutil.copy2)(source, target)
    return target


def _copy(stores: list[Path], target: Path, block: memoryview, *, share: float) -> float:
    descriptor = os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    try:
        with stopwatch() as watch:
            for store in stores:
                with store.open("rb", buffering=0) as source:
                    while size := source.readinto(block):
                        os.write(descriptor, block[: round(size * share)])
            os.fsync(descriptor) if sys.platform == "darwin" else os.fdatasync(descriptor)
    finally:
        os.close(descriptor)
    target.unlink()
    return watch.seconds


# --- the map of keys ------------------------------------------------------------------------------------------------


def _mapping(keys: int, repeats: int) -> Iterator[Figure]:
    """Map fingerprints until the map is full, then all of them again in another order."""
    random = np.random.default_rng(SEED)
    fingerprints = random.integers(1, 2**64 - 1, (keys, 2), np.uint64)
    shuffled, died = random.permutation(fingerprints), np.zeros(keys // 4 + 1, np.uint8)
    fresh, again = [], []
    for _ in range(repeats + 1):
        filled = KeyMap(keys, NO_LIMIT)
        fresh.append(_add(filled, fingerprints, 0, died))
        again.append(_add(filled, shuffled, keys, died))
    for name, seconds in (("keys mapped, new", fresh[1:]), ("keys mapped, known", again[1:])):
        yield limited(name, tuple(seconds), keys / KEYS_PER_SECOND, work=keys / 1e6, unit="M keys")


def _add(filled: KeyMap, fingerprints: Any, first: int, died: Any) -> float:
    kinds, offsets = np.ones(RUN, np.uint8), np.zeros(RUN, np.int64)
    with stopwatch() as watch:
        for start in range(0, len(fingerprints), RUN):
            some = fingerprints[start : start + RUN]
            filled.add(Keys(some, kinds[: len(some)], offsets[: len(some)]), first + start, died)
    return watch.seconds


def _array_bytes(keys: int) -> Figure:
    filled = KeyMap(keys, NO_LIMIT)
    each = filled.nbytes / filled.limit
    return limited("map's arrays, per key when full", (each, each), BYTES_PER_KEY, work=1, unit="B")


def _process_bytes(directory: Path, keys: int) -> Figure:
    """Measure the growth of a process that compacts a log with only new keys: the map is full at the end."""
    clock, config = Clock(), seglog.LogConfig(segment_age=1, retention=KEPT)
    for name, rows in (("few", 10), ("many", keys)):
        with seglog.open(directory / name, config, clock=clock) as log:
            log.append_batch(keyed_table(0, rows * record_bytes(0)))
            clock.now += 2_000_000
            log.expire()
    command = [sys.executable, "-c", MEMORY, str(directory / "few"), str(directory / "many")]
    each = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return limited("growth of a process, per key", (each, each), BYTES_PER_KEY, work=1, unit="B", aim=None)
