"""Write and read Parquet files of a table. A file has a new name, so nothing refers to it before a commit."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import suppress

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from seglog.table.schema import ARROW

FILE_BYTES = 256 << 20
GROUP_BYTES = 64 << 20
OWN_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
COMPRESSION = "zstd"
LEVEL = 1


def write_rows(
    files: FileIO, directory: str, batches: Iterable[pa.RecordBatch], *, limit: int = FILE_BYTES
) -> Iterator[str]:
    """Write rows to new files; yield the location of each once it is complete.

    Args:
        files: Of the table.
        directory: Location of the directory of the new files.
        batches: Rows with the columns ARROW.
        limit: Bytes of rows per file, before compression; a file may have one row group more.
    """
    file: _NewFile | None = None
    try:
        for group in _groups(batches):
            file = file or _NewFile(files, f"{directory}/{secrets.token_hex(16)}.parquet")
            file.write(group)
            if file.bytes >= limit:
                done, file = file, None
                yield done.close()
        if file is not None:
            done, file = file, None
            yield done.close()
    finally:
        if file is not None:
            file.abandon()


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows as row groups."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        group.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(group, schema=ARROW)
            group, size = [], 0
    if group:
        yield pa.Table.from_batches(group, schema=ARROW)


class _NewFile:
    """A Parquet file that is being written. bytes: of rows, before compression."""

    def __init__(self, files: FileIO, location: str) -> None:
        self.bytes = 0
        self._files = files
        self._location = location
        self._sink = files.new_output(location).create()
        self._writer = pq.ParquetWriter(
            self._sink,
            ARROW,
            compression=COMPRESSION,
            compression_level=LEVEL,
            use_dictionary=["partition", "key"],
            write_statistics=["offset", "partition", "timestamp", "key"],
            store_schema=False,
        )

    def write(self, group: pa.Table) -> None:
        """Write one row group."""
        self._writer.write_table(group, row_group_size=max(1, group.num_rows))
        self.bytes += group.nbytes

    def close(self) -> str:
        """End the file, durably; return its location."""
        self._writer.close()
        self._sink.close()
        return self._location

    def abandon(self) -> None:
        """Remove the file: an error ended the write."""
        with suppress(Exception):
            self._sink.close()
        with suppress(OSError):
            self._files.delete(self._location)


def read_rows(files: FileIO, location: str) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file."""
    with files.new_input(location).open() as source, pq.ParquetFile(source) as file:
        for batch in file.iter_batches(columns=ARROW.names):
            yield pa.RecordBatch.from_arrays(
                [column.cast(field.type) for column, field in zip(batch.columns, ARROW, strict=True)], schema=ARROW
            )


def rows_before(files: FileIO, location: str, offset: int) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a file with lower offsets."""
    for batch in read_rows(files, location):
        kept = batch.filter(pc.less(batch.column("offset"), offset))
        if kept.num_rows:
            yield kept
