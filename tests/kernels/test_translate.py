"""Records of a store become records of Kafka's batches: every one verified, and never more than fits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seglog.format.codec import NATIVE, encode_headers
from seglog.kernels.layout import BEYOND, CHECKSUM, OFFSET, OK
from seglog.kernels.scan import as_bytes
from seglog.kernels.translate import END, FULL, STOPPED, Part, Translated, translate
from seglog.kernels.validate import Cursor

SALT = 12345
NO_STOP = 2**32
NOTHING = np.empty(0, np.uint8)

records = st.lists(
    st.tuples(
        st.none() | st.binary(max_size=70),
        st.none() | st.binary(max_size=300),
        st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=70)), max_size=3),
    ),
    min_size=1,
    max_size=50,
)


def stored(relative: int, *, time: int = 0, key: Any = None, value: Any = b"v", headers: Any = ()) -> bytes:
    encoded, _, _ = NATIVE.encode(relative, time, key, value, encode_headers(tuple(headers)), SALT)
    return b"".join(encoded)


def translated(
    store: bytes,
    *,
    size: int = 100_000,
    at: tuple[int, int] = (0, 0),
    dense: bool = True,
    stop: int = NO_STOP,
    rows: int = 1000,
    stamped: bool = False,
    whole: bool = True,
    hidden: bytes = b"hidden",
) -> tuple[Translated, bytes]:
    """Translate a store without a header, into `size` bytes after which others must stay as they are."""
    memory = np.full(size + 64, 0xEE, np.uint8)
    cursor, part = Cursor(at[0], len(store), at[1], dense, np.uint64(SALT)), Part(stop, rows, stamped, whole)
    found = Translated(*translate(as_bytes(store), cursor, part, as_bytes(hidden), memory[:size]))
    assert bytes(memory[found.size :][-64:]) == b"\xee" * 64
    return found, bytes(memory[: found.size])


def test_a_record_is_written_as_kafka_has_it() -> None:
    store = stored(0, time=5_999, key=b"k", value=None, headers=[("a", b"1"), ("hidden", b"2"), ("b", None)])
    found, data = translated(store)
    assert data == bytes([28, 0, 0, 0, 2]) + b"k" + bytes([1, 4, 2]) + b"a" + bytes([2]) + b"1" + bytes([2]) + b"b\x01"
    assert (found.rows, found.first_ms, found.most_ms, found.ending) == (1, 5, 5, END)


@settings(max_examples=60)
@given(records, st.integers(0, 400))
def test_pieces_of_any_size_are_what_all_of_it_is(rows: list[Any], size: int) -> None:
    parts = [stored(n, key=key, value=value, headers=headers) for n, (key, value, headers) in enumerate(rows)]
    store, at, taken = b"".join(parts), (0, 0), 0
    while at[0] < len(store):
        found, _ = translated(store, size=size, at=at)
        if not found.rows:
            assert found.ending == FULL
            assert found.needed > size
            found, _ = translated(store, size=found.needed, at=at)
            assert (found.rows, found.size) == (1, len(translated(parts[taken], at=(0, taken))[1]))
        taken += found.rows
        assert (found.first, found.last, found.expected) == (taken - found.rows, taken - 1, taken)
        assert found.position == sum(map(len, parts[:taken]))
        at = found.position, found.expected
    assert taken == len(rows)


@given(st.integers(0, 5), st.integers(0, 2**20), st.integers(1, 255))
def test_any_changed_byte_ends_before_its_record(row: int, at: int, change: int) -> None:
    parts = [stored(n, key=b"key", headers=[("h", b"x")]) for n in range(6)]
    damaged = bytearray(parts[row])
    damaged[at % len(damaged)] ^= change
    found, data = translated(b"".join([*parts[:row], bytes(damaged), *parts[row + 1 :]]))
    assert found.reason != OK
    assert (found.rows, found.expected) == (row, row)
    assert data == translated(b"".join(parts[:row]))[1]


def test_a_record_in_another_place_or_cut_short_is_refused() -> None:
    store = stored(0) + stored(2)
    assert translated(store)[0].reason == OFFSET
    assert translated(store, dense=False)[0].rows == 2
    assert translated(store[:-1], dense=False)[0].reason == BEYOND
    assert translated(stored(0)[:-1] + b"w")[0].reason == CHECKSUM


def test_offsets_too_far_apart_are_split_into_batches() -> None:
    offsets = [0, 5, 2**31 + 4, 2**31 + 5, 2**32 - 2]
    store, at, found = b"".join(map(stored, offsets)), (0, 0), []
    while at[0] < len(store):
        part, _ = translated(store, at=at, dense=False)
        found.append((part.first, part.last))
        at = part.position, part.expected
    assert found == [(0, 5), (2**31 + 4, 2**32 - 2)]


@pytest.mark.parametrize(("option", "ending"), [({"stop": 2}, STOPPED), ({"rows": 2}, FULL), ({"stamped": True}, FULL)])
def test_a_batch_ends_at_an_offset_at_its_most_records_and_where_the_time_changes(option: Any, ending: int) -> None:
    store = b"".join(stored(n, time=time) for n, time in enumerate([7000, 7999, 8000, 8000]))
    found, _ = translated(store, **option)
    assert (found.rows, found.last, found.expected, found.ending, found.needed) == (2, 1, 2, ending, 0)


def test_a_time_before_1970_is_rounded_down() -> None:
    found, _ = translated(stored(0, time=-1) + stored(1, time=1000))
    assert (found.first_ms, found.most_ms) == (-1, 1)


def test_a_long_record_that_does_not_fit_is_not_even_verified_unless_it_is_asked_for() -> None:
    damaged = stored(0, value=bytes(10_000))[:-1] + b"x"
    found, _ = translated(damaged, size=100, whole=False)
    assert (found.reason, found.rows, found.ending) == (OK, 0, FULL)
    assert translated(damaged, size=100)[0].reason == CHECKSUM
