"""Whether an Arrow stream takes more memory than its bytes: known before anything is unpacked, or it is refused."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pyarrow as pa

from seglog.server.http.compressed_arrow import waste_of
from tests.fuzz.choices import Choices, mangled

if TYPE_CHECKING:
    from collections.abc import Iterator

CODECS = (None, "lz4", "zstd")
WORDS = pa.array(["a", "b", None, "a"]).dictionary_encode()
TABLES = (
    pa.table({"value": pa.array([b"x" * 500, None])}),
    pa.table({"value": pa.array([], pa.binary())}),
    pa.table({"value": WORDS, "key": pa.array([b"1"] * 4)}),
)


def _stream(table: pa.Table, codec: str | None) -> bytes:
    out = pa.BufferOutputStream()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=codec)) as writer:
        writer.write_table(table)
    return bytes(out.getvalue())


STREAMS = [_stream(table, codec) for table in TABLES for codec in CODECS]


def seeds() -> Iterator[bytes]:
    yield b""
    for number in range(len(STREAMS)):
        yield bytes([number, 0])
        yield bytes([number, 1, 100, 0, 0, 3])


def target(data: bytes) -> None:
    choices = Choices(data)
    number = choices.below(len(STREAMS) + 1)
    if number == len(STREAMS):
        stream, changes = choices.rest(), 1
    else:
        stream, changes = STREAMS[number], choices.below(4)
        for _ in range(changes):
            stream = mangled(stream, choices)
    with suppress(pa.ArrowException, OSError, ValueError):  # what the server's caller takes for a damaged body
        told = waste_of(pa.BufferReader(stream)) is not None
        if not changes and TABLES[number // len(CODECS)].num_rows:
            assert told == (CODECS[number % len(CODECS)] is not None)
        return
    assert changes, "a stream as pyarrow writes it was refused"
