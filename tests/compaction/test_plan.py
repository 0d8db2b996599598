"""What a compaction would do, decided without reading a byte."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seglog import LogConfig, Retention
from seglog.compaction.plan import (
    Measured,
    after_pass,
    group,
    has_due,
    is_rewritten,
    joined,
    make_plan,
    next_horizon,
    runs_after,
    runs_between,
)
from seglog.format.manifest import ANYTHING, Manifest, SegmentEntry

NOW = 1_000_000_000
DAY = 86_400_000_000


def segment(base: int, end: int, **fields: Any) -> SegmentEntry:
    given = {"file": base + 1, "salt": 1, "created": 0, "bytes": 1064, "records": 10, "tombstones": 0, "sealed_at": 0}
    return SegmentEntry(base_offset=base, next_offset=end, **{**given, **fields})


def plan_of(*sealed: SegmentEntry, now: int = NOW, durable: int | None = None, **retention: Any) -> Any:
    end = sealed[-1].next_offset if sealed else 0
    active = SegmentEntry(base_offset=end or 0, file=99, salt=9, created=0)
    config = LogConfig(retention=Retention(compact=True, **retention))
    manifest = Manifest(log_id=7, version=3, epoch=2, next_file=100, start=0, config=config, segments=(*sealed, active))
    return make_plan(manifest, now, durable=durable)


def test_a_log_without_sealed_segments_has_nothing_to_do() -> None:
    plan = plan_of()
    assert (plan.sources, plan.dirty, plan.idle, plan.end) == ((), (), True, 0)


def test_what_was_never_compacted_is_dirty() -> None:
    plan = plan_of(segment(0, 10, cleaned_to=20), segment(10, 20, cleaned_to=20), segment(20, 30), segment(30, 40))
    assert [source.base_offset for source in plan.dirty] == [20, 30]
    assert (plan.dirty_from, plan.end, plan.idle) == (20, 40, False)


def test_what_stands_behind_a_segment_that_was_left_out_is_dirty_again() -> None:
    plan = plan_of(segment(0, 10, cleaned_to=10), segment(10, 20), segment(20, 30))
    assert [source.base_offset for source in plan.dirty] == [10, 20]


def test_what_came_after_a_truncate_is_dirty_whatever_its_offsets_were_before() -> None:
    plan = plan_of(segment(0, 5, cleaned_to=40), segment(5, 20))
    assert [source.base_offset for source in plan.dirty] == [5]


def test_the_cleanable_end_is_before_what_is_not_durable() -> None:
    sealed = segment(0, 10), segment(10, 20), segment(20, 30)
    assert plan_of(*sealed, durable=30).end == 30
    assert plan_of(*sealed, durable=29).end == 20
    assert plan_of(*sealed, durable=9).end == 0


def test_the_minimum_lag_holds_what_was_sealed_less_than_that_ago_and_all_behind_it() -> None:
    sealed = segment(0, 10, sealed_at=NOW - 6), segment(10, 20, sealed_at=NOW - 5), segment(20, 30, sealed_at=0)
    assert plan_of(*sealed, min_compaction_lag=0.000006).end == 10
    assert plan_of(*sealed, min_compaction_lag=0.000005).end == 30
    assert plan_of(*sealed, now=NOW - 100).end == 30  # without a lag a clock that went back holds nothing


def test_a_plan_with_only_tombstones_to_drop_is_not_idle() -> None:
    waiting = segment(0, 10, cleaned_to=10, tombstones=1, horizons=((10, NOW),))
    assert plan_of(waiting).idle is False
    assert plan_of(waiting, now=NOW - 1).idle is True
    assert next_horizon([waiting, segment(10, 20)], NOW - 1) == NOW
    assert next_horizon([segment(10, 20)], 0) is None


# --- horizons ---------------------------------------------------------------------------------------------------------


def test_a_tombstone_gets_its_time_at_the_first_pass_and_keeps_it() -> None:
    first = runs_after(segment(0, 10, tombstones=1), NOW, DAY)
    assert first == ((10, NOW + DAY),)
    assert runs_after(segment(0, 10, tombstones=1, horizons=first), NOW + 5, DAY) == first


def test_what_was_merged_keeps_the_times_of_its_parts() -> None:
    merged = segment(0, 30, tombstones=3, horizons=((10, NOW + 1), (20, NOW + 2)))
    assert runs_after(merged, NOW, DAY) == ((10, NOW + 1), (20, NOW + 2), (30, NOW + DAY))
    assert runs_after(merged, NOW + 1, DAY) == ((20, NOW + 2), (30, NOW + 1 + DAY))
    assert runs_after(merged, NOW + 2, DAY) == ((30, NOW + 2 + DAY),)


def test_a_run_does_not_reach_behind_a_cut() -> None:
    cut = segment(0, 5, tombstones=1, horizons=((30, NOW + 1),))
    assert runs_after(cut, NOW, DAY) == ((5, NOW + 1),)


def test_runs_are_joined_and_cut() -> None:
    assert joined([(10, 1), (20, 1), (30, 2)]) == ((20, 1), (30, 2))
    runs = ((10, 1), (20, 2), (30, 3))
    assert runs_between(runs, 0, 30) == runs
    assert runs_between(runs, 10, 20) == ((20, 2),)
    assert runs_between(runs, 5, 15) == ((10, 1), (15, 2))
    assert runs_between(runs, 30, 40) == ()


@given(st.lists(st.tuples(st.integers(1, 50), st.integers(-3, 3)), max_size=6), st.integers(0, 60))
def test_no_tombstone_goes_earlier_for_a_pass(steps: list[tuple[int, int]], probe: int) -> None:
    """Whatever the runs: a tombstone that stays after a pass has the time it had, or the new one."""
    ends = sorted({end for end, _ in steps})
    runs = joined(zip(ends, (NOW + shift for _, shift in steps), strict=False))
    entry = segment(0, 60, tombstones=1, horizons=runs)

    def time_of(found: Any) -> int | None:
        return next((horizon for end, horizon in found if probe < end), None)

    before, after = time_of(runs), time_of(runs_after(entry, NOW, DAY))
    if probe < 60:
        assert after is not None and after > NOW
        assert before is None or before <= NOW or after == before
        assert has_due(entry, NOW) is any(horizon <= NOW for _, horizon in runs)


def test_a_source_behind_a_damaged_one_stays_as_it_was() -> None:
    plan = plan_of(segment(0, 10, tombstones=1), segment(10, 20), segment(20, 30, tombstones=1))
    before, left_out, behind = plan.sources
    assert after_pass(before, plan, 10).cleaned_to == 10
    assert after_pass(before, plan, 10).horizons == ((10, NOW + DAY),)
    assert after_pass(left_out, plan, 10) == left_out
    assert after_pass(behind, plan, 10) == behind


def test_damage_that_is_found_later_makes_nothing_unclean_again() -> None:
    plan = plan_of(segment(0, 10, cleaned_to=30), segment(10, 20, cleaned_to=30), segment(20, 30))
    assert after_pass(plan.sources[0], plan, 10).cleaned_to == 30


def test_what_was_taken_from_a_segment_gave_way_to_something_known_or_not() -> None:
    assert segment(0, 10).taken_for == segment(0, 10, cleaned_to=20).taken_for == 0
    assert segment(0, 10, dense=False).taken_for == ANYTHING
    assert segment(0, 10, dense=False, cleaned_to=20).taken_for == 20, "of an older manifest"
    assert segment(0, 10, dense=False, cleaned_to=10, superseded_to=20).taken_for == 20
    plan = plan_of(segment(0, 10, dense=False), segment(10, 20))
    assert [after_pass(source, plan, 20).taken_for for source in plan.sources] == [ANYTHING, 0]


# --- groups -----------------------------------------------------------------------------------------------------------


def groups(*sources: tuple[int, int], segment_bytes: int = 100) -> list[list[int]]:
    """Return groups of source numbers; each source is (bytes that live, records that died)."""
    measured = [
        Measured(entry=segment(number, number + 1), live_bytes=live, dead=dead)
        for number, (live, dead) in enumerate(sources)
    ]
    found = group(measured, segment_bytes)
    assert [one for members in found for one in members] == measured
    return [[one.entry.base_offset for one in members] for members in found if is_rewritten(members)]


@pytest.mark.parametrize(
    ("sources", "rewritten"),
    [
        ([], []),
        ([(90, 0), (90, 0)], []),
        ([(40, 0)], []),
        ([(40, 1)], [[0]]),
        ([(40, 0), (40, 0)], [[0, 1]]),
        ([(40, 0), (61, 0)], []),
        ([(40, 1), (61, 0), (30, 0)], [[0]]),
        ([(40, 1), (60, 1), (1, 1)], [[0, 1], [2]]),
        ([(0, 9), (90, 1), (10, 0)], [[0, 1, 2]]),
        ([(500, 1), (0, 5)], [[0], [1]]),
        ([(30, 0), (30, 0), (30, 0), (30, 0)], [[0, 1, 2]]),
    ],
)
def test_neighbours_that_are_copied_together(sources: Any, rewritten: list[list[int]]) -> None:
    assert groups(*sources) == rewritten
