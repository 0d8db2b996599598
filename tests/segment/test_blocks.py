"""A compressed store, read at the positions of the plain one: whatever is damaged, no byte is a wrong one."""

from __future__ import annotations

import random
import struct
import sys
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

import seglog
from seglog.errors import FormatVersionError, StorageError
from seglog.format.blocks import HEAD_BYTES, Codec, encode_block, plain_limit, plain_start
from seglog.format.index import decode_blocks, encode_blocks
from seglog.format.store import HEADER_BYTES, StoreHeader
from seglog.segment import blocks
from seglog.segment.blocks import HELD_BYTES, BlockFile, PositionedMemory, find_blocks

if TYPE_CHECKING:
    from seglog.storage import File

SALT = 77
HEADER = StoreHeader(SALT, 1, 2, 3, blocks=True).encode()
SOURCE = random.Random(5)
TEXT = b"".join(b'{"number": %d, "noise": "%x"}' % (one, SOURCE.getrandbits(64)) for one in range(9000))


def plain_of(size: int) -> bytes:
    return HEADER + TEXT[: size - HEADER_BYTES]


def stored(plain: bytes, codec: Codec = "zstd", *, size_log: int = 10, salt: int = SALT) -> bytes:
    """Return the compressed store of a plain one."""
    data, number, start = plain[:HEADER_BYTES], 0, HEADER_BYTES
    while start < len(plain):
        end = min(plain_start(number, size_log) + plain_limit(number, size_log), len(plain))
        last = end == len(plain)
        data += encode_block(plain[start:end], number, last=last, codec=codec, salt=salt, size_log=size_log)
        start, number = end, number + 1
    return data


def file_of(data: bytes) -> File:
    storage = seglog.MemoryStorage()
    storage.make([])
    file = storage.create("a.store")
    file.pwrite(data, 0)
    return file


def opened(data: bytes, table: bytes = b"") -> BlockFile:
    return BlockFile(file_of(data), SALT, table)


PLAIN = plain_of(9000)
DATA = stored(PLAIN)
TABLE = opened(DATA).table() or b""
PLACES = [place for place in opened(DATA).layout.places if place is not None]


@given(st.integers(65, 9000), st.sampled_from(["lz4", "zstd"]), st.integers(7, 16), st.data())
def test_every_read_is_that_of_the_plain_store(size: int, codec: Codec, size_log: int, data: st.DataObject) -> None:
    plain = plain_of(size)
    file = opened(stored(plain, codec, size_log=size_log))
    assert (file.size(), bytes(file.map())) == (size, plain)
    for _ in range(5):
        position, length = data.draw(st.integers(0, size + 9)), data.draw(st.integers(0, size + 9))
        assert file.pread(length, position) == plain[position : position + length]
    again = BlockFile(file.file, SALT, file.table() or b"")
    assert not again.walked
    assert again.pread(size, 0) == plain


@pytest.mark.parametrize("with_table", [False, True])
def test_after_any_flipped_bit_every_block_is_whole_or_zeros_and_only_one_is_lost(*, with_table: bool) -> None:
    source = random.Random(6)
    for _ in range(600):
        data = bytearray(DATA)
        bit = source.randrange(HEADER_BYTES * 8, len(data) * 8)
        data[bit // 8] ^= 1 << bit % 8
        file = opened(bytes(data), TABLE if with_table else b"")
        found = file.pread(len(PLAIN), 0)
        wrong = [at for at in range(min(len(found), len(PLAIN))) if found[at] != PLAIN[at]]
        assert all(found[at] == 0 for at in wrong)
        assert len({at >> 10 for at in wrong}) <= 1
        lacking = len(PLAIN) - len(found)
        assert lacking == 0 or (not wrong and lacking == len(PLAIN) % 1024)
        damaged = [damaged for _, damaged in file.damaged_blocks()]
        assert damaged.count(True) + (lacking > 0) == 1


def test_runs_of_lost_blocks_cost_only_those() -> None:
    for first, last in [(0, 1), (2, 5), (1, 7)]:
        data = bytearray(DATA)
        data[PLACES[first].position : PLACES[last].position] = bytes(PLACES[last].position - PLACES[first].position)
        found = opened(bytes(data)).pread(len(PLAIN), 0)
        begin, end = max(first << 10, HEADER_BYTES), last << 10
        assert found == PLAIN[:begin] + bytes(end - begin) + PLAIN[end:]


def test_a_store_that_ends_early_has_the_blocks_before() -> None:
    for cut in range(HEADER_BYTES, len(DATA), 37):
        found = opened(DATA[:cut]).pread(len(PLAIN), 0)
        whole = sum(place.position + HEAD_BYTES + place.stored_len <= cut for place in PLACES) << 10
        assert found[:whole] == PLAIN[: min(whole, len(found))]
        assert len(found) - whole <= 1024
        assert set(found[max(whole, HEADER_BYTES) :]) <= {0}
        assert opened(DATA[:cut], TABLE).pread(len(PLAIN), 0) == found


def test_blocks_that_changed_places_are_not_read() -> None:
    pieces = [DATA[place.position : place.position + HEAD_BYTES + place.stored_len] for place in PLACES]
    pieces[2], pieces[3] = pieces[3], pieces[2]
    found = opened(HEADER + b"".join(pieces)).pread(len(PLAIN), 0)
    assert all(one in (0, PLAIN[at]) for at, one in enumerate(found))
    other = stored(PLAIN, salt=SALT + 1)
    assert set(opened(DATA[:HEADER_BYTES] + other[HEADER_BYTES:]).pread(len(PLAIN), HEADER_BYTES)) <= {0}


def test_a_table_of_another_form_of_the_store_is_not_used() -> None:
    lz4 = stored(PLAIN, "lz4")
    for table in (opened(lz4).table() or b"", TABLE[:-1], TABLE[::-1], b"x"):
        assert opened(DATA, table).pread(len(PLAIN), 0) == PLAIN


def test_a_table_whose_entries_are_wrong_is_given_up() -> None:
    known = decode_blocks(TABLE, SALT)
    assert known is not None
    places = known[1]
    places[3] = places[3]._replace(position=places[3].position + 1)
    file = opened(DATA, encode_blocks(places, known[0], SALT))
    assert not file.walked
    assert file.pread(len(PLAIN), 0) == PLAIN
    assert file.walked
    assert file.table() == TABLE


def test_a_newer_block_is_refused_and_a_sealed_store_is_never_written() -> None:
    body = struct.pack("<IIIBBH", 0, 3, 3, 9, 10, 1) + b"abc"
    file = opened(HEADER + struct.pack("<Q", xxh64_intdigest(body, SALT)) + body)
    with pytest.raises(FormatVersionError):
        file.pread(10, 64)
    for change in (lambda: file.pwrite(b"x", 0), lambda: file.pwritev([b"x"], 0), lambda: file.truncate(0)):
        with pytest.raises(StorageError):
            change()


def test_a_number_that_no_store_of_this_size_has_takes_no_memory() -> None:
    forged = encode_block(b"x", 2**26 - 1, last=True, codec="lz4", salt=SALT, size_log=6)
    assert len(find_blocks(file_of(HEADER + bytes(30) + forged), SALT).places) == 0


def test_decompressed_blocks_take_bounded_memory() -> None:
    plain = HEADER + bytes(3 * HELD_BYTES)
    file = opened(stored(plain, size_log=16))
    for position in range(0, len(plain), 65536):
        file.pread(1, position)
    assert sum(map(len, blocks._HELD._blocks.values())) <= HELD_BYTES


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may keep the content of released pages")
def test_memory_with_positions_holds_only_the_last_window() -> None:
    plain = plain_of(200_000)
    memory = PositionedMemory(opened(stored(plain, size_log=16)))
    memory.read(0, 100_000)
    assert memory.bytes[:100_000] == plain[:100_000]
    memory.read(90_000, 190_000)
    assert memory.bytes[90_000:190_000] == plain[90_000:190_000]
    assert set(memory.bytes[:65536]) == {0}


@given(st.binary(max_size=3000))
def test_no_bytes_are_too_strange_to_be_opened(noise: bytes) -> None:
    file = opened(HEADER + noise)
    assert len(file.pread(10_000, 0)) <= 10_000
    assert find_blocks(file.file, SALT).end >= HEADER_BYTES
