"""The table NAME_latest: the newest record of each key, without tombstones.

A round takes the new records of a partition in chunks that fit memory. The newest record of each key of a chunk is
written to a new file, and files that hold an earlier record of one of these keys are rewritten without it (copy on
write). Each chunk is one commit, after which the table is complete up to its end. If records were cut off the log, the
partition is made again from the log: what the deleted rows had replaced is no longer in the table.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from seglog.log.log import Log
from seglog.log.view import View
from seglog.replication.lineage import Lineage
from seglog.table import warehouse
from seglog.table.ranges import Held, Range, from_the_start, held_after
from seglog.table.reading import read_rows
from seglog.table.rounds import Change, Round, TableReport, counted, records
from seglog.table.schema import ARROW

LATEST = "_latest"
CHUNK_BYTES = 256 << 20


class LatestRound(Round):
    """One round on a table of the newest records.

    A round rewrites the files that hold its keys, most often all of them, so snapshots take the size of the table each.
    """

    keeps = timedelta(hours=1)

    def make(self, logs: dict[int, Log]) -> TableReport:
        """Write what is missing, and commit it chunk by chunk."""
        held = dict(warehouse.held_by(self.table))
        total = Change()
        for number, log in logs.items():
            view = log.view()
            step = from_the_start(self.step(log, view, held.get(number)), view.lowest_offset)
            self._partition(number, view, step, held, total)
        return self.report(total, held)

    def _partition(self, number: int, view: View, step: Range, held: Held, total: Change) -> None:
        """Bring one partition up to date; `held` becomes what the table then holds."""
        before = held.get(number)
        replaced = list(warehouse.files_of(self.table, number)) if step.cut is not None else []
        for rows, end in _chunks(view, number, step):
            change = Change(removed=replaced, deleted=sum(file.rows for file in replaced))
            newest = _newest(rows)
            if not replaced:
                self._without(newest.column("key"), number, change)
            kept = newest.filter(pc.is_valid(newest.column("value")))
            change.added.extend(self.write(counted(self.typer.typed(iter(kept.to_batches())), change)))
            held[number] = held_after(before, Lineage.of(view), replace(step, stop=end))
            warehouse.commit(self.table, held, change.added, change.removed)
            total.add(change)
            replaced = []

    def _without(self, keys: pa.ChunkedArray, number: int, change: Change) -> None:
        """Rewrite the files of a partition that hold rows of these keys."""
        for file in warehouse.files_of(self.table, number):
            kept = [
                batch.filter(pc.invert(pc.is_in(batch.column("key"), keys))) for batch in read_rows(self.table, file)
            ]
            left = sum(batch.num_rows for batch in kept)
            if left < file.rows:
                change.removed.append(file)
                change.deleted += file.rows - left
                change.added.extend(self.write(batch for batch in kept if batch.num_rows))


def _chunks(view: View, number: int, step: Range) -> Iterator[tuple[pa.Table, int]]:
    """Yield the rows with a key of a range, in chunks, and the offset after each; at least one if there is a cut."""
    chunk: list[pa.RecordBatch] = []
    size = 0
    for batch in records(view, number, step.start, step.stop):
        chunk.append(batch)
        size += batch.nbytes
        if size >= CHUNK_BYTES:
            yield pa.Table.from_batches(chunk, ARROW), batch.column("offset")[-1].as_py() + 1
            chunk, size = [], 0
    if chunk or not step.is_empty:
        yield pa.Table.from_batches(chunk, ARROW), step.stop


def _newest(rows: pa.Table) -> Any:
    """Return the newest row of each key, in order of offset. Rows without a key are left out."""
    keyed = rows.filter(pc.is_valid(rows.column("key")))
    last = keyed.select(["key", "offset"]).group_by("key").aggregate([("offset", "max")])
    return keyed.filter(pc.is_in(keyed.column("offset"), last.column("offset_max")))
