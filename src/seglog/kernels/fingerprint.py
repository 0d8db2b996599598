"""SipHash-2-4-128: the keyed fingerprint of a record's key, 16 bytes. Knows nothing of records or maps.

Without the 128-bit seed, two keys with the same fingerprint cannot be constructed (Aumasson and Bernstein, "SipHash: a
fast short-input PRF"), so users cannot craft keys that collide.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.memory import address_of, inlined, kernel, load_u8, load_u64
from seglog.kernels.parameters import Input, InputInt64s, Uint64Rows, Word

V0, V1 = np.uint64(0x736F6D6570736575), np.uint64(0x646F72616E646F6D)
V2, V3 = np.uint64(0x6C7967656E657261), np.uint64(0x7465646279746573)
LONG, SECOND = np.uint64(0xEE), np.uint64(0xDD)  # they make the digest 128 bits long


@inlined
def _rotate(word: Any, left: int) -> Any:
    return (word << np.uint64(left)) | (word >> np.uint64(64 - left))


@inlined
def _round(v0: Any, v1: Any, v2: Any, v3: Any) -> Any:
    v0, v2 = v0 + v1, v2 + v3
    v1, v3 = _rotate(v1, 13) ^ v0, _rotate(v3, 16) ^ v2
    v0, v2 = _rotate(v0, 32) + v3, v2 + v1
    v1, v3 = _rotate(v1, 17) ^ v2, _rotate(v3, 21) ^ v0
    return v0, v1, _rotate(v2, 32), v3


@inlined
def _absorb(v0: Any, v1: Any, v2: Any, v3: Any, word: Any) -> Any:
    v3 ^= word
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return v0 ^ word, v1, v2, v3


@inlined
def _last_word(address: int, left: int, length: int) -> Any:
    """Return the bytes after the last whole word, with the length's low byte on top."""
    top = np.uint64(length & 255) << np.uint64(56)
    if left == 0:
        return top
    if length >= 8:  # one load that begins in the previous word
        return top | (load_u64(address + left - 8) >> np.uint64(64 - 8 * left))
    for byte in range(left):
        top |= np.uint64(load_u8(address + byte)) << np.uint64(8 * byte)
    return top


@inlined
def fingerprint_at(address: int, length: int, seed0: Any, seed1: Any) -> Any:
    """Return both words (uint64) of SipHash-2-4-128 of `length` bytes at `address`; the seed's words are uint64."""
    v0, v1, v2, v3 = V0 ^ seed0, V1 ^ seed1 ^ LONG, V2 ^ seed0, V3 ^ seed1
    left = length & 7
    end = address + length - left
    while address < end:
        v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, load_u64(address))
        address += 8
    v0, v1, v2, v3 = _absorb(v0, v1, v2, v3, _last_word(address, left, length))
    v2 ^= LONG
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    first = v0 ^ v1 ^ v2 ^ v3
    v1 ^= SECOND
    for _ in range(4):
        v0, v1, v2, v3 = _round(v0, v1, v2, v3)
    return first, v0 ^ v1 ^ v2 ^ v3


@kernel
def fingerprint(data: Input, seed0: Word, seed1: Word) -> Any:
    """Return both words of the fingerprint of a contiguous uint8 array; the seed's words are np.uint64."""
    return fingerprint_at(address_of(data), data.size, seed0, seed1)


@kernel
def fingerprint_spans(data: Input, bounds: InputInt64s, seed0: Word, seed1: Word, fingerprints: Uint64Rows) -> None:
    """Fill fingerprints (uint64[rows, 2]) with those of data[bounds[row]:bounds[row + 1]] (int64[rows + 1])."""
    base = address_of(data)
    for row in range(bounds.size - 1):
        first, second = fingerprint_at(base + bounds[row], bounds[row + 1] - bounds[row], seed0, seed1)
        fingerprints[row, 0], fingerprints[row, 1] = first, second
