"""One round on one table: write what it lacks to new files, and commit them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Literal

import pyarrow as pa
from pyiceberg.table import Table

from seglog.errors import InvalidArgument
from seglog.log.log import Log
from seglog.log.view import View
from seglog.replication.lineage import Lineage
from seglog.table import files, warehouse
from seglog.table.ranges import Held, Range, held_after, next_range
from seglog.table.reading import rows_before
from seglog.table.schema import UNFIT, clamped_in, rows_of
from seglog.table.typer import Typer, Typing
from seglog.table.warehouse import TableFile

BATCH_RECORDS = 65536
OnTruncate = Literal["delete", "refuse"]


@dataclass(frozen=True, slots=True)
class TableReport:
    """What one round did for a table.

    table: its name; records: rows added; deleted: rows deleted because the log was truncated; files: new files;
    bytes: of these files; held: partition -> the offset before which the table holds every record of the log; merged:
    small files that were replaced by larger ones; unfit: added rows whose value does not fit the table's schema;
    clamped: added rows that show another timestamp, because that of their record is not in years 1 to 9999; left_out:
    fields that were found in the values, of which large blocks may be sampled, but have no column (path -> why).
    """

    table: str
    records: int
    deleted: int
    files: int
    bytes: int
    held: dict[int, int]
    merged: int = 0
    unfit: int = 0
    clamped: int = 0
    left_out: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Options:
    """How tables follow their logs; see `sync`."""

    active: bool = False
    on_truncate: OnTruncate = "delete"
    skip_expired: bool = False
    restart: bool = False
    latest: bool = False
    hold: bool = False
    snapshots: timedelta | None = None
    typing: Typing = field(default_factory=Typing)

    def __post_init__(self) -> None:
        if self.on_truncate not in ("delete", "refuse"):
            raise InvalidArgument(f"on_truncate is {self.on_truncate!r}; choose 'delete' or 'refuse'")


@dataclass(frozen=True, slots=True)
class Part:
    """What a round does for one partition. number: of the partition; view: of its log."""

    number: int
    log: Log
    view: View
    step: Range


class Round:
    """One round on a table of every record. keeps: age at which it forgets snapshots, if the options give none."""

    keeps = timedelta(days=5)  # Iceberg's own default

    def __init__(self, table: Table, name: str, options: Options) -> None:
        self.table = table
        self.name = name
        self.options = options
        self.data = f"{table.location()}/data"
        self.typer = Typer(table, options.typing)

    def make(self, logs: dict[int, Log]) -> TableReport:
        """Write what is missing, and commit it."""
        held = warehouse.held_by(self.table)
        after: Held = dict(held)
        change = Change()
        parts = []
        for number, log in logs.items():
            view = log.view()
            step = self.step(log, view, held.get(number))
            if step.cut is not None:
                self._cut(number, step.cut, change)
            parts.append(Part(number, log, view, step))
            after[number] = held_after(held.get(number), Lineage.of(view), step)
        self.copy(parts, change)
        if after != held:
            warehouse.commit(self.table, after, change.added, change.removed)
        return self.report(change, after)

    def copy(self, parts: list[Part], change: Change) -> None:
        """Write the records that the table lacks to new files, and add them to the change."""
        for part in parts:
            rows = records(part.view, part.number, part.step.start, part.step.stop)
            change.added.extend(self.write(counted(self.typer.typed(rows), change)))

    def step(self, log: Log, view: View, held: Lineage | None) -> Range:
        """Return which offsets of a partition come next."""
        stop = view.next_offset if self.options.active else view.active.base_offset
        return next_range(
            held,
            Lineage.of(view),
            min(stop, log.durable_offset),
            (warehouse.name_of(self.table), log.path),
            refuse_truncate=self.options.on_truncate == "refuse",
            skip_expired=self.options.skip_expired,
            restart=self.options.restart,
        )

    def write(self, rows: Iterable[pa.RecordBatch]) -> Iterator[str]:
        """Write rows to new files; yield their locations."""
        return files.write_rows(self.table.io, self.data, rows)

    def report(self, change: Change, held: Held) -> TableReport:
        """Return what the round did."""
        sizes = sum(len(self.table.io.new_input(location)) for location in change.added)
        self.typer.warn_of_left_out()
        ends = {number: one.end for number, one in sorted(held.items())}
        return TableReport(
            self.name,
            change.rows,
            change.deleted,
            len(change.added),
            sizes,
            ends,
            unfit=change.unfit,
            clamped=change.clamped,
            left_out=self.typer.left_out,
        )

    def _cut(self, number: int, offset: int, change: Change) -> None:
        """Replace the files of a partition that hold rows from an offset on."""
        for file in warehouse.files_of(self.table, number):
            if file.last < offset:
                continue
            change.removed.append(file)
            change.deleted += file.rows
            if file.start < offset:
                kept = Change()
                rows = rows_before(self.table, file, offset)
                change.added.extend(self.write(counted(rows, kept)))
                change.deleted -= kept.rows

    def delete_leftovers(self) -> None:
        """Delete files that an interrupted round wrote and no snapshot refers to. Those of others have other names."""
        path = warehouse.local_path(self.data)
        ours = [] if path is None else [file for file in path.glob("*") if files.OWN_NAME.fullmatch(file.name)]
        if ours:
            used = warehouse.files_of_snapshots(self.table, self.table.snapshots())
            known = {warehouse.local_path(location) for location in used}
            for file in ours:
                if file not in known:
                    file.unlink()


@dataclass
class Change:
    """What a commit changes.

    added: locations of new files; rows: added; deleted: rows that are gone; unfit: rows added without typed columns;
    clamped: rows added with another timestamp.
    """

    added: list[str] = field(default_factory=list)
    removed: list[TableFile] = field(default_factory=list)
    rows: int = 0
    deleted: int = 0
    unfit: int = 0
    clamped: int = 0

    def add(self, other: Change) -> None:
        """Add what another commit changed."""
        self.added += other.added
        self.removed += other.removed
        self.rows += other.rows
        self.deleted += other.deleted
        self.unfit += other.unfit
        self.clamped += other.clamped


def records(view: View, number: int, start: int, stop: int) -> Iterator[pa.RecordBatch]:
    """Yield the records of a range of offsets as rows."""
    if start < stop:
        for batch in view.batches(start, stop, max_records=BATCH_RECORDS, values="binary"):
            if batch.num_rows:
                yield rows_of(batch, number)


def counted(rows: Iterator[pa.RecordBatch], change: Change) -> Iterator[pa.RecordBatch]:
    """Pass rows on and count them."""
    for batch in rows:
        change.rows += batch.num_rows
        change.clamped += clamped_in(batch)
        if UNFIT in batch.schema.names:
            change.unfit += batch.num_rows - batch.column(UNFIT).null_count
        yield batch
