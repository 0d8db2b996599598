"""Arrow bodies of batches, of every layout and damaged: refused, or stored as pyarrow itself reads them."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import seglog
from seglog.errors import SeglogError
from seglog.server.http.bodies import ARROW, table_of
from seglog.server.settings import Limits
from seglog.storage import MemoryStorage
from tests.fuzz.choices import Choices, mangled
from tests.fuzz.targets.lines import body_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LIMITS = Limits(batch_bytes=2**20)
DATA = (
    pa.binary(),
    pa.large_binary(),
    pa.binary_view(),
    pa.binary(3),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.dictionary(pa.int8(), pa.binary()),
    pa.dictionary(pa.uint16(), pa.string()),
    pa.null(),
)
TIMES = (
    pa.int64(),
    pa.uint64(),
    pa.int8(),
    pa.timestamp("us", "UTC"),
    pa.timestamp("s"),
    pa.timestamp("ns"),
    pa.null(),
)
PAIR = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS = (pa.list_(PAIR), pa.large_list(PAIR), pa.map_(pa.string(), pa.large_binary()), pa.null(), pa.list_(pa.int8()))
RAW = 255


def seeds() -> Iterator[bytes]:
    yield b""
    for number in range(10):
        yield bytes([3, number, 1, number, 1, number % 7, 1, number % 5, 0, 0, *range(60)])
        yield bytes([5, number, 1, 9 - number, 0, 0, 0, *range(70), 2, 90, 0, 5, 1, 17, 60, 1, 6, 9, 9])


def target(data: bytes) -> None:
    choices = Choices(data)
    stream = _stream(choices)
    try:
        table = table_of(body_of(stream), ARROW, LIMITS)
    except SeglogError:
        return
    if "partition" in table.schema.names:
        table = table.drop_columns(["partition"])
    _check_stored(table)


def _check_stored(table: pa.Table) -> None:
    with seglog.open(MemoryStorage()) as log:
        log.append(b"before")
        with suppress(SeglogError):
            offsets = log.append_batch(table)
            assert offsets == range(1, 1 + table.num_rows)
            for name in ("value", "key"):
                wanted = table[name].to_pylist() if name in table.schema.names else [None] * table.num_rows
                assert [getattr(record, name) for record in log.scan(1)] == [_bytes(one) for one in wanted]
            assert log.to_arrow()["offset"].to_pylist() == list(range(1 + table.num_rows))
            return
        assert [record.value for record in log.scan()] == [b"before"]  # all or none


def _bytes(value: Any) -> bytes | None:
    return value.encode() if isinstance(value, str) else value


# --- streams that choices write ---------------------------------------------------------------------------------------


def _stream(choices: Choices) -> bytes:
    rows = choices.below(256)
    if rows == RAW:
        return choices.rest()
    table = _table(choices, rows % 8)
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema) as writer:
        writer.write_table(table, max_chunksize=1 + choices.below(8))
    stream = bytes(out.getvalue())
    for _ in range(choices.below(3)):
        stream = mangled(stream, choices)
    return stream


def _table(choices: Choices, rows: int) -> pa.Table:
    columns = {"value": pa.array(_values(choices, kind := choices.of(DATA), rows), kind)}
    if choices.flag():
        columns["key"] = pa.array(_values(choices, kind := choices.of(DATA), rows), kind)
    if choices.flag():
        numbers = [None if choices.below(4) == 0 else choices.below(100) for _ in range(rows)]
        kind = choices.of(TIMES)
        columns["timestamp"] = pa.array([None] * rows if kind == pa.null() else numbers, kind)
    if choices.flag():
        kind = choices.of(HEADERS)
        columns["headers"] = pa.array([_headers(choices, kind) for _ in range(rows)], kind)
    if choices.flag():
        columns["offset"] = pa.array(range(rows), pa.int64())
    return pa.table(columns)


def _values(choices: Choices, kind: Any, rows: int) -> list[Any]:
    if kind == pa.null():
        return [None] * rows
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    text = pa.types.is_string(plain) or pa.types.is_large_string(plain) or pa.types.is_string_view(plain)
    made: list[bytes | str | None] = []
    for _ in range(rows):
        value = choices.some(40)
        if choices.below(4) == 0:
            made.append(None)
        elif pa.types.is_fixed_size_binary(plain):
            made.append(value[:3].ljust(3, b"."))
        else:
            made.append(value.decode("latin-1") if text else value)
    return made


def _headers(choices: Choices, kind: Any) -> Any:
    count = choices.below(3)
    if kind == pa.null() or choices.below(4) == 0:
        return None
    if kind == HEADERS[-1]:
        return [1] * count
    pairs = [(choices.text(6), choices.some(6)) for _ in range(count)]
    return pairs if pa.types.is_map(kind) else [{"key": key, "value": value} for key, value in pairs]
