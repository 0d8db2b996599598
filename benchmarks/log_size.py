"""Logs of 10^3 to 10^9 bytes: what an append, a read and a scan cost as a log grows, compared with the shortest log.

A scan reads the whole log, and counts per MB. The others are calls on a log of that size: it is cut back after each.
The memory of a process that appends up to 60 million records is compared with what it had after the first four.
"""

from __future__ import annotations

import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

import seglog
from benchmarks.data import SEED, keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import Figure, growing, in_rounds, limited, stopwatch
from seglog.format.store import HEADER_BYTES

VALUE_BYTES = 100
SHORTEST = 1000
PIECE_BYTES = 100 * 10**6  # of the table that a log is filled with
APPENDS, BATCHES, SYNCS, READS, MANY = 2000, 100, 40, 2000, 300
BATCH_RECORDS = 150
MILLIONS, FIRST_MILLIONS = 60, 4  # of records, appended in batches of a million
GROWN_BYTES = 64 * 2**20  # that a process may have more after all of them: less than half of a batch
APPENDING = """
import sys, seglog
from benchmarks.data import keyed_table, record_bytes
with seglog.open(sys.argv[1]) as log:
    for _ in range(int(sys.argv[2])):
        table = keyed_table(100, 10**6 * record_bytes(100))  # while the last one is still there
        log.append_batch(table)
        print(*(line.split()[1] for line in open("/proc/self/status") if line.startswith(("VmHWM:", "VmRSS:"))))
"""
MIB: dict[str, Any] = {"work": 2**20, "unit": "MiB"}
SCANNED_BYTES, MOST_SCANS = 50 * 10**6, 200  # a short log is scanned again and again


def sizes(scale: Scale) -> list[int]:
    """Return the sizes in bytes, the least first: powers of ten."""
    found = [SHORTEST]
    while 10 * found[-1] <= scale.recovered_bytes:
        found.append(10 * found[-1])
    return found


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure each kind of call on logs of all sizes in rounds, so that all meet the same conditions."""
    with ExitStack() as stack:
        logs = [stack.enter_context(log_of(directory / str(size), size)) for size in sizes(scale)]
        for kind, call in KINDS.items():
            taken = in_rounds([partial(call, log) for log in logs], repeats=scale.peer_repeats)
            yield from growing(kind, sizes(scale), "bytes", taken)
    yield from _memory(directory / "memory", min(MILLIONS, scale.recovered_bytes // 2**24))


def _memory(place: Path, millions: int) -> Iterator[Figure]:
    """Measure what a process has, in bytes, while it appends so many million records of 100 B."""
    command = [sys.executable, "-c", APPENDING, str(place), str(millions)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    peaks, held = zip(*([1024.0 * int(one) for one in line.split()] for line in said), strict=True)
    first = min(FIRST_MILLIONS, millions - 1)
    grown = max(max(held[first:]) - max(held[:first]), 1.0)
    name = f"{millions} M records of 100 B, in batches of a million"
    yield limited(f"growth after {first} M of {name}", (grown, grown), GROWN_BYTES, **MIB)
    for what, bytes_of in (("resident", held), ("at most", peaks)):
        ours, other = (bytes_of[-1],) * 2, (bytes_of[first - 1],) * 2
        yield Figure(name=f"{what} after {name}", against=f"after {first} M", ours=ours, other=other, **MIB)


def log_of(place: Path, size: int) -> seglog.Log:
    """Return an open log whose store has about `size` bytes."""
    log, left = seglog.open(place), (size - HEADER_BYTES) // record_bytes(VALUE_BYTES)
    table = keyed_table(VALUE_BYTES, min(size, PIECE_BYTES))
    while left:
        left -= len(log.append_batch(table.slice(0, left)))
    log.sync()
    return log


# --- seconds per call ------------------------------------------------------------------------------------------------


def _changing(change: Callable[[seglog.Log], None], calls: int, log: seglog.Log) -> float:
    """Time the calls, and truncate what they have appended."""
    end = log.next_offset
    with stopwatch() as watch:
        for _ in range(calls):
            change(log)
    log.truncate(end)
    return watch.seconds / calls


def _append(log: seglog.Log) -> None:
    log.append(VALUE)


def _append_synced(log: seglog.Log) -> None:
    log.append(VALUE)
    log.sync()


def _append_batch(log: seglog.Log) -> None:
    log.append_batch(BATCH)


def _read(log: seglog.Log) -> float:
    offsets = random.Random(SEED).choices(range(log.next_offset), k=READS)
    with stopwatch() as watch:
        for offset in offsets:
            log.read(offset)
    return watch.seconds / READS


def _read_many(log: seglog.Log) -> float:
    choices = random.Random(SEED)
    wanted = [choices.choices(range(log.next_offset), k=MANY) for _ in range(READS // MANY)]
    with stopwatch() as watch:
        for offsets in wanted:
            log.read_many(offsets)
    return watch.seconds / len(wanted)


def _scan(log: seglog.Log) -> float:
    times = min(max(SCANNED_BYTES // log.size, 1), MOST_SCANS)
    with stopwatch() as watch:
        for _ in range(times):
            rows = sum(batch.num_rows for batch in log.batches())
    assert rows == log.next_offset
    return watch.seconds / times / log.size * 10**6


VALUE = bytes(VALUE_BYTES)
BATCH = pa.table({"value": [VALUE] * BATCH_RECORDS})
KINDS: dict[str, Callable[[seglog.Log], float]] = {
    "append": partial(_changing, _append, APPENDS),
    "append and sync": partial(_changing, _append_synced, SYNCS),
    f"append_batch of {BATCH_RECORDS} records": partial(_changing, _append_batch, BATCHES),
    "read at random": _read,
    f"read_many of {MANY}": _read_many,
    "scan, per MB": _scan,
}
