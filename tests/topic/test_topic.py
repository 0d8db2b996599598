"""A topic: created whole or not at all, keys stay together and in order, batches equal single appends."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import seglog
from seglog.errors import (
    CorruptLog,
    FormatVersionError,
    InvalidArgument,
    InvalidType,
    LogLocked,
    LogNotFound,
    LogReadOnly,
    NotALog,
)
from seglog.topic import Topic, partition_of
from seglog.topic.layout import description
from tests.topic.contents import values_of

if TYPE_CHECKING:
    from pathlib import Path


# --- creating and opening


def test_what_was_created_opens_again_with_everything_in_it(root: Path) -> None:
    with Topic.create(root, partitions=3) as topic:
        places = [topic.append(b"%d" % number, key=b"k%d" % number) for number in range(20)]
        identity = topic.id

    with Topic.open(root, mode="r") as topic:
        assert (topic.name, topic.partitions, topic.id) == ("orders", 3, identity)
        read = [topic.partition(partition).read(offset).value for partition, offset in places]
        assert read == [b"%d" % number for number in range(20)]


def test_a_partition_is_a_log_of_its_own(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic:
        topic.append(b"v", key=b"k")

    with seglog.open(root / str(partition_of(b"k", 2)), mode="r") as log:
        assert log.read(0).key == b"k"


def test_the_config_is_every_partitions_config(root: Path) -> None:
    with Topic.create(root, partitions=2, config=seglog.LogConfig(segment_bytes=4096)) as topic:
        assert [topic.partition(number).config.segment_bytes for number in (0, 1)] == [4096, 4096]


def test_a_topic_is_not_created_twice(root: Path) -> None:
    Topic.create(root, partitions=1).close()
    with pytest.raises(InvalidArgument, match="already is a topic"):
        Topic.create(root, partitions=1)


@pytest.mark.parametrize("partitions", [0, -1, 10_001])
def test_a_count_that_cannot_be_is_refused_and_nothing_is_made(root: Path, partitions: int) -> None:
    with pytest.raises(InvalidArgument, match="between 1 and"):
        Topic.create(root, partitions=partitions)
    assert not root.exists()


@pytest.mark.parametrize("partitions", ["2", 2.0, True])
def test_a_count_that_is_no_int_is_refused(root: Path, partitions: object) -> None:
    with pytest.raises(InvalidType):
        Topic.create(root, partitions=partitions)  # type: ignore[arg-type] # the point of the test


def test_a_directory_of_something_else_is_left_alone(root: Path) -> None:
    root.mkdir()
    (root / "notes.txt").write_text("mine")
    with pytest.raises(NotALog, match=r"notes\.txt"):
        Topic.create(root, partitions=2)
    assert [entry.name for entry in root.iterdir()] == ["notes.txt"]


def test_a_file_is_no_place_for_a_topic(root: Path) -> None:
    root.write_text("mine")
    with pytest.raises(NotALog):
        Topic.create(root, partitions=1)
    with pytest.raises(NotALog):
        Topic.open(root)


def test_opening_never_creates(root: Path) -> None:
    with pytest.raises(LogNotFound):
        Topic.open(root)
    assert not root.exists()
    root.mkdir()
    with pytest.raises(NotALog, match=r"topic\.json"):
        Topic.open(root)


def test_a_lost_partition_is_noticed_and_not_made_anew(root: Path) -> None:
    Topic.create(root, partitions=3).close()
    (root / "1").rename(root.parent / "elsewhere")
    for mode in ("a", "r"):
        with pytest.raises(CorruptLog, match="partition 1 is missing"):
            Topic.open(root, mode=mode)  # type: ignore[arg-type] # both are modes
    assert not (root / "1").exists()


def test_a_newer_version_is_named_as_such(root: Path) -> None:
    Topic.create(root, partitions=1).close()
    path = root / "topic.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "format_version": 4}))
    with pytest.raises(FormatVersionError, match="version 4"):
        Topic.open(root)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        '{"format_version": 1}',
        '{"format_version": 1, "id": "x", "name": "n", "partitions": 0}',
        '{"format_version":' * 3000,
    ],
)
def test_a_damaged_description_is_reported(root: Path, text: str) -> None:
    Topic.create(root, partitions=1).close()
    (root / "topic.json").write_text(text)
    with pytest.raises(CorruptLog, match=r"topic\.json"):
        Topic.open(root)


def test_a_topic_has_one_writer_and_readers_beside_it(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic:
        topic.append(b"v", key=b"k")
        with pytest.raises(LogLocked):
            Topic.open(root)
        with Topic.open(root, mode="r") as reader:
            assert sum(len(values) for values in values_of(reader)) == 1
            with pytest.raises(LogReadOnly):
                reader.append(b"w")


# --- a crash while it is created


class Interrupted(BaseException):
    pass


@pytest.mark.parametrize("partitions_then", [1, 3, 5])
def test_a_create_cut_short_can_be_done_again(
    root: Path, monkeypatch: pytest.MonkeyPatch, partitions_then: int
) -> None:
    def crash(*_: object) -> None:
        raise Interrupted

    with monkeypatch.context() as patch:
        patch.setattr(description, "write", crash)
        with pytest.raises(Interrupted):
            Topic.create(root, partitions=3)
    with pytest.raises(NotALog):
        Topic.open(root, mode="r")

    with Topic.create(root, partitions=partitions_then) as topic:
        topic.append(b"v")
    assert sorted(entry.name for entry in root.iterdir()) == [
        ".seglog.lock",
        *map(str, range(partitions_then)),
        "topic.json",
    ]


def test_a_process_killed_at_any_file_operation_of_create_leaves_what_opens_or_is_created_again(
    root: Path,
) -> None:
    for step in range(1, 400):
        child = os.fork()
        if child == 0:
            try:
                _die_at(step)
                Topic.create(root, partitions=2).close()
                os._exit(0)
            finally:
                os._exit(1)
        finished = os.waitpid(child, 0)[1] == 0
        if description.is_topic(root):
            Topic.open(root).close()
            if finished:
                break
        else:
            Topic.create(root, partitions=2).close()
        _remove(root)
    else:
        pytest.fail("create never finished")


def _die_at(step: int) -> None:
    count = 0

    def counted(name: str) -> None:
        original = getattr(os, name)

        def call(*arguments: object, **named: object) -> object:
            nonlocal count
            count += 1
            if count == step:
                os._exit(9)
            return original(*arguments, **named)

        setattr(os, name, call)

    for name in ("fsync", "fdatasync", "rename", "replace", "mkdir", "link"):
        counted(name)


def _remove(root: Path) -> None:
    with Topic.open(root) as topic:
        for number in range(topic.partitions):
            topic.partition(number).remove()
    (root / "topic.json").unlink()


def test_a_log_with_records_is_not_cleared_away_as_a_leftover(root: Path) -> None:
    with seglog.open(root / "0") as log:
        log.append(b"somebody's")
    with pytest.raises(NotALog, match="records"):
        Topic.create(root, partitions=2)
    with seglog.open(root / "0", mode="r") as log:
        assert log.read(0).value == b"somebody's"


# --- appending


def test_one_key_stays_in_one_partition_in_order(root: Path) -> None:
    with Topic.create(root, partitions=4) as topic:
        places = [topic.append(b"%d" % number, key=b"aircraft") for number in range(10)]
    assert places == [(partition_of(b"aircraft", 4), number) for number in range(10)]


def test_records_without_a_key_are_dealt_out_in_turn(root: Path) -> None:
    with Topic.create(root, partitions=3) as topic:
        assert [topic.append(b"v") for _ in range(5)] == [(0, 0), (1, 0), (2, 0), (0, 1), (1, 1)]


def test_timestamps_headers_and_tombstones_go_through(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic:
        partition, offset = topic.append(None, key=b"k", timestamp=7, headers=[("h", b"1")])
        record = topic.partition(partition).read(offset)
    assert (record.value, record.timestamp, record.headers) == (None, 7, (("h", b"1"),))


@pytest.mark.parametrize(
    "keys",
    [
        pa.chunked_array([[b"a", b"b", None], [b"c", None, b"a", b"d"], []], pa.binary()),
        pa.chunked_array([["x", None, "y", "x", "z", "zz", "x"]], pa.string()).slice(1),
        pa.chunked_array([pa.array(["x", None, "y", "x"]).dictionary_encode()]),
        pa.chunked_array([pa.nulls(5)]),
    ],
    ids=["chunks", "sliced strings", "dictionary", "all null"],
)
def test_a_batch_lands_where_single_appends_would(root: Path, keys: pa.ChunkedArray) -> None:
    values = [b"v%d" % number for number in range(len(keys))]
    with (
        Topic.create(root / "one", partitions=3) as single,
        Topic.create(root / "two", partitions=3) as batch,
    ):
        for key, value in zip(keys.to_pylist(), values, strict=True):
            single.append(value, key=key.encode() if isinstance(key, str) else key)
        offsets = batch.append_batch(pa.table({"key": keys, "value": pa.array(values)}))
        batch.append(b"next")
        single.append(b"next")

        assert values_of(batch) == values_of(single)
        lengths = {number: len(rows) for number, rows in offsets.items()}
    assert sum(lengths.values()) == len(keys)
    assert 0 not in lengths.values()


def test_a_record_batch_without_keys_is_dealt_out_in_turn(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic:
        offsets = topic.append_batch(pa.record_batch({"value": [b"a", b"b", b"c"]}))
        assert offsets == {0: range(2), 1: range(1)}
        assert values_of(topic) == [[b"a", b"c"], [b"b"]]


def test_an_empty_batch_is_no_append(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic:
        assert topic.append_batch(pa.table({"value": pa.array([], pa.binary())})) == {}


def test_what_is_no_table_is_refused(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic, pytest.raises(InvalidType, match="Table or RecordBatch"):
        topic.append_batch([b"v"])  # type: ignore[arg-type] # the point of the test


def test_a_batch_that_fails_part_way_says_what_is_in(root: Path) -> None:
    keys = [b"abc", b"foobar"]
    first, second = sorted(keys, key=lambda key: partition_of(key, 2))
    assert partition_of(first, 2) != partition_of(second, 2)
    table = pa.table({"key": [first, second], "value": [b"small", b"x" * 10_000]})
    with Topic.create(root, partitions=2, config=seglog.LogConfig(segment_bytes=1024)) as topic:
        with pytest.raises(seglog.RecordTooLarge) as caught:
            topic.append_batch(table)
        assert "nothing was appended to partition 1" in caught.value.__notes__[0]
        assert values_of(topic) == [[b"small"], []]


def test_sync_makes_every_partition_durable(root: Path) -> None:
    with Topic.create(root, partitions=2) as topic:
        topic.append_batch(pa.table({"value": [b"a", b"b", b"c"]}))
        topic.sync()
        assert [topic.partition(number).durable_offset for number in (0, 1)] == [2, 1]


@pytest.mark.parametrize("number", [-1, 2])
def test_a_partition_that_does_not_exist_is_refused(root: Path, number: int) -> None:
    with Topic.create(root, partitions=2) as topic, pytest.raises(InvalidArgument, match="partitions 0 to 1"):
        topic.partition(number)
