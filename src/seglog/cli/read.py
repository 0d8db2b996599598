"""`read` and `tail`: records raw, as NDJSON, or as Arrow and Parquet. Opens read only, creates nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from seglog.cli.opened import opened
from seglog.cli.options import Commands, add_command, add_delimiter, add_durable, add_force, add_log
from seglog.cli.selection import Selection, add_selection, records, selection_from, tail_start
from seglog.errors import InvalidArgument
from seglog.format.lines import encode_record
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import parse_count, parse_offset

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from seglog.log.log import Log
    from seglog.record import Record

TABLES = ("arrow", "parquet")


def add_parsers(commands: Commands) -> None:
    """Declare `read` and `tail`."""
    _add_read(commands)
    _add_tail(commands)


def _add_read(commands: Commands) -> None:
    parser = add_command(
        commands,
        "read",
        _read,
        summary="print one record or a range of records",
        story=(
            "With OFFSET: exactly the bytes of that record's value, nothing added. Without: a range, every\n"
            "value followed by a newline. Raw output cannot tell a tombstone from an empty value; NDJSON can."
        ),
        examples=[
            "seglog read orders 42 > photo.jpg",
            "seglog read orders --start 100 --stop 200 --format ndjson | jq .key",
            "seglog read orders --from-time 2024-05-01 --to-time 2024-05-02 --limit 10",
            "seglog read orders --null | xargs -0 -n 1 echo",
            "seglog read orders --format parquet --output orders.parquet",
        ],
    )
    add_log(parser)
    parser.add_argument("offset", metavar="OFFSET", nargs="?", type=parse_offset, help="read this one record")
    add_selection(parser)
    parser.add_argument(
        "--format",
        choices=["raw", "ndjson", *TABLES],
        help="raw: the values; ndjson: whole records, a line each; arrow: an IPC stream; parquet: a file; "
        "default: raw (ndjson with --json)",
    )
    add_delimiter(parser, "raw ranges: what follows every value")
    parser.add_argument("--output", metavar="FILE", default="-", help="write here; it appears when complete")
    add_force(parser)
    add_durable(parser)


def _add_tail(commands: Commands) -> None:
    parser = add_command(
        commands,
        "tail",
        _tail,
        summary="print the last records, and follow the log as it grows",
        story="With -f the program waits for new records until it is interrupted (exit code 130).",
        examples=[
            "seglog tail orders -n 3",
            "seglog tail orders -f --format ndjson",
            "seglog tail orders -n 0 -f",
        ],
    )
    add_log(parser)
    parser.add_argument("-n", "--records", metavar="N", type=parse_count, default=10, help="how many; default 10")
    parser.add_argument("-f", "--follow", action="store_true", help="print new records as they are appended")
    parser.add_argument(
        "--format",
        choices=["raw", "ndjson"],
        help="the values, or whole records; default: raw (ndjson with --json)",
    )
    add_delimiter(parser, "raw: what follows every value")
    add_durable(parser)


def _format(args: argparse.Namespace) -> str:
    return args.format or ("ndjson" if args.json else "raw")


def _encoder(args: argparse.Namespace) -> Callable[[Record], bytes]:
    if _format(args) == "ndjson":
        return encode_record
    delimiter: bytes = args.delimiter
    return lambda record: (record.value or b"") + delimiter


def _read(args: argparse.Namespace) -> int:
    chosen = _chosen(args)
    with (
        opened(args.log, mode="r", expose=args.expose) as log,
        output.target(args.output, force=args.force) as sink,
    ):
        if args.offset is not None:
            record = log.read(args.offset)  # refuses what is not there, where a range would be empty
            if _format(args) == "raw":
                _write_value(record, sink)
                return 0
        if _format(args) in TABLES:
            from seglog.cli import tables  # pyarrow is loaded for tables only

            with tables.writer(_format(args), sink) as write:
                for batch in tables.batches(log, chosen):
                    write(batch)
        else:
            encode = _encoder(args)
            for record in records(log, chosen):
                sink.write(encode(record))
    return 0


def _chosen(args: argparse.Namespace) -> Selection:
    chosen = selection_from(args)
    if args.offset is not None:
        if chosen != Selection():
            raise InvalidArgument("OFFSET means one record: give no range with it")
        chosen = replace(chosen, start=args.offset, stop=args.offset + 1)
    if _format(args) in TABLES and args.output == output.STANDARD and output.stdout().isatty():
        raise InvalidArgument(f"{_format(args)} is binary and would spoil the terminal; use --output FILE or a pipe")
    return chosen


def _write_value(record: Record, sink: BinaryIO) -> None:
    if record.value is None:
        output.note(f"offset {record.offset} is a tombstone: it has no value")
    else:
        sink.write(record.value)


def _tail(args: argparse.Namespace) -> int:
    encode, sink = _encoder(args), output.stdout()
    with opened(args.log, mode="r", expose=args.expose) as log:
        stop = log.next_offset
        if args.records:
            start = tail_start(log.segments, args.records, stop)
            for record in deque(log.scan(start, stop), maxlen=args.records):
                sink.write(encode(record))
        sink.flush()
        return _follow(log, stop, encode, sink) if args.follow else Exit.OK


def _follow(log: Log, start: int, encode: Callable[[Record], bytes], sink: BinaryIO) -> Exit:
    try:
        for record in log.follow(start):
            sink.write(encode(record))
            sink.flush()
    except KeyboardInterrupt:  # how following ends: nothing went wrong, so nothing is said
        return Exit.INTERRUPTED
    return Exit.OK
