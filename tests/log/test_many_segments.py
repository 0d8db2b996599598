"""A hundred thousand records in more than fifty segments: each is found, in any order and however few stay open."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.no_cover
RECORDS = 100_000
BY_BATCH = 90_000
SINGLE = 10_000
START = 1_600_000_000_000_000


def key(offset: int) -> bytes | None:
    return None if offset % 7 == 0 else b"key-%d" % (offset % 1000)


def value(offset: int) -> bytes | None:
    return None if offset % 11 == 0 else b"%d-" % offset * (offset % 5)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: Any) -> Path:
    path: Path = tmp_path_factory.mktemp("many") / "orders"
    with seglog.open(path, LogConfig(segment_bytes=96 * 1024, open_segments_max=80)) as log:
        for first in range(0, BY_BATCH, 15_000):
            offsets = range(first, first + 15_000)
            columns = {
                "value": pa.array([value(offset) for offset in offsets], pa.binary()),
                "key": pa.array([key(offset) for offset in offsets], pa.binary()),
                "timestamp": pa.array([START + offset for offset in offsets], pa.int64()),
            }
            assert log.append_batch(pa.table(columns)) == offsets
        for offset in range(BY_BATCH, RECORDS):
            assert log.append(value(offset), key=key(offset), timestamp=START + offset) == offset
        assert len(log.segments) >= 50
    return path


def is_right(record: seglog.Record) -> bool:
    offset = record.offset
    return (record.timestamp, record.key, record.value) == (START + offset, key(offset), value(offset))


def test_every_record_is_read_in_a_random_order(filled: Path) -> None:
    offsets = list(range(RECORDS))
    random.Random(1).shuffle(offsets)
    with seglog.open(filled) as log:
        for offset in offsets:
            record = log.read(offset)
            assert record.offset == offset
            assert is_right(record)


def test_a_few_open_segments_are_enough(filled: Path) -> None:
    with seglog.open(filled, LogConfig(segment_bytes=96 * 1024, open_segments_max=2)) as log:
        for offset in random.Random(2).sample(range(RECORDS), 2000):
            assert is_right(log.read(offset))
        assert sum(is_right(record) for record in log.scan()) == RECORDS


def test_a_scan_from_anywhere_goes_on_to_the_end(filled: Path) -> None:
    with seglog.open(filled, mode="r") as log:
        assert sum(1 for record in log.scan() if is_right(record)) == RECORDS
        for start in random.Random(3).sample(range(RECORDS), 50):
            stop = min(start + 40, RECORDS)
            assert [record.offset for record in log.scan(start, stop)] == list(range(start, stop))


@pytest.mark.parametrize("values", ["view", "binary"])
def test_arrow_holds_the_same(filled: Path, values: Any) -> None:
    with seglog.open(filled, mode="r") as log:
        table = log.to_arrow(values=values)
    assert table.column("offset").to_pylist() == list(range(RECORDS))
    assert table.column("value").to_pylist() == [value(offset) for offset in range(RECORDS)]
    assert table.column("key").to_pylist() == [key(offset) for offset in range(RECORDS)]


def test_the_figures_of_the_segments_add_up(filled: Path) -> None:
    with seglog.open(filled, mode="r") as log:
        segments = log.segments
        assert sum(segment.records for segment in segments) == RECORDS
        assert sum(segment.tombstones for segment in segments) == len(range(0, RECORDS, 11))
        assert sum(segment.bytes for segment in segments) == log.size
        bases = [segment.base_offset for segment in segments]
        assert [segment.next_offset for segment in segments] == [*bases[1:], RECORDS]
        assert [segment.min_timestamp for segment in segments] == [START + base for base in bases]
        assert all(segment.bytes <= 96 * 1024 for segment in segments)
        assert [segment.sealed_at is None for segment in segments] == [False] * (len(segments) - 1) + [True]


def test_any_time_is_found(filled: Path) -> None:
    with seglog.open(filled) as log:
        for offset in random.Random(4).sample(range(RECORDS), 300):
            assert log.offset_at(START + offset) == offset
