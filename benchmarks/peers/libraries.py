"""Libraries that keep records in files of this process: sqlite3, lmdb, persist-queue.

A record has an offset, a timestamp, a key and a value. Each is used in its quickest correct way that was found.
"""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks.peers.tools import module
from benchmarks.timing import stopwatch

Row = tuple[int, int, bytes, bytes]
"""Offset, timestamp, key, value."""

CREATE = "create table log (offset integer primary key, timestamp integer, key blob, value blob, headers blob)"
INSERT = "insert into log values (?, ?, ?, ?, null)"
SELECT = "select offset, timestamp, key, value, headers from log where offset = ?"
MAP_BYTES = 8 * 2**30
OFFSET_BYTES, TIMESTAMP_BYTES = 8, 8


class Sqlite:
    """sqlite3 in WAL mode. durable: synchronous=full, else off; defaults: its own settings in place of both."""

    name = "sqlite3"

    def __init__(self, directory: Path, *, durable: bool = False, defaults: bool = False) -> None:
        directory.mkdir(parents=True)
        self._connection = sqlite3.connect(directory / "log.sqlite", isolation_level=None)
        if not defaults:
            self._connection.execute("pragma journal_mode=wal")
            self._connection.execute(f"pragma synchronous={'full' if durable else 'off'}")
        self._connection.execute(CREATE)

    def put_all(self, rows: Sequence[Row]) -> float:
        """Insert all in one transaction; return the seconds."""
        with stopwatch() as watch:
            self._connection.execute("begin")
            self._connection.executemany(INSERT, rows)
            self._connection.execute("commit")
        return watch.seconds

    def put_each(self, rows: Sequence[Row]) -> float:
        """Insert each in a transaction of its own; return the seconds."""
        execute = self._connection.cursor().execute
        with stopwatch() as watch:
            for row in rows:
                execute(INSERT, row)
        return watch.seconds

    def get_each(self, offsets: Sequence[int], *, at_once: bool = False) -> float:
        """Select each by its rowid, in a transaction of its own or all in one; return the seconds."""
        execute = self._connection.cursor().execute
        execute("begin" if at_once else "select 1")
        with stopwatch() as watch:
            for offset in offsets:
                execute(SELECT, (offset,)).fetchone()
        if at_once:
            execute("commit")
        return watch.seconds

    def close(self) -> None:
        """Close the database."""
        self._connection.close()


class Lmdb:
    """lmdb: the offset is the key, big-endian, put at the end of the tree. durable: a commit syncs."""

    name = "lmdb"

    def __init__(self, directory: Path, *, durable: bool = False) -> None:
        directory.mkdir(parents=True)
        self._environment = importlib.import_module("lmdb").open(str(directory), map_size=MAP_BYTES, sync=durable)

    @staticmethod
    def _pair(row: Row) -> tuple[bytes, bytes]:
        offset, timestamp, key, value = row
        return offset.to_bytes(OFFSET_BYTES, "big"), timestamp.to_bytes(TIMESTAMP_BYTES, "little") + key + value

    def put_all(self, rows: Sequence[Row]) -> float:
        """Put all in one transaction; return the seconds, of which packing is a part."""
        with stopwatch() as watch, self._environment.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(map(self._pair, rows), append=True)
        return watch.seconds

    def put_each(self, rows: Sequence[Row]) -> float:
        """Put each in a transaction of its own; return the seconds."""
        with stopwatch() as watch:
            for row in rows:
                with self._environment.begin(write=True) as transaction:
                    transaction.put(*self._pair(row), append=True)
        return watch.seconds

    def get_each(self, offsets: Sequence[int]) -> float:
        """Get each in one transaction, as the bytes that were put; return the seconds."""
        with self._environment.begin() as transaction:
            get = transaction.get
            with stopwatch() as watch:
                for offset in offsets:
                    get(offset.to_bytes(OFFSET_BYTES, "big"))
        return watch.seconds

    def close(self) -> None:
        """Close the environment."""
        self._environment.close()


class PersistQueue:
    """persist-queue's queue of files, which writes and flushes each item and its counters; it syncs none of them."""

    name = "persist-queue"

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True)
        self._queue = importlib.import_module("persistqueue").Queue(str(directory))

    def put_each(self, rows: Sequence[Row]) -> float:
        """Put each; return the seconds."""
        put = self._queue.put
        with stopwatch() as watch:
            for row in rows:
                put(row)
        return watch.seconds

    def close(self) -> None:
        """Let go of the queue, which has no close of its own."""
        del self._queue


Tabled = type[Sqlite] | type[Lmdb]


def tabled() -> list[Tabled]:
    """Return the libraries that find a record by its offset and sync when told, of those that are installed."""
    return [Sqlite, Lmdb] if module("lmdb") is not None else [Sqlite]


def appending() -> list[Tabled | type[PersistQueue]]:
    """Return all that are installed."""
    return [*tabled(), PersistQueue] if module("persistqueue") is not None else [*tabled()]


def fresh(places: Iterator[Path], make: Callable[[Path], Any], work: Callable[[Any], float]) -> Callable[[], float]:
    """Return a side that does its work on a store made for it alone."""

    def side() -> float:
        with contextlib.closing(make(next(places))) as store:
            return work(store)

    return side
