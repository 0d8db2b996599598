"""XXH64 over a range of memory, equal to xxhash.xxh64_intdigest. Knows nothing of records."""

from __future__ import annotations

from typing import Any

import numpy as np

from seglog.kernels.layout import P1, P2, P3, P4, P5, STRIPE_BYTES
from seglog.kernels.memory import address_of, compiling, inlined, kernel, load_u8, load_u32, load_u64
from seglog.kernels.parameters import Input, Int64s, Uint64s, Word


@inlined
def _rotate(word: Any, left: int) -> Any:
    return (word << np.uint64(left)) | (word >> np.uint64(64 - left))


@inlined
def _round(lane: Any, word: Any) -> Any:
    return _rotate(lane + word * P2, 31) * P1


@inlined
def _merge(digest: Any, lane: Any) -> Any:
    return (digest ^ _round(np.uint64(0), lane)) * P1 + P4


@inlined
def stripes_in_turn(address: int, last: int, seed: Any) -> Any:
    """Compute `stripes_side_by_side` lane by lane, for every processor."""
    lane1, lane2, lane3, lane4 = seed + P1 + P2, seed + P2, seed, seed - P1
    while address <= last:
        lane1 = _round(lane1, load_u64(address))
        lane2 = _round(lane2, load_u64(address + 8))
        lane3 = _round(lane3, load_u64(address + 16))
        lane4 = _round(lane4, load_u64(address + 24))
        address += STRIPE_BYTES
    digest = _rotate(lane1, 1) + _rotate(lane2, 7) + _rotate(lane3, 12) + _rotate(lane4, 18)
    return _merge(_merge(_merge(_merge(digest, lane1), lane2), lane3), lane4)


lanes = compiling("lanes")
multiplies_side_by_side, stripes_side_by_side = lanes.multiplies_side_by_side, lanes.stripes_side_by_side


@inlined
def xxh64_at(address: int, length: int, seed: Any) -> Any:
    """Return XXH64 of `length` bytes at `address`; seed and result are uint64."""
    end = address + length
    if length >= STRIPE_BYTES:
        if multiplies_side_by_side():  # a constant when the kernel is compiled
            digest = stripes_side_by_side(address, end - STRIPE_BYTES, seed)
        else:
            digest = stripes_in_turn(address, end - STRIPE_BYTES, seed)
        address += length // STRIPE_BYTES * STRIPE_BYTES
    else:
        digest = seed + P5
    return _finish(digest + np.uint64(length), address, end)


@inlined
def _finish(digest: Any, address: int, end: int) -> Any:
    while address + 8 <= end:
        digest = _rotate(digest ^ _round(np.uint64(0), load_u64(address)), 27) * P1 + P4
        address += 8
    if address + 4 <= end:
        digest = _rotate(digest ^ (np.uint64(load_u32(address)) * P1), 23) * P2 + P3
        address += 4
    while address < end:
        digest = _rotate(digest ^ (np.uint64(load_u8(address)) * P5), 11) * P1
        address += 1
    digest = (digest ^ (digest >> np.uint64(33))) * P2
    digest = (digest ^ (digest >> np.uint64(29))) * P3
    return digest ^ (digest >> np.uint64(32))


@kernel
def xxh64(buffer: Input, start: int, stop: int, seed: Word) -> Any:
    """Return XXH64 of buffer[start:stop], a contiguous uint8 array; `seed` is a np.uint64.

    The caller guarantees 0 <= start <= stop <= len(buffer).
    """
    return xxh64_at(address_of(buffer) + start, stop - start, seed)


@kernel
def xxh64_rows(addresses: Int64s, lengths: Int64s, out: Uint64s) -> None:
    """Fill `out` (uint64) with the XXH64, seed 0, of each row of a column (`columns`); 0 for a null."""
    for row in range(addresses.size):
        out[row] = np.uint64(0)
        if lengths[row] >= 0:
            out[row] = xxh64_at(addresses[row], lengths[row], np.uint64(0))
