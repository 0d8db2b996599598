"""The compiled fingerprint is SipHash-2-4-128."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.kernels.fingerprint import fingerprint

pytestmark = pytest.mark.no_cover  # as the kernels

MASK = 2**64 - 1
KEY = (0x0706050403020100, 0x0F0E0D0C0B0A0908)  # bytes 0..15, as in the authors' test vectors
KNOWN = {b"": "a3817f04ba25a8e66df67214c7550293", b"\x00": "da87c1d86b99af44347659119b22fc45"}


def rounds(v: list[int], count: int) -> None:
    def rotate(word: int, left: int) -> int:
        return (word << left | word >> 64 - left) & MASK

    for _ in range(count):
        v[0] = (v[0] + v[1]) & MASK
        v[2] = (v[2] + v[3]) & MASK
        v[1] = rotate(v[1], 13) ^ v[0]
        v[3] = rotate(v[3], 16) ^ v[2]
        v[0] = (rotate(v[0], 32) + v[3]) & MASK
        v[2] = (v[2] + v[1]) & MASK
        v[1] = rotate(v[1], 17) ^ v[2]
        v[3] = rotate(v[3], 21) ^ v[0]
        v[2] = rotate(v[2], 32)


def plain_fingerprint(data: bytes, seed: tuple[int, int]) -> tuple[int, int]:
    """The algorithm as its authors write it down, on Python integers."""
    v = [seed[0] ^ 0x736F6D6570736575, seed[1] ^ 0x646F72616E646F6D ^ 0xEE]
    v += [seed[0] ^ 0x6C7967656E657261, seed[1] ^ 0x7465646279746573]
    padded = data + bytes(7 - len(data) % 8) + bytes([len(data) & 255])
    for start in range(0, len(padded), 8):
        word = int.from_bytes(padded[start : start + 8], "little")
        v[3] ^= word
        rounds(v, 2)
        v[0] ^= word
    v[2] ^= 0xEE
    rounds(v, 4)
    first = v[0] ^ v[1] ^ v[2] ^ v[3]
    v[1] ^= 0xDD
    rounds(v, 4)
    return first, v[0] ^ v[1] ^ v[2] ^ v[3]


def compiled(data: bytes, seed: tuple[int, int]) -> tuple[int, int]:
    array = np.frombuffer(data + b"\0", np.uint8)[: len(data)]
    first, second = fingerprint(array, np.uint64(seed[0]), np.uint64(seed[1]))
    return int(first), int(second)


@pytest.mark.parametrize(("data", "digest"), KNOWN.items())
def test_known_digests(data, digest):
    for words in (plain_fingerprint(data, KEY), compiled(data, KEY)):
        assert b"".join(word.to_bytes(8, "little") for word in words).hex() == digest


WORDS = st.integers(0, MASK)


@given(st.binary(max_size=70) | st.integers(0, 600).map(bytes), WORDS, WORDS)
def test_any_key_and_seed_give_what_the_plain_algorithm_gives(data, one, two):
    assert compiled(data, (one, two)) == plain_fingerprint(data, (one, two))


def test_a_key_in_the_middle_of_memory_is_hashed_alone():
    memory = np.frombuffer(bytes(range(200)), np.uint8)
    for start in range(0, 60, 7):
        for stop in range(start, start + 40):
            words = fingerprint(memory[start:stop], np.uint64(5), np.uint64(6))
            assert tuple(map(int, words)) == plain_fingerprint(bytes(memory[start:stop]), (5, 6))
