"""`read` and `tail`: records raw, as NDJSON, CSV, a table, a format string, or as Arrow and Parquet. Read-only."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO

from seglog.cli.filters import FILTERS, filter_from
from seglog.cli.frame import Args, Command, File, argument, flag, option
from seglog.cli.held import HOLD
from seglog.cli.location import SERVER
from seglog.cli.options import EXPOSE, FORCE, PLACE, delimiter_from, delimiter_options
from seglog.cli.record_formats import format_of, format_option, printer
from seglog.cli.selection import SELECTION, Selection, last_records, records, selection_from
from seglog.cli.source import SKIP_DAMAGED, Row, Source, reading
from seglog.errors import InvalidArgument, OffsetOutOfRange
from seglog.record import Record
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import parse_count, parse_position

TABLES = ("arrow", "parquet")


def _read(args: Args) -> int:
    chosen = _chosen(args)
    with reading(args) as source, output.target(args.output, force=args.force) as sink:
        if args.offset is not None:
            return _read_one(args, source, sink)
        if format_of(args) in TABLES:
            _write_table(args, source, chosen, sink)
            return source.skipped.exit()
        write = printer(args, sink, source.topic, partitioned=source.partitioned)
        for row in records(source, chosen):
            write(row)
    return source.skipped.exit()


def _chosen(args: Args) -> Selection:
    delimiter_from(args)
    chosen = selection_from(args)
    if args.offset is not None and chosen != Selection():
        raise InvalidArgument("OFFSET selects one record: omit ranges and filters")
    if format_of(args) in TABLES and args.output == output.STANDARD and output.stdout().isatty():
        raise InvalidArgument(f"{format_of(args)} is binary, which a terminal cannot show; use --output FILE or a pipe")
    return chosen


def _read_one(args: Args, source: Source, sink: BinaryIO) -> int:
    """Write one record. Raises OffsetOutOfRange or OffsetCompacted if there is no such record."""
    bounds = source.bounds()
    if len(bounds) > 1:
        raise InvalidArgument(f"OFFSET needs a partition: name one of 0 to {len(bounds) - 1}, such as {args.log}/0")
    [(number, (lowest, end))] = bounds.items()
    offset = args.offset if args.offset >= 0 else source.last(number, -args.offset, end)
    if args.offset < 0 and end - offset < -args.offset:
        raise OffsetOutOfRange(args.offset, lowest, end)
    if format_of(args) in TABLES:
        source.read(number, offset)
        _write_table(args, source, Selection(start=offset, stop=offset + 1), sink)
    elif format_of(args) == "raw":
        _write_value(source, number, offset, sink)
    else:
        record = source.read(number, offset)
        printer(args, sink, source.topic, partitioned=source.partitioned)((number, record))
    return Exit.OK


def _write_value(source: Source, number: int, offset: int, sink: BinaryIO) -> None:
    """Write exactly the bytes of a value."""
    record = source.read(number, offset)
    if record.value is None:
        output.note(f"offset {record.offset} is a tombstone: it has no value")
    else:
        sink.write(record.value)


def _write_table(args: Args, source: Source, chosen: Selection, sink: BinaryIO) -> None:
    from seglog.cli import tables  # imports pyarrow, which only tables need

    with tables.writer(format_of(args), sink, partitioned=source.partitioned) as write:
        for batch in tables.batches(source, chosen):
            write(batch)


def _tail(args: Args) -> int:
    sink, test = output.stdout(), filter_from(args)
    with reading(args, patient=args.follow) as source:
        ends = {number: bounds.end for number, bounds in source.bounds().items()}
        write = _filtered(printer(args, sink, source.topic, partitioned=source.partitioned), test)
        if args.records:
            for row in last_records(source, args.records, ends):
                write(row)
        sink.flush()
        if not args.follow:
            return Exit.OK
        with suppress(KeyboardInterrupt):  # the normal way to end it
            for row in source.follow(ends):
                write(row)
                sink.flush()
        return Exit.INTERRUPTED


def _filtered(write: Callable[[Row], None], test: Callable[[Record], bool] | None) -> Callable[[Row], None]:
    if test is None:
        return write
    return lambda row: write(row) if test(row[1]) else None


COMMANDS = (
    Command(
        "read",
        _read,
        [
            PLACE,
            argument(
                "offset",
                type=parse_position,
                required=False,
                help="read this one record; -1: the last one",
            ),
            *SELECTION,
            format_option(*TABLES),
            *delimiter_options("raw ranges: printed after every value"),
            option("--output", metavar="FILE", type=File(), default="-", help="write here; it appears when complete"),
            FORCE,
            SKIP_DAMAGED,
            HOLD,
            *EXPOSE,
            *SERVER,
        ],
        story=(
            "With OFFSET: exactly the bytes of that record's value. Without: a range, with a newline after every\n"
            "value. Raw output cannot show the difference between a tombstone and an empty value; NDJSON can.\n\n"
            "For a topic: all partitions, merged by time; --start and --stop apply to each of them."
        ),
        examples=[
            "seglog read orders 42 > photo.jpg",
            "seglog read orders --start 100 --stop 200 --format ndjson | jq .key",
            "seglog read orders --from-time 2024-05-01 --to-time 2024-05-02 --limit 10",
            "seglog read shop/orders --from-time '1h ago' --where '@.qty > 2' --format table",
            "seglog read http://127.0.0.1:3000/orders --start -10",
            r"seglog read shop/orders/0 -n 5 --format '%o %k %s\n'",
            "seglog read orders --null | xargs -0 -n 1 echo",
            "seglog read orders --format parquet --output orders.parquet",
        ],
    ),
    Command(
        "tail",
        _tail,
        [
            PLACE,
            option("-n", "--records", metavar="N", type=parse_count, default=10, help="how many; default 10"),
            flag("-f", "--follow", help="print new records as they are appended"),
            format_option(),
            *FILTERS,
            *delimiter_options("raw: printed after every value"),
            *EXPOSE,
            *SERVER,
        ],
        story=(
            "With -f it waits for new records until interrupted (exit code 130). For a topic: all partitions,\n"
            "merged by time. Filters apply to the last N records and to new ones."
        ),
        examples=[
            "seglog tail orders -n 3",
            "seglog tail orders -f --format ndjson",
            "seglog tail orders -n 0 -f",
            "seglog tail shop/orders -f --key user-1",
            "seglog tail --url http://127.0.0.1:3000 orders/0 -f",
        ],
    ),
)
