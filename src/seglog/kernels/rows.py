"""The rows of a batch for the encoder: by address, wherever Arrow stores them."""

from __future__ import annotations

from typing import Any, NamedTuple

from seglog.kernels.memory import inlined, load_i64, load_u32


class Column(NamedTuple):
    """The int64 of each row: at `address` for row 0, and `stride` bytes further for each next one.

    Stride 0: all rows have the same value, without using memory.
    """

    address: int
    stride: int


class Cells(NamedTuple):
    """The bytes of each row.

    width 4 or 8: they are between two Arrow offsets of that width, stored from address `starts` on, in the data at
    address `data`; none is null. width 0: by address and length (-1: null).
    """

    width: int
    starts: int
    data: int
    addresses: Column
    lengths: Column


class Rows(NamedTuple):
    """The columns to encode, by address: passing arrays in the loop would count references for every record."""

    timestamps: Column
    keys: Cells
    headers: Cells
    values: Cells


@inlined
def word_of(column: Column, row: int) -> int:
    """Return the int64 of a row."""
    return load_i64(column.address + column.stride * row)  # type: ignore[no-any-return] # numba is untyped


@inlined
def length_of(cells: Cells, row: int) -> int:
    """Return the length of a row's bytes; -1 for null."""
    length: int = span_of(cells, row)[1]
    return length


@inlined
def span_of(cells: Cells, row: int) -> Any:
    """Return the address of a row's bytes and their length; -1 for null."""
    if cells.width == 0:
        return word_of(cells.addresses, row), word_of(cells.lengths, row)
    offset = cells.starts + cells.width * row
    if cells.width == 4:
        start, stop = load_u32(offset), load_u32(offset + 4)
    else:
        start, stop = load_i64(offset), load_i64(offset + 8)
    return cells.data + start, stop - start
