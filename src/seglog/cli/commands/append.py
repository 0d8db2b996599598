"""`append`: one value from the command line or streamed from standard input, or one record per line."""

from __future__ import annotations

import contextlib
import os
from argparse import ArgumentTypeError
from collections.abc import Iterator
from typing import Any

from seglog.cli.config_options import config_options
from seglog.cli.frame import Args, Command, argument, flag, option
from seglog.cli.location import SERVER
from seglog.cli.lock_wait import WAIT
from seglog.cli.options import PLACE, delimiter_from, delimiter_options
from seglog.cli.sink import Sink, saying_what_went_in, writing
from seglog.errors import InvalidArgument
from seglog.format.lines import CHUNK_BYTES, decode_line, split
from seglog.terminal import output
from seglog.terminal.units import parse_delimiter, parse_header, parse_moment


def _append(args: Args) -> int:
    _check(args)
    with (
        writing(args, durable=args.sync) as sink,
        saying_what_went_in(sink) if args.lines else contextlib.nullcontext(),
    ):
        heard = True
        for where in _appended(sink, args):
            if args.sync:
                sink.sync()
            heard = heard and _acknowledge(where, args, partitioned=sink.partitioned)
    return 0


def _check(args: Args) -> None:
    delimiter_from(args)
    if args.force_timestamp and args.timestamp is None:
        raise InvalidArgument("--force-timestamp needs --timestamp")
    args.timestamp = _moment(args)
    if args.tombstone and (args.value is not None or args.lines):
        raise InvalidArgument("--tombstone appends a null value: omit VALUE and --lines")
    if args.tombstone and args.key is None:
        raise InvalidArgument("--tombstone needs --key: it deletes that key")
    if args.lines and args.value not in (None, output.STANDARD):
        raise InvalidArgument("--lines reads standard input: omit VALUE")
    if args.key_separator is not None and (not args.lines or args.key is not None):
        raise InvalidArgument("--key-separator needs --lines, and excludes --key")


def _moment(args: Args) -> int | None:
    """Return --timestamp in microseconds. Raises InvalidArgument."""
    try:
        return None if args.timestamp is None else parse_moment(args.timestamp, force_timestamp=args.force_timestamp)
    except ArgumentTypeError as error:
        raise InvalidArgument(f"--timestamp: {error}") from None


def _appended(sink: Sink, args: Args) -> Iterator[tuple[int, int]]:
    """Append what the arguments describe; yield (partition, offset) after each append."""
    same: dict[str, Any] = {"timestamp": args.timestamp, "force_timestamp": True, "headers": tuple(args.headers)}
    key = None if args.key is None else os.fsencode(args.key)
    if args.lines:
        yield from _append_lines(sink, args, key, same)
    elif args.tombstone:
        yield sink.append(None, key=key, **same)
    elif args.value in (None, output.STANDARD):
        source = output.stdin()
        read = getattr(source, "read1", source.read)
        yield sink.append_stream(iter(lambda: read(CHUNK_BYTES), b""), key=key, **same)
    else:
        yield sink.append(os.fsencode(args.value), key=key, **same)


def _append_lines(sink: Sink, args: Args, key: bytes | None, same: dict[str, Any]) -> Iterator[tuple[int, int]]:
    for number, line in enumerate(split(output.stdin(), delimiter_from(args)), 1):
        entry = decode_line(line, number, args.key_separator)
        yield sink.append(entry.value, key=key if entry.key is None else entry.key, **same)


def _acknowledge(where: tuple[int, int], args: Args, *, partitioned: bool) -> bool:
    """Print an offset; return False if standard output is closed, which does not stop the input."""
    partition, offset = where
    try:
        if args.json:
            output.say_json({"partition": partition, "offset": offset} if partitioned else {"offset": offset})
        else:
            output.say(f"{partition} {offset}" if partitioned else str(offset))
        output.flush()
    except BrokenPipeError:
        output.silence_stdout()
        return False
    return True


COMMANDS = (
    Command(
        "append",
        _append,
        [
            PLACE,
            argument("value", required=False, help="the value, or - for standard input (the default)"),
            option("--key", metavar="KEY", help="the key of the record (with --lines: of every record)"),
            option(
                "--header",
                "headers",
                metavar="NAME=VALUE",
                type=parse_header,
                multiple=True,
                help="a header; repeatable; NAME alone is a header without a value (null)",
            ),
            option(
                "--timestamp",
                metavar="TIME",
                help="ISO 8601 (UTC if no zone is given), '1h ago', @seconds or int microseconds; default: now",
            ),
            flag("--force-timestamp", help="take a --timestamp that looks like seconds or milliseconds as it is"),
            flag("--tombstone", help="append a null value, which deletes the key"),
            flag("--lines", help="every line of standard input is a record"),
            *delimiter_options("with --lines: ends a line"),
            option(
                "--key-separator",
                metavar="TEXT",
                type=parse_delimiter,
                help=r"with --lines: a line is KEY, TEXT, VALUE; escapes: \n \t \r \0 \\",
            ),
            flag("--sync", help="print the offset of a record after it is on disk"),
            WAIT,
            *SERVER,
            *config_options(),
        ],
        story=(
            "The value is the argument, or standard input to its end: any bytes, of any length that fits a segment,\n"
            "streamed. With --lines every line is a record. The log is created if it does not exist.\n\n"
            "In an existing topic a record goes to the partition of its key, without a key to the next partition in\n"
            'turn; "partition offset" is printed. On a server --lines sends one request per line;\n'
            "`seglog import LOG - --format lines` sends many lines in one."
        ),
        examples=[
            "seglog append orders 'hello' --key user-1 --header source=web",
            "seglog append orders - < photo.jpg",
            "seglog append shop/orders 'hello' --key user-1",
            "seglog append http://127.0.0.1:3000/orders 'hello' --sync",
            r"tr ' ' '\t' < pairs.txt | seglog append orders --lines --key-separator '\t' --sync",
            "seglog append orders --key user-1 --tombstone",
            "seglog append orders 'first' --segment-bytes 64MiB --retention-age 7d",
        ],
    ),
)
