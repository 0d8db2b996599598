"""The bounded map: how much memory it takes, and that its ranges together hold every key."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from seglog.compaction.keymap import LAST, KeyMap, Keys
from seglog.kernels.keys import KEYED


def run_of(rows: int, seed: int = 1) -> Keys:
    fingerprints = np.random.default_rng(seed).integers(0, 2**64, (rows, 2), dtype=np.uint64)
    return Keys(fingerprints, np.full(rows, KEYED, np.uint8), np.arange(rows))


def test_a_full_map_takes_at_most_27_bytes_a_key() -> None:
    rows = 100_000
    made = KeyMap(rows, 2**30)
    assert made.add(run_of(rows), 0, np.zeros(rows // 8 + 1, np.uint8)) == 0
    assert (made.count, made.high) == (rows, LAST)
    assert made.nbytes / made.count <= 27
    assert made.nbytes / made.limit <= 27


def test_it_is_sized_to_the_dirty_records() -> None:
    assert KeyMap(0, 2**30).nbytes < 1024
    assert KeyMap(1000, 2**30).nbytes < 27 * 1000 + 100


@pytest.mark.parametrize("most_bytes", [1024, 5000, 27_000])
def test_ranges_that_fit_hold_every_key_in_turn(most_bytes: int) -> None:
    rows = 2000
    keys, made = run_of(rows), KeyMap(rows, most_bytes)
    assert made.nbytes <= most_bytes
    seen, ranges = np.zeros(rows, np.int64), [made.low]
    while True:
        for start in range(0, rows, 100):
            part: Any = Keys(*(column[start : start + 100] for column in keys))
            made.add(part, start, np.zeros(rows // 8 + 1, np.uint8))
        seen += made.holds(keys, np.empty(rows, np.bool_))
        ranges.append(made.high)
        assert made.count <= made.limit
        if not made.next_range():
            break
        assert made.low == ranges[-1] + 1
    assert ranges[-1] == LAST
    assert seen.tolist() == [1] * rows
    assert len(ranges) - 1 <= 3 * rows / made.limit + 1


def test_a_death_that_was_noted_before_a_range_was_narrowed_is_counted_once() -> None:
    made, bits, dead = KeyMap(500, 1024), np.zeros(125, np.uint8), 0
    keys = run_of(500)
    while True:
        for first in (0, 500):
            dead += made.add(keys, first, bits)
        if not made.next_range():
            break
    assert dead == 500
    assert np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist() == list(range(500))
