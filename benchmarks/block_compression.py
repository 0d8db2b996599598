"""Compression by blocks, which seglog does not have (ADR 0056): size, rates, and the cost of a point read.

The bytes are those that a log has stored, cut into blocks of equal size wherever records begin, as the decision
proposes. "as now" is what seglog does with the same records uncompressed, measured in the same rounds.
"""

from __future__ import annotations

import gc
import json
import random
import shutil
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise, product
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv

import seglog
from benchmarks.data import SEED
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_rounds, stopwatch, timed
from seglog.arrow.from_store import decode_batches
from seglog.demo.flights import data_directory, read_rows, to_events
from seglog.format.codec import NATIVE, Framed
from seglog.format.index import DENSE_HEADER_BYTES
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.kernels.layout import ENTRY, HEAD_BYTES

CODECS: dict[str, tuple[str, int | None]] = {"zstd-1": ("zstd", 1), "zstd-3": ("zstd", 3), "lz4": ("lz4_raw", None)}
SIZES = {"4 KiB": 2**12, "16 KiB": 2**14, "64 KiB": 2**16, "256 KiB": 2**18, "1 MiB": 2**20}
BLOCK_HEAD_BYTES = 24  # as in the decision
LEAST_SAVED = 8  # a block that does not become an eighth smaller is stored as it is, as in LevelDB
STRETCH_BYTES = 2 * 1024 * 1024  # of a scan on two cores
CORES = 2
READS = 200

APPEND, DECODE, SCAN, READ = "append_batch as now", "decoding as now", "scan as now", "read(offset) as now"

Array = np.ndarray[Any, Any]


# --- data -------------------------------------------------------------------------------------------------------------


def flights(total_bytes: int) -> pa.Table:
    """Return the events of the demo: tail number, time of departure, JSON of about 185 B."""
    return _sized(to_events(read_rows(data_directory() / "flights.csv.zip")), total_bytes)


def weather(total_bytes: int) -> pa.Table:
    """Return the hourly weather of the same package as JSON lines of about 230 B, without keys."""
    options = pa.csv.ConvertOptions(null_values=["NA"], column_types={"time_hour": pa.string()})
    rows = pa.csv.read_csv(data_directory() / "weather.csv", convert_options=options).to_pylist()
    return _sized(pa.table({"value": [json.dumps(row, separators=(",", ":")).encode() for row in rows]}), total_bytes)


def _sized(rows: pa.Table, total_bytes: int) -> pa.Table:
    """Return as many rows as take about `total_bytes` in a store, repeated if there are too few.

    A repetition is megabytes away, so no block of SIZES can use it.
    """
    wanted = max(total_bytes // (rows.nbytes // rows.num_rows + HEAD_BYTES), 1)
    return pa.concat_tables([rows] * -(-wanted // rows.num_rows)).slice(0, wanted)


DATA: dict[str, Callable[[int], pa.Table]] = {"flights": flights, "weather": weather}


# --- blocks -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Stored:
    """The one segment of a log. data: its store, uint8; positions: of each record and of their end, int64."""

    place: Path
    data: Array
    positions: Array
    salt: int

    @classmethod
    def of(cls, place: Path, rows: pa.Table) -> Stored:
        """Append the rows to a new log."""
        with seglog.open(place) as log:
            log.append_batch(rows)
        store = next(place.glob("*.store"))
        entries = np.fromfile(store.with_suffix(".index"), ENTRY, offset=DENSE_HEADER_BYTES)
        data, header = np.fromfile(store, np.uint8), decode_header(store.read_bytes()[:HEADER_BYTES], str(store))
        assert header is not None
        return cls(place, data, np.append(entries["position"].astype(np.int64), data.size), header.salt)

    @property
    def records(self) -> int:
        """Number of records."""
        return len(self.positions) - 1

    def plain(self, _start: int, _stop: int) -> tuple[Array, int]:
        """Return the bytes as `Blocks.span` does, uncompressed as they are."""
        return self.data, 0

    def stretches(self) -> list[tuple[int, int]]:
        """Return the first record of each stretch of about STRETCH_BYTES, and the one after it."""
        cuts = np.searchsorted(self.positions, np.arange(STRETCH_BYTES, self.data.size, STRETCH_BYTES))
        return list(pairwise(sorted({0, *cuts.tolist(), self.records})))


class Blocks:
    """The bytes of a store in blocks of `size`, each compressed alone; the last one may be shorter."""

    def __init__(self, data: Array, codec: str, size: int) -> None:
        self._data = data
        self._size = size
        name, level = CODECS[codec]
        self._codec = pa.Codec(name, level)
        self._parts = self.compressed()

    @property
    def stored_bytes(self) -> int:
        """Bytes of all blocks with their heads."""
        return sum(part.size + BLOCK_HEAD_BYTES for part in self._parts)

    def compressed(self) -> list[pa.Buffer]:
        """Compress every block."""
        return [self._part(self._data[start : start + self._size]) for start in range(0, self._data.size, self._size)]

    def _part(self, block: Array) -> pa.Buffer:
        part = self._codec.compress(block)
        return part if part.size <= block.size - block.size // LEAST_SAVED else pa.py_buffer(block)

    def span(self, start: int, stop: int) -> tuple[Array, int]:
        """Return the bytes of all blocks with positions start..stop, and the position of the first byte."""
        first, last = start // self._size, -(-stop // self._size)
        origin = first * self._size
        room = np.frombuffer(pa.allocate_buffer(min(last * self._size, self._data.size) - origin), np.uint8)
        for number in range(first, last):
            at = number * self._size - origin
            room[at : at + self._size] = self._block(number)
        return room, origin

    def _block(self, number: int) -> Array:
        part, length = self._parts[number], min(self._size, self._data.size - number * self._size)
        return np.frombuffer(part if part.size == length else self._codec.decompress(part, length), np.uint8)


Span = Callable[[int, int], tuple[Array, int]]


def decoded(stored: Stored, span: Span, stretch: tuple[int, int]) -> int:
    """Decode the records of a stretch to Arrow, verified, from the bytes that `span` returns; return their number."""
    first, stop = stretch
    start, end = stored.positions[[first, stop]].tolist()
    room, origin = span(start, end)
    batches = decode_batches(
        room,
        path=str(stored.place),
        salt=stored.salt,
        base_offset=0,
        relative=first,
        position=start - origin,
        end=end - origin,
        dense=True,
        stop=stop,
    )
    return sum(batch.num_rows for batch in batches)


def point(stored: Stored, span: Span, number: int) -> Framed:
    """Return one verified record with its checksum and length."""
    start, end = stored.positions[number : number + 2].tolist()
    room, origin = span(start, end)
    data = room[start - origin : end - origin].tobytes()
    return NATIVE.decode(data, 0, len(data), 0, stored.salt)


# --- figures ----------------------------------------------------------------------------------------------------------


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure each codec and block size with each data."""
    gc.freeze()  # the stopwatch collects garbage, in each of a thousand measurements
    try:
        with ThreadPoolExecutor(CORES) as pool:
            for name, rows_of in DATA.items():
                yield from _Comparison(directory, name, rows_of(scale.file_bytes // 4), pool).figures(scale)
    finally:
        gc.unfreeze()


class _Comparison:
    """Everything that is measured with one data."""

    def __init__(self, directory: Path, name: str, rows: pa.Table, pool: ThreadPoolExecutor) -> None:
        self._directory = directory
        self._name = name
        self._rows = rows
        self._pool = pool
        self._stored = Stored.of(directory / name, rows)
        self._numbers = count()
        self._reads = random.Random(SEED).choices(range(self._stored.records), k=READS)

    def figures(self, scale: Scale) -> Iterator[Figure]:
        """Yield the figures of each codec and block size."""
        blocks = {(one, size): Blocks(self._stored.data, one, SIZES[size]) for one, size in product(CODECS, SIZES)}
        sides = self._as_now()
        for (codec, size), variant in blocks.items():
            sides |= {f"{what}, {codec} {size}": side for what, side in self._with(variant).items()}
        taken = dict(zip(sides, in_rounds(list(sides.values()), repeats=scale.spark_repeats), strict=True))
        for (codec, size), variant in blocks.items():
            yield self._size(f"{codec} {size}", variant)
            yield from self._rates(f"{codec} {size}", taken)

    def _as_now(self) -> dict[str, Side]:
        return {
            APPEND: self._append,
            DECODE: timed(partial(decoded, self._stored, self._stored.plain, (0, self._stored.records))),
            SCAN: timed(partial(self._on_two_cores, partial(decoded, self._stored, self._stored.plain))),
            READ: self._read,
        }

    def _with(self, blocks: Blocks) -> dict[str, Side]:
        stored = self._stored
        halves = [(0, stored.data.size // 2), (stored.data.size // 2, stored.data.size)]
        return {
            "compress": timed(blocks.compressed),
            "decompress": timed(partial(blocks.span, 0, stored.data.size)),
            "decompress, 2 cores": timed(lambda: list(self._pool.map(lambda half: blocks.span(*half), halves))),
            "scan, 2 cores": timed(partial(self._on_two_cores, partial(decoded, stored, blocks.span))),
            "point read": timed(lambda: [point(stored, blocks.span, number) for number in self._reads]),
        }

    def _append(self) -> float:
        place = self._directory / f"append-{next(self._numbers)}"
        with seglog.open(place) as log, stopwatch() as watch:
            log.append_batch(self._rows)
        shutil.rmtree(place)
        return watch.seconds

    def _read(self) -> float:
        with seglog.open(self._stored.place, mode="r") as log, stopwatch() as watch:
            for number in self._reads:
                log.read(number)
        return watch.seconds

    def _on_two_cores(self, work: Callable[[tuple[int, int]], int]) -> None:
        assert sum(self._pool.map(work, self._stored.stretches())) == self._stored.records

    def _size(self, variant: str, blocks: Blocks) -> Figure:
        return Figure(
            name=f"size, {self._name} {variant}",
            against="as now",
            ours=(float(blocks.stored_bytes),) * 2,
            other=(float(self._stored.data.size),) * 2,
            work=self._stored.records,
            unit="B",
        )

    def _rates(self, variant: str, taken: dict[str, tuple[float, ...]]) -> Iterator[Figure]:
        """Yield the figures of one codec and block size; rates are in bytes before compression."""
        gigabytes = self._stored.data.size / 1e9
        for what, against, other, work, unit in (
            ("compress", APPEND, APPEND, gigabytes, "GB"),
            ("decompress", DECODE, DECODE, gigabytes, "GB"),
            ("decompress, 2 cores", "one core", f"decompress, {variant}", gigabytes, "GB"),
            ("scan, 2 cores", SCAN, SCAN, gigabytes, "GB"),
            ("point read", READ, READ, READS, "call"),
        ):
            name, ours = f"{what}, {self._name} {variant}", taken[f"{what}, {variant}"]
            yield Figure(name=name, against=against, ours=ours, other=taken[other], work=work, unit=unit)
