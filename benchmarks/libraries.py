"""A log in this process against libraries that store records in files: sqlite3, lmdb, persist-queue.

"written": no side syncs. "durable": on both sides each append is on the disk before the next begins.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import seglog
from benchmarks.data import keyed_table, record_bytes
from benchmarks.peers.libraries import Row, appending, fresh, tabled
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_rounds, stopwatch

VALUE_BYTES = 100
DURABLE_SHARE = 500  # divisor of the number of calls
EACH_SHARE = 10


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure a table at once, single appends, and single durable appends of 100 B with keys of 16 B."""
    table = keyed_table(VALUE_BYTES, scale.records * record_bytes(VALUE_BYTES))
    keys, values = table["key"].to_pylist(), table["value"].to_pylist()
    rows: list[Row] = list(zip(range(len(keys)), range(len(keys)), keys, values, strict=True))
    few, synced = rows[: scale.calls // EACH_SHARE], rows[: scale.calls // DURABLE_SHARE]
    case = _Case(directory, scale.repeats)
    yield from case.figures("table at once, 100 B", rows, lambda log: _batch(log, table), tabled(), "put_all")
    yield from case.figures("single append, written, 100 B", few, lambda log: _each(log, few), appending(), "put_each")
    yield from case.figures(
        "single append, durable, 100 B", synced, lambda log: _each(log, synced), tabled(), "put_each", durable=True
    )


class _Case:
    """The place of the stores, and the number of repeats."""

    def __init__(self, directory: Path, repeats: int) -> None:
        self._places = (directory / f"store-{number}" for number in count())
        self._directory, self._repeats = directory, repeats

    def figures(
        self,
        name: str,
        rows: list[Row],
        ours: Callable[[seglog.Log], float],
        kinds: list[Any],
        call: str,
        *,
        durable: bool = False,
    ) -> Iterator[Figure]:
        """Measure our side and all others in rounds."""
        options = {"durable": True} if durable else {}
        config = seglog.LogConfig(flush_records=1 if durable else None)
        sides = [fresh(self._places, lambda place: seglog.open(place, config), ours)]
        sides += [
            fresh(self._places, partial(kind, **options), lambda store: getattr(store, call)(rows)) for kind in kinds
        ]
        mine, *others = in_rounds(sides, repeats=self._repeats)
        for kind, seconds in zip(kinds, others, strict=True):
            yield Figure(name=name, against=kind.name, ours=mine, other=seconds, work=len(rows), unit="call")
        for place in self._directory.glob("store-*"):
            shutil.rmtree(place)


def _batch(log: seglog.Log, table: Any) -> float:
    with stopwatch() as watch:
        log.append_batch(table)
    return watch.seconds


def _each(log: seglog.Log, rows: list[Row]) -> float:
    append = log.append
    with stopwatch() as watch:
        for _, timestamp, key, value in rows:
            append(value, key=key, timestamp=timestamp)
    return watch.seconds
