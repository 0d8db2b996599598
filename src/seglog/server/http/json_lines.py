"""NDJSON bodies as tables, by a compiled reader, with `decode_record` for the lines that it leaves.

So millions of tiny lines or headers take a few bytes each and do not hold the GIL. The compiled reader returns the same
as `decode_record`. Lines in a rare form go to `decode_record` if they are short and few, and so does an invalid line,
for the text of its error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from seglog.errors import InvalidArgument
from seglog.format.lines import Entry, decode_record
from seglog.kernels.jsonlines import (
    DONE,
    FAULT,
    HEADER_VALUES,
    HEADERS,
    KEYS,
    LINES,
    MANY_HEADERS,
    MANY_ROWS,
    NAMES,
    POSITION,
    ROWS,
    VALUES,
    new_state,
    read_lines,
)
from seglog.server.problems import HttpProblem

if TYPE_CHECKING:
    from seglog.server.settings import Limits

Array = np.ndarray[Any, Any]

SHORTEST_LINE = len('{"value":""}')
SHORTEST_HEADER = len('{"key":"","value":""}')
ODD_BYTES = 64 * 1024  # longest line in a rare form
ODD_LINES = 1000  # of a body
MOST_BYTES = 2**31 - ODD_BYTES - 1  # the range of 32-bit offsets
HEADERS_TYPE = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
OUTPUTS = (VALUES, KEYS, NAMES, HEADER_VALUES)


def table_of_lines(data: memoryview, limits: Limits) -> pa.Table:
    """Return the records of an NDJSON body as a table with the columns value, key, timestamp and headers.

    Raises InvalidArgument, with the line number, for an invalid line; HttpProblem (413) for too many records.
    """
    if len(data) > MOST_BYTES:
        raise HttpProblem(413, "the batch has 2 GiB of lines or more; send several batches")
    return _Reader(data, limits).table()


class _Reader:
    """One body, and the columns built from it."""

    def __init__(self, data: memoryview, limits: Limits) -> None:
        self._data = np.frombuffer(data, np.uint8)
        self._limits = limits
        self._state = new_state()
        size = len(data)
        # Untouched until something is written, so that unused columns take no memory.
        self._out = [np.empty(size + ODD_BYTES, np.uint8) for _ in OUTPUTS]
        self._rows = np.empty((min(size // SHORTEST_LINE + 1, limits.batch_records), 5), np.int64)
        self._ends = np.empty((size // SHORTEST_HEADER + 1, 3), np.int64)
        self._odd = 0

    def table(self) -> pa.Table:
        """Read all lines."""
        self._read()
        while self._state[FAULT] != DONE:
            self._take_odd_line()
            self._read()
        return self._columns()

    def _read(self) -> None:
        outputs = np.array([out.ctypes.data for out in self._out], np.int64)
        read_lines(self._data, self._state, outputs, self._rows, self._ends, self._limits.record_headers)
        if self._state[FAULT] == MANY_ROWS:
            raise HttpProblem(413, f"a batch may have {self._limits.batch_records} records; send several batches")
        if self._state[FAULT] == MANY_HEADERS:
            raise self._too_many_headers()

    def _too_many_headers(self) -> InvalidArgument:
        most = self._limits.record_headers
        return InvalidArgument(f"line {self._state[LINES] + 1} has more than {most} headers, the limit per record")

    def _take_odd_line(self) -> None:
        """Decode the next line with `decode_record`, which knows all of JSON and explains errors."""
        start, number = int(self._state[POSITION]), int(self._state[LINES]) + 1
        head = self._data[start : start + ODD_BYTES + 1].tobytes()
        line, ended, _ = head.partition(b"\n")
        if not ended and len(head) > ODD_BYTES:
            raise InvalidArgument(
                f"line {number} is not a record in the usual form of JSON, and too long to try rarer forms: its "
                "fields are value, key, timestamp, headers and offset, each once"
            )
        self._odd += 1
        if self._odd > ODD_LINES:
            raise InvalidArgument(
                f"line {number}: more than {ODD_LINES} lines are in a rare form of JSON; write them plainly"
            )
        if line.strip():
            self._put(decode_record(line, number))
        self._state[POSITION] = min(start + len(line) + 1, self._data.size)
        self._state[LINES] = number

    def _put(self, entry: Entry) -> None:
        state, row = self._state, int(self._state[ROWS])
        if row >= len(self._rows):
            raise HttpProblem(413, f"a batch may have {self._limits.batch_records} records; send several batches")
        if len(entry.headers) > self._limits.record_headers:
            raise self._too_many_headers()
        self._write(VALUES, entry.value)
        self._write(KEYS, entry.key)
        for name, value in entry.headers:
            self._write(NAMES, name.encode())
            self._write(HEADER_VALUES, value)
            self._ends[state[HEADERS]] = state[NAMES], state[HEADER_VALUES], value is not None
            state[HEADERS] += 1
        known = (entry.value is not None) + 2 * (entry.key is not None) + 4 * (entry.timestamp is not None)
        self._rows[row] = state[VALUES], state[KEYS], entry.timestamp or 0, known, state[HEADERS]
        state[ROWS] += 1

    def _write(self, column: int, data: bytes | None) -> None:
        out, start = self._out[OUTPUTS.index(column)], int(self._state[column])
        if data:
            if start + len(data) > out.size:
                raise InvalidArgument("the lines grow when converted to UTF-8; send them as UTF-8")
            out[start : start + len(data)] = np.frombuffer(data, np.uint8)
            self._state[column] = start + len(data)

    # --- columns ------------------------------------------------------------------------------------------------

    def _columns(self) -> pa.Table:
        rows = self._rows[: self._state[ROWS]]
        known, count = rows[:, 3], len(rows)
        times = pa.Array.from_buffers(
            pa.int64(), count, [_bits(known & 4 != 0), pa.py_buffer(np.ascontiguousarray(rows[:, 2]))]
        )
        columns = {
            "value": self._binary(pa.large_binary(), np.int64, rows[:, 0], known & 1 != 0, VALUES),
            "key": self._binary(pa.large_binary(), np.int64, rows[:, 1], known & 2 != 0, KEYS),
            "timestamp": times,
            "headers": self._headers(rows[:, 4]),
        }
        return pa.table(columns)

    def _headers(self, row_ends: Array) -> pa.Array:
        ends = self._ends[: self._state[HEADERS]]
        names = self._binary(pa.string(), np.int32, ends[:, 0], np.ones(len(ends), bool), NAMES)
        values = self._binary(pa.binary(), np.int32, ends[:, 1], ends[:, 2] != 0, HEADER_VALUES)
        pairs = pa.StructArray.from_arrays([names, values], ["key", "value"])
        return pa.Array.from_buffers(
            HEADERS_TYPE, len(row_ends), [None, pa.py_buffer(_offsets(row_ends, np.int32))], children=[pairs]
        )

    def _binary(self, kind: Any, width: Any, ends: Array, known: Array, column: int) -> pa.Array:
        data = self._out[OUTPUTS.index(column)][: self._state[column]]
        return pa.Array.from_buffers(
            kind, len(ends), [_bits(known), pa.py_buffer(_offsets(ends, width)), pa.py_buffer(data)]
        )


def _offsets(ends: Array, width: Any) -> Array:
    offsets = np.zeros(len(ends) + 1, width)
    offsets[1:] = ends
    return offsets


def _bits(known: Array) -> pa.Buffer | None:
    return None if known.all() else pa.py_buffer(np.packbits(known, bitorder="little"))
