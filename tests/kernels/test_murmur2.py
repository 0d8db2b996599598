"""The compiled partitioner is Kafka's."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.kernels.murmur2 import murmur2, partition_keys

pytestmark = pytest.mark.no_cover  # as the kernels

KNOWN = {b"21": -973932308, b"foobar": -790332482, b"abc": 479470107}


def plain_murmur2(data: bytes) -> int:
    """The algorithm as it is written down, on Python integers."""
    mask, m = 0xFFFFFFFF, 0x5BD1E995
    digest = (0x9747B28C ^ len(data)) & mask
    whole = len(data) // 4 * 4
    for start in range(0, whole, 4):
        word = int.from_bytes(data[start : start + 4], "little") * m & mask
        word = (word ^ word >> 24) * m & mask
        digest = (digest * m & mask) ^ word
    if data[whole:]:
        digest = (digest ^ int.from_bytes(data[whole:], "little")) * m & mask
    digest = (digest ^ digest >> 13) * m & mask
    digest ^= digest >> 15
    return digest - 2**32 if digest >= 2**31 else digest


def as_array(data: bytes) -> np.ndarray:
    return np.frombuffer(data + b"\0", np.uint8)[: len(data)]


@pytest.mark.parametrize(("key", "digest"), KNOWN.items())
def test_known_keys_hash_as_in_kafka(key, digest):
    assert murmur2(as_array(key)) == digest
    assert plain_murmur2(key) == digest


@given(st.binary(max_size=64))
def test_any_key_hashes_as_the_plain_algorithm_does(key):
    assert murmur2(as_array(key)) == plain_murmur2(key)


@given(st.lists(st.none() | st.binary(max_size=20), max_size=20), st.integers(1, 1000))
def test_a_batch_of_keys_gets_the_partition_of_each_key_and_null_gets_none(keys, partitions):
    arrays = [as_array(key or b"") for key in keys]
    addresses = np.array([array.ctypes.data for array in arrays], np.int64)
    lengths = np.array([-1 if key is None else len(key) for key in keys], np.int64)
    out = np.empty(len(keys), np.int32)
    partition_keys(addresses, lengths, partitions, out)
    assert out.tolist() == [-1 if key is None else (plain_murmur2(key) & 0x7FFFFFFF) % partitions for key in keys]
