"""Rows that were appended and wait to be written: encoded together, once they are.

By the codec, or by the kernels, which take a fifth of the time, where the process has them already. They are not loaded
for it: an append must not wait seconds for a compiler, and a child that was forked while another thread loads them
would wait for the locks of its imports for ever.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, NamedTuple

from seglog.format.codec import NATIVE
from seglog.format.index import DENSE_ENTRY, MarkBuilder
from seglog.segment.survey import Block, Tally

if TYPE_CHECKING:
    from seglog.kernels.rows import Cells, Column

Row = tuple[int, bytes | None, bytes | None, bytes]  # its cells: timestamp, key, value, packed headers

CELLS = 4  # of a row; rows that wait are laid end to end, since a column of tuples takes long to gather
HELD_MOST_BYTES = 1024 * 1024  # once encoded; more would gain nothing, and take several times the memory meanwhile
KERNELS_FROM_ROWS = 64  # fewer are encoded before the kernels have begun


class Place(NamedTuple):
    """Where the first row goes: relative offset, store position; the store's salt."""

    relative: int
    position: int
    salt: int


def _kernels_are_compiled() -> bool:
    encode = getattr(sys.modules.get("seglog.kernels.encode"), "encode", None)
    return bool(getattr(encode, "signatures", ()))


def encode_rows(cells: list[Any], place: Place, marks: MarkBuilder) -> tuple[bytes | memoryview, Block]:
    """Return the bytes of the rows and what they are; `marks` gives where marks go on from, and is not changed."""
    if len(cells) >= CELLS * KERNELS_FROM_ROWS and _kernels_are_compiled():
        return _by_kernels(cells, place, marks)
    return _by_codec(cells, place, marks)


def _columns(cells: list[Any]) -> list[list[Any]]:
    return [cells[column::CELLS] for column in range(CELLS)]


def _by_codec(cells: list[Any], place: Place, marks: MarkBuilder) -> tuple[bytes | memoryview, Block]:
    tally, parts, entries, position = Tally.going_on(marks), list[bytes](), bytearray(), place.position
    rows = zip(*_columns(cells), strict=True)
    for relative, (timestamp, key, value, headers) in enumerate(rows, place.relative):
        pieces, checksum, length = NATIVE.encode(relative, timestamp, key, value, headers, place.salt)
        parts += pieces
        entries += DENSE_ENTRY.pack(checksum, length, position)
        tally.add(timestamp, relative, position, value is None)
        position += length
    return b"".join(parts), tally.as_block(entries, position, 0)


def _by_kernels(cells: list[Any], place: Place, marks: MarkBuilder) -> tuple[bytes | memoryview, Block]:
    import numpy as np  # noqa: PLC0415 - see the module

    from seglog.kernels import encode as kernel  # noqa: PLC0415 - as above
    from seglog.kernels.extent import STEP, measure  # noqa: PLC0415
    from seglog.kernels.layout import MarksState  # noqa: PLC0415
    from seglog.kernels.rows import Rows  # noqa: PLC0415

    timestamps, keys, values, headers = _columns(cells)
    count, owners = len(timestamps), list[Any]()
    times = _column(np.fromiter(timestamps, np.int64, count), owners)
    taken = Rows(times, _cells(keys, owners), _cells(headers, owners), _cells(values, owners))
    ends = np.empty(-(-count // STEP) + 1, np.int64)
    measure(taken, count, ends)
    out, entries = np.empty(ends[-1], np.uint8), np.empty((count, 2), np.uint64)
    found, target = np.empty((count, 2), np.int64), kernel.Place(place.relative, place.position, np.uint64(place.salt))
    state = MarksState(marks.interval, *marks.state)
    length, marked, state, summary = kernel.encode(taken, ends, 0, count, target, state, out, out.size, entries, found)
    tombstones, low, high = summary
    return out.data, Block(
        count,
        place.position + length,
        0,
        entries.view("u1").reshape(-1).data,
        found[:marked].tobytes(),
        state[1:],
        tombstones,
        low,
        high,
        None,
    )


def _column(words: Any, owners: list[Any], *, stride: int = 8) -> Column:
    from seglog.kernels.rows import Column  # noqa: PLC0415 - as above

    owners.append(words)  # the kernels are given its address
    return Column(words.ctypes.data, stride)


def _cells(parts: list[bytes | None], owners: list[Any]) -> Cells:
    """Lay byte strings end to end; None is a null."""
    import numpy as np  # noqa: PLC0415 - as above

    from seglog.kernels.rows import Cells  # noqa: PLC0415

    if not parts[0] and parts.count(parts[0]) == len(parts):  # as headers mostly are, and often keys
        alike = np.array([-1 if parts[0] is None else 0], np.int64)
        return Cells(0, 0, 0, _column(alike, owners, stride=0), _column(alike, owners, stride=0))
    try:
        lengths = sizes = np.fromiter(map(len, parts), np.int64, len(parts))  # type: ignore[arg-type] # a null is tried
    except TypeError:
        lengths = np.fromiter((-1 if part is None else len(part) for part in parts), np.int64, len(parts))
        sizes = np.maximum(lengths, 0)
    data = np.frombuffer(b"".join(filter(None, parts)) or b"\0", np.uint8)
    owners.append(data)
    addresses = sizes.cumsum() - sizes + data.ctypes.data
    return Cells(0, 0, 0, _column(addresses, owners), _column(lengths, owners))
