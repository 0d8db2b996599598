"""Kafka's default partitioner: known hashes, and one key at a time agrees with whole batches."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.arrow.convert import partitions_of
from seglog.topic.partitioner import murmur2, partition_of


@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (b"21", -973932308),
        (b"foobar", -790332482),
        (b"abc", 479470107),
        (b"a-little-bit-long-string", -985981536),
        (b"", 275646681),
    ],
)
def test_24_the_hash_is_the_one_kafkas_clients_compute(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected


def test_24_a_negative_hash_loses_its_sign_bit_not_its_sign() -> None:
    assert partition_of(b"21", 4) == (-973932308 & 0x7FFFFFFF) % 4


@given(keys=st.lists(st.none() | st.binary(max_size=40), max_size=30), partitions=st.integers(1, 50))
def test_a_batch_goes_where_its_keys_would_go_one_by_one(keys: list[bytes | None], partitions: int) -> None:
    expected = [-1 if key is None else partition_of(key, partitions) for key in keys]

    assert partitions_of(pa.array(keys, pa.binary()), partitions).tolist() == expected
