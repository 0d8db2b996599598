"""The compiled map against a dict: every key stays, however full, whatever is removed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.kernels.keymap import evict, find_numbers, insert, keep_newest, look_up, set_bits

pytestmark = pytest.mark.no_cover  # as the kernels

ALL = (np.uint64(0), np.uint64(2**64 - 1))


class Map:
    def __init__(self, slots: int, numbers: int) -> None:
        self.table = np.zeros((slots, 2), np.uint64)
        self.numbers = np.full(slots, -7, np.int64)
        self.died = np.zeros((numbers + 7) // 8, np.uint8)

    def insert(self, keys, first=0, low=ALL[0], high=ALL[1], room=10**9, keyed=None):
        fingerprints = np.array(keys, np.uint64).reshape(-1, 2)
        keyed = np.ones(len(keys), np.uint8) if keyed is None else np.array(keyed, np.uint8)
        return insert(fingerprints, keyed, first, self.table, self.numbers, low, high, room, self.died)

    def holds(self, keys, low=ALL[0], high=ALL[1]):
        known = np.empty(len(keys), np.bool_)
        fingerprints = np.array(keys, np.uint64).reshape(-1, 2)
        look_up(fingerprints, np.ones(len(keys), np.uint8), self.table, low, high, known)
        return known.tolist()

    def content(self):
        return {
            (int(one), int(two)): int(number)
            for (one, two), number in zip(self.table, self.numbers, strict=True)
            if one or two
        }

    def dead(self):
        return set(np.flatnonzero(np.unpackbits(self.died, bitorder="little")).tolist())


# second words whose searches begin at few slots, the last ones among them, so that keys push each other round the end
CROWDED = st.tuples(
    st.integers(0, 3) | st.sampled_from([2**63, 2**64 - 1]),
    st.sampled_from([1, 2, 3, 2**32, 2**63, 2**64 - 2**58, 2**64 - 2**57, 2**64 - 2, 2**64 - 1]),
)
LOOSE = st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 2**64 - 1))


@settings(max_examples=300)  # the first example compiles
@given(st.lists(CROWDED | LOOSE, max_size=60), st.integers(1, 40), st.integers(0, 2**64 - 1))
def test_any_keys_are_found_and_superseded_and_removed_as_in_a_dict(keys, spare, limit):
    model, dead = {}, set()
    for number, key in enumerate(keys):
        if key in model:
            dead.add(model[key])
        model[key] = number
    made = Map(len(model) + spare, len(keys))
    assert made.insert(keys) == (len(keys), len(model), len(dead))
    assert (made.content(), made.dead()) == (model, dead)
    others = [(one ^ 5, two) for one, two in keys]
    assert made.holds(keys + others) == [True] * len(keys) + [other in model for other in others]
    kept = {key: number for key, number in model.items() if key[0] <= limit}
    assert evict(made.table, made.numbers, np.uint64(limit)) == len(model) - len(kept)
    assert made.content() == kept
    assert made.holds(keys) == [key in kept for key in keys]
    made.insert(keys, first=0)  # room for them all once more
    assert made.content() == model


@given(st.lists(CROWDED | LOOSE, min_size=1, max_size=60), st.integers(1, 20))
def test_it_stops_before_the_key_it_has_no_room_for(keys, room):
    made = Map(len(keys) + 2, len(keys))
    rows, added, _ = made.insert(keys, room=room)
    assert added == len(set(keys[:rows])) <= room
    if rows < len(keys):
        assert added == room
        assert keys[rows] not in keys[:rows]


def test_rows_without_key_and_keys_of_other_ranges_are_left_out():
    made = Map(10, 8)
    low, high = np.uint64(10), np.uint64(20)
    keys = [(9, 1), (10, 1), (20, 1), (21, 1), (15, 1)]
    assert made.insert(keys, low=low, high=high, keyed=[1, 1, 1, 1, 0]) == (5, 2, 0)
    assert made.content() == {(10, 1): 1, (20, 1): 2}
    assert made.holds(keys, low, high) == [False, True, True, False, False]
    assert made.holds([(10, 1)], np.uint64(11), high) == [False]


def test_8_all_sixteen_bytes_are_compared():
    made = Map(64, 8)
    keys = [(1, 2), (1, 3), (2, 2), (2**63 + 1, 2), (1, 2**63 + 2)]
    assert made.insert(keys) == (5, 5, 0)
    assert made.holds([(1, 4), (3, 2), (2**63, 2)]) == [False, False, False]


@pytest.mark.parametrize("first", [0, 1, 7, 8, 13])
def test_bits_are_set_once(first):
    bits = np.zeros(8, np.uint8)
    chosen = np.array([True, False, True, True] * 5)
    assert set_bits(chosen, first, bits) == 15
    assert set_bits(chosen, first, bits) == 0
    assert np.flatnonzero(np.unpackbits(bits, bitorder="little")).tolist() == (np.flatnonzero(chosen) + first).tolist()


@settings(max_examples=300)
@given(st.lists(st.tuples(CROWDED | LOOSE, st.booleans()), max_size=60), st.integers(1, 40))
def test_the_last_offset_of_each_key_is_found(rows, spare):
    keys, keyed = [key for key, _ in rows], [has for _, has in rows]
    offsets = np.arange(len(rows), dtype=np.int64) * 3
    model = {key: int(offset) for (key, has), offset in zip(rows, offsets, strict=True) if has}
    made = Map(len(model) + spare, 0)
    fingerprints, has_key = np.array(keys, np.uint64).reshape(-1, 2), np.array(keyed, np.bool_)
    done = keep_newest(fingerprints, has_key, offsets, made.table, made.numbers, 10**9)
    assert done == (len(rows), len(model))
    found = np.empty(len(rows), np.int64)
    find_numbers(fingerprints, made.table, made.numbers, found)
    assert found.tolist() == [model.get(key, -1) for key in keys]
    assert made.content() == model


def test_keeping_stops_before_the_key_for_which_there_is_no_room():
    made, offsets = Map(8, 0), np.arange(4, dtype=np.int64)
    fingerprints = np.array([(1, 1), (2, 2), (1, 1), (3, 3)], np.uint64)
    assert keep_newest(fingerprints, np.ones(4, np.bool_), offsets, made.table, made.numbers, 2) == (3, 2)
    assert made.content() == {(1, 1): 2, (2, 2): 1}
