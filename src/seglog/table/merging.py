"""Replace many small files of a table by few large ones, with one commit. The rows, and what the table holds, stay.

Small files come from frequent rounds. A run is a sequence of small files of one partition, in order of offset, without
a large one in between. `first_of` decides what of a run is merged: as many of its newest files as together are as large
as the file before them. So a merged file is at least twice as large as the one that its oldest rows were in, a row is
rewritten about once for each doubling, and a run has about as many files as it has doublings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyiceberg.table import Table

from seglog.table import files, warehouse
from seglog.table.reading import read_rows
from seglog.table.warehouse import TableFile

SMALL_BYTES = 32 << 20
FEWEST = 8


def first_of(sizes: Sequence[int]) -> int | None:
    """Return the index of the first file of a run that is merged, with all after it; None: there are too few. Pure.

    sizes: of the files of the run, in order of offset.
    """
    first, after = len(sizes), 0
    for index in reversed(range(len(sizes))):
        if sizes[index] <= after:
            first = index
        after += sizes[index]
    return first if len(sizes) - first >= FEWEST else None


def merge_small_files(table: Table) -> int:
    """Merge what is worth it in every partition; return how many files were replaced.

    Files of other programs stay, and files with rows that another program has marked as deleted.

    Raises:
        CommitFailedException: (pyiceberg) If another program committed meanwhile; nothing is changed.
    """
    removed: list[TableFile] = []
    added: list[str] = []
    for run in _runs(warehouse.files_of(table)):
        first = first_of([file.bytes for file in run])
        if first is not None:
            removed += run[first:]
            added += files.write_rows(table.io, f"{table.location()}/data", _rows(table, run[first:]))
    if removed:
        warehouse.replace_files(table, added, removed)
    return len(removed)


def _runs(found: Iterable[TableFile]) -> Iterator[list[TableFile]]:
    """Yield the runs of small files."""
    run: list[TableFile] = []
    for file in sorted(found, key=lambda file: (file.partition, file.start)):
        fits = file.bytes < SMALL_BYTES and file.is_ours and not file.has_deletes
        if run and (not fits or run[-1].partition != file.partition):
            yield run
            run = []
        if fits:
            run.append(file)
    if run:
        yield run


def _rows(table: Table, run: Iterable[TableFile]) -> Iterator[pa.RecordBatch]:
    for file in run:
        yield from read_rows(table, file)
