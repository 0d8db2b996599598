"""Bring tables up to date with logs: each record once, one commit for all partitions of a topic.

A round writes the records that a table lacks to new files, durably, and then commits them together with the offsets up
to which the table now holds each partition. A round that is interrupted leaves files that nothing refers to; the next
one deletes them and starts again from the last commit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal

import pyarrow as pa
from pyiceberg.table import Table

from seglog.archive.arguments import checked_seconds
from seglog.errors import InvalidArgument, LogLocked
from seglog.log.log import Log
from seglog.log.opening import open_log, storage_at
from seglog.log.view import View
from seglog.replication.lineage import Lineage
from seglog.storage import LocalStorage, Lock, Storage
from seglog.table import files, warehouse
from seglog.table.place import Logs, logs_at
from seglog.table.ranges import Held, Range, held_after, next_range
from seglog.table.schema import rows_of
from seglog.table.warehouse import TableFile, Warehouse

BATCH_RECORDS = 65536
SNAPSHOTS = timedelta(days=5)  # Iceberg's own default
LOCK = ".seglog-sync.lock"
OnTruncate = Literal["delete", "refuse"]


@dataclass(frozen=True, slots=True)
class TableReport:
    """What one round did for a table.

    table: its name; records: rows added; deleted: rows deleted because the log was truncated; files: new files;
    bytes: of these files; held: partition -> the offset before which the table holds every record of the log.
    """

    table: str
    records: int
    deleted: int
    files: int
    bytes: int
    held: dict[int, int]


@dataclass(frozen=True, slots=True)
class Options:
    """How tables follow their logs; see `sync`."""

    active: bool = False
    on_truncate: OnTruncate = "delete"
    skip_expired: bool = False
    restart: bool = False
    snapshots: timedelta = SNAPSHOTS

    def __post_init__(self) -> None:
        if self.on_truncate not in ("delete", "refuse"):
            raise InvalidArgument(f"on_truncate is {self.on_truncate!r}; choose 'delete' or 'refuse'")


def sync(
    source: str | os.PathLike[str] | Storage,
    place: str | os.PathLike[str],
    *,
    name: str | None = None,
    active: bool = False,
    on_truncate: OnTruncate = "delete",
    skip_expired: bool = False,
    restart: bool = False,
    catalog: dict[str, str] | None = None,
) -> list[TableReport]:
    """Add to the tables of a warehouse what the logs hold and the tables lack. Works beside a writer.

    Args:
        source: Path or Storage of a log, a topic, or a directory of topics (a table for each of them).
        place: The warehouse: a directory, or a URL of an object store with `catalog`.
        name: Of the table. None: the name of the topic or of the log's directory.
        active: Also take the active segments, as far as they are synced. Else only sealed segments.
        on_truncate: If records that a table holds were cut off the log: "delete" their rows, or "refuse" with
            LogTruncated.
        skip_expired: Go on if the log has deleted records that the table lacks; else CopyExpired.
        restart: Delete all rows of a partition whose log is another one now; else CopyDiverged.
        catalog: Properties of a pyiceberg catalog. None: the file catalog.db in the warehouse.

    Returns:
        A report for each table.

    Raises:
        LogLocked: If another process synchronizes the same table now.
    """
    with TableSync(
        source,
        place,
        name=name,
        active=active,
        on_truncate=on_truncate,
        skip_expired=skip_expired,
        restart=restart,
        catalog=catalog,
    ) as tables:
        return tables.step()


class TableSync:
    """Keeps the tables of a warehouse up to date with a log, a topic, or a directory of topics. A context manager."""

    def __init__(
        self,
        source: str | os.PathLike[str] | Storage,
        place: str | os.PathLike[str],
        *,
        name: str | None = None,
        active: bool = False,
        on_truncate: OnTruncate = "delete",
        skip_expired: bool = False,
        restart: bool = False,
        snapshots: timedelta = SNAPSHOTS,
        catalog: dict[str, str] | None = None,
    ) -> None:
        """Open a warehouse for a source; see `sync`. snapshots: age at which a table forgets earlier snapshots."""
        self._options = Options(active, on_truncate, skip_expired, restart, snapshots)
        self._root = storage_at(source)
        there = logs_at(self._root)  # before anything is created
        if name is not None and len(there) != 1:
            raise InvalidArgument(f"{self._root.path} holds several topics; their tables have the names of the topics")
        self._name = name
        self._warehouse = Warehouse(place, catalog, create=True)

    def step(self) -> list[TableReport]:
        """Make one round: bring every table up to date."""
        return [self._table(logs) for logs in logs_at(self._root)]

    def run(self, interval: float, stopped: Callable[[float], bool], said: Callable[[TableReport], None]) -> None:
        """Make a round every `interval` seconds until `stopped(seconds)`, which waits that long at most, is true."""
        interval = checked_seconds(interval, "interval")
        while True:
            began = time.monotonic()
            for report in self.step():
                if report.records or report.deleted:
                    said(report)
            if stopped(max(0.0, interval - (time.monotonic() - began))):
                return

    def _table(self, logs: Logs) -> TableReport:
        name = self._name or logs.name
        table = self._warehouse.table_for(name, logs.path)
        with ExitStack() as resources:
            self._lock(table, resources)
            table.refresh()
            opened = {
                number: resources.enter_context(open_log(place, mode="r", expose="durable"))
                for number, place in logs.places.items()
            }
            report = _Round(table, name, self._options).make(opened)
            warehouse.expire(table, self._options.snapshots)
            return report

    def _lock(self, table: Table, resources: ExitStack) -> None:
        """Exclude other rounds on a local table. Elsewhere the catalog rejects the second commit."""
        path = warehouse.local_path(table.location())
        if path is not None:
            path.mkdir(parents=True, exist_ok=True)
            lock: Lock | None = LocalStorage(path).try_lock(LOCK)
            if lock is None:
                raise LogLocked(f"another process synchronizes the table {path}; wait until it has ended")
            resources.callback(lock.release)

    def close(self) -> None:
        """Close the warehouse."""
        self._warehouse.close()

    def __enter__(self) -> TableSync:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class _Round:
    """One round on one table."""

    def __init__(self, table: Table, name: str, options: Options) -> None:
        self._table = table
        self._name = name
        self._options = options
        self._data = f"{table.location()}/data"
        self._added: list[str] = []
        self._removed: list[TableFile] = []

    def make(self, logs: dict[int, Log]) -> TableReport:
        """Write what is missing, and commit it."""
        self._delete_leftovers()
        held = warehouse.held_by(self._table)
        after: Held = dict(held)
        rows = deleted = 0
        for number, log in logs.items():
            after[number], added, gone = self._partition(number, log, held.get(number))
            rows, deleted = rows + added, deleted + gone
        if after != held:
            warehouse.commit(self._table, after, self._added, self._removed)
        sizes = sum(len(self._table.io.new_input(location)) for location in self._added)
        ends = {number: one.end for number, one in sorted(after.items())}
        return TableReport(self._name, rows, deleted, len(self._added), sizes, ends)

    def _partition(self, number: int, log: Log, held: Lineage | None) -> tuple[Lineage, int, int]:
        """Write what one partition lacks; return what the table then holds, rows added and deleted."""
        view = log.view()
        source = Lineage.of(view)
        stop = view.next_offset if self._options.active else view.active.base_offset
        step = next_range(
            held,
            source,
            min(stop, log.durable_offset),
            (warehouse.name_of(self._table), log.path),
            refuse_truncate=self._options.on_truncate == "refuse",
            skip_expired=self._options.skip_expired,
            restart=self._options.restart,
        )
        deleted = self._cut(number, step.cut) if step.cut is not None else 0
        rows = self._write(view, number, step)
        return held_after(held, source, step), rows, deleted

    def _write(self, view: View, number: int, step: Range) -> int:
        """Write the records of a range to new files; return their number."""
        if step.start >= step.stop:
            return 0
        count = 0

        def rows() -> Iterator[pa.RecordBatch]:
            nonlocal count
            for batch in view.batches(step.start, step.stop, max_records=BATCH_RECORDS, values="binary"):
                if batch.num_rows:
                    count += batch.num_rows
                    yield rows_of(batch, number)

        self._added.extend(files.write_rows(self._table.io, self._data, rows()))
        return count

    def _cut(self, number: int, offset: int) -> int:
        """Replace the files of a partition that hold rows from an offset on; return how many rows are deleted."""
        deleted = 0
        for file in warehouse.files_of(self._table, number):
            if file.last < offset:
                continue
            self._removed.append(file)
            deleted += file.rows
            if file.start < offset:
                kept = list(files.rows_before(self._table.io, file.location, offset))
                deleted -= sum(batch.num_rows for batch in kept)
                self._added.extend(files.write_rows(self._table.io, self._data, kept))
        return deleted

    def _delete_leftovers(self) -> None:
        """Delete files that no snapshot refers to: an interrupted round wrote them, or their snapshot has expired."""
        path = warehouse.local_path(self._data)
        if path is None or not path.exists():
            return
        used = {warehouse.local_path(location) or location for location in warehouse.referenced(self._table)}
        for file in path.rglob("*.parquet"):
            if file not in used:
                file.unlink()
