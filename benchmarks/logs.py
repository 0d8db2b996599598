"""A log in this process against the logs that other languages have: raft-wal, raft-engine, Chronicle Queue.

Same records, without keys, and the same durability within a figure: synced before each call returns, or written but not
synced. Each side runs in its own process and language, its calls are timed within it, and every run begins an empty
log. The least that a durable append can cost is pwrite with fdatasync in C, of as many bytes as our record has; where
the file does not grow, as in raft-wal, the file system has no size to record, and it costs a fraction of that.
"""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import count, product
from pathlib import Path
from statistics import quantiles
from typing import Any

import numpy as np
import pyarrow as pa

import seglog
from benchmarks.data import HEAD_BYTES, SEED
from benchmarks.peers.logs import RAFT_WAL, RAW, Program, Ran, RawProgram, chronicle, raft_engine, raft_wal, raw_syncs
from benchmarks.scale import Scale
from benchmarks.timing import Figure, Side, in_rounds, stopwatch

VALUE_BYTES = 100
BATCH = 1000
SYNCS_TIMES = 4  # as many durable calls per repeat, so that the slowest of a thousand is among all of them
SHARES = (("p50", 50.0), ("p99", 99.0), ("p99.9", 99.9))
SINGLE_AIMS = {RAW: 0.95, RAFT_WAL: 0.9}
DURABLE = {
    "single append, synced, 100 B": seglog.LogConfig(flush_records=1),
    "single append, synced, space allocated, 100 B": seglog.LogConfig(flush_records=1, allocate_bytes=1024 * 1024),
}


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure single and batched durable appends and reads at random, then unsynced appends and reads in order."""
    case = _Case(directory, scale)
    rafts = [one for one in (raft_wal(), raft_engine()) if one is not None]
    yield from case.singles([*raw_syncs(), *rafts])
    yield from case.batches(rafts)
    yield from case.gets(rafts)
    if (queue := chronicle()) is not None:
        yield from case.in_order(queue)


class _Case:
    """Where the logs are, and how much is done."""

    def __init__(self, directory: Path, scale: Scale) -> None:
        self._directory, self._repeats = directory, scale.peer_repeats
        self._places = (directory / f"log-{number}" for number in count())
        self._syncs = SYNCS_TIMES * scale.syncs
        self._records = scale.peer_records
        self._reads = scale.calls

    # --- durable appends --------------------------------------------------------------------------------------------

    def singles(self, peers: Sequence[Program]) -> Iterator[Figure]:
        """Append one record after another, each synced; also the slow calls among them, as seconds per call."""
        runs: dict[str, list[Ran]] = {name: [] for name in (*DURABLE, *(one.name for one in peers))}
        sides: list[Side] = [
            partial(self._kept, runs[name], partial(self._single, config)) for name, config in DURABLE.items()
        ]
        for one in peers:
            size = VALUE_BYTES + HEAD_BYTES * isinstance(one, RawProgram)
            sides.append(partial(self._kept, runs[one.name], partial(self._appended, one, size, self._syncs, 1)))
        seconds = dict(zip(runs, in_rounds(sides, repeats=self._repeats), strict=True))
        for name in DURABLE:
            for one in peers:
                yield Figure(
                    name=name,
                    against=one.name,
                    ours=seconds[name],
                    other=seconds[one.name],
                    work=self._syncs,
                    unit="call",
                    aim=SINGLE_AIMS.get(one.name),
                )
        for name, (share, percent) in product(DURABLE, SHARES):
            cut = partial(_percentile, percent)
            for one in peers:
                yield Figure(
                    name=f"{name}, {share}",
                    against=one.name,
                    ours=tuple(map(cut, runs[name][1:])),
                    other=tuple(map(cut, runs[one.name][1:])),
                    work=1,
                    unit="call",
                )

    @staticmethod
    def _kept(runs: list[Ran], run: Callable[[], Ran]) -> float:
        runs.append(run())
        return runs[-1].seconds

    def _single(self, config: seglog.LogConfig) -> Ran:
        log, value = seglog.open(next(self._places), config), bytes(VALUE_BYTES)
        append, each, now = log.append, [], time.perf_counter
        with stopwatch() as watch:
            for _ in range(self._syncs):
                begun = now()
                append(value)
                each.append(now() - begun)
        log.remove()
        return Ran(watch.seconds, tuple(each))

    def _appended(self, peer: Program, size: int, records: int, batch: int) -> Ran:
        place = next(self._places)
        ran = peer.append(place, size, records, batch, "sync")
        shutil.rmtree(place) if place.is_dir() else place.unlink()
        return ran

    def batches(self, peers: Sequence[Program]) -> Iterator[Figure]:
        """Append batches of a thousand records, each synced."""
        table = _table(BATCH)

        def ours() -> float:
            log = seglog.open(next(self._places))
            with stopwatch() as watch:
                for _ in range(self._records // BATCH):
                    log.append_batch(table)
                    log.sync()
            log.remove()
            return watch.seconds

        sides = [partial(_seconds, self._appended, one, VALUE_BYTES, self._records, BATCH) for one in peers]
        yield from self._figures(f"batches of {BATCH:,}, each synced, 100 B", ours, peers, sides)

    # --- reads ------------------------------------------------------------------------------------------------------

    def gets(self, peers: Sequence[Program]) -> Iterator[Figure]:
        """Read at random what was appended: one by one, and in calls of many."""
        place = self._filled()
        offsets = random.Random(SEED).choices(range(self._records), k=self._reads)
        kept = [next(self._places) for _ in peers]
        for one, theirs in zip(peers, kept, strict=True):
            one.append(theirs, VALUE_BYTES, self._records, BATCH, "written")
        sides: list[Side] = [
            partial(_seconds, one.get, theirs, VALUE_BYTES, self._reads)
            for one, theirs in zip(peers, kept, strict=True)
        ]

        def single() -> float:
            with seglog.open(place) as log:
                log.read_many(offsets[:BATCH])  # loads the kernels, as an append of a batch does
                read = log.read
                with stopwatch() as watch:
                    for offset in offsets:
                        read(offset)
            return watch.seconds

        def many() -> float:
            calls = [offsets[start : start + BATCH] for start in range(0, len(offsets), BATCH)]
            with seglog.open(place) as log, stopwatch() as watch:
                for each in calls:
                    log.read_many(each)
            return watch.seconds

        yield from self._figures("get at random, 100 B", single, peers, sides, work=self._reads)
        yield from self._figures(f"get at random, {BATCH:,} a call, 100 B", many, peers, sides, work=self._reads)
        for directory in (place, *kept):
            shutil.rmtree(directory)

    def _filled(self) -> Path:
        place = next(self._places)
        with seglog.open(place) as log:
            log.append_batch(_table(self._records))
        return place

    # --- Chronicle Queue --------------------------------------------------------------------------------------------

    def in_order(self, queue: Program) -> Iterator[Figure]:
        """Append one by one without syncs, and read all of it in order; every record is visible when a call returns."""
        written, value = 10 * self._records, bytes(VALUE_BYTES)

        def append() -> float:
            log = seglog.open(next(self._places))
            call = log.append
            with stopwatch() as watch:
                for _ in range(self._records):
                    call(value)
            log.remove()
            return watch.seconds / self._records

        def batch() -> float:
            log, table = seglog.open(next(self._places)), _table(written)
            with stopwatch() as watch:
                log.append_batch(table)
            log.remove()
            return watch.seconds / written

        def read(place: Path) -> float:
            with seglog.open(place, mode="r") as log, stopwatch() as watch:
                rows = sum(batch.num_rows for batch in log.batches())
            return float(watch.seconds / rows)

        place, kept = self._filled(), next(self._places)
        queue.append(kept, VALUE_BYTES, written)
        theirs = partial(_share, self._queued, queue, written, of=written)
        yield from self._figures("append, unsynced, 100 B", append, [queue], [theirs], work=1)
        yield from self._figures("append as a batch, unsynced, 100 B", batch, [queue], [theirs], work=1)
        reading = partial(_share, queue.read, kept, VALUE_BYTES, written, of=written)
        yield from self._figures("read in order, 100 B", partial(read, place), [queue], [reading], work=1)

    def _queued(self, queue: Program, records: int) -> Ran:
        place = next(self._places)
        ran = queue.append(place, VALUE_BYTES, records)
        for left in (place, place.with_name(place.name + ".warm")):
            shutil.rmtree(left, ignore_errors=True)
        return ran

    def _figures(
        self, name: str, ours: Side, peers: Sequence[Program], sides: Sequence[Side], *, work: float | None = None
    ) -> Iterator[Figure]:
        mine, *others = in_rounds([ours, *sides], repeats=self._repeats)
        for one, seconds in zip(peers, others, strict=True):
            amount = work or self._records
            yield Figure(name=name, against=one.name, ours=mine, other=seconds, work=amount, unit="call")


def _table(rows: int) -> Any:
    data = np.random.default_rng(SEED).bytes(rows * VALUE_BYTES)
    offsets = np.arange(rows + 1, dtype=np.int32) * VALUE_BYTES
    return pa.table(
        {"value": pa.Array.from_buffers(pa.binary(), rows, [None, pa.py_buffer(offsets), pa.py_buffer(data)])}
    )


def _seconds(run: Callable[..., Ran], *arguments: object) -> float:
    return run(*arguments).seconds


def _share(run: Callable[..., Ran], *arguments: object, of: int) -> float:
    return run(*arguments).seconds / of


def _percentile(percent: float, ran: Ran) -> float:
    return float(quantiles(ran.each, n=1000, method="inclusive")[round(percent * 10) - 1])
