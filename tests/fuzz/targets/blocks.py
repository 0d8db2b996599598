"""A compressed store, and the table beside it: any bytes are read as zeros, or as what a sound block has."""

from __future__ import annotations

import struct
from contextlib import suppress
from typing import TYPE_CHECKING

from xxhash import xxh64_intdigest

from seglog.errors import FormatVersionError
from seglog.format.blocks import HEAD_BYTES, MOST_BYTES, encode_block, plain_limit, read_head
from seglog.format.index import BlockPlace, encode_blocks
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.segment.blocks import BlockFile
from tests.fuzz.choices import Choices
from tests.fuzz.files import file_of

if TYPE_CHECKING:
    from collections.abc import Iterator

SALT, SIZE_LOG = 0xABCDEF, 7
HEADER = StoreHeader(SALT, 1, 2, 3, blocks=True).encode()
TEXT = b'{"a line": "of a log"}' * 20
SIGNED = b"\1"  # before blocks whose checks are to hold


def seeds() -> Iterator[bytes]:
    for codec in ("lz4", "zstd"):
        store = b"".join(
            encode_block(
                TEXT[: plain_limit(number, SIZE_LOG) if number < 2 else 50],
                number,
                last=number == 2,
                codec=codec,  # type: ignore[arg-type] # both are codecs
                salt=SALT,
                size_log=SIZE_LOG,
            )
            for number in range(3)
        )
        yield b"\0" + store
        yield SIGNED + store
    yield b"\0"


def signed(store: bytes) -> bytes:
    """Return blocks with checks that hold, as far as their heads lead from one to the next."""
    done = b""
    while (head := read_head(store)) is not None:
        body = store[8 : head.length]
        done, store = done + struct.pack("<Q", xxh64_intdigest(body, SALT)) + body, store[head.length :]
    return done + store


def target(data: bytes) -> None:
    choices, forged = Choices(data[::-1]), data[:1] == SIGNED
    store = HEADER + (signed(data[1:]) if forged else data[1:])
    places = [BlockPlace(choices.below(2**16), choices.below(300), choices.below(600)) for _ in range(choices.below(4))]
    for table in (b"", encode_blocks(places, 1 << SIZE_LOG, SALT)):
        with suppress(FormatVersionError):
            check(BlockFile(file_of(store), SALT, table), choices, forged=forged)


def check(file: BlockFile, choices: Choices, *, forged: bool) -> None:
    """forged: the content of an LZ4 block may be shorter than its head has it, and then ends with anything."""
    size = file.size()
    assert size <= HEADER_BYTES + len(file.layout.places) * MOST_BYTES
    first = file.pread(min(size, 4 * MOST_BYTES), 0)
    assert len(first) == min(size, 4 * MOST_BYTES)
    assert first[:HEADER_BYTES] == HEADER
    for _ in range(3):
        position, length = choices.below(2000), choices.below(2000)
        part, expected = file.pread(length, position), first[position : position + length]
        assert len(part) == len(expected)
        assert forged or part == expected
    damaged = [damaged for _, damaged in file.damaged_blocks()]
    assert len(damaged) == len(file.layout.places)
    table = file.table()
    if table is not None and damaged and not any(damaged) and not forged:
        assert BlockFile(file.file, SALT, table).pread(len(first), 0) == first
    assert HEAD_BYTES * len([place for place in file.layout.places if place is not None]) <= file.file.size() * 2
