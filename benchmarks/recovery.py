"""Opening a log whose writer was killed with a full active segment, against checksumming the same bytes.

The checksum is XXH64 of read(2) in blocks of 1 MiB, on one thread. "synced": the last sync came just before the kill,
so everything is known to be on the disk; "never synced": a recovery writes everything again in place and syncs it
before it serves it, which the other side then does as well.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import xxhash

import seglog
from benchmarks.data import keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import BLOCK_BYTES, Figure, in_turn, pages, settle, stopwatch

CASES = (("100 B", 100), ("1 KiB", 1024))
PIECE_BYTES = 64 * 2**20
SYNCED_AIM = 0.8


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure segments of values of 100 B and of 1 KiB with keys of 16 B, first synced, then not synced."""
    for label, value_bytes in CASES:
        for synced in (True, False):
            killed = _killed(directory / "killed", scale.recovered_bytes, value_bytes, synced=synced)
            yield _figure(killed, directory, scale, label, synced=synced)
            shutil.rmtree(killed)


def _killed(place: Path, size: int, value_bytes: int, *, synced: bool) -> Path:
    """Make what a killed writer leaves: a copy taken while the log is open."""
    table, open_place = keyed_table(value_bytes, PIECE_BYTES), place.with_suffix(".open")
    with seglog.open(open_place, seglog.LogConfig(segment_bytes=2 * size)) as log:
        for _ in range(size // (len(table) * record_bytes(value_bytes)) or 1):
            log.append_batch(table)
        if synced:
            log.sync()
        shutil.copytree(open_place, place, copy_function=_linked)
        log.remove()
    return place


def _linked(source: str, target: str) -> str:
    """Link the store, whose bytes a recovery does not change, and copy the rest."""
    (os.link if source.endswith(".store") else shutil.copy2)(source, target)
    return target


def _figure(killed: Path, directory: Path, scale: Scale, label: str, *, synced: bool) -> Figure:
    store, place = next(killed.glob("*.store")), directory / "recovered"
    size = store.stat().st_size

    def ours() -> float:
        shutil.copytree(killed, place, copy_function=_linked)
        settle()
        with stopwatch() as watch:
            log = seglog.open(place)
        assert not log.recovery.events, log.recovery.events
        assert log.size >= size
        log.close()
        shutil.rmtree(place)
        return watch.seconds

    mine, others = in_turn(ours, lambda: _checksummed(store, rewrite=not synced), repeats=scale.recoveries)
    return Figure(
        name=f"recovery, {'synced' if synced else 'never synced'}, {label}",
        against="read, XXH64" if synced else "read, XXH64, write, fdatasync",
        ours=mine,
        other=others,
        work=size / 1e9,
        unit="GB",
        aim=SYNCED_AIM if synced else None,
    )


def _checksummed(store: Path, *, rewrite: bool) -> float:
    descriptor, buffer, position = os.open(store, os.O_RDWR), pages(BLOCK_BYTES), 0
    add: Callable[[memoryview], None] = xxhash.xxh64().update
    with stopwatch() as watch:
        while size := os.preadv(descriptor, [buffer], position):
            block = buffer[:size]
            add(block)
            if rewrite:
                os.pwrite(descriptor, block, position)
            position += size
        if rewrite:
            os.fdatasync(descriptor)
    os.close(descriptor)
    return watch.seconds
