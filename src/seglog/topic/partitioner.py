"""The partition of a key: Kafka's default partitioner, for one key, in plain Python.

The rule is `(murmur2(key) & 0x7fffffff) % partitions`, so that a key gets the same partition as from a Kafka producer.
Batches use `seglog.kernels.murmur2`, which must agree with this module exactly. Knows no logs, topics or Arrow.
"""

from __future__ import annotations

import struct

_SEED = 0x9747B28C
_MULTIPLIER = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(key: bytes) -> int:
    """Return the 32-bit MurmurHash2 of `key` as a signed int, with the seed Kafka's clients use."""
    whole = len(key) & ~3
    state = _SEED ^ len(key)
    for word in struct.unpack_from(f"<{whole // 4}I", key):
        word = word * _MULTIPLIER & _MASK
        state = (state * _MULTIPLIER & _MASK) ^ ((word ^ word >> 24) * _MULTIPLIER & _MASK)
    if whole < len(key):
        state = (state ^ int.from_bytes(key[whole:], "little")) * _MULTIPLIER & _MASK
    state ^= state >> 13
    state = state * _MULTIPLIER & _MASK
    state ^= state >> 15
    return state - 2**32 if state >= 2**31 else state


def partition_of(key: bytes, partitions: int) -> int:
    """Return the partition of `key`, 0 .. partitions - 1; partitions is at least 1."""
    return 0 if partitions == 1 else (murmur2(key) & 0x7FFFFFFF) % partitions
