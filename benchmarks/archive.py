"""Archives: upload, restore and read, each against the same bytes without an archive.

The archive is a directory of the same disk (file://), so that the figures show what seglog itself costs, not a network.
The upload verifies every record before and syncs every object; the restore verifies every record and rebuilds the
indexes. `cp` copies the same stores and syncs them.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import seglog
from benchmarks.data import keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, settle, stopwatch

VALUE_BYTES = 1024
SEGMENT_BYTES = 64 * 2**20
PIECE_BYTES = 64 * 2**20


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 1 KiB with keys of 16 B in segments of 64 MiB."""
    log, url = directory / "log", f"file://{directory}/archive"
    size = _filled(log, scale.recovered_bytes)
    yield _upload(log, directory, size, scale)
    with seglog.Archiver(log, url) as archiver:
        archiver.step()
    yield _restore(log, url, directory, size, scale)
    yield _scan(log, url, size, scale)


def _filled(place: Path, size: int) -> int:
    table = keyed_table(VALUE_BYTES, PIECE_BYTES)
    with seglog.open(place, seglog.LogConfig(segment_bytes=SEGMENT_BYTES)) as log:
        for _ in range(size // (len(table) * record_bytes(VALUE_BYTES)) or 1):
            log.append_batch(table)
        return log.size


def _copied(log: Path, directory: Path) -> float:
    target = directory / "copy"
    target.mkdir()
    settle()
    with stopwatch() as watch:
        for store in log.glob("*.store"):
            shutil.copyfile(store, target / store.name)
            descriptor = os.open(target / store.name, os.O_RDWR)
            os.fdatasync(descriptor)
            os.close(descriptor)
    shutil.rmtree(target)
    return watch.seconds


def _upload(log: Path, directory: Path, size: int, scale: Scale) -> Figure:
    def ours() -> float:
        settle()
        with stopwatch() as watch, seglog.Archiver(log, f"file://{directory}/upload") as archiver:
            archiver.step()
        shutil.rmtree(directory / "upload")
        (log / ".archive.json").unlink()
        return watch.seconds

    mine, others = in_turn(ours, lambda: _copied(log, directory), repeats=scale.recoveries)
    return Figure(name="archive, upload", against="cp, fdatasync", ours=mine, other=others, work=size / 1e9, unit="GB")


def _restore(log: Path, url: str, directory: Path, size: int, scale: Scale) -> Figure:
    def ours() -> float:
        settle()
        with stopwatch() as watch:
            seglog.restore(url, directory / "restored")
        shutil.rmtree(directory / "restored")
        return watch.seconds

    mine, others = in_turn(ours, lambda: _copied(log, directory), repeats=scale.recoveries)
    return Figure(name="archive, restore", against="cp, fdatasync", ours=mine, other=others, work=size / 1e9, unit="GB")


def _scan(log: Path, url: str, size: int, scale: Scale) -> Figure:
    def scanned(place: str) -> float:
        with seglog.open(place, mode="r") as reader, stopwatch() as watch:
            assert sum(batch.num_rows for batch in reader.batches()) == len(reader)
        return watch.seconds

    mine, others = in_turn(lambda: scanned(url), lambda: scanned(str(log)), repeats=scale.recoveries)
    return Figure(
        name="archive, batches through the cache",
        against="batches of the log",
        ours=mine,
        other=others,
        work=size / 1e9,
        unit="GB",
    )
