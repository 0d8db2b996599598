"""The blocks of a compressed store: a round trip for every size, and no damage that is read as something else."""

from __future__ import annotations

import struct
import tracemalloc
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from seglog.errors import FormatVersionError
from seglog.format.blocks import (
    HEAD_BYTES,
    BlockHead,
    Codec,
    decode_block,
    encode_block,
    plain_limit,
    plain_start,
    possible_heads,
    read_head,
    sound_head,
)
from seglog.format.index import BlockPlace, decode_blocks, encode_blocks

SALT = 0xFEDCBA9876543210
PATH = "a.store"
SIZES = st.integers(6, 20)
CODECS = st.sampled_from(["lz4", "zstd"])
TEXT = b"a line of a log, which compresses well; " * 2000
NOISE = b"".join(xxh64_intdigest(bytes([one]), two).to_bytes(8, "little") for one in range(256) for two in range(40))


def decoded(block: bytes, salt: int = SALT) -> bytes | None:
    found = decode_block(block, salt=salt, path=PATH)
    return None if found is None else found[1]


def forged(block: bytes, **fields: int) -> bytes:
    """Return the block with other fields in its head, and a valid check."""
    head = read_head(block)
    assert head is not None
    body = struct.pack("<IIIBBH", *head._replace(**fields)[1:]) + block[HEAD_BYTES:]
    return struct.pack("<Q", xxh64_intdigest(body, SALT)) + body


# --- layout -----------------------------------------------------------------------------------------------------------


def test_a_head_is_laid_out_field_by_field() -> None:
    plain = TEXT[: 65536 - 64]
    packed = pa.Codec("zstd", compression_level=1).compress(plain, asbytes=True)
    body = struct.pack("<IIIBBH", 0, len(packed), len(plain), 2, 16, 0) + packed
    expected = struct.pack("<Q", xxh64_intdigest(body, SALT)) + body
    assert encode_block(plain, 0, last=False, codec="zstd", salt=SALT) == expected


def test_blocks_end_at_multiples_of_their_size_and_the_first_begins_after_the_file_header() -> None:
    assert [plain_start(number, 16) for number in (0, 1, 2)] == [64, 65536, 131072]
    assert [plain_limit(number, 16) for number in (0, 1, 2)] == [65472, 65536, 65536]
    head = BlockHead(0, 3, 10, 100, 1, 16, 1)
    assert (head.is_last, head.length, head.plain_end) == (True, 34, 3 * 65536 + 100)


def test_a_block_that_does_not_become_an_eighth_smaller_is_stored_as_it_is() -> None:
    block = encode_block(NOISE[:1000], 7, last=True, codec="lz4", salt=SALT)
    head = read_head(block)
    assert head is not None
    assert (head.codec, block[HEAD_BYTES:], decoded(block)) == (0, NOISE[:1000], NOISE[:1000])


# --- round trips ------------------------------------------------------------------------------------------------------


@given(SIZES, CODECS, st.binary(min_size=1, max_size=300), st.booleans(), st.integers(0, 2**64 - 1))
def test_a_full_block_of_any_size_is_read_back(size: int, codec: Codec, seed: bytes, first: bool, salt: int) -> None:
    number = 0 if first and size > 6 else 1
    limit = plain_limit(number, size)
    plain = (seed * (limit // len(seed) + 1))[:limit]
    block = encode_block(plain, number, last=False, codec=codec, salt=salt, size_log=size)
    assert decode_block(block, salt=salt, path=PATH) == (sound_head(block, salt=salt, path=PATH), plain)


@given(SIZES, CODECS, st.binary(min_size=1, max_size=64), st.integers(1, 9))
def test_a_last_block_may_be_shorter(size: int, codec: Codec, plain: bytes, number: int) -> None:
    block = encode_block(plain, number, last=True, codec=codec, salt=SALT, size_log=size)
    found = decode_block(block, salt=SALT, path=PATH)
    assert found is not None
    assert (found[0].is_last, found[0].plain_end, found[1]) == (True, (number << size) + len(plain), plain)


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
@pytest.mark.parametrize("plain", [TEXT[:300], NOISE[:70]])
def test_no_flipped_bit_is_read_as_another_content(codec: Codec, plain: bytes) -> None:
    block = encode_block(plain, 3, last=True, codec=codec, salt=SALT)
    for bit in range(len(block) * 8):
        damaged = bytearray(block)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decoded(bytes(damaged)) is None


@given(CODECS, st.data())
def test_no_other_length_is_read(codec: Codec, data: st.DataObject) -> None:
    block = encode_block(TEXT[:3000], 3, last=True, codec=codec, salt=SALT)
    cut = data.draw(st.integers(0, len(block) - 1))
    assert decoded(block[:cut]) is None
    assert decoded(block + block[: cut + 1]) is None


def test_a_block_of_another_store_is_damage_and_its_number_tells_another_place() -> None:
    block = encode_block(TEXT[:3000], 3, last=True, codec="zstd", salt=SALT)
    assert decoded(block, SALT + 1) is None
    head = sound_head(block, salt=SALT, path=PATH)
    assert head is not None
    assert head.number == 3


@pytest.mark.parametrize("fields", [{"codec": 3}, {"flags": 3}, {"codec": 255}])
def test_a_block_of_a_newer_version_is_refused_and_not_taken_for_damage(fields: dict[str, int]) -> None:
    block = forged(encode_block(TEXT[:3000], 3, last=True, codec="zstd", salt=SALT), **fields)
    with pytest.raises(FormatVersionError, match="Install a newer seglog"):
        decoded(block)


@pytest.mark.parametrize(
    "fields",
    [
        {"plain_len": 2**32 - 1},
        {"plain_len": 0},
        {"plain_len": 65537},
        {"plain_len": 2999},
        {"stored_len": 2**32 - 1},
        {"size_log": 5},
        {"size_log": 21},
        {"number": 2**16},
        {"flags": 0},
        {"codec": 1},
    ],
)
def test_a_valid_check_does_not_make_impossible_fields_valid(fields: dict[str, int]) -> None:
    assert decoded(forged(encode_block(TEXT[:3000], 3, last=True, codec="zstd", salt=SALT), **fields)) is None


@pytest.mark.parametrize(("name", "codec"), [("lz4_raw", 1), ("zstd", 2)])
def test_a_content_that_is_larger_than_its_head_says_costs_no_memory(name: str, codec: int) -> None:
    bomb = pa.Codec(name).compress(bytes(1 << 27 if codec == 2 else 200_000), asbytes=True)
    stored = bomb[:1000] if len(bomb) > 65536 else bomb
    body = struct.pack("<IIIBBH", 0, len(stored), 65536 - 64, codec, 16, 1) + stored
    block = struct.pack("<Q", xxh64_intdigest(body, SALT)) + body
    before = pa.total_allocated_bytes()
    tracemalloc.start()
    assert decoded(block) is None
    assert tracemalloc.get_traced_memory()[1] < 2**21
    tracemalloc.stop()
    assert pa.total_allocated_bytes() - before < 2**21


# --- finding heads ----------------------------------------------------------------------------------------------------


@given(st.binary(max_size=200), st.lists(st.integers(1, 4000), min_size=1, max_size=5), CODECS)
def test_every_head_is_among_the_possible_ones(before: bytes, lengths: list[int], codec: Codec) -> None:
    data, starts = before, []
    for number, length in enumerate(lengths, 1):
        starts.append(len(data))
        data += encode_block(TEXT[:length], number, last=True, codec=codec, salt=SALT)
    assert set(starts) <= {start for start, _ in possible_heads(data)}


# --- the table --------------------------------------------------------------------------------------------------------

PLACES = [BlockPlace(2**64 - 1, 1000, 64), BlockPlace(0, 2**20, 1088), BlockPlace(7, 1, 2**32 - 1)]


def test_a_table_is_laid_out_as_the_other_lookups() -> None:
    body = struct.pack("<4sHHII", b"SLBK", 1, 0, 65536, 3) + b"".join(struct.pack("<QII", *place) for place in PLACES)
    assert encode_blocks(PLACES, 65536, SALT) == body + struct.pack("<Q", xxh64_intdigest(body, SALT))


def test_a_table_is_read_back_and_any_damage_makes_it_unknown() -> None:
    data = encode_blocks(PLACES, 65536, SALT)
    assert decode_blocks(data, SALT) == (65536, PLACES)
    assert decode_blocks(data, SALT + 1) is None
    assert decode_blocks(data[:-1], SALT) is None
    for bit in range(len(data) * 8):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        assert decode_blocks(bytes(damaged), SALT) is None


def test_the_ends_of_blocks_are_the_starts_of_the_next_ones() -> None:
    for size in range(6, 21):
        for one, following in pairwise(range(5)):
            assert plain_start(one, size) + plain_limit(one, size) == plain_start(following, size)
