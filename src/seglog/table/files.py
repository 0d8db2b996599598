"""Write Parquet files of a table. A file has a new name, so nothing refers to it before a commit."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.io import FileIO

from seglog.parallel.calls import Calls
from seglog.table.columns import leaf_paths, with_dictionary, with_statistics

FILE_BYTES = 256 << 20
GROUP_BYTES = 64 << 20
OWN_NAME = re.compile(r"[0-9a-f]{32}\.parquet")
COMPRESSION = "zstd"
LEVEL = 1
SAMPLE_BYTES = 1 << 20
LEAST_GAIN = 0.85


def write_rows(
    files: FileIO, directory: str, batches: Iterable[pa.RecordBatch], *, limit: int = FILE_BYTES
) -> Iterator[str]:
    """Write rows to new files; yield the location of each once it is complete. Other columns begin another file.

    A thread writes a row group while the next one is made of the batches: two of them are in memory.

    Args:
        files: Of the table.
        directory: Location of the directory of the new files.
        batches: Rows with columns as `seglog.table.columns` makes them, with field ids.
        limit: Bytes of rows per file, before compression; a file may have one row group more.
    """
    writer = _Writer(files, directory, limit)
    thread = ThreadPoolExecutor(1, "seglog-table-write")
    calls = Calls(thread)
    try:
        for group in _groups(batches):
            if calls:
                yield from calls.take()
            calls.launch(partial(writer.write, group))
        if calls:
            yield from calls.take()
        yield from writer.close()
    finally:
        calls.finish()  # waits for the group that is being written
        thread.shutdown()
        writer.abandon()


def _groups(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Yield the rows as row groups."""
    group: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        if group and batch.schema != group[0].schema:
            yield pa.Table.from_batches(group)
            group, size = [], 0
        group.append(batch)
        size += batch.nbytes
        if size >= GROUP_BYTES:
            yield pa.Table.from_batches(group)
            group, size = [], 0
    if group:
        yield pa.Table.from_batches(group)


def codecs_of(first: pa.Table) -> dict[str, str]:
    """Return the codec of each column. Keys and values that hardly get smaller stay as they are. first: row group."""
    paths = [path for field in first.schema for path in leaf_paths(field.type, field.name)]
    plain = [name for name in ("key", "value") if not _shrinks(first.column(name))]
    return {path: "none" if path in plain else COMPRESSION for path in paths}


def _shrinks(column: pa.ChunkedArray) -> bool:
    """Return whether compression is worth it: what it saves must pay for what each reader spends."""
    _, ends, data = column.chunk(0).buffers()
    if data is None:
        return True
    first = column.chunk(0).offset
    start, end = np.frombuffer(ends, np.int32)[[first, first + len(column.chunk(0))]].tolist()
    sample = data.slice(start, min(end - start, SAMPLE_BYTES))
    return bool(sample.size == 0 or len(pa.Codec(COMPRESSION, LEVEL).compress(sample)) < LEAST_GAIN * sample.size)


def _filters(first: pa.Table) -> dict[str, dict[str, int]] | None:
    """Return the Bloom filters of a file: by key, so that a search for one skips row groups. first: row group."""
    keys = len(first) - first.column("key").null_count
    return {"key": {"ndv": keys}} if keys else None


class _Writer:
    """Writes row groups to files, one after another."""

    def __init__(self, files: FileIO, directory: str, limit: int) -> None:
        self._files = files
        self._directory = directory
        self._limit = limit
        self._file: _NewFile | None = None

    def write(self, group: pa.Table) -> list[str]:
        """Write a row group; return the locations of files that are complete now."""
        done = self.close() if self._file is not None and self._file.schema != group.schema else []
        if self._file is None:
            self._file = _NewFile(self._files, f"{self._directory}/{secrets.token_hex(16)}.parquet", group)
        self._file.write(group)
        return done + self.close() if self._file.bytes >= self._limit else done

    def close(self) -> list[str]:
        """End the file that is being written, if there is one; return its location."""
        if self._file is None:
            return []
        location = self._file.close()
        self._file = None
        return [location]

    def abandon(self) -> None:
        """Remove the file that is being written, if there is one: an error ended the write."""
        if self._file is not None:
            self._file.abandon()


class _NewFile:
    """A Parquet file that is being written. bytes: of rows, before compression."""

    def __init__(self, files: FileIO, location: str, first: pa.Table) -> None:
        self.bytes = 0
        self.schema = schema = first.schema
        self._files = files
        self._location = location
        self._sink = files.new_output(location).create()
        self._writer = pq.ParquetWriter(
            self._sink,
            schema,
            compression=(codecs := codecs_of(first)),
            compression_level={path: LEVEL for path, codec in codecs.items() if codec == COMPRESSION},
            use_dictionary=with_dictionary(schema),
            write_statistics=with_statistics(schema),
            bloom_filter_options=_filters(first),
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
        self._writer.is_open = False  # else it writes the end of the file when it is collected
        with suppress(Exception):
            self._sink.close()
        with suppress(OSError):
            self._files.delete(self._location)
