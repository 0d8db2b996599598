"""Whole segments that were staged beside a log join it in one step: all of a batch or nothing, and once only."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest

import seglog
from seglog.config import MAX_OFFSET
from seglog.log.opening import storage_at
from seglog.log.staging import Stage, StagedSegment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
OLD = [b"old %d" % number for number in range(7)]
NEW = [b"new %02d " % number * 4 for number in range(30)]  # several segments of 512 bytes


def staged_in(place: Any, values: Iterable[bytes | None], *, batch: str = "q-0", **named: Any) -> list[StagedSegment]:
    """Stage values as one batch, in a stage of their own; timestamps and keys count up."""
    rows = list(values)
    columns = {
        "value": pa.array(rows, pa.binary()),
        "key": pa.array([b"k%d" % number for number in range(len(rows))], pa.binary()),
        "timestamp": pa.array(range(len(rows)), pa.timestamp("us", "UTC")),
    }
    with Stage(storage_at(place), batch, **named) as stage:
        stage.append_batch(pa.table(columns))
        return stage.finish()


def filled(place: Any, config: seglog.LogConfig | None = SMALL, **named: Any) -> seglog.Log:
    log = seglog.open(place, config, **named)
    for value in OLD:
        log.append(value, timestamp=0)
    return log


def check_holds(log: seglog.Log, values: list[bytes | None]) -> None:
    """Every way to read gives these values, and every byte of the log verifies."""
    records = list(log.scan())
    assert [record.value for record in records] == values
    assert [record.offset for record in records] == list(range(log.lowest_offset, log.next_offset))
    assert [log.read(record.offset) for record in records] == records
    assert log.to_arrow()["value"].to_pylist() == values
    assert log.to_arrow()["offset"].to_pylist() == [record.offset for record in records]
    assert log.verify().problems == ()


# --- where it joins -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("old", [[], OLD], ids=["empty", "with records"])
@pytest.mark.parametrize("new", [NEW[:1], NEW, [b"x", None, b""]], ids=["one", "many segments", "tombstone"])
def test_a_batch_joins_behind_the_last_record_and_the_log_goes_on(
    place: Any, old: list[bytes], new: list[bytes | None]
) -> None:
    with seglog.open(place, SMALL) as log:
        for value in old:
            log.append(value)
        staged = staged_in(place, new)
        assert (len(staged) > 3) == (new is NEW)
        assert log.publish(staged, query="q", batch=0) == range(len(old), len(old) + len(new))
        assert (log.next_offset, log.durable_offset) == (len(old) + len(new),) * 2
        check_holds(log, [*old, *new])
        assert log.append(b"and on") == len(old) + len(new)
        check_holds(log, [*old, *new, b"and on"])
    with seglog.open(place) as log:
        assert log.recovery.clean
        check_holds(log, [*old, *new, b"and on"])


def test_keys_timestamps_and_headers_come_with_it(place: Any) -> None:
    with filled(place) as log:
        headers = [[("a", b"1"), ("b", None)], None]
        kind = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
        pairs = [None if row is None else [{"key": name, "value": value} for name, value in row] for row in headers]
        with Stage(storage_at(place), "q-0") as stage:
            columns = {"value": [b"x", b"y"], "key": [b"k", None], "headers": pa.array(pairs, kind)}
            stage.append_batch(pa.table({**columns, "timestamp": pa.array([5, 6])}))
            staged = stage.finish()
        log.publish(staged, query="q", batch=0)
        assert log.read(7) == seglog.Record(7, 5, b"k", b"x", (("a", b"1"), ("b", None)))
        assert log.read(8) == seglog.Record(8, 6, None, b"y", ())


def test_what_is_still_buffered_comes_before_it(place: Any) -> None:
    config = seglog.LogConfig(segment_bytes=4096, buffer_bytes=2048)
    with filled(place, config) as log:
        log.publish(staged_in(place, NEW), query="q", batch=0)
        check_holds(log, [*OLD, *NEW])
        log.append(b"buffered")
        log.publish(staged_in(place, [b"x"], batch="q-1"), query="q", batch=1)
        check_holds(log, [*OLD, *NEW, b"buffered", b"x"])


@pytest.mark.parametrize(("segment_bytes", "least"), [(512, 10), (2048, 3), (1 << 20, 1)])
def test_stages_have_segments_as_large_as_the_logs_own(place: Any, segment_bytes: int, least: int) -> None:
    with filled(place, seglog.LogConfig(segment_bytes=segment_bytes)) as log:
        log.publish(staged_in(place, NEW * 4), query="q", batch=0)
        joined = log.segments[1:-1]
        assert len(joined) >= least
        assert all(segment.bytes <= segment_bytes for segment in joined)
        assert all(segment.bytes > segment_bytes - 128 for segment in joined[:-1])
        check_holds(log, [*OLD, *NEW * 4])


def test_stages_of_several_tasks_join_in_the_order_given(place: Any) -> None:
    with filled(place) as log:
        first, second, third = (staged_in(place, NEW[start : start + 10]) for start in (0, 10, 20))
        assert log.publish([*third, *first, *second], query="q", batch=0) == range(7, 37)
        check_holds(log, [*OLD, *NEW[20:], *NEW[:20]])


def test_a_batch_without_segments_is_known_all_the_same(place: Any) -> None:
    with filled(place) as log:
        assert log.publish([], query="q", batch=0) == range(7, 7)
        assert log.published("q") == 0
        check_holds(log, list(OLD))
    with seglog.open(place) as log:
        assert log.publish([], query="q", batch=0) is None


def test_a_staged_record_may_use_the_overflow_of_an_empty_segment(place: Any) -> None:
    config = seglog.LogConfig(segment_bytes=512, segment_overflow_bytes=512)
    values = [b"small", b"x" * 800, b"small"]
    with filled(place, config) as log:
        log.publish(staged_in(place, values), query="q", batch=0)
        check_holds(log, [*OLD, *values])


def test_a_batch_joins_behind_a_gap_that_a_follower_left(place: Any) -> None:
    with filled(place) as log:
        log.append_at(100, seglog.Record(100, 0, None, b"far"))
        assert log.publish(staged_in(place, NEW), query="q", batch=0) == range(101, 131)
        assert [record.offset for record in log.scan(50)] == list(range(100, 131))
        assert log.append_at(200, seglog.Record(200, 0, None, b"farther")) is not None
        assert log.verify().ok


# --- its lookups ----------------------------------------------------------------------------------------------------


def test_the_lookups_written_in_the_stage_serve_in_the_log(path: Path) -> None:
    with filled(path) as log:
        staged = staged_in(path, NEW)
        log.publish(staged, query="q", batch=0)
        names = {segment.name: segment for segment in log.segments[1:-1]}
    before = {name: (path / name).with_suffix(".index").stat().st_ino for name in names}
    with seglog.open(path) as log:
        check_holds(log, [*OLD, *NEW])
        assert [log.offset_at(time) for time in range(1, 30)] == list(range(8, 37))
    after = {name: (path / name).with_suffix(".index").stat().st_ino for name in names}
    assert after == before, "no index was made anew: it holds under its new base offset"


def test_lookups_that_are_lost_in_the_stage_are_made_anew(path: Path) -> None:
    with filled(path) as log:
        staged = staged_in(path, NEW)
        for lookup in (path / staged[0].directory).glob("*-*.[it]*"):
            lookup.unlink()
        log.publish(staged, query="q", batch=0)
        assert [record.value for record in log.scan()] == [*OLD, *NEW]
        assert [log.read(offset).value for offset in range(7, 37)] == NEW
        assert [log.offset_at(time) for time in range(1, 30)] == list(range(8, 37))
        check_holds(log, [*OLD, *NEW])


def test_a_segment_that_is_published_twice_reads_right_in_both_places(place: Any) -> None:
    """Two files of the log are then one: the second base offset in the index header must not mislead the first."""
    with filled(place) as log:
        staged = staged_in(place, NEW)
        assert log.publish(staged, query="q", batch=0) == range(7, 37)
        assert log.publish(staged, query="q", batch=1) == range(37, 67)
    with seglog.open(place) as log:
        assert [log.read(offset).value for offset in range(7, 67)] == [*NEW, *NEW]
        check_holds(log, [*OLD, *NEW, *NEW])


# --- once only ------------------------------------------------------------------------------------------------------


def test_a_batch_that_comes_again_is_recognised_also_after_reopening(place: Any) -> None:
    with filled(place) as log:
        assert log.published("q") is None
        log.publish(staged_in(place, [b"three"]), query="q", batch=3)
        for batch in (3, 2, 0):
            assert log.publish(staged_in(place, [b"again"]), query="q", batch=batch) is None
        assert log.publish(staged_in(place, [b"other"]), query="other", batch=0) == range(8, 9)
    with seglog.open(place) as log:
        assert (log.published("q"), log.published("other"), log.published("none")) == (3, 0, None)
        assert log.publish(staged_in(place, [b"again"]), query="q", batch=3) is None
        assert log.publish(staged_in(place, [b"four"]), query="q", batch=4) == range(9, 10)
        check_holds(log, [*OLD, b"three", b"other", b"four"])
    with seglog.open(place, mode="r") as log:
        assert log.published("q") == 4


def test_a_batch_that_comes_again_needs_no_stage_any_more(place: Any) -> None:
    with filled(place) as log:
        staged = staged_in(place, NEW)
        log.publish(staged, query="q", batch=0)
        storage_at(place).remove_directory(staged[0].directory)
        assert log.publish(staged, query="q", batch=0) is None
        check_holds(log, [*OLD, *NEW])


def test_what_is_published_outlives_rolls_truncates_and_a_new_config(place: Any) -> None:
    with filled(place) as log:
        log.publish(staged_in(place, NEW), query="q", batch=0)
        log.truncate(9)
        log.append_batch(pa.table({"value": NEW}))
    with seglog.open(place, seglog.LogConfig(segment_bytes=1024)) as log:
        assert log.publish(staged_in(place, NEW), query="q", batch=0) is None


def test_of_the_ids_of_jobs_the_last_16_are_remembered_and_that_of_a_query_for_good(place: Any) -> None:
    with filled(place) as log:
        log.publish(staged_in(place, [b"x"]), query="q", batch=8)
        for number in range(17):
            log.publish(staged_in(place, [b"x"]), query=f"job-{number}", batch=0)
            assert log.publish(staged_in(place, [b"x"]), query=f"job-{number}", batch=0) is None
        assert [log.published(name) for name in ("q", "job-0", "job-1", "job-16")] == [8, None, 0, 0]


@pytest.mark.parametrize(
    ("query", "batch", "error"),
    [
        (None, 0, seglog.InvalidType),
        (b"q", 0, seglog.InvalidType),
        ("", 0, seglog.InvalidArgument),
        ("q", -1, seglog.InvalidArgument),
        ("q", "1", seglog.InvalidType),
        ("q", True, seglog.InvalidType),
        ("q", 1.0, seglog.InvalidType),
    ],
)
def test_a_query_or_batch_that_could_not_be_recognised_again_is_refused(
    place: Any, query: Any, batch: Any, error: type[Exception]
) -> None:
    with filled(place) as log:
        with pytest.raises(error):
            log.publish(staged_in(place, NEW), query=query, batch=batch)
        log.append(b"and on")
        check_holds(log, [*OLD, b"and on"])


def test_a_batch_number_may_be_of_numpy(place: Any) -> None:
    with filled(place) as log:
        log.publish(staged_in(place, [b"x"]), query="q", batch=np.int64(4))  # type: ignore[arg-type] # the point of the test
        assert log.published("q") == 4
        log.append(b"and on")


# --- refused, and nothing changed -----------------------------------------------------------------------------------


def without_store(path: Path, staged: list[StagedSegment]) -> None:
    (path / staged[-1].directory / staged[-1].entry.name()).unlink()


def cut_short(path: Path, staged: list[StagedSegment]) -> None:
    os.truncate(path / staged[-1].directory / staged[-1].entry.name(), (staged[-1].entry.bytes or 0) - 1)


def emptied(path: Path, staged: list[StagedSegment]) -> None:
    os.truncate(path / staged[-1].directory / staged[-1].entry.name(), 0)


def swapped(path: Path, staged: list[StagedSegment]) -> None:
    stores = [path / one.directory / one.entry.name() for one in staged]
    stores[-1].write_bytes(stores[-2].read_bytes())


def with_damaged_header(path: Path, staged: list[StagedSegment]) -> None:
    store = path / staged[-1].directory / staged[-1].entry.name()
    store.write_bytes(bytes(64) + store.read_bytes()[64:])


def gone(path: Path, staged: list[StagedSegment]) -> None:
    storage_at(path).remove_directory(staged[-1].directory)


@pytest.mark.parametrize("harm", [without_store, cut_short, emptied, swapped, with_damaged_header, gone])
def test_a_stage_that_is_not_what_was_promised_is_refused_and_nothing_changes(
    path: Path, contents: Callable[[Path], Any], harm: Callable[[Path, list[StagedSegment]], None]
) -> None:
    with filled(path) as log:
        log.sync()
        staged = staged_in(path, NEW)
        harm(path, staged)
        live = {name: data for name, data in contents(path).items() if name.endswith(".store") or name == "MANIFEST"}
        for refused in (log.check_staged, lambda staged: log.publish(staged, query="q", batch=0)):
            with pytest.raises(seglog.CorruptLog, match="stag") as caught:
                refused(staged)
            assert "repair" not in str(caught.value), "repairing the log would not help"
        assert live == {
            name: data for name, data in contents(path).items() if name.endswith(".store") or name == "MANIFEST"
        }
        check_holds(log, list(OLD))
        assert log.publish(staged_in(path, NEW, batch="q-1"), query="q", batch=0) == range(7, 37)
        check_holds(log, [*OLD, *NEW])


def test_a_rebuilt_manifest_refuses_batches_until_an_operator_accepts_it(path: Path) -> None:
    with filled(path) as log:
        log.publish(staged_in(path, NEW), query="q", batch=0)
        staged = staged_in(path, [b"x"], batch="q-1")
    (path / "MANIFEST").unlink()
    with pytest.raises(seglog.CorruptLog, match="seglog repair"):
        staged_in(path, [b"x"], batch="q-1")
    with seglog.open(path) as log:
        assert [record.value for record in log.scan()] == [*OLD, *NEW]
        for refused in (log.check_staged, lambda staged: log.publish(staged, query="q", batch=1)):
            with pytest.raises(seglog.CorruptLog, match="seglog repair"):
                refused(staged)
        log.append(b"appends go on")
        log.repair()
        assert log.publish(staged, query="q", batch=1) == range(38, 39)
        check_holds(log, [*OLD, *NEW, b"appends go on", b"x"])


def test_offsets_end_where_they_end(place: Any) -> None:
    with seglog.open(place, seglog.LogConfig(initial_offset=MAX_OFFSET - 3)) as log:
        with pytest.raises(seglog.OffsetOutOfRange):
            log.publish(staged_in(place, [b"x"] * 4), query="q", batch=0)
        assert log.publish(staged_in(place, [b"x"] * 3), query="q", batch=0) == range(MAX_OFFSET - 3, MAX_OFFSET)
        assert [log.read(MAX_OFFSET - number).value for number in (1, 2, 3)] == [b"x"] * 3
        assert log.verify().ok


def test_a_reader_and_a_closed_log_refuse(place: Any) -> None:
    log = filled(place)
    staged = staged_in(place, NEW)
    with seglog.open(place, mode="r") as reader:
        with pytest.raises(seglog.LogReadOnly):
            reader.publish(staged, query="q", batch=0)
        with pytest.raises(seglog.LogReadOnly):
            reader.check_staged(staged)
    log.close()
    with pytest.raises(seglog.LogClosed):
        log.publish(staged, query="q", batch=0)


def test_a_staged_segment_is_the_same_after_a_journey_as_json(place: Any) -> None:
    with filled(place) as log:
        staged = staged_in(place, NEW)
        travelled = [StagedSegment.from_json(json.loads(json.dumps(one.to_json()))) for one in staged]
        assert travelled == staged
        log.publish(travelled, query="q", batch=0)
        check_holds(log, [*OLD, *NEW])
