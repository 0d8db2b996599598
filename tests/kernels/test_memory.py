"""What is compiled into kernels: copies take every byte asked for and no other, both ways to hash agree."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.kernels.checksum import stripes_in_turn
from seglog.kernels.lanes import stripes_side_by_side
from seglog.kernels.memory import address_of, copy_short, kernel

SOURCE = np.random.default_rng(3).integers(1, 256, 1024, dtype=np.uint8)


@kernel
def copied(source, start, target, at, length):
    copy_short(address_of(target) + at, address_of(source) + start, length)


@pytest.mark.parametrize("start", [0, 1, 13])
def test_a_copy_of_any_length_takes_what_was_asked_for_and_touches_nothing_else(start):
    for length in range(300):
        target = np.zeros(400, np.uint8)
        copied(SOURCE, start, target, 40, length)
        expected = bytes(40) + SOURCE[start : start + length].tobytes() + bytes(360 - length)
        assert target.tobytes() == expected, length


@kernel
def both_ways(source, last, seed):
    """The two ways over stripes, of which xxh64 takes the one that suits the processor."""
    base = address_of(source)
    return stripes_in_turn(base, base + last, seed), stripes_side_by_side(base, base + last, seed)


@given(st.binary(min_size=32, max_size=400), st.integers(0, 2**64 - 1))
def test_stripes_come_to_the_same_in_turn_and_side_by_side(data, seed):
    in_turn, side_by_side = both_ways(np.frombuffer(data, np.uint8), len(data) - 32, np.uint64(seed))
    assert in_turn == side_by_side
