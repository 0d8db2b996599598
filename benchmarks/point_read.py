"""read(offset) at random against sqlite3 by rowid, the same columns fetched; both files in the page cache."""

from __future__ import annotations

import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import seglog
from benchmarks.data import SEED, keyed_table
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, stopwatch

VALUE_BYTES = 100
CREATE = "create table log (offset integer primary key, timestamp integer, key blob, value blob, headers blob)"
SELECT = "select offset, timestamp, key, value, headers from log where offset = ?"


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure records of 100 B with keys of 16 B, no headers, in one sealed or active segment as a writer leaves it."""
    place, database = directory / "points", directory / "points.sqlite"
    table = keyed_table(VALUE_BYTES, scale.records * 148)
    with seglog.open(place) as log:
        log.append_batch(table)
        rows = [(record.offset, record.timestamp, record.key, record.value, None) for record in log.scan()]
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.execute(CREATE)
        connection.executemany("insert into log values (?, ?, ?, ?, ?)", rows)
    offsets = random.Random(SEED).choices(range(len(rows)), k=scale.calls)

    def ours() -> float:
        with seglog.open(place, mode="r") as log:
            read = log.read
            with stopwatch() as watch:
                for offset in offsets:
                    read(offset)
        return watch.seconds

    def other() -> float:
        with closing(sqlite3.connect(database)) as connection:
            execute = connection.cursor().execute
            with stopwatch() as watch:
                for offset in offsets:
                    execute(SELECT, (offset,)).fetchone()
        return watch.seconds

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    yield Figure(
        name="point read, 100 B",
        against="sqlite3 by rowid",
        ours=mine,
        other=others,
        work=scale.calls,
        unit="call",
        aim=2.0,
    )
