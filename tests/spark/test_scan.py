"""A task reads what was planned, all of it and nothing else, or says what is gone."""

from __future__ import annotations

import logging
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import seglog
from seglog.errors import CorruptRecord, LogNotFound, LogTruncated, OffsetOutOfRange
from seglog.spark.read.explain import explain_read
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.scan import RangeScan

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.spark.read.plan import OffsetRange

SMALL = seglog.LogConfig(segment_bytes=2048)


def fill(log: seglog.Log, records: int, value: bytes = b"v") -> None:
    log.append_batch(pa.table({"value": [value * 30] * records}))


def read(parts: list[OffsetRange], **options: Any) -> list[dict[str, Any]]:
    parsed = ReadOptions.parse({"path": "/", **options})
    scans = [RangeScan(part, parsed.columns, fail_on_data_loss=parsed.fail_on_data_loss) for part in parts]
    return [row for scan in scans for batch in scan for row in batch.to_pylist()]


def offsets(parts: list[OffsetRange], **options: Any) -> list[int]:
    return [row["offset"] for row in read(parts, **options)]


def test_columns_that_are_not_asked_for_are_not_made(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        log.append(b"v", key=b"k", timestamp=1_000_000, headers=[("a", b"1")])
    parts = explain_read(tmp_path / "log").ranges
    assert read(parts, columns="key,partition") == [{"key": b"k", "partition": 0}]
    assert [list(row) for row in read(parts, columns="headers,value", includeHeaders="true")] == [["headers", "value"]]


def test_records_of_any_length_and_null_come_through(tmp_path: Path) -> None:
    generator = np.random.default_rng(7)
    sizes = [0, 1, 12, 13, 100_000, 30_000_000, 5, 9_000_000, *generator.integers(0, 3000, 20_000).tolist()]
    values = [None if size % 50 == 7 else b"x" * size for size in sizes]
    keys = [None if size % 3 else b"%d" % size for size in sizes]
    with seglog.open(tmp_path / "log") as log:
        log.append_batch(pa.table({"key": keys, "value": values}))
    rows = read(explain_read(tmp_path / "log", minPartitions=3).ranges, columns="key,value")
    assert [(row["key"], row["value"]) for row in rows] == list(zip(keys, values, strict=True))


def test_gaps_in_the_offsets_are_no_loss(tmp_path: Path) -> None:
    there = [0, 3, 4, 70, 71, 500, 1000]
    with seglog.open(tmp_path / "log", SMALL) as log:
        for offset in there:
            log.append_at(offset, seglog.Record(offset, 0, None, b"x" * 400, ()))
    assert offsets(explain_read(tmp_path / "log").ranges) == there
    bounded = {"startingOffsets": '{"log": {"0": 2}}', "endingOffsets": '{"log": {"0": 400}}'}
    assert offsets(explain_read(tmp_path / "log", **bounded).ranges) == [3, 4, 70, 71]
    assert offsets(explain_read(tmp_path / "log", maxRecordsPerPartition=10).ranges) == there


def test_a_truncate_and_new_records_between_plan_and_read_are_told(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 100, b"old")
        parts = explain_read(tmp_path / "log").ranges
        log.truncate(50)
        fill(log, 100, b"new")
        with pytest.raises(LogTruncated, match="truncated below offset"):
            read(parts)
        kept = read(parts, failOnDataLoss="false")
    assert [row["offset"] for row in kept] == list(range(50))
    assert {row["value"] for row in kept} == {b"old" * 30}


def test_a_truncate_behind_what_was_planned_is_harmless(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 100)
        parts = explain_read(tmp_path / "log", endingOffsets='{"log": {"0": 60}}').ranges
        log.truncate(60)
        fill(log, 100)
        assert offsets(parts) == list(range(60))


def test_what_expired_since_is_told_or_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    keep = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=4096))
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 200)
    parts = explain_read(tmp_path / "log").ranges
    with seglog.open(tmp_path / "log", keep) as log:
        log.expire()
        lowest = log.lowest_offset
    with pytest.raises(OffsetOutOfRange, match="expired before they were read"):
        read(parts)
    with caplog.at_level(logging.WARNING, "seglog.spark"):
        assert offsets(parts, failOnDataLoss="false") == list(range(lowest, 200))
    assert "continuing with what exists" in caplog.text


@pytest.mark.parametrize("fail", [True, False])
def test_a_file_that_goes_in_the_middle_of_a_scan_without_a_lease(tmp_path: Path, *, fail: bool) -> None:
    """On a file system where leases cannot be held, files go while a task reads."""
    keep = seglog.LogConfig(segment_bytes=2048, retention=seglog.Retention(bytes=4096))
    with seglog.open(tmp_path / "log", SMALL) as log:
        fill(log, 200)
    parts = explain_read(tmp_path / "log").ranges
    whole = replace(parts[-1], start=0, extents=tuple(extent for part in parts for extent in part.extents))
    scan = iter(RangeScan(whole, ("offset",), fail_on_data_loss=fail))
    first = next(scan)["offset"].to_pylist()
    for lease in (tmp_path / "log" / "readers").iterdir():
        lease.unlink()
    with seglog.open(tmp_path / "log", keep) as log:
        log.expire()
        lowest = log.lowest_offset
    assert first[-1] + 1 < lowest
    if fail:
        with pytest.raises(OffsetOutOfRange):
            list(scan)
    else:
        rest = [offset for batch in scan for offset in batch["offset"].to_pylist()]
        assert first + rest == [*first, *range(lowest, 200)]


def test_a_log_that_is_gone_is_told_or_left_out(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 5)
    parts = explain_read(tmp_path / "log").ranges
    shutil.rmtree(tmp_path / "log")
    with pytest.raises(LogNotFound):
        read(parts)
    assert read(parts, failOnDataLoss="false") == []


def test_another_log_in_its_place_is_not_read(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 5)
        parts = explain_read(tmp_path / "log").ranges
        log.remove()
    with seglog.open(tmp_path / "log") as log:
        fill(log, 50)
    with pytest.raises(LogTruncated, match="another log is in its place"):
        read(parts)
    assert read(parts, failOnDataLoss="false") == []


@pytest.mark.parametrize("position", [70, 5_000, 18_000])
def test_a_damaged_record_is_named_after_the_sound_ones_before_it(tmp_path: Path, position: int) -> None:
    with seglog.open(tmp_path / "log") as log:
        fill(log, 300)
        store = tmp_path / "log" / log.segments[0].name
    parts = explain_read(tmp_path / "log").ranges
    data = bytearray(store.read_bytes())
    data[position] ^= 1
    store.write_bytes(data)
    batches = iter(RangeScan(parts[0], ("offset",), fail_on_data_loss=True))
    seen: list[int] = []
    with pytest.raises(CorruptRecord) as caught:
        for batch in batches:
            seen += batch["offset"].to_pylist()
    assert seen == list(range(len(seen)))
    assert caught.value.offset == len(seen)
    assert 0 <= position - caught.value.position < 62 + 32
    assert caught.value.path == str(store)


def test_a_store_that_was_cut_short_is_damage_and_not_an_end(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log", seglog.LogConfig(segment_bytes=8192)) as log:
        fill(log, 300)
        store = tmp_path / "log" / log.segments[0].name
    parts = explain_read(tmp_path / "log").ranges
    store.write_bytes(store.read_bytes()[:3000])
    with pytest.raises(CorruptRecord):
        read(parts)
