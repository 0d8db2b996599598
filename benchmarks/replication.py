"""Copies: the rate of a mirror against appends of the same records, and its lag at 50,000 records a second.

Both rates end with everything on the disk. The lag is the time from the append of a record to the moment at which a
reader of the copy has it; the mirror is a process of its own.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import quantiles

import pyarrow as pa

import seglog
from benchmarks.data import keyed_table, record_bytes
from benchmarks.over_http import serving
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, limited, settle, stopwatch

VALUE_BYTES = 100
PIECE_BYTES = 16 * 2**20
AIM = 0.5
RATE, BATCH = 50_000, 250  # records per second, and per append
LAG_SECONDS, LAG_RUNS = 5.0, 2
LAG_LIMIT = 0.1


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure records of 100 B with keys of 16 B."""
    table = keyed_table(VALUE_BYTES, PIECE_BYTES)
    pieces = max(scale.recovered_bytes // 4 // (len(table) * record_bytes(VALUE_BYTES)), 1)
    yield _by_path(directory, table, pieces, scale)
    with seglog.Broker(directory / "lag") as broker:
        topic = broker.create_topic("orders")
        yield from _lag("path", str(directory / "lag"), directory / "lag-copy", topic.append_batch)
    with serving(directory / "served") as url:
        yield _over_http(directory, url, table, pieces, scale)
    with serving(directory / "lag-served") as url, seglog.Client(url) as client:
        remote = client.create_topic("orders")
        yield from _lag("HTTP", url, directory / "lag-copy-served", remote.append_batch)


def _mirrored(source: str, target: Path) -> float:
    settle()
    with stopwatch() as watch, seglog.Mirror(source, target) as mirror:
        while mirror.step():
            pass
    shutil.rmtree(target)
    return watch.seconds


def _by_path(directory: Path, table: pa.Table, pieces: int, scale: Scale) -> Figure:
    def fill(place: Path) -> None:
        with seglog.open(place) as log:
            for _ in range(pieces):
                log.append_batch(table)

    def appended() -> float:
        settle()
        with stopwatch() as watch:
            fill(directory / "appended")
        shutil.rmtree(directory / "appended")
        return watch.seconds

    fill(directory / "leader")
    mine, others = in_turn(
        lambda: _mirrored(str(directory / "leader"), directory / "copy"), appended, repeats=scale.recoveries
    )
    return _figure("mirror, by path", "append_batch", mine, others, table, pieces)


def _over_http(directory: Path, url: str, table: pa.Table, pieces: int, scale: Scale) -> Figure:
    with seglog.Client(url) as client:
        names = iter(range(1000))

        def produced() -> float:
            topic = client.create_topic(f"produced{next(names)}")
            settle()
            with stopwatch() as watch:
                for _ in range(pieces):
                    topic.append_batch(table, ack="durable")
            client.delete_topic(topic.name)
            return watch.seconds

        leader = client.create_topic("leader")
        for _ in range(pieces):
            leader.append_batch(table)
        mine, others = in_turn(lambda: _mirrored(url, directory / "copy"), produced, repeats=scale.recoveries)
    return _figure("mirror, over HTTP", "append_batch over HTTP", mine, others, table, pieces)


def _figure(
    name: str, against: str, mine: tuple[float, ...], others: tuple[float, ...], table: pa.Table, pieces: int
) -> Figure:
    size = pieces * len(table) * record_bytes(VALUE_BYTES)
    return Figure(name=name, against=against, ours=mine, other=others, work=size / 1e9, unit="GB", aim=AIM)


def _lag(how: str, source: str, target: Path, append: Callable[[pa.Table], object]) -> Iterator[Figure]:
    process = subprocess.Popen([sys.executable, "-m", "seglog", "mirror", source, str(target)])
    try:
        middle, high = zip(*(_measured(target, append) for _ in range(LAG_RUNS)), strict=True)
    finally:
        process.terminate()
        process.wait()
    for share, seconds in (("p50", middle), ("p99", high)):
        name = f"mirror, lag at {RATE // 1000} k/s by {how}, {share}"
        yield limited(name, seconds, LAG_LIMIT, work=1, unit="call", aim=None)


def _measured(target: Path, append: Callable[[pa.Table], object]) -> tuple[float, float]:
    """Append at RATE, and return the median and the 99th percentile of the seconds until the copy has a record."""
    lags: list[float] = []
    rows = [bytes(VALUE_BYTES)] * BATCH

    def produce() -> None:
        begun = time.monotonic()
        for number in range(int(LAG_SECONDS * RATE / BATCH)):
            now = time.time_ns() // 1000
            append(pa.table({"value": pa.array(rows, pa.binary()), "timestamp": pa.array([now] * BATCH, pa.int64())}))
            time.sleep(max(begun + (number + 1) * BATCH / RATE - time.monotonic(), 0))

    append(pa.table({"value": pa.array(rows, pa.binary())}))
    copy = target / "orders" / "0"
    while not (copy / "MANIFEST").exists():
        time.sleep(0.01)
    with seglog.open(copy, mode="r") as log:
        while log.next_offset % BATCH or log.next_offset == 0:
            time.sleep(0.01)
        time.sleep(0.1)  # what was appended before is there
        producer = threading.Thread(target=produce)
        seen = log.next_offset
        last = seen + int(LAG_SECONDS * RATE / BATCH) * BATCH
        producer.start()
        while producer.is_alive() or seen < last:
            end = log.next_offset
            if end > seen:
                lags.append(time.time() - log.read(end - 1).timestamp / 1e6)
                seen = end
            time.sleep(0.001)
        producer.join()
    cuts = quantiles(lags, n=100)
    return cuts[49], cuts[98]
