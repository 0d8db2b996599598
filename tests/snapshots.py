"""The rule of all reads, and what may happen beside one.

A read with a fixed end returns the log as it was when it began, whole, or begins as that and raises SnapshotExpired. A
reader without an end passes each position once, and gets of every key its newest record, or a later one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa

import seglog
from seglog import LogConfig, Retention
from seglog.log.opening import storage_at
from seglog.log.staging import Stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

KEYS = 10
RECORDS = 40
CONFIG = LogConfig(
    segment_bytes=1100,
    index_interval_bytes=256,
    open_segments_max=1,
    retention=Retention(compact=True, min_dirty_ratio=0.0, delete_retention=0),
)
State = list[tuple[int, bytes | None]]
"""Offset and key of each record."""


def filled(path: Path, config: LogConfig = CONFIG) -> seglog.Log:
    """Return a log of RECORDS records of KEYS keys in about ten segments, of which some have gaps already."""
    log = seglog.open(path, config)
    fill(log)
    return log


def fill(log: seglog.Log) -> None:
    """Append RECORDS records of KEYS keys, of which some are compacted away."""
    update(log, RECORDS // 2)
    log.compact(roll=True)
    update(log, RECORDS // 2)


def update(log: seglog.Log, records: int = KEYS) -> None:
    """Append to all keys in turn."""
    for number in range(records):
        log.append(b"v" * 200, key=b"k%d" % (number % KEYS))


def _superseded(log: seglog.Log) -> None:
    update(log)
    log.compact(roll=True)


def _twice(log: seglog.Log) -> None:
    _superseded(log)
    _superseded(log)


def _deleted_keys(log: seglog.Log) -> None:
    for number in range(KEYS):
        log.append(None, key=b"k%d" % number)
    update(log, 1)
    log.compact(roll=True)
    log.compact(roll=True)


def _expired(log: seglog.Log) -> None:
    update(log)
    log.alter(retention=Retention(bytes=1))
    log.append(b"v" * 1000, key=b"last")
    log.expire()


def _cut(log: seglog.Log) -> None:
    log.truncate(log.lowest_offset + 5)
    update(log, 30)


def _deleted_before(log: seglog.Log) -> None:
    update(log)
    log.delete_before(log.next_offset - 3)


def _published(log: seglog.Log) -> None:
    with Stage(storage_at(log.path), "q-0") as stage:
        stage.append_batch(pa.table({"value": [b"v" * 200] * KEYS, "key": [b"k%d" % number for number in range(KEYS)]}))
        log.publish(stage.finish(), query="q", batch=0)
    log.compact(roll=True)


def _compressed(log: seglog.Log) -> None:
    log.alter(compression="zstd")
    log.compress()


CHANGES: dict[str, Callable[[seglog.Log], object]] = {
    "appended": update,
    "compacted": lambda log: log.compact(roll=True),
    "superseded and compacted": _superseded,
    "compacted twice": _twice,
    "keys deleted": _deleted_keys,
    "expired": _expired,
    "cut": _cut,
    "deleted before": _deleted_before,
    "compressed": _compressed,
    "published and compacted": _published,
}


def state(log: seglog.Log) -> State:
    """Return what a log holds."""
    return [(record.offset, record.key) for record in log.scan()]


def read_beside(reader: Iterator[Any], steps: int, change: Callable[[], object]) -> tuple[list[Any], bool]:
    """Take some items of a reader, make the change, and take the rest; return them, and whether the read expired."""
    found = []
    changed = False
    try:
        while True:
            if len(found) >= steps and not changed:
                changed = True
                change()
            item = next(reader, None)
            if item is None:
                return found, False
            found.append(item)
    except seglog.SnapshotExpired as error:
        assert error.retriable
        assert error.offset < error.next_offset
        return found, True
    except pa.ArrowInvalid as error:  # a stream of Arrow's C interface can only tell the text
        assert "SnapshotExpired" in str(error)
        return found, True


def check(found: Iterable[tuple[int, bytes | None]], was: State, *, expired: bool) -> None:
    """Raise unless a read was right, given what the log held when it began."""
    got = list(found)
    assert got == was[: len(got)], "what was returned is not what was there when the read began"
    assert expired or len(got) == len(was), f"{len(was) - len(got)} records are missing, and no error says so"
