"""Encode buffered rows together when they are written.

The codec encodes them, or the kernels, in a fifth of the time, if the process has loaded them already. They are not
loaded for this: an append must not wait seconds for a compiler, and a child that was forked while another thread loads
them would wait forever for the locks of its imports.
"""

from __future__ import annotations

from typing import Any

from seglog.format.codec import NATIVE
from seglog.format.index import DENSE_ENTRY, MarkBuilder
from seglog.segment.loaded_kernels import loaded_kernel
from seglog.segment.stats import Block, Place, Tally

Row = tuple[int, bytes | None, bytes | None, bytes]  # its cells: timestamp, key, value, packed headers

CELLS = 4  # per row; buffered rows are laid end to end, because gathering a column from tuples is slow
HELD_MOST_BYTES = 1024 * 1024  # once encoded; more gains nothing, and needs several times the memory
KERNELS_FROM_ROWS = 64  # fewer rows are encoded before the kernels have begun


def encode_rows(cells: list[Any], place: Place, marks: MarkBuilder) -> tuple[bytes | memoryview, Block]:
    """Return the encoded rows and their description. `marks` is the state to continue from; it is not changed."""
    if len(cells) >= CELLS * KERNELS_FROM_ROWS and loaded_kernel("encode", "encode"):
        from seglog.segment.kernel_write_buffer import encode_by_kernels  # noqa: PLC0415 - it imports the kernels

        return encode_by_kernels(columns_of(cells), place, marks)
    return encode_by_codec(columns_of(cells), place, marks)


def columns_of(cells: list[Any]) -> list[list[Any]]:
    """Return timestamps, keys, values and packed headers of rows laid end to end."""
    return [cells[column::CELLS] for column in range(CELLS)]


def encode_by_codec(columns: list[list[Any]], place: Place, marks: MarkBuilder) -> tuple[bytes | memoryview, Block]:
    """Encode rows one by one; see `encode_rows`."""
    tally, parts, entries, position = Tally.going_on(marks), list[bytes](), bytearray(), place.position
    rows = zip(*columns, strict=True)
    for relative, (timestamp, key, value, headers) in enumerate(rows, place.relative):
        pieces, checksum, length = NATIVE.encode(relative, timestamp, key, value, headers, place.salt)
        parts += pieces
        entries += DENSE_ENTRY.pack(checksum, length, position)
        tally.add(timestamp, relative, position, value is None)
        position += length
    return b"".join(parts), tally.as_block(entries, position, 0)
