"""`import` and `export`: a log from and to files, streaming. The formats are in format/lines, tables and ingest."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from seglog.cli.config_options import config_options
from seglog.cli.frame import Args, Command, File, argument, flag, option
from seglog.cli.held import HOLD
from seglog.cli.json_rows import Fields
from seglog.cli.location import SERVER
from seglog.cli.lock_wait import WAIT
from seglog.cli.options import (
    EXPOSE,
    FORCE,
    PLACE,
    QUIET,
    delimiter_from,
    delimiter_options,
)
from seglog.cli.progress import progress
from seglog.cli.record_formats import write_csv, write_csv_heading, write_ndjson
from seglog.cli.selection import SELECTION, Selection, ranges, records, selection_from
from seglog.cli.sink import Sink, saying_what_went_in, writing
from seglog.cli.source import SKIP_DAMAGED, Row, Source, reading
from seglog.errors import InvalidArgument
from seglog.record import Record
from seglog.terminal import output
from seglog.terminal.units import format_count, parse_delimiter, parse_size

if TYPE_CHECKING:
    from seglog.cli.file_batches import Input

_SUFFIXES = {
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "ndjson",
    ".txt": "lines",
    ".lines": "lines",
    ".csv": "csv",
    ".arrow": "arrow",
    ".arrows": "arrow",
    ".ipc": "arrow",
    ".feather": "arrow",
    ".parquet": "parquet",
    ".pq": "parquet",
}
_COMPRESSED = (".gz", ".zst", ".zstd")
_EXPORTS = ["ndjson", "lines", "csv", "arrow", "parquet"]


def _kind(args: Args) -> str:
    if args.format:
        return str(args.format)
    if args.file == output.STANDARD:
        return "ndjson"
    if Path(args.file).is_dir():
        return "laminarmq"
    path = Path(args.file)
    kind = _SUFFIXES.get((path.with_suffix("") if path.suffix.lower() in _COMPRESSED else path).suffix.lower())
    if kind == "ndjson" and getattr(args, "key_field", None) is not None:
        return "json"
    if kind is None:
        raise InvalidArgument(f"the format of {args.file} is unknown; give --format")
    return kind


def _import(args: Args) -> int:
    from seglog.cli import file_batches  # imports pyarrow

    kind = _kind(args)
    columns = file_batches.Columns(
        key=args.key_column,
        value=args.value_column,
        timestamp=args.timestamp_column,
        lossy=args.lossy,
        force_timestamp=args.force_timestamp,
    )
    fields = Fields(key=args.key_field, value=args.value_field, timestamp=args.timestamp_field)
    if fields != Fields() and kind not in ("json", "connect"):
        raise InvalidArgument(f"{kind} has no fields: --key-field etc. are for json and connect")
    if kind in (*file_batches.JSON_KINDS, "lines", "laminarmq") and columns.named:
        raise InvalidArgument(f"{kind} has no columns: --key-column etc. are for csv, arrow and parquet")
    if kind != "lines" and args.key_separator is not None:
        raise InvalidArgument("--key-separator needs --format lines")
    if kind == "laminarmq":
        from seglog.cli.commands.import_laminarmq import import_log
        from seglog.topic.layout.locations import is_location

        if is_location(args.log) or args.url is not None:
            raise InvalidArgument("laminarmq records keep their offsets: import them into a local log, not over HTTP")
        return import_log(args)
    began = time.monotonic()
    with _source_file(args.file) as file:
        source = file_batches.open_source(
            file,
            kind,
            columns,
            delimiter=delimiter_from(args),
            key_separator=args.key_separator,
            fields=fields,
            line_bytes=args.line_bytes or file_batches.LINE_BYTES,
        )
        first = next(source.batches, None)  # fail on an unreadable file before creating a log
        batches = source.batches if first is None else chain([first], source.batches)
        with writing(args, durable=True) as sink:
            counts = _pour(sink, source, batches, args)
    _summary(args, "imported", counts, time.monotonic() - began)
    return 0


@contextlib.contextmanager
def _source_file(path: str) -> Iterator[BinaryIO]:
    if path == output.STANDARD:
        yield output.stdin()
        return
    with Path(path).open("rb") as file:
        yield file


def _pour(sink: Sink, source: Input, batches: Iterator[Any], args: Args) -> dict[str, int]:
    """Append all batches; add to an error how many records were appended before it."""
    from seglog.arrow.given_times import check_times  # imports pyarrow

    count = 0
    with saying_what_went_in(sink), progress("import", unit=source.unit, quiet=args.quiet) as report:
        for batch in batches:
            if not args.force_timestamp:
                check_times(batch, before=count)
            sink.append_batch(batch)
            count += batch.num_rows
            report(source.done(count), source.total)
        sink.sync()
    _, first, _ = sink.span()
    return {"records": count} | ({} if first is None else {"first_offset": first, "next_offset": first + count})


def _export(args: Args) -> int:
    kind, chosen = _kind(args), selection_from(args)
    if kind not in _EXPORTS:
        raise InvalidArgument(f"{kind} cannot be exported; choose {', '.join(_EXPORTS)}")
    if kind in ("arrow", "parquet") and args.file == output.STANDARD and output.stdout().isatty():
        raise InvalidArgument(f"{kind} is binary, which a terminal cannot show; name a file or use a pipe")
    began = time.monotonic()
    with (
        reading(args) as source,
        output.target(args.file, force=args.force) as sink,
        progress("export", unit=" records", quiet=args.quiet) as report,
    ):
        total = sum(stop - start for start, stop in ranges(source, chosen).values())
        if kind in ("arrow", "parquet"):
            count = _write_table(source, chosen, kind, sink, lambda done: report(done, total))
        else:
            write = _writer(kind, source, sink, lossy=args.lossy)
            count = _write_rows(source, chosen, write, lambda done: report(done, total))
    _summary(args, "exported", {"records": count}, time.monotonic() - began)
    return source.skipped.exit()


def _write_table(source: Source, chosen: Selection, kind: str, sink: BinaryIO, report: Callable[[int], None]) -> int:
    from seglog.cli import tables  # imports pyarrow, which only tables need

    count = 0
    with tables.writer(kind, sink, partitioned=source.partitioned) as write:
        for batch in tables.batches(source, chosen):
            write(batch)
            count += batch.num_rows
            report(count)
    return count


def _writer(kind: str, source: Source, sink: BinaryIO, *, lossy: bool) -> Callable[[Row], object]:
    """Return what writes a row in a text format; write a heading, if any, now."""
    if kind == "ndjson":
        return partial(write_ndjson, sink=sink, partitioned=source.partitioned)
    if kind == "csv":
        write_csv_heading(sink, partitioned=source.partitioned)
        return partial(write_csv, sink=sink, partitioned=source.partitioned)
    return lambda row: sink.write(_line(row[1], lossy=lossy))


def _write_rows(
    source: Source, chosen: Selection, write: Callable[[Row], object], report: Callable[[int], None]
) -> int:
    count = 0
    for row in records(source, chosen):
        write(row)
        count += 1
        report(count)
    return count


def _line(record: Record, *, lossy: bool) -> bytes:
    """Return a value as a line. lossy: omit a key and headers; else InvalidArgument, as for what is no line."""
    if record.value is None or b"\n" in record.value:
        why = "is a tombstone" if record.value is None else "holds a newline"
        raise InvalidArgument(f"offset {record.offset} {why}, which lines cannot hold; export as ndjson")
    if not lossy and (record.key is not None or record.headers):
        what = "a key" if record.key is not None else "headers"
        raise InvalidArgument(
            f"offset {record.offset} has {what}, which lines cannot hold; export as ndjson, or give --lossy to export "
            "only values"
        )
    return record.value + b"\n"


def _summary(args: Args, done: str, counts: dict[str, int], seconds: float) -> None:
    """Print the result on standard output, or on stderr if standard output carries the data."""
    if args.json:
        if args.file != output.STANDARD or done == "imported":
            output.say_json({**counts, "seconds": round(seconds, 3)})
        return
    if args.quiet:
        return
    count = counts["records"]
    span = (
        f" as offsets {counts['first_offset']} to {counts['next_offset'] - 1}"
        if "next_offset" in counts and count
        else ""
    )
    text = f"{done} {format_count(count, 'record')}{span} in {seconds:.2f} s"
    if args.file == output.STANDARD and done == "exported":
        output.note(text)
    else:
        output.say(text)


_COLUMNS = "Columns (csv, arrow, parquet)"
_FIELDS = "Fields of the objects (json, connect)"

COMMANDS = (
    Command(
        "import",
        _import,
        [
            PLACE,
            argument("file", type=File(), help="the file to read, - for standard input, or laminarmq's directory"),
            option(
                "--format",
                choices=["ndjson", "json", "kcat", "connect", "lines", "csv", "arrow", "parquet", "laminarmq"],
                help="ndjson: records as `export` writes them; json: one object per line is a value; kcat: what kcat "
                "-J writes; connect: Kafka Connect's JSON with schema and payload; default: from the file's suffix; "
                "ndjson for standard input, laminarmq for a directory",
            ),
            option("--key-column", metavar="NAME", help="the keys; default: `key`, if it exists", group=_COLUMNS),
            option("--value-column", metavar="NAME", help="the values; default: `value`", group=_COLUMNS),
            option(
                "--timestamp-column",
                metavar="NAME",
                help="times: ISO 8601 (UTC if no zone is given) or int microseconds; default: `timestamp`, or now",
                group=_COLUMNS,
            ),
            option("--key-field", metavar="NAME", help="the keys, as id or user.id; default: no keys", group=_FIELDS),
            option("--value-field", metavar="NAME", help="the values; default: the whole object", group=_FIELDS),
            option(
                "--timestamp-field",
                metavar="NAME",
                help="times: ISO 8601 or int microseconds; default: now",
                group=_FIELDS,
            ),
            flag(
                "--lossy",
                help="import without a `headers` column that cannot be read; csv of earlier versions: tombstones "
                "become empty values",
            ),
            *delimiter_options("lines: ends a line"),
            option(
                "--key-separator",
                metavar="TEXT",
                type=parse_delimiter,
                help=r"lines: a line is KEY, TEXT, VALUE; escapes: \n \t \r \0 \\",
            ),
            option(
                "--line-bytes",
                metavar="SIZE",
                type=parse_size,
                help="what a line of lines or JSON may have, decompressed; default 64MiB",
            ),
            flag("--force-timestamp", help="take timestamps that look like seconds or milliseconds as microseconds"),
            QUIET,
            WAIT,
            *SERVER,
            *config_options(),
        ],
        story=(
            "Appends in batches; a batch is appended completely or not at all, and an import that fails reports how\n"
            "many records it appended. The log assigns the offsets. Input compressed by gzip or zstd is recognised by\n"
            "its first bytes (not Parquet). A `headers` column of (key, value) lists becomes the records' headers.\n\n"
            "CSV needs a header line. Keys and values are the bytes of their cells; an empty key cell is no key, a\n"
            "quoted one an empty key, and an empty value cell an empty value. `tombstone` is true for a record with a\n"
            'null value, and `headers` a JSON array of [name, value], such as [["source","web"]].\n\n'
            "A directory is read as a log of laminarmq. Its records keep their offsets; after the import all are\n"
            "compared with the source. A repeated import compares what is there and appends the rest. What a crash\n"
            "of laminarmq left is reported."
        ),
        examples=[
            "seglog import orders orders.ndjson",
            "seglog import flights flights.csv --key-column tail --value-column route",
            "seglog import access access.log.gz --format lines",
            "seglog import shop/orders orders.jsonl.zst --key-field user.id",
            "kcat -b kafka -t orders -C -e -J | seglog import http://127.0.0.1:3000/orders - --format kcat",
            "seglog import orders orders.parquet --segment-bytes 256MiB --quiet",
            "seglog import orders laminarmq-log/",
        ],
    ),
    Command(
        "export",
        _export,
        [
            PLACE,
            argument("file", type=File(), help="the file to write, or - for standard output"),
            option(
                "--format",
                choices=_EXPORTS,
                help="default: from the file's suffix; ndjson for standard output",
            ),
            flag("--lossy", help="lines: export the values of records with keys and headers without these"),
            *SELECTION,
            FORCE,
            SKIP_DAMAGED,
            HOLD,
            QUIET,
            *EXPOSE,
            *SERVER,
        ],
        story=(
            "The file appears under its name when it is complete. ndjson, csv, arrow and parquet hold everything.\n"
            "lines holds only the values, not their times; it fails at a value that is null or contains a newline,\n"
            "and without --lossy at a record with a key or headers."
        ),
        examples=[
            "seglog export orders orders.parquet",
            "seglog export orders - --start 1000 | gzip > orders.ndjson.gz",
            "seglog export orders day.arrow --from-time 2024-05-01 --to-time 2024-05-02 --force",
        ],
    ),
)
