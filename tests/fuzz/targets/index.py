"""The lookup files, `.index`, `.offsets`, `.times`: damage is detected, and accepted entries are those in the file."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

from seglog.format.index import (
    DENSE_ENTRY,
    DENSE_HEADER_BYTES,
    MARK,
    decode_durable_records,
    decode_offsets,
    decode_times,
    encode_dense_header,
    encode_offsets,
    encode_times,
    entry_position,
    floor_mark,
)
from seglog.segment.lookup import DenseLookup, SparseLookup
from tests.fuzz.choices import Choices
from tests.fuzz.files import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator

BASE, SALT = 5, 0xABCDEF
MARKS = b"".join(MARK.pack(time, relative, relative * 100) for time, relative in ((-5, 1), (9, 4), (9, 8), (2**40, 9)))
CHECKED = b"\1"  # before a sparse file whose check is to hold


def seeds() -> Iterator[bytes]:
    yield b""
    yield b"\0" + encode_times(MARKS, 64)
    yield b"\0" + encode_offsets(MARKS, 64)
    yield CHECKED + encode_times(MARKS, 64)
    yield CHECKED + encode_offsets(MARKS, 64)
    yield b"\0" + encode_dense_header(BASE, 3, SALT) + b"".join(DENSE_ENTRY.pack(7, 50, 64 + 50 * i) for i in range(3))


def target(data: bytes) -> None:
    file = data[1:]
    if data[:1] == CHECKED and len(file) >= 8:
        file = file[:-8] + struct.pack("<Q", xxh64_intdigest(file[:-8]))
    _check_dense(file)
    _check_times(file)
    _check_offsets(file)


def _check_dense(file: bytes) -> None:
    durable = decode_durable_records(file, BASE, SALT)
    assert durable is None or encode_dense_header(BASE, durable, SALT) == file[:DENSE_HEADER_BYTES]
    choices = Choices(file[::-1])
    flushed = choices.below(6)
    lookup = DenseLookup(file_of(file), flushed, choices.some(40))
    for number in range(-1, 8):
        place = lookup.exact(number)
        if 0 <= number < flushed and len(file) >= entry_position(number + 1):
            assert place == DENSE_ENTRY.unpack_from(file, entry_position(number))
        later = lookup.after(number, 100)
        assert later is None or (later[0] > number and later[1] >= 100)
        assert lookup.floor(number) == (None if place is None else (number, place[2]))


def _check_times(file: bytes) -> None:
    marks = decode_times(file)
    if marks is None:
        return
    assert b"".join(MARK.pack(*mark) for mark in marks) == file[16:-8]
    marks.sort()
    for moment in (-(2**63), -1, 0, 9, 2**63 - 1, *(mark.max_timestamp_before for mark in marks[:8])):
        older = [mark for mark in marks if mark.max_timestamp_before < moment]
        assert floor_mark(marks, moment) == (older[-1] if older else None)


def _check_offsets(file: bytes) -> None:
    pairs = decode_offsets(file)
    if pairs is None:
        return
    assert b"".join(struct.pack("<II", *pair) for pair in pairs) == file[16:-8]
    pairs.sort()
    lookup = SparseLookup(pairs)
    for relative, position in [(0, 0), (2**32 - 1, 0), *pairs[:8]]:
        before = [pair for pair in pairs if pair[0] <= relative]
        assert lookup.floor(relative) == (before[-1] if before else None)
        later = lookup.after(relative, position)
        assert later is None or (later in pairs and later[0] > relative and later[1] >= position)
        assert later is not None or all(pair[0] <= relative or pair[1] <= position for pair in pairs)
