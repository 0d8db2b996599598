"""Many records of a topic in one call: by offset from one partition, by key from those that the keys belong to."""

from __future__ import annotations

from pathlib import Path

import pytest

import seglog


@pytest.mark.parametrize("mode", ["a", "r"])
def test_records_are_found_by_offset_and_by_key(tmp_path: Path, mode: str) -> None:
    with seglog.Topic.create(tmp_path / "orders", partitions=3) as writer:
        for number in range(200):
            writer.append(b"%d" % number, key=b"k%d" % (number % 40))
    with seglog.Topic.open(tmp_path / "orders", mode=mode) as topic:  # type: ignore[arg-type] # a literal, in the list above
        for number in range(3):
            everything = list(topic.records(number))
            wanted = range(len(everything) - 1, -1, -1)
            assert topic.read_many(number, wanted) == everything[::-1]
        found = topic.read_keys([b"k%d" % number for number in range(41)])
        assert {key: record.value for key, record in found.items()} == {
            b"k%d" % number: b"%d" % (160 + number) for number in range(40)
        }


def test_values_are_deserialized_and_keys_are_those_of_the_log(tmp_path: Path) -> None:
    with seglog.Topic.create(tmp_path / "orders", partitions=2, value_serializer=str.encode) as topic:
        for number in range(10):
            topic.append(f"v{number}", key=b"a")
    with seglog.Topic.open(tmp_path / "orders", value_deserializer=bytes.decode) as topic:
        partition = topic.route(b"a")
        assert [record.value for record in topic.read_many(partition, [9, 0])] == ["v9", "v0"]
        assert topic.read_keys([b"a"])[b"a"].value == b"v9"
