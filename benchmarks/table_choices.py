"""The choices of a table's files: their compression, and how the table of the newest records replaces rows.

Values are orders as JSON, which compress as real ones do; random bytes would not compress at all.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import seglog
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_turn, stopwatch
from seglog.table import sync
from seglog.table.files import COMPRESSION, LEVEL
from seglog.table.warehouse import Warehouse, files_of, local_path

CODECS = (("none", None), ("snappy", None), ("lz4", None), ("zstd", 1), ("zstd", 3), ("zstd", 6))
SIZES = (("100 B", 1), ("1 KiB", 12))
CHANGED = 0.01  # of the keys, in a round


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure both choices."""
    for label, items in SIZES:
        yield from _codecs(directory, _orders(scale.records // items, items), label, scale)
    yield from _replacing(directory, scale)


def _orders(rows: int, items: int) -> pa.Table:
    chance = random.Random(7)
    names = [f"product-{number}" for number in range(500)]

    def order(number: int) -> bytes:
        lines = [
            {"sku": chance.choice(names), "qty": chance.randrange(9), "price": chance.random()} for _ in range(items)
        ]
        return json.dumps({"id": number, "user": chance.randrange(10**6), "items": lines}).encode()

    values = [order(number) for number in range(rows)]
    keys = [b"user-%d" % chance.randrange(10**6) for _ in range(rows)]
    return pa.table({"offset": pa.array(range(rows)), "key": pa.array(keys), "value": pa.array(values)})


def _codecs(directory: Path, rows: pa.Table, label: str, scale: Scale) -> Iterator[Figure]:
    """Compare the codec of tables with others: bytes on disk, seconds to write and to read."""
    numbers = count()

    def written(codec: str, level: int | None) -> tuple[Path, float]:
        path = directory / f"codec-{next(numbers)}.parquet"
        with stopwatch() as watch:
            pq.write_table(rows, path, compression=codec, compression_level=level, use_dictionary=["key"])
        return path, watch.seconds

    def write(codec: str, level: int | None) -> Side:
        def side() -> float:
            path, seconds = written(codec, level)
            path.unlink()
            return seconds

        return side

    def read(path: Path) -> Side:
        def side() -> float:
            with stopwatch() as watch:
                pq.read_table(path, columns=["value"])
            return watch.seconds

        return side

    ours, _ = written(COMPRESSION, LEVEL)
    for codec, level in CODECS:
        if (codec, level) == (COMPRESSION, LEVEL):
            continue
        other, _ = written(codec, level)
        name = codec if level is None else f"{codec} {level}"
        sides: tuple[tuple[str, Side, Side], ...] = (
            ("write", write(COMPRESSION, LEVEL), write(codec, level)),
            ("read", read(ours), read(other)),
        )
        for what, mine, its in sides:
            yield _figure(
                f"file {what}, {COMPRESSION} {LEVEL}, {label}", name, in_turn(mine, its, repeats=scale.repeats), rows
            )
        sizes = ((float(ours.stat().st_size),) * 2, (float(other.stat().st_size),) * 2)
        yield Figure(
            name=f"file size, {COMPRESSION} {LEVEL}, {label}", against=name, ours=sizes[0], other=sizes[1],
            work=rows.num_rows, unit="B",
        )  # fmt: skip


def _figure(name: str, against: str, seconds: tuple[Any, Any], rows: pa.Table) -> Figure:
    return Figure(name=name, against=against, ours=seconds[0], other=seconds[1], work=rows.nbytes / 1e9, unit="GB")


def _replacing(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Compare a round of the newest records, which rewrites files, with files of deletes: to make and to read them."""
    place, keys = directory / "log", scale.records * 5
    with seglog.open(place) as log:
        log.append_batch(_keyed(range(keys)))
        log.sync()
        sync(place, directory / "warehouse", active=True, latest=True)
        chance = random.Random(3)

        def change() -> None:
            log.append_batch(_keyed(chance.sample(range(keys), int(keys * CHANGED))))
            log.sync()

        yield from _rounds(directory, place, change, scale, keys)
    shutil.rmtree(directory / "warehouse")


def _keyed(numbers: Any) -> pa.Table:
    found = list(numbers)
    return pa.table(
        {"key": pa.array([b"key-%09d" % one for one in found]), "value": pa.array([bytes(100)] * len(found))}
    )


def _rounds(directory: Path, place: Path, change: Callable[[], None], scale: Scale, keys: int) -> Iterator[Figure]:
    def rewritten() -> float:
        change()
        sync(place, directory / "warehouse", active=True)  # the table of all records, which is not measured
        with stopwatch() as watch:
            sync(place, directory / "warehouse", active=True, latest=True)
        return watch.seconds

    def deleted() -> float:
        """Find the positions of as many keys and write them: what a round with deletes would do at least."""
        changed = pa.array([b"key-%09d" % one for one in range(0, keys, int(1 / CHANGED))])
        target = directory / "deletes.parquet"
        with stopwatch() as watch:
            for path in _paths(directory):
                found = pc.indices_nonzero(pc.is_in(pq.read_table(path, columns=["key"]).column("key"), changed))
                pq.write_table(pa.table({"file_path": [str(path)] * len(found), "pos": found}), target)
        return watch.seconds

    ours, other = in_turn(rewritten, deleted, repeats=scale.spark_repeats)
    yield Figure(
        name=f"newest: 1 % of {keys // 1000} k keys", against="deletes", ours=ours, other=other, work=1, unit="round"
    )
    paths = _paths(directory)
    gone = pa.array([b"key-%09d" % one for one in range(0, keys, 10)])

    def read() -> float:
        with stopwatch() as watch:
            for path in paths:
                pq.read_table(path)
        return watch.seconds

    def read_with_deletes() -> float:
        """Read the same rows with a tenth of them deleted, as after ten rounds."""
        with stopwatch() as watch:
            for path in paths:
                rows = pq.read_table(path)
                rows.filter(pc.invert(pc.is_in(rows.column("key"), gone)))
        return watch.seconds

    ours, other = in_turn(read, read_with_deletes, repeats=scale.spark_repeats)
    yield Figure(name="newest: read all", against="deletes", ours=ours, other=other, work=1, unit="read")


def _paths(directory: Path) -> list[Path]:
    opened = Warehouse(directory / "warehouse")
    try:
        found = [local_path(file.location) for file in files_of(opened.table("log_latest"))]
    finally:
        opened.close()
    return [path for path in found if path is not None]
