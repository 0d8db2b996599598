"""Logs of 10 to 100,000 segments: what a roll, a publish, an expiry, an opening and a reader cost as a log grows.

Each log has one record of 400 B in each segment. Its files are copied from one segment, whose records have relative
offsets, since making 100,000 segments by rolling takes an hour. Every figure is compared with a log of ten segments.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path

import pyarrow as pa

import seglog
from benchmarks.many_segments import FEW, RESIDENT, SMALL, opened
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, growing, in_rounds, limited, stopwatch
from seglog.format import filename
from seglog.format.manifest import Segments
from seglog.log.catalog import read_manifest, write_manifest
from seglog.log.staging import Stage
from seglog.storage import LocalStorage

AIM = 0.97
OPEN_SECONDS, RESIDENT_BYTES = 1.0, 300e6
VALUE = bytes(400)
CALLS = 40
WARM = 4
LOOKS = 200
CHANGES = ("append and a roll, synced", "publish of one segment", "append, a roll and an expiry")
OPENINGS = ("open to write", "open to read")
READING = ("what a reader does after a roll", "read of one record, mode r", "len(log.segments)")


def sizes(scale: Scale) -> list[int]:
    """Return the numbers of segments, the least first."""
    return sorted({FEW, *(one for one in (scale.segments // 10, scale.segments, 10 * scale.segments) if one > FEW)})


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure each kind of call on logs of all sizes in rounds, so that all meet the same conditions."""
    places = {number: log_of(directory / str(number), number) for number in sizes(scale)}
    kinds: dict[str, Callable[[Path], Side]] = {
        CHANGES[0]: partial(_changing, _rolls),
        CHANGES[1]: partial(_changing, _publishes),
        CHANGES[2]: partial(_changing, _expiries),
        OPENINGS[0]: partial(opened, mode="a"),
        OPENINGS[1]: partial(opened, mode="r"),
    }
    for kind, side in kinds.items():
        taken = in_rounds([side(place) for place in places.values()], repeats=scale.peer_repeats)
        yield from growing(kind, [*places], "segments", taken, AIM if kind in CHANGES else None)
    with ExitStack() as stack:
        logs = [stack.enter_context(seglog.open(place)) for place in places.values()]
        readers = [stack.enter_context(seglog.open(place, mode="r")) for place in places.values()]
        for kind, sides in (
            (READING[0], [partial(_followed, log, reader) for log, reader in zip(logs, readers, strict=True)]),
            (READING[1], [partial(_looked, reader) for reader in readers]),
            (READING[2], [partial(_counted, reader) for reader in readers]),
        ):
            yield from growing(kind, [*places], "segments", in_rounds(sides, repeats=scale.peer_repeats))
    most = max(places)
    yield limited(f"open {most:,} segments to write", _opened(places[most]), OPEN_SECONDS, work=1, unit="open")
    command = [sys.executable, "-c", RESIDENT, str(places[most]), "a"]
    held = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) * 1024
    yield limited(f"resident with {most:,} segments", (held, held), RESIDENT_BYTES, work=1, unit="B")


def _opened(place: Path) -> tuple[float, ...]:
    return in_rounds([opened(place, "a")], repeats=2)[0]


def log_of(place: Path, segments: int) -> Path:
    """Make a log of `segments` segments, from the files of one."""
    with seglog.open(place, SMALL) as log:
        log.append(VALUE)
        log.append(VALUE)
    storage = LocalStorage(place)
    manifest = read_manifest(storage)
    assert manifest is not None
    sealed, active = manifest.segments
    store, empty = (place / sealed.name()).read_bytes(), (place / active.name()).read_bytes()
    entries = [replace(sealed, base_offset=one, next_offset=one + 1, file=one + 1) for one in range(segments - 1)]
    entries.append(replace(active, base_offset=segments - 1, file=segments))
    for old in (sealed, active):
        for kind in filename.KINDS:
            (place / old.name(kind)).unlink(missing_ok=True)
    for entry in entries:
        (place / entry.name()).write_bytes(store if entry.sealed else empty)
    version = manifest.version + 1
    write_manifest(storage, replace(manifest, version=version, segments=Segments.of(entries), next_file=segments + 1))
    return place


# --- sides: seconds per call -----------------------------------------------------------------------------------------


def _changing(change: Callable[[seglog.Log], float], place: Path) -> Side:
    """Return a side that opens the log, makes the changes, and truncates or deletes what they added.

    The first roll after an opening or a truncate writes a new base of the manifest; the others append to it.
    """

    def run() -> float:
        with seglog.open(place) as log:
            for _ in range(WARM):
                log.append(VALUE)
            return change(log)

    return run


def _rolls(log: seglog.Log) -> float:
    with stopwatch() as watch:
        for _ in range(CALLS):
            log.append(VALUE)
    log.truncate(log.next_offset - CALLS - WARM)
    return watch.seconds / CALLS


_batches = count()


def _publishes(log: seglog.Log) -> float:
    staged = []
    for _ in range(CALLS):
        stage = Stage(LocalStorage(log.path), f"growth-{next(_batches)}")
        stage.append_batch(pa.table({"value": [VALUE]}))
        staged.append(stage.finish())
    with stopwatch() as watch:
        for one in staged:
            log.publish(one, query="growth", batch=next(_batches))
    log.truncate(log.next_offset - CALLS - WARM)
    return watch.seconds / CALLS


def _expiries(log: seglog.Log) -> float:
    """Let each roll delete the first segment."""
    log.alter(retention=seglog.Retention(bytes=log.size))
    for _ in range(WARM):
        log.append(VALUE)
    lowest = log.lowest_offset
    with stopwatch() as watch:
        for _ in range(CALLS):
            log.append(VALUE)
    assert log.lowest_offset >= lowest + CALLS - 1
    log.alter(retention=seglog.Retention(bytes=2**62))
    return watch.seconds / CALLS


def _followed(log: seglog.Log, reader: seglog.Log) -> float:
    seconds = 0.0
    for _ in range(CALLS):
        log.append(VALUE)  # rolls
        with stopwatch() as watch:
            assert reader.next_offset == log.next_offset
        seconds += watch.seconds
    return seconds / CALLS


def _looked(reader: seglog.Log) -> float:
    offset = reader.next_offset - 1
    with stopwatch() as watch:
        for _ in range(LOOKS):
            reader.read(offset)
    return watch.seconds / LOOKS


def _counted(reader: seglog.Log) -> float:
    with stopwatch() as watch:
        for _ in range(LOOKS):
            len(reader.segments)
    return watch.seconds / LOOKS
