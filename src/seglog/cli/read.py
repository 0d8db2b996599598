"""`read` and `tail`: records raw, as NDJSON, or as Arrow and Parquet. Opens read only, creates nothing."""

from __future__ import annotations

from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, BinaryIO

from seglog.cli.frame import Args, Command, File, argument, flag, option
from seglog.cli.opened import opened
from seglog.cli.options import DURABLE, FORCE, LOG, delimiter_from, delimiter_options
from seglog.cli.selection import SELECTION, Selection, records, selection_from, tail_start
from seglog.errors import InvalidArgument
from seglog.format.lines import encode_record
from seglog.terminal import output
from seglog.terminal.exits import Exit
from seglog.terminal.units import parse_count, parse_offset

if TYPE_CHECKING:
    from collections.abc import Callable

    from seglog.log.log import Log
    from seglog.record import Record

TABLES = ("arrow", "parquet")


def _format(args: Args) -> str:
    return args.format or ("ndjson" if args.json else "raw")


def _encoder(args: Args) -> Callable[[Record], bytes]:
    if _format(args) == "ndjson":
        return encode_record
    delimiter = delimiter_from(args)
    return lambda record: (record.value or b"") + delimiter


def _read(args: Args) -> int:
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


def _chosen(args: Args) -> Selection:
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


def _tail(args: Args) -> int:
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


COMMANDS = (
    Command(
        "read",
        _read,
        [
            LOG,
            argument("offset", type=parse_offset, required=False, help="read this one record"),
            *SELECTION,
            option(
                "--format",
                choices=["raw", "ndjson", *TABLES],
                help="raw: the values; ndjson: whole records, a line each; arrow: an IPC stream; parquet: a file; "
                "default: raw (ndjson with --json)",
            ),
            *delimiter_options("raw ranges: what follows every value"),
            option("--output", metavar="FILE", type=File(), default="-", help="write here; it appears when complete"),
            FORCE,
            DURABLE,
        ],
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
    ),
    Command(
        "tail",
        _tail,
        [
            LOG,
            option("-n", "--records", metavar="N", type=parse_count, default=10, help="how many; default 10"),
            flag("-f", "--follow", help="print new records as they are appended"),
            option(
                "--format",
                choices=["raw", "ndjson"],
                help="the values, or whole records; default: raw (ndjson with --json)",
            ),
            *delimiter_options("raw: what follows every value"),
            DURABLE,
        ],
        story="With -f the program waits for new records until it is interrupted (exit code 130).",
        examples=[
            "seglog tail orders -n 3",
            "seglog tail orders -f --format ndjson",
            "seglog tail orders -n 0 -f",
        ],
    ),
)
