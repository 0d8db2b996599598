"""Copies of the kernels: every byte asked for, and none beside them."""

import numpy as np
import pytest

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
