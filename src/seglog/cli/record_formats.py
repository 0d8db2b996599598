r"""Output formats for records: raw values, NDJSON, CSV, a table for people, or a format string like kcat's.

    %o offset    %p partition    %t topic    %k key    %K its length    %s value    %S its length, -1 of a tombstone
    %T timestamp in milliseconds, %u in microseconds, %d as ISO 8601    %h headers, name=value,...    %% a percent sign
    \n \t \r \0 \\

A printer writes one row at a time. Long values in NDJSON are encoded in pieces.
"""

from __future__ import annotations

import base64
import codecs
import json
import os
import re
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, BinaryIO

from seglog.cli.frame import Args, Option, Parsed, option
from seglog.cli.options import delimiter_from
from seglog.errors import InvalidArgument
from seglog.format.lines import encode_bytes, encode_record
from seglog.record import Record
from seglog.terminal.units import format_time
from seglog.visible import visible

if TYPE_CHECKING:
    from seglog.cli.source import Row

NAMES = ("raw", "ndjson", "table", "csv")
CSV_COLUMNS = ("offset", "timestamp", "key", "value", "headers", "tombstone")
"""The columns of CSV. An empty key is quoted, a null one is not; keys and values are their bytes; headers: a JSON array
of [name, value], values as in NDJSON; tombstone: "true" or empty."""
LONG = 4 * 1024 * 1024  # a value of at least this many bytes is encoded in pieces
PIECE = 3 * 256 * 1024  # a multiple of 3, so that pieces of base64 can be concatenated

_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_TOKEN = re.compile(r"%(.?)|\\(.?)", re.DOTALL)
_FIELDS: dict[str, Callable[[str, Row], bytes]] = {
    "%": lambda *_: b"%",
    "o": lambda _, row: b"%d" % row[1].offset,
    "p": lambda _, row: b"%d" % row[0],
    "t": lambda topic, _: os.fsencode(topic),
    "k": lambda _, row: row[1].key or b"",
    "K": lambda _, row: b"%d" % (-1 if row[1].key is None else len(row[1].key)),
    "s": lambda _, row: row[1].value or b"",
    "S": lambda _, row: b"%d" % (-1 if row[1].value is None else len(row[1].value)),
    "T": lambda _, row: b"%d" % (row[1].timestamp // 1000),
    "u": lambda _, row: b"%d" % row[1].timestamp,
    "d": lambda _, row: format_time(row[1].timestamp).encode(),
    "h": lambda _, row: b",".join(name.encode() + b"=" + (value or b"") for name, value in row[1].headers),
}


def format_option(*more: str) -> Option:
    """Return --format. more: names it accepts besides NAMES."""
    names = (*NAMES, *more)

    def parse(text: str) -> str:
        if text not in names and "%" not in text:
            raise InvalidArgument(
                f"{text!r} is not a format; write {', '.join(names)}, or a string such as '%o %k %s\\n'"
            )
        if "%" in text:
            _pieces(text)
        return text

    return option(
        "--format",
        metavar=f"[{'|'.join(names)}|STRING]",
        type=Parsed(parse, names),
        help=r"raw: the values; ndjson: whole records, one per line; table: for people, cut to the terminal's width; "
        r"csv; or a string with %o offset, %p partition, %t topic, %k key, %K its length, %s value, %S its length, %T "
        r"timestamp (ms), %u (us), %d (ISO 8601), %h headers, \n, \t; default: raw (ndjson with --json)",
    )


def format_of(args: Args) -> str:
    """Return the requested format."""
    return str(args.format or ("ndjson" if args.json else "raw"))


def printer(args: Args, sink: BinaryIO, topic: str, *, partitioned: bool, named: bool = False) -> Callable[[Row], None]:
    """Return a function that writes a row to `sink`; write a heading, if any, now.

    partitioned: whether rows come from several partitions; named: whether NDJSON includes the topic.
    """
    kind = format_of(args)
    if kind == "ndjson":
        name = topic if named else None
        return lambda row: write_ndjson(row, sink, partitioned=partitioned, topic=name)
    if kind == "csv":
        write_csv_heading(sink, partitioned=partitioned)
        return lambda row: write_csv(row, sink, partitioned=partitioned)
    if kind == "table":
        table = Table(partitioned=partitioned)
        sink.write(_shown(table.head()))
        return lambda row: _ignore(sink.write(_shown(table.line(row))))
    if kind == "raw":
        delimiter = delimiter_from(args)
        return lambda row: _write_all(sink, (row[1].value or b"", delimiter))
    pieces = _pieces(kind)
    return lambda row: _write_all(sink, (one if isinstance(one, bytes) else one(topic, row) for one in pieces))


def _ignore(_: object) -> None:
    """Return nothing."""


def _write_all(sink: BinaryIO, pieces: Iterable[bytes]) -> None:
    for piece in pieces:
        sink.write(piece)


def _pieces(text: str) -> list[bytes | Callable[[str, Row], bytes]]:
    """Split a format string into bytes and functions of a row. Raises InvalidArgument for an unknown field."""
    found: list[bytes | Callable[[str, Row], bytes]] = []
    end = 0
    for match in _TOKEN.finditer(text):
        found.append(os.fsencode(text[end : match.start()]))
        end = match.end()
        field, escape = match.groups()
        if field is not None and field not in _FIELDS:
            raise InvalidArgument(f"--format has no field %{field}; use {' '.join(f'%{one}' for one in _FIELDS)}")
        if field is None and escape not in _ESCAPES:
            raise InvalidArgument(rf"--format has no escape \{escape}; use \n \t \r \0 \\")
        found.append(_FIELDS[field] if field is not None else _ESCAPES[escape])
    return [*found, os.fsencode(text[end:])]


# --- NDJSON ---------------------------------------------------------------------------------------------------------


def write_ndjson(row: Row, sink: BinaryIO, *, partitioned: bool, topic: str | None = None) -> None:
    """Write a record as a line, with its topic if given, and its partition if `partitioned`."""
    number, record = row
    sink.write(b"{")
    if topic is not None:
        sink.write(b'"topic":%s,' % json.dumps(topic).encode())
    if partitioned:
        sink.write(b'"partition":%d,' % number)
    if record.value is None or len(record.value) < LONG:
        sink.write(encode_record(record)[1:])
        return
    before, _, after = encode_record(record._replace(value=b""))[1:].rpartition(b'"value":"",')
    sink.write(before + b'"value":')
    write_json_bytes(record.value, sink)
    sink.write(b"," + after)


def write_json_bytes(value: bytes, sink: BinaryIO, *, piece: int = PIECE) -> None:
    """Write a long value as the JSON that `format.lines.encode_bytes` describes, in pieces."""
    pieces = [memoryview(value)[at : at + piece] for at in range(0, len(value), piece)]
    if not _is_text(pieces):
        sink.write(b'{"base64":"')
        _write_all(sink, map(base64.b64encode, pieces))
        sink.write(b'"}')
        return
    decoder = codecs.getincrementaldecoder("utf-8")()
    sink.write(b'"')
    for part in pieces:
        sink.write(json.dumps(decoder.decode(part), ensure_ascii=False)[1:-1].encode())
    sink.write(b'"')


def _is_text(pieces: list[memoryview]) -> bool:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for piece in pieces:
            decoder.decode(piece)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


# --- CSV and tables -------------------------------------------------------------------------------------------------


def write_csv_heading(sink: BinaryIO, *, partitioned: bool) -> None:
    """Write the line with the names of the columns."""
    names = ("partition", *CSV_COLUMNS) if partitioned else CSV_COLUMNS
    sink.write(",".join(names).encode() + b"\n")


def write_csv(row: Row, sink: BinaryIO, *, partitioned: bool) -> None:
    """Write a record as a line of CSV_COLUMNS, with its partition before them if `partitioned`."""
    number, record = row
    headers = [[name, encode_bytes(value)] for name, value in record.headers]
    cells = [
        b"%d" % record.offset,
        format_time(record.timestamp).removesuffix(" us").encode(),  # after year 9999 a number, as imports read it
        _cell(record.key),
        _cell(record.value),
        _cell(json.dumps(headers, ensure_ascii=False).encode() if headers else None),
        b"true" if record.value is None else b"",
    ]
    _write_all(sink, (b"%d," % number if partitioned else b"", b",".join(cells), b"\n"))


def _cell(data: bytes | None) -> bytes:
    """Return bytes as a CSV cell: quoted if needed, "" for empty bytes, nothing for None."""
    if data is None:
        return b""
    if data and not any(mark in data for mark in (b'"', b",", b"\n", b"\r")):
        return data
    return b'"' + data.replace(b'"', b'""') + b'"'


class Table:
    """Columns of fixed width: partition, offset, time, key; the value fills the rest of the terminal's width."""

    OFFSET, KEY = 10, 20

    def __init__(self, *, partitioned: bool) -> None:
        self._partitioned = partitioned
        self._width = shutil.get_terminal_size().columns if sys.stdout is not None and sys.stdout.isatty() else 1 << 16

    def head(self) -> str:
        """Return the heading."""
        return self._joined("partition", "offset", "time", "key", "value")

    def line(self, row: Row) -> str:
        """Return the line of a record."""
        number, record = row
        key = "-" if record.key is None else preview(record.key, self.KEY)
        return self._joined(str(number), str(record.offset), format_time(record.timestamp), key, self._value(record))

    def _value(self, record: Record) -> str:
        return "(tombstone)" if record.value is None else preview(record.value, self._width)

    def _joined(self, partition: str, offset: str, moment: str, key: str, value: str) -> str:
        first = f"{partition:>9}  " if self._partitioned else ""
        return f"{first}{offset:>{self.OFFSET}}  {moment:<27}  {key:<{self.KEY}}  {value}"[: self._width].rstrip()


def preview(data: bytes, width: int) -> str:
    """Return the start of `data` as one line, with bytes that are not text and what shows nothing escaped."""
    shown = visible(data[: width * 4].decode("utf-8", "backslashreplace")[: width + 1])
    return shown if len(shown) <= width and len(data) <= width * 4 else shown[: width - 1] + "~"


def _shown(line: str) -> bytes:
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return f"{line}\n".encode(encoding, "backslashreplace")
