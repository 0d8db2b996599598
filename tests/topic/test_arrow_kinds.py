"""Columns of every kind that Arrow has, in a batch for a topic: stored, or refused with an error of ours, whole."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import seglog
from seglog import Broker, MemoryStorage


class Extension(pa.ExtensionType):  # type: ignore[misc] # pyarrow has no types
    """An extension type that is registered nowhere, and cannot be hashed."""

    def __init__(self, storage: pa.DataType) -> None:
        super().__init__(storage, "seglog.test")

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage: pa.DataType, serialized: bytes) -> Extension:
        return cls(storage)


def extension(values: pa.Array) -> pa.Array:
    return pa.ExtensionArray.from_storage(Extension(values.type), values)


BYTES, NUMBERS = pa.array([b"a", b"b", b"c"]), pa.array([1, 2, 3])
PAIRS = pa.struct([("key", pa.string()), ("value", pa.binary())])
KINDS = {
    "run-end-encoded bytes": pa.RunEndEncodedArray.from_arrays([1, 3], BYTES[:2]),
    "run-end-encoded numbers": pa.RunEndEncodedArray.from_arrays([1, 3], NUMBERS[:2]),
    "an extension of bytes": extension(BYTES),
    "an extension of numbers": extension(NUMBERS),
    "a dictionary of an extension": pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int32()), extension(BYTES)),
    "a dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "decimal256": pa.array([Decimal(1), Decimal(2), None], pa.decimal256(40, 2)),
    "list view": pa.array([[1], [2, 3], None], pa.list_view(pa.int64())),
    "list view of pairs": pa.array([[("a", b"x")], [], None], pa.list_view(PAIRS)),
    "list": pa.array([[1], [2, 3], None]),
    "map": pa.array([[("a", b"x")], [], None], pa.map_(pa.string(), pa.binary())),
    "struct": pa.array([{"a": 1}] * 3),
    "sparse union": pa.UnionArray.from_sparse(pa.array([0, 1, 0], pa.int8()), [BYTES, NUMBERS]),
    "dense union": pa.UnionArray.from_dense(
        pa.array([0, 0, 1], pa.int8()), pa.array([0, 1, 0], pa.int32()), [BYTES, NUMBERS]
    ),
    "binary view": pa.array([b"a", b"b" * 40, None], pa.binary_view()),
    "string view": pa.array(["a", "b" * 40, None], pa.string_view()),
    "fixed size binary": pa.array([b"aa", b"bb", None], pa.binary(2)),
    "nulls": pa.nulls(3),
    "timestamp of a zone": pa.array([1, 2, 3], pa.timestamp("ns", "Europe/Berlin")),
    "date": pa.array([1, 2, 3], pa.date64()),
    "half floats": pa.array(np.array([1, 2, 3], np.float16)),
    "interval": pa.array([(1, 2, 3)] * 3, pa.month_day_nano_interval()),
    "booleans": pa.array([True, False, None]),
}
SOME, NONE, ALL = {True, False}, {False}, {True}
COLUMNS = {
    "value": SOME,
    "key": SOME,
    "timestamp": SOME,
    "headers": SOME,
    "partition": NONE,
    "extra": NONE,
    "offset": ALL,
}
"""Column -> whether kinds of it are stored: some are and some are not, none is, or all are because it is ignored."""


def outcome(call: Any) -> str:
    """Return "stored", or the kind of the error; any error that is not ours is raised."""
    try:
        call()
    except seglog.SeglogError as error:
        return type(error).__name__
    return "stored"


@pytest.mark.parametrize("column", COLUMNS)
def test_a_column_of_any_kind_is_stored_or_refused_whole_and_a_topic_agrees_with_a_log(column: str) -> None:
    outcomes = set()
    for name, values in KINDS.items():
        table = pa.table({"value": BYTES, column: values})
        with Broker(MemoryStorage()) as broker:
            one, many = broker.create_topic("one"), broker.create_topic("many", partitions=4)
            alone = outcome(lambda table=table, one=one: one.partition(0).append_batch(table))  # type: ignore[misc]
            split = outcome(lambda table=table, many=many: many.append_batch(table))  # type: ignore[misc]
            outcomes.add(split == "stored")
            logs = [many.partition(number) for number in range(4)]
            stored = sorted(str((record.key, record.value, record.headers)) for log in logs for record in log.scan())
            assert all(log.verify().ok for log in logs)
            if column == "partition":  # a column of topics only
                assert len(stored) == (3 if split == "stored" else 0), name
                continue
            assert (alone == "stored") == (split == "stored"), (name, alone, split)
            expected = [str((record.key, record.value, record.headers)) for record in one.partition(0).scan()]
            assert stored == sorted(expected), name
    assert outcomes == COLUMNS[column]


def test_what_a_log_gives_out_can_be_appended_to_a_topic_of_several_partitions() -> None:
    with Broker(MemoryStorage()) as broker:
        source, target = broker.create_topic("source"), broker.create_topic("target", partitions=3)
        for number in range(20):
            source.append(b"value %d" % number, key=None if number % 3 else b"key %d" % number, headers=[("h", b"x")])
        target.append_batch(source.partition(0).to_arrow().drop_columns(["offset"]))
        copied = [record.value for number in range(3) for record in target.partition(number).scan()]
        assert sorted(copied) == sorted(b"value %d" % number for number in range(20))
