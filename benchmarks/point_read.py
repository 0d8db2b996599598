"""read(offset) at random against sqlite3 by rowid, the same columns fetched; both files in the page cache."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Literal

import seglog
from benchmarks.data import SEED, keyed_table, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_turn, stopwatch

VALUE_BYTES = 100
MODES: tuple[tuple[str, Literal["a", "r"]], ...] = (("point read, 100 B", "a"), ("the same, mode r", "r"))
CREATE = "create table log (offset integer primary key, timestamp integer, key blob, value blob, headers blob)"
SELECT = "select offset, timestamp, key, value, headers from log where offset = ?"


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure records of 100 B with keys of 16 B, read by the writer itself and by another process's kind of reader."""
    place, database = directory / "points", directory / "points.sqlite"
    table = keyed_table(VALUE_BYTES, scale.records * record_bytes(VALUE_BYTES))
    with seglog.open(place) as log:
        log.append_batch(table)
        rows = [(record.offset, record.timestamp, record.key, record.value, None) for record in log.scan()]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(CREATE)
        connection.executemany("insert into log values (?, ?, ?, ?, ?)", rows)
    offsets = random.Random(SEED).choices(range(len(rows)), k=scale.calls)

    def other() -> float:
        with closing(sqlite3.connect(database)) as connection:
            execute = connection.cursor().execute
            with stopwatch() as watch:
                for offset in offsets:
                    execute(SELECT, (offset,)).fetchone()
        return watch.seconds

    for name, mode in MODES:
        mine, others = in_turn(_reads(place, offsets, mode), other, repeats=scale.repeats)
        yield Figure(
            name=name, against="sqlite3 by rowid", ours=mine, other=others, work=scale.calls, unit="call", aim=2.0
        )


def _reads(place: Path, offsets: list[int], mode: Literal["a", "r"]) -> Side:
    def run() -> float:
        with seglog.open(place, mode=mode) as log:
            read = log.read
            with stopwatch() as watch:
                for offset in offsets:
                    read(offset)
        return watch.seconds

    return run
