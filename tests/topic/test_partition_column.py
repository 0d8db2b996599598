"""A column `partition` names where a row goes; where it is null, the key or the turn decides as without it."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog.topic import partition_of
from seglog.topic.partition_split import split_by_partition


def shares(table: Any, partitions: int = 3, turn: int = 0) -> dict[int, list[bytes]]:
    parts, _ = split_by_partition(table, partitions, turn)
    return {number: part["value"].to_pylist() for number, part in parts.items()}


ROWS = [b"v%d" % number for number in range(6)]


@pytest.mark.parametrize("kind", [pa.int8(), pa.int32(), pa.int64(), pa.uint8(), pa.uint64()], ids=str)
def test_every_row_goes_where_it_says_and_keeps_its_order(kind: pa.DataType) -> None:
    table = pa.table({"value": ROWS, "key": [b"k"] * 6, "partition": pa.array([2, 0, 2, 1, 0, 2], kind)})
    assert shares(table) == {0: [b"v1", b"v4"], 1: [b"v3"], 2: [b"v0", b"v2", b"v5"]}


def test_the_shares_lack_the_column() -> None:
    table = pa.table({"partition": pa.array([1, 0], pa.int32()), "value": ROWS[:2], "key": [b"a", None]})
    parts, _ = split_by_partition(table, 3, 0)
    assert [part.column_names for part in parts.values()] == [["value", "key"]] * 2


def test_where_it_is_null_the_key_decides_or_the_turn() -> None:
    keys = [b"abc", None, b"abc", None, b"foobar", None]
    table = pa.table({"value": ROWS, "key": keys, "partition": pa.array([None, None, 1, 0, None, None], pa.int32())})
    expected: dict[int, list[bytes]] = {}
    for value, number in zip(
        ROWS, [partition_of(b"abc", 3), 1, 1, 0, partition_of(b"foobar", 3), 0], strict=True
    ):  # the rows without a key take turns 1, 2, 0, also the one that does not use its turn
        expected.setdefault(number, []).append(value)
    assert shares(table, turn=1) == expected


def test_all_null_is_as_if_it_were_not_there() -> None:
    plain = pa.table({"value": ROWS, "key": [b"a", None, b"b", None, b"c", None]})
    for column in (pa.nulls(6, pa.int32()), pa.nulls(6, pa.int64())):
        named = plain.append_column("partition", column)
        assert split_by_partition(named, 3, 2) == split_by_partition(plain, 3, 2)


def test_chunks_and_slices_are_dealt_out_alike() -> None:
    column = pa.chunked_array([[9, 2, 0], [], [1, 2]], pa.int32())[1:]
    table = pa.table({"value": pa.chunked_array([ROWS[:1], ROWS[1:4]]), "partition": column})
    assert shares(table) == {0: [b"v1"], 1: [b"v2"], 2: [b"v0", b"v3"]}
    assert shares(table.combine_chunks().to_batches()[0]) == shares(table)


@pytest.mark.parametrize("wrong", [-1, 3, 2**40, -(2**40)])
def test_a_partition_that_is_not_there_is_refused_by_its_number(wrong: int) -> None:
    table = pa.table({"value": ROWS[:3], "partition": pa.array([0, None, wrong], pa.int64())})
    with pytest.raises(seglog.InvalidArgument, match=rf"names {wrong}; there are 0 to 2"):
        split_by_partition(table, 3, 0)


def test_a_number_that_fits_only_without_a_sign_is_refused() -> None:
    table = pa.table({"value": ROWS[:1], "partition": pa.array([2**64 - 1], pa.uint64())})
    with pytest.raises(seglog.InvalidArgument, match=rf"names {2**64 - 1}; there are 0 to 2"):
        split_by_partition(table, 3, 0)


@pytest.mark.parametrize("column", [["1"], [1.0], [True], [b"1"]], ids=str)
def test_a_column_of_another_type_is_refused(column: Any) -> None:
    with pytest.raises(seglog.InvalidType, match="must hold integers"):
        split_by_partition(pa.table({"value": ROWS[:1], "partition": column}), 3, 0)


def test_a_table_with_two_such_columns_is_refused() -> None:
    column = pa.array([0], pa.int32())
    table = pa.Table.from_arrays([pa.array(ROWS[:1]), column, column], ["value", "partition", "partition"])
    with pytest.raises(seglog.InvalidArgument, match="partition"):
        split_by_partition(table, 3, 0)


def test_a_topics_batch_obeys_it_and_the_turn_goes_on_behind_it(scene: Any) -> None:
    with scene.make() as topic:
        table = pa.table({"value": ROWS, "partition": pa.array([3, 3, None, None, 1, None], pa.int32())})
        assert topic.append_batch(table) == {1: range(2), 2: range(1, 2), 3: range(1, 4)}
        assert topic.append(b"next") == (2, 2)
        with pytest.raises(seglog.InvalidArgument, match="names 4"):
            topic.append_batch(pa.table({"value": ROWS[:1], "partition": [4]}))
        new = {1: [b"v4", b"v5"], 2: [b"v2", b"next"], 3: [b"v0", b"v1", b"v3"]}
        assert scene.values(topic) == scene.joined(scene.OLD, new)
        scene.check_sound(topic)
