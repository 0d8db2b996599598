"""Durable appends by many callers against a repeated write of one record with fdatasync.

Both sides write records of the same length to a growing file; ours acknowledges each one when it is on the disk, and
callers that wait at the same moment share a sync.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import seglog
import seglog.aio
from benchmarks.data import KEY_BYTES, record_bytes
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_rounds, stopwatch

VALUE_BYTES = 100
THREADS, TASKS = 32, 256
AIMS = {"threads": 3.0, "tasks": 16.0}
DURABLE = seglog.LogConfig(flush_records=1)
KEY, VALUE = bytes(KEY_BYTES), bytes(VALUE_BYTES)


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure 32 threads and 256 tasks that append records of 100 B, each its next once the last is durable."""
    places = (directory / f"durable-{number}" for number in count())
    each = scale.syncs // 10
    sides = (
        lambda: _threads(next(places), each),
        lambda: _tasks(next(places), each),
        lambda: _syncs(next(places), scale.syncs),
    )
    threads, tasks, alone = in_rounds(sides, repeats=scale.repeats)
    for name, seconds, aim in (
        (f"durable appends, {THREADS} threads", threads, AIMS["threads"]),
        (f"durable appends, {TASKS} tasks", tasks, AIMS["tasks"]),
    ):
        yield Figure(name=name, against="fdatasync alone", ours=seconds, other=alone, work=1, unit="call", aim=aim)


def _threads(place: Path, each: int) -> float:
    """Return the seconds per durable append, with `each` by every thread."""
    log, begin = seglog.open(place, DURABLE), threading.Barrier(THREADS + 1)

    def work() -> None:
        begin.wait()
        for _ in range(each):
            log.append(VALUE, key=KEY)

    workers = [threading.Thread(target=work) for _ in range(THREADS)]
    for worker in workers:
        worker.start()
    with stopwatch() as watch:
        begin.wait()
        for worker in workers:
            worker.join()
    _check(log, THREADS * each)
    return watch.seconds / (THREADS * each)


def _tasks(place: Path, each: int) -> float:
    """Do the same with tasks of one event loop."""

    async def work(log: seglog.aio.AsyncLog) -> None:
        for _ in range(each):
            await log.append(VALUE, key=KEY)

    async def run() -> float:
        log = await seglog.aio.open(place, DURABLE)
        with stopwatch() as watch:
            await asyncio.gather(*(work(log) for _ in range(TASKS)))
        _check(log.log, TASKS * each)
        return watch.seconds / (TASKS * each)

    return asyncio.run(run())


def _check(log: seglog.Log, records: int) -> None:
    """Check that every append was durable when it returned, and remove the log."""
    assert log.durable_offset == records, (log.durable_offset, records)
    log.remove()


def _syncs(path: Path, times: int) -> float:
    """Return the seconds for a write of one record with its fdatasync."""
    record = bytes(record_bytes(VALUE_BYTES))
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
    with stopwatch() as watch:
        for _ in range(times):
            os.write(descriptor, record)
            os.fdatasync(descriptor)
    os.close(descriptor)
    path.unlink()
    return watch.seconds / times
