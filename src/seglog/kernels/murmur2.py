"""Kafka's murmur2 (seed 0x9747b28c), and the partition of a key according to Kafka's default partitioner."""

from __future__ import annotations

from seglog.kernels.memory import address_of, kernel, load_u8, load_u32
from seglog.kernels.parameters import Input, Int32s, Int64s

SEED = 0x9747B28C
M = 0x5BD1E995
MASK = 0xFFFFFFFF


@kernel
def murmur2_at(address: int, length: int) -> int:
    """Return the hash of `length` bytes at `address`, as an unsigned 32-bit number."""
    digest = (SEED ^ length) & MASK
    end = address + length
    while address + 4 <= end:
        word = (load_u32(address) * M) & MASK
        word = ((word ^ (word >> 24)) * M) & MASK
        digest = ((digest * M) & MASK) ^ word
        address += 4
    left = end - address
    if left > 0:
        for byte in range(left):
            digest ^= load_u8(address + byte) << (8 * byte)
        digest = (digest * M) & MASK
    digest = ((digest ^ (digest >> 13)) * M) & MASK
    return digest ^ (digest >> 15)


@kernel
def murmur2(key: Input) -> int:
    """Return the hash of a contiguous uint8 array, signed 32 bit as in Kafka: that of b"21" is -973932308."""
    digest = murmur2_at(address_of(key), key.size)
    return digest - (1 << 32) if digest >= 1 << 31 else digest


@kernel
def partition_keys(addresses: Int64s, lengths: Int64s, partitions: int, out: Int32s) -> None:
    """Fill out[i] with (murmur2(key i) & 0x7fffffff) % partitions, or -1 for a null key (length -1).

    addresses, lengths: int64, one per row; out: int32. `partitions` is at least 1.
    """
    for row in range(addresses.size):
        if lengths[row] < 0:
            out[row] = -1
        else:
            out[row] = (murmur2_at(addresses[row], lengths[row]) & 0x7FFFFFFF) % partitions
