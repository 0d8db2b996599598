"""Bring tables up to date with logs: each record once, one commit for all partitions of a topic.

A round writes the records that a table lacks to new files, durably, and then commits them together with the offsets up
to which the table now holds each partition. A round that is interrupted leaves files that nothing refers to; the next
one deletes them and starts again from the last commit.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Literal

import pyarrow as pa
from pyiceberg.table import Table

from seglog.archive.arguments import checked_seconds
from seglog.errors import InvalidArgument, LogLocked
from seglog.log.holds import Hold
from seglog.log.log import Log
from seglog.log.opening import open_log, storage_at
from seglog.storage import LocalStorage, Lock, Storage
from seglog.table import warehouse
from seglog.table.faults import as_ours
from seglog.table.holding import hold_of
from seglog.table.latest import LATEST, LatestRound
from seglog.table.merging import FEWEST, merge_small_files
from seglog.table.place import Logs, logs_of, sources_at
from seglog.table.rounds import OnTruncate, Options, Round, TableReport
from seglog.table.typer import Typing, Values
from seglog.table.warehouse import Rows, Warehouse

LOCK = ".seglog-sync.lock"


def sync(
    source: str | os.PathLike[str] | Storage,
    place: str | os.PathLike[str],
    *,
    name: str | None = None,
    active: bool = False,
    on_truncate: OnTruncate = "delete",
    skip_expired: bool = False,
    restart: bool = False,
    latest: bool = False,
    hold: bool = False,
    schema: Literal["infer"] | pa.Schema | None = None,
    values: Values | None = None,
    snapshots: timedelta | None = None,
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
        latest: Also keep the table NAME_latest: the newest record of each key, without tombstones.
        hold: From now on let the retention of these logs wait for the table: no segment is deleted before the table has
            its records, also while nothing synchronizes. `release` ends that. Logs with Retention(after="table") wait
            without it.
        schema: Let the fields of values be typed columns as well: "infer" them, or these. A table keeps its schema for
            later rounds, which may add columns and make types wider. A field that does not fit is null, with the reason
            in the column `unfit`; the column `value` has every value as it is.
        values: How to read values: "json", or a function that returns the fields of a value as a dict or as a message
            of Protobuf, for formats such as Avro. None: as the table was made, else "json".
        snapshots: Age at which a table forgets earlier snapshots and deletes their files. None: 5 days; 1 hour for
            NAME_latest, whose snapshots share few files.
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
        latest=latest,
        hold=hold,
        schema=schema,
        values=values,
        snapshots=snapshots,
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
        latest: bool = False,
        hold: bool = False,
        schema: Literal["infer"] | pa.Schema | None = None,
        values: Values | None = None,
        snapshots: timedelta | None = None,
        catalog: dict[str, str] | None = None,
    ) -> None:
        """Open a warehouse for a source; see `sync`."""
        self._options = Options(
            active, on_truncate, skip_expired, restart, latest, hold, snapshots, Typing(schema, values)
        )
        self._root = storage_at(source)
        there = sources_at(self._root)  # before anything is created
        if name is not None and len(there) != 1:
            raise InvalidArgument(f"{self._root.path} holds several topics; their tables have the names of the topics")
        self._name = name
        self.failures: dict[str, Exception] = {}  # of the last round, by the directory of the topic
        self.reports: list[TableReport] = []  # of the last round
        self._holds: dict[str, Hold] = {}
        self._new: dict[str, int] = {}  # table -> files added since its small files were looked at
        self._clean: set[str] = set()  # tables whose last round was complete: it left nothing
        self._warehouse = Warehouse(place, catalog, create=True)

    def step(self) -> list[TableReport]:
        """Make one round: bring every table up to date. A topic that fails does not keep the others from it.

        Raises:
            SeglogError: The first error, after the other topics have had their round; `failures` has those of all, and
                `reports` what the others did.
        """
        self.failures, self.reports = {}, []  # also if the directory cannot be read
        reports: list[TableReport] = []
        failed: dict[str, Exception] = {}
        for source in sources_at(self._root):
            try:
                reports += self._tables(logs_of(source))
            except Exception as error:  # noqa: BLE001 - a fault of one topic, even of a library, stops no other table
                failed[source.path.rstrip("/").rpartition("/")[2]] = error
        self.failures, self.reports = failed, reports
        if not failed:
            return reports
        first, *others = failed
        for name in others:
            failed[first].add_note(f"{name} failed, too: {failed[name]}")
        raise failed[first]

    def run(
        self,
        interval: float,
        stopped: Callable[[float], bool],
        said: Callable[[TableReport], None],
        failed: Callable[[dict[str, Exception]], None] | None = None,
    ) -> None:
        """Make a round every `interval` seconds until `stopped(seconds)`, which waits that long at most, is true.

        Args:
            interval: Seconds between the beginnings of two rounds.
            stopped: Waits for up to the seconds it is given, and returns whether to end.
            said: Called with each report of a table that has changed.
            failed: Called after a round in which topics failed, with their errors; the run goes on as long as another
                topic had its round. None: the first error ends the run.

        Raises:
            SeglogError: If all topics failed, or one and `failed` is None.
        """
        interval = checked_seconds(interval, "interval")
        while True:
            began = time.monotonic()
            try:
                self.step()
            except Exception:
                if failed is None or not self.reports:
                    raise
                failed(self.failures)
            for report in self.reports:
                if report.records or report.deleted:
                    said(report)
            if stopped(max(0.0, interval - (time.monotonic() - began))):
                return

    def round_on(self, table: Table, name: str, options: Options) -> Round:
        """Return how a round on the table of every record is made."""
        return Round(table, name, options)

    def _tables(self, logs: Logs) -> Iterator[TableReport]:
        name = self._name or logs.name
        yield self._table(name, logs, "all")
        if self._options.latest:
            yield self._table(name + LATEST, logs, "newest")

    def _table(self, name: str, logs: Logs, rows: Rows) -> TableReport:
        with as_ours(name), ExitStack() as resources:
            table = self._warehouse.table_for(name, logs.path, rows)
            self._lock(table, resources)
            table.refresh()
            opened = {
                number: resources.enter_context(open_log(place, mode="r", expose="durable"))
                for number, place in logs.places.items()
            }
            waits = self._options.hold or any(log.config.retention.after == "table" for log in opened.values())
            kind = self.round_on if rows == "all" else LatestRound
            one = kind(table, name, self._options)
            with self._held(table, logs) if waits else nullcontext():
                report = self._round(one, opened)
            merged = self._merge(one, report)  # a merge that fails keeps no log from deleting what the table has
            self._clean.add(name)
            warehouse.expire(table, one.keeps if self._options.snapshots is None else self._options.snapshots)
            return replace(report, merged=merged)

    @contextmanager
    def _held(self, table: Table, logs: Logs) -> Iterator[None]:
        """Hold what the table lacks in its logs; allow afterwards to delete what it has."""
        hold = self._holds.setdefault(table.location(), hold_of(table.location()))
        for place in logs.places.values():
            hold.begin(place)
        yield
        for number, one in warehouse.held_by(table).items():
            if number in logs.places:
                hold.move(logs.places[number], one.end, one.epoch)

    def _round(self, one: Round, opened: dict[int, Log]) -> TableReport:
        """Make a round; delete what an interrupted one before it has left."""
        if one.name not in self._clean:
            one.delete_leftovers()
        self._clean.discard(one.name)
        return one.make(opened)

    def _merge(self, one: Round, report: TableReport) -> int:
        """Merge small files once enough files are new: all files of a table are read about for that."""
        new = self._new.get(one.name, FEWEST) + report.files
        self._new[one.name] = new
        if report.files == 0 or new < FEWEST:
            return 0
        self._new[one.name] = 0
        return merge_small_files(one.table)

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
