"""Input files for `import`: lines, NDJSON, CSV, Arrow and Parquet, as bounded batches for `Log.append_batch`.

A source yields batches and reports its progress. A malformed file raises InvalidArgument, with the line number if
lines can be counted. A file's `offset` column is ignored: the log assigns offsets.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import os
import zlib
from argparse import ArgumentTypeError
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.compute as pc

from seglog.cli.json_rows import Fields, decoder
from seglog.cli.record_formats import CSV_COLUMNS
from seglog.cli.source import BATCH_BYTES, BATCH_RECORDS
from seglog.cli.tables import HEADERS
from seglog.errors import InvalidArgument, SeglogError
from seglog.format.foreign import UNREADABLE
from seglog.format.lines import Entry, LongLine, decode_bytes, decode_line, split
from seglog.record import checked_text
from seglog.terminal.units import parse_time

HEADERS_COLUMN, TOMBSTONE = CSV_COLUMNS[-2:]
MICROSECONDS = pa.timestamp("us")  # the type of times whose unit is known: an append takes them as they are
EARLIER = list(CSV_COLUMNS[:-1])
JSON_KINDS = ("ndjson", "json", "kcat", "connect")
LINE_BYTES = 64 * 1024 * 1024
HEADER_BYTES = 1024 * 1024  # of the first line of CSV
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"

_BYTES = (
    pa.types.is_string,
    pa.types.is_large_string,
    pa.types.is_string_view,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_binary_view,
    pa.types.is_fixed_size_binary,
    pa.types.is_null,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class Columns:
    """The columns that make a record. None: `key`, `value`, `timestamp`, of which only `value` is required.

    lossy: omit headers that cannot be read, and take empty cells of an earlier version for empty values.
    force_timestamp: take numbers that look like seconds or milliseconds as they are, in lines too.
    """

    key: str | None = None
    value: str | None = None
    timestamp: str | None = None
    lossy: bool = False
    force_timestamp: bool = False

    @property
    def named(self) -> bool:
        """Whether a column was chosen."""
        return (self.key, self.value, self.timestamp) != (None, None, None)


@dataclass(frozen=True, slots=True)
class Input:
    """Batches of value, key, timestamp, headers; progress is `done(records)` of `total` (None: unknown) in `unit`."""

    batches: Iterator[pa.RecordBatch]
    done: Callable[[int], int]
    total: int | None
    unit: str


def open_source(
    file: BinaryIO,
    kind: str,
    columns: Columns,
    *,
    delimiter: bytes,
    key_separator: bytes | None,
    fields: Fields | None = None,
    line_bytes: int = LINE_BYTES,
) -> Input:
    """Open a file of `kind` (one of JSON_KINDS, lines, csv, arrow or parquet), plain or compressed.

    line_bytes: that a line may have, of formats with lines: a small compressed file can have one of gigabytes.
    """
    fields = fields or Fields()
    if kind == "parquet":
        return _parquet_source(file, columns)
    file = decompressed(file)
    if kind in JSON_KINDS:
        lines = enumerate(_lines(file, b"\n", line_bytes), 1)
        decode = decoder(kind, fields, force_timestamp=columns.force_timestamp)
        batches = _entry_batches(decode(line, number) for number, line in lines if line.strip())
    elif kind == "lines":
        lines = enumerate(_lines(file, delimiter, line_bytes), 1)
        batches = _entry_batches(decode_line(line, number, key_separator) for number, line in lines)
    else:
        buffered = cast(
            io.BufferedReader, file if hasattr(file, "peek") else io.BufferedReader(cast(io.RawIOBase, file))
        )
        batches = _explained(kind, (_csv_batches if kind == "csv" else _arrow_batches)(buffered, columns))
    size = _size(file)
    if size is None:
        return Input(batches, lambda records: records, None, " records")
    return Input(batches, lambda _: file.tell(), size, "B")


def _lines(file: BinaryIO, delimiter: bytes, most: int) -> Iterator[bytes]:
    try:
        yield from split(file, delimiter, most)
    except LongLine as error:
        enough = "beyond that number" if error.size is None else "to that number"
        raise InvalidArgument(
            f"{error}, and {most} are read; check the input and --format, or raise --line-bytes {enough}"
        ) from None


def decompressed(file: BinaryIO) -> BinaryIO:
    """Return a file with the decompressed content if the first bytes show gzip or zstd, else the file."""
    peekable = cast(io.BufferedReader, file if hasattr(file, "peek") else io.BufferedReader(cast(io.RawIOBase, file)))
    head = peekable.peek(4)[:4]
    if head.startswith(_GZIP):
        return cast(BinaryIO, _Checked(cast(io.RawIOBase, gzip.GzipFile(fileobj=peekable)), "gzip"))
    if head == _ZSTD:
        stream = pa.CompressedInputStream(pa.PythonFile(peekable, mode="r"), "zstd")
        return cast(BinaryIO, _Checked(stream, "zstd"))
    return cast(BinaryIO, peekable)


class _Checked(io.RawIOBase):
    """A stream of decompressed bytes that raises InvalidArgument for its errors; it cannot seek."""

    def __init__(self, stream: Any, kind: str) -> None:
        self._stream, self._kind = stream, kind

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read the next bytes; 0 at the end."""
        try:
            data = self._stream.read(len(buffer))
        except (OSError, EOFError, zlib.error, pa.ArrowException) as error:
            raise InvalidArgument(f"the {self._kind} input is damaged or truncated: {error}") from None
        buffer[: len(data)] = data
        return len(data)


def _size(file: BinaryIO) -> int | None:
    """Return the size of a file in bytes, None for a pipe."""
    try:
        return os.fstat(file.fileno()).st_size if file.seekable() else None
    except io.UnsupportedOperation:  # a stream in memory
        return None


def _explained(kind: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the batches; turn Arrow's errors into InvalidArgument."""
    try:
        yield from batches
    except pa.ArrowException as error:
        raise InvalidArgument(f"the {kind} input cannot be read: {error}") from error
    except OSError as error:
        if error.errno is not None:
            raise
        why = f"the {kind} input is truncated: {error}"  # an OSError without errno comes from Arrow
        raise InvalidArgument(why) from error


def _entry_batches(entries: Iterable[Entry]) -> Iterator[pa.RecordBatch]:
    held: list[Entry] = []
    size = 0
    for entry in entries:
        held.append(entry)
        size += len(entry.value or b"") + len(entry.key or b"")
        size += sum(len(value or b"") for _, value in entry.headers)
        if len(held) >= BATCH_RECORDS or size >= BATCH_BYTES:
            yield _entry_batch(held)
            held, size = [], 0
    if held:
        yield _entry_batch(held)


def _entry_batch(entries: list[Entry]) -> pa.RecordBatch:
    headers = [[{"key": name, "value": value} for name, value in entry.headers] for entry in entries]
    return pa.record_batch(
        {
            "value": pa.array([entry.value for entry in entries], pa.binary()),
            "key": pa.array([entry.key for entry in entries], pa.binary()),
            "timestamp": pa.array([entry.timestamp for entry in entries], pa.int64()).cast(MICROSECONDS),
            "headers": pa.array(headers, HEADERS),
        }
    )


def _arrow_batches(file: io.BufferedReader, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read an IPC stream, or an IPC file, which starts with ARROW1 and has its index at the end."""
    if file.peek(6)[:6] == b"ARROW1":
        if not file.seekable():
            raise InvalidArgument("an Arrow IPC file has its index at the end: give a file name, not a pipe")
        reader = pa.ipc.open_file(file)
        batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
    else:
        batches = pa.ipc.open_stream(file)
    for batch in batches:
        rows = _rows(batch.nbytes, batch.num_rows)
        for first in range(0, batch.num_rows, rows):
            yield _records(batch.slice(first, rows), columns)


def _parquet_source(file: BinaryIO, columns: Columns) -> Input:
    import pyarrow.parquet as pq  # takes 100 ms: only Parquet pays for it

    if not file.seekable():
        raise InvalidArgument("a Parquet file has its index at the end: give a file name, not a pipe")
    try:
        parquet = pq.ParquetFile(file)
    except (pa.ArrowException, OSError) as error:
        raise InvalidArgument(f"the parquet input cannot be read: {error}") from error
    names = set(parquet.schema_arrow.names)
    wanted = {columns.value or "value", columns.key or "key", columns.timestamp or "timestamp", "headers"}
    size = sum(parquet.metadata.row_group(i).total_byte_size for i in range(parquet.num_row_groups))
    batches = parquet.iter_batches(_rows(size, parquet.metadata.num_rows), columns=sorted(names & wanted))
    found = _explained("parquet", (_records(batch, columns) for batch in batches))
    return Input(found, lambda records: records, parquet.metadata.num_rows, " records")


def _csv_batches(file: io.BufferedReader, columns: Columns) -> Iterator[pa.RecordBatch]:
    """Read CSV with a header line; cells stay text. An empty cell is a null key, but an empty value.

    Columns `headers` and `tombstone` have what `record_formats.write_csv` writes there.
    """
    from pyarrow import csv as arrow_csv  # only CSV needs it

    header = file.readline(HEADER_BYTES).decode("utf-8-sig", "surrogateescape")
    try:
        names = next(csv.reader([header.rstrip("\r\n")]), [])
    except csv.Error as error:
        raise InvalidArgument(f"the csv input has no header line: {error}") from None
    wanted = [columns.value or "value", columns.key or "key", columns.timestamp or "timestamp"]
    _column_index(names, wanted[0], columns)
    more = [name for name in (HEADERS_COLUMN, TOMBSTONE) if name in names and name not in wanted]
    if not file.peek(1):
        return
    reader = arrow_csv.open_csv(
        file,
        arrow_csv.ReadOptions(column_names=names, block_size=BATCH_BYTES),
        arrow_csv.ParseOptions(newlines_in_values=True),
        arrow_csv.ConvertOptions(
            include_columns=[name for name in (*wanted, *more) if name in names],
            column_types=dict.fromkeys((*wanted, *more), pa.binary()),
            null_values=[""],
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
            check_utf8=False,
        ),
    )
    is_earlier = names[-len(EARLIER) :] == EARLIER  # written by `read --format csv` before there was `tombstone`
    first = 1
    for batch in reader:
        yield _records(_csv_rows(batch, wanted[0], more, first, columns, is_earlier=is_earlier), columns)
        first += batch.num_rows


def _csv_rows(
    batch: pa.RecordBatch, name: str, more: list[str], first: int, columns: Columns, *, is_earlier: bool
) -> pa.RecordBatch:
    """Return rows of CSV with null values, and headers as lists. name: of values; first: number of the first row."""
    value = batch.column(name)
    if is_earlier and value.null_count and not columns.lossy:
        row = first + value.is_null().to_pylist().index(True)
        raise InvalidArgument(
            f"row {row} has no value, and the file, of an earlier version, does not show whether it is a tombstone or "
            "empty: add a column 'tombstone' with 'true' for each tombstone, or give --lossy for empty values"
        )
    value = value.fill_null(b"")
    if TOMBSTONE in more:
        value = _without_tombstones(value, batch.column(TOMBSTONE), first)
        batch = batch.drop_columns([TOMBSTONE])
    if HEADERS_COLUMN in more:
        cells = enumerate(batch.column(HEADERS_COLUMN).to_pylist(), first)
        headers = pa.array([_csv_headers(cell, row, columns) for row, cell in cells], HEADERS)
        batch = batch.set_column(batch.schema.get_field_index(HEADERS_COLUMN), HEADERS_COLUMN, headers)
    return batch.set_column(batch.schema.get_field_index(name), name, value)


def _without_tombstones(value: pa.Array, marks: pa.Array, first: int) -> pa.Array:
    """Return the values, null where the mark is "true". Raises InvalidArgument for another mark, or a value there."""
    marks = marks.fill_null(b"")
    is_tombstone = pc.equal(marks, b"true")
    unknown = pc.invert(pc.is_in(marks, pa.array([b"", b"true", b"false"], marks.type)))
    has_value = pc.and_(is_tombstone, pc.not_equal(value, b""))
    for wrong, why in (
        (unknown, "must be 'true', 'false' or empty"),
        (has_value, "is 'true', but the row has a value"),
    ):
        if pc.any(wrong).as_py():
            raise InvalidArgument(f"row {first + wrong.to_pylist().index(True)}: the column {TOMBSTONE!r} {why}")
    return pc.if_else(is_tombstone, pa.scalar(None, value.type), value)


def _csv_headers(cell: bytes | None, row: int, columns: Columns) -> list[dict[str, Any]]:
    """Return the headers in a cell: a JSON array of [name, value]. Raises InvalidArgument for anything else."""
    if cell is None:
        return []
    try:
        pairs = json.loads(cell)
        for name, _ in pairs:
            checked_text(name, "a header").encode()  # rejects a lone surrogate
        found = [{"key": name, "value": decode_bytes(one, "a header")} for name, one in pairs]
    except (*UNREADABLE, SeglogError) as error:
        if columns.lossy:
            return []
        raise InvalidArgument(
            f"row {row}: the column {HEADERS_COLUMN!r} is not a JSON array of [name, value] ({error}); rename it, or "
            "give --lossy to import without these headers"
        ) from None
    return found


def _rows(size_bytes: int, rows: int) -> int:
    """Return how many of `rows` rows with `size_bytes` bytes in total make about BATCH_BYTES."""
    return max(1, min(BATCH_RECORDS, BATCH_BYTES * max(1, rows) // max(1, size_bytes)))


def _column_index(names: list[str], name: str, columns: Columns) -> int:
    """Return the column's index, -1 if an optional column is missing. Raises InvalidArgument if a required one is."""
    if names.count(name) > 1:
        raise InvalidArgument(f"the input has more than one column {name!r}; rename one of them")
    if name in names:
        return names.index(name)
    if name in (columns.value or "value", columns.key, columns.timestamp):
        listed = ", ".join(map(repr, names)) or "none"
        raise InvalidArgument(f"the input has no column {name!r}; it has {listed}; choose with --value-column etc.")
    return -1


def _records(batch: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """Return the columns of a record, in a log's types. Raises InvalidArgument if a type cannot be converted."""
    names = batch.schema.names
    taken = {}
    for role, name, convert in (
        ("value", columns.value or "value", _bytes),
        ("key", columns.key or "key", _bytes),
        ("timestamp", columns.timestamp or "timestamp", partial(_timestamps, columns.force_timestamp)),
    ):
        index = _column_index(names, name, columns)
        if index >= 0:
            taken[role] = convert(batch.column(index), name)
    headers = names.index("headers") if names.count("headers") == 1 else -1
    if headers >= 0 and (pa.types.is_list(kind := batch.schema.field(headers).type) or pa.types.is_map(kind)):
        taken["headers"] = batch.column(headers)
    elif "headers" in names and not columns.lossy:
        raise InvalidArgument(
            "the column 'headers' is there twice, or has not the type of headers, lists of (key, value): rename it, or "
            "give --lossy to import without headers"
        )
    return pa.record_batch(taken)


def _bytes(column: pa.Array, name: str) -> pa.Array:
    """Return text and bytes unchanged, whole numbers as their digits."""
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    if pa.types.is_integer(kind):
        return column.cast(pa.string())
    if not any(fits(kind) for fits in _BYTES):
        raise InvalidArgument(f"column {name!r} has type {kind}; keys and values must be text, bytes or whole numbers")
    return column


def _timestamps(force: bool, column: pa.Array, name: str) -> pa.Array:
    """Return times unchanged, whole numbers as int64, text (ISO 8601 or digits) as microseconds.

    force: whether digits that look like another unit are microseconds; of numbers the append of the batch asks.
    """
    kind = column.type
    if pa.types.is_timestamp(kind):
        return column
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return column.cast(pa.int64())
    if pa.types.is_date(kind):
        return column.cast(pa.timestamp("ms"))
    if not any(fits(kind) for fits in _BYTES):
        raise InvalidArgument(f"column {name!r} has type {kind}; timestamps must be times, text or int microseconds")
    try:
        cells = column.cast(pa.string()).to_pylist()
        times = [None if cell is None else parse_time(cell, force_timestamp=force) for cell in cells]
    except ArgumentTypeError as error:
        raise InvalidArgument(f"column {name!r}: {error}") from None
    return pa.array(times, pa.int64()).cast(MICROSECONDS)
