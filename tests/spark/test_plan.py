"""Input partitions: exactly the offsets asked for, in order, cut along segments."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog.errors import InvalidArgument
from seglog.spark.read import bounds
from seglog.spark.read.data_loss import position_at
from seglog.spark.read.extents import Extent, LogSnapshot
from seglog.spark.read.options import ReadOptions
from seglog.spark.read.plan import TASK_BYTES, TASKS, OffsetRange, ReadPlan, Share, plan_read

MIB = 1024 * 1024


def snapshot(*segments: tuple[int, int, int], partition: int = 0, lowest: int | None = None) -> LogSnapshot:
    extents = tuple(Extent(*segment, file=number) for number, segment in enumerate(segments, 1))
    low = extents[0].start if lowest is None else lowest
    return LogSnapshot("t", partition, f"/t/{partition}", low, extents[-1].stop if extents else low, extents)


def plan(*snapshots: LogSnapshot, least: int = 0, **options: str) -> ReadPlan:
    parsed = ReadOptions.parse({"path": "/t", **options})
    starts, stops = (ends(snapshots, parsed, lambda log, moment: None) for ends in (bounds.starts, bounds.stops))
    bounds.check_order(snapshots, starts, stops, parsed)
    shares = [
        Share(log, start, stop, position_at(log, stop))
        for log, start, stop in zip(snapshots, starts, stops, strict=True)
    ]
    return plan_read(shares, parsed, least_bytes=least)


def planned(*snapshots: LogSnapshot, **options: str) -> list[tuple[int, int, int]]:
    return [(part.partition, part.start, part.stop) for part in plan(*snapshots, **options).ranges]


def offsets(**by_partition: int) -> str:
    return json.dumps({"t": {name.removeprefix("p"): offset for name, offset in by_partition.items()}})


def test_each_segment_is_an_input_partition() -> None:
    log = snapshot((0, 10, MIB), (10, 30, MIB), (30, 31, 100))
    assert planned(log) == [(0, 0, 10), (0, 10, 30), (0, 30, 31)]


def test_an_empty_log_has_none() -> None:
    assert planned(LogSnapshot("t", 0, "/t/0", 5, 5, ())) == []


def test_partitions_are_never_mixed() -> None:
    logs = [snapshot((0, 10, 10), partition=0), snapshot((0, 5, 10), partition=1)]
    assert planned(*logs) == [(0, 0, 10), (1, 0, 5)]


def test_a_start_and_an_end_cut_segments() -> None:
    log = snapshot((0, 10, MIB), (10, 30, MIB), (30, 40, MIB))
    assert planned(log, startingOffsets=offsets(p0=15), endingOffsets=offsets(p0=30)) == [(0, 15, 30)]


def test_a_start_at_the_end_reads_nothing() -> None:
    assert planned(snapshot((0, 10, MIB)), startingOffsets=offsets(p0=10)) == []


def test_a_segment_that_retention_cut_starts_at_the_logs_start() -> None:
    assert planned(snapshot((0, 10, MIB), lowest=4)) == [(0, 4, 10)]


def test_a_large_segment_is_read_by_several_tasks() -> None:
    assert planned(snapshot((0, 1000, 3 * TASK_BYTES + 1))) == [
        (0, 0, 250),
        (0, 250, 500),
        (0, 500, 750),
        (0, 750, 1000),
    ]


def test_thousands_of_small_segments_become_about_as_many_tasks_as_are_useful() -> None:
    log = snapshot(*((number, number + 1, 1000) for number in range(5000)))
    parts = planned(log)
    assert TASKS <= len(parts) <= 2 * TASKS
    assert [part[1] for part in parts[1:]] == [part[2] for part in parts[:-1]]


def test_max_records_per_partition_is_kept_exactly() -> None:
    parts = planned(snapshot((0, 10, MIB), (10, 13, MIB)), maxRecordsPerPartition="4")
    assert [stop - start for _, start, stop in parts] == [3, 3, 4, 3]


def test_min_partitions_cuts_the_longest_most() -> None:
    parts = planned(snapshot((0, 90, MIB), partition=0), snapshot((0, 10, MIB), partition=1), minPartitions="10")
    assert [partition for partition, _, _ in parts].count(0) == 9


def test_min_partitions_does_not_make_empty_ones() -> None:
    assert planned(snapshot((0, 3, MIB)), minPartitions="10") == [(0, 0, 1), (0, 1, 2), (0, 2, 3)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"startingOffsets": offsets(p0=4)}, "startingOffsets: offset 4 is outside"),
        ({"startingOffsets": offsets(p0=11)}, "startingOffsets: offset 11 is outside"),
        ({"endingOffsets": offsets(p0=11)}, "endingOffsets: offset 11 is outside"),
        (
            {"startingOffsets": offsets(p0=8), "endingOffsets": offsets(p0=7)},
            "startingOffsets: .* after its end 7",
        ),
        ({"startingOffsets": offsets(p1=8)}, "startingOffsets: there is no partition 1"),
        ({"startingOffsets": '{"u": {"0": 8}}'}, "startingOffsets: there is no partition 0 of topic 'u'"),
        ({"startingOffsets": "{}"}, "startingOffsets: partition 0 of topic 't' is missing"),
    ],
)
def test_offsets_that_do_not_fit_the_log_are_refused_by_name(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        planned(snapshot((5, 10, MIB)), **options)


@given(
    sizes=st.lists(st.lists(st.tuples(st.integers(1, 50), st.integers(0, 3 * TASK_BYTES)), max_size=8), max_size=4),
    least=st.integers(1, 60),
    most=st.integers(1, 60),
)
def test_every_offset_is_read_once_and_in_order(sizes: list[list[tuple[int, int]]], least: int, most: int) -> None:
    logs = []
    for partition, segments in enumerate(sizes):
        end, extents = 0, []
        for records, size in segments:
            extents.append(Extent(end, end + records, size))
            end += records
        logs.append(LogSnapshot("t", partition, f"/t/{partition}", 0, end, tuple(extents)))
    parts = plan(*logs, minPartitions=str(least), maxRecordsPerPartition=str(most)).ranges

    read = [(part.partition, offset) for part in parts for offset in range(part.start, part.stop)]
    assert read == [(log.partition, offset) for log in logs for offset in range(log.next_offset)]
    assert all(isinstance(part, OffsetRange) and 0 < part.stop - part.start <= most for part in parts)
    assert len(parts) >= min(least, len(read))


def test_small_neighbours_of_a_micro_batch_are_one_task() -> None:
    log = snapshot((0, 10, 1000), (10, 20, 1000), (20, 30, 5000))
    assert [(part.start, part.stop) for part in plan(log, least=3000).ranges] == [(0, 20), (20, 30)]


def test_each_range_knows_the_file_its_last_record_stands_in() -> None:
    log = snapshot((0, 10, MIB), (10, 30, MIB), (30, 40, MIB))
    assert [part.position.file for part in plan(log, endingOffsets=offsets(p0=35)).ranges] == [1, 2, 3]


def test_the_figures_tell_what_the_bounds_save() -> None:
    logs = [snapshot((0, 10, 1000), (10, 20, 1000), partition=number) for number in range(2)]
    found = plan(*logs, startingOffsets=offsets(p0=20, p1=5), endingOffsets=offsets(p0=20, p1=9))
    assert [(part.partition, part.start, part.stop) for part in found.ranges] == [(1, 5, 9)]
    figures = found.figures
    assert (figures.logs, figures.logs_skipped, figures.segments, figures.segments_skipped) == (1, 1, 1, 3)
    assert (figures.bytes, figures.bytes_skipped, figures.records, figures.tasks) == (400, 3600, 4, 1)


# --- where reading starts and ends


def test_a_time_becomes_the_offset_of_its_first_record() -> None:
    logs = [snapshot((5, 10, MIB))]
    options = ReadOptions.parse({"path": "/t", "startingTimestamp": "3", "endingTimestamp": "4"})
    asked = {3000: 7, 4000: 9}
    assert bounds.starts(logs, options, lambda log, moment: asked[moment]) == [7]
    assert bounds.stops(logs, options, lambda log, moment: asked[moment]) == [9]


def test_where_no_record_is_so_late_the_strategy_decides_the_start_and_an_end_is_the_logs() -> None:
    logs = [snapshot((5, 10, MIB))]
    late = {"path": "/t", "startingTimestamp": "3", "endingTimestamp": "4"}
    with pytest.raises(InvalidArgument, match=r"option startingTimestamp: .* has no record of 3 ms or later"):
        bounds.starts(logs, ReadOptions.parse(late), lambda log, moment: None)
    options = ReadOptions.parse({**late, "startingOffsetsByTimestampStrategy": "latest"})
    assert bounds.starts(logs, options, lambda log, moment: None) == [10]
    assert bounds.stops(logs, options, lambda log, moment: None) == [10]


def test_offsets_outside_the_log_are_moved_into_it_where_loss_may_be() -> None:
    bounded = {"startingOffsets": offsets(p0=2), "endingOffsets": offsets(p0=50)}
    assert planned(snapshot((5, 10, MIB)), failOnDataLoss="false", **bounded) == [(0, 5, 10)]


def test_a_gap_behind_a_segment_is_told_from_the_segment() -> None:
    extents = (Extent(0, 10, 100, file=1), Extent(15, 20, 100, file=4), Extent(20, 30, 9, file=5))
    log = LogSnapshot("t", 0, "/t/0", 2, 35, extents)
    known = {1: None, 2: 1, 9: 1, 10: -1, 14: -1, 15: 4, 19: 4, 20: 5, 29: 5, 30: -5, 34: -5, 35: None}
    assert {offset: log.file_of(offset) for offset in known} == known
