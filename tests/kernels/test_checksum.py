"""XXH64 of the kernels is that of the xxhash library, at every length and alignment."""

import numpy as np
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from seglog.kernels.checksum import xxh64, xxh64_rows

pytestmark = pytest.mark.no_cover  # as the kernels

DATA = np.random.default_rng(7).integers(0, 256, 1 << 20, dtype=np.uint8)
SEEDS = (0, 1, 2**63, 2**64 - 1, 0x0123456789ABCDEF)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_short_length_hashes_as_the_library_does(seed):
    for length in range(301):
        start = length % 17
        expected = xxhash.xxh64_intdigest(DATA[start : start + length].tobytes(), seed)
        assert int(xxh64(DATA, start, start + length, np.uint64(seed))) == expected


@pytest.mark.parametrize("length", [4095, 4096, 65537, 1 << 20])
def test_long_buffers_hash_as_the_library_does(length):
    assert int(xxh64(DATA, 0, length, np.uint64(3))) == xxhash.xxh64_intdigest(DATA[:length].tobytes(), 3)


@given(st.binary(max_size=200), st.integers(0, 2**64 - 1))
def test_any_bytes_and_seed_hash_as_the_library_does(data, seed):
    array = np.frombuffer(data + b"\0", np.uint8)
    assert int(xxh64(array, 0, len(data), np.uint64(seed))) == xxhash.xxh64_intdigest(data, seed)


@given(st.lists(st.none() | st.binary(max_size=80)))
def test_a_column_hashes_row_by_row_and_a_null_is_zero(rows):
    data = np.frombuffer(b"".join(row or b"" for row in rows) + b"\0", np.uint8)
    lengths = np.array([-1 if row is None else len(row) for row in rows], np.int64)
    ends = np.cumsum(np.maximum(lengths, 0))
    out = np.full(len(rows), 7, np.uint64)
    xxh64_rows(data.ctypes.data + ends - np.maximum(lengths, 0), lengths, out)
    assert out.tolist() == [0 if row is None else xxhash.xxh64_intdigest(row) for row in rows]
