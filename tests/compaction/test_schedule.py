"""When a log is due, and which segments a pass looks at: the pure rules, and what they mean to a log's records."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, Retention
from seglog.compaction.plan import NEVER, considered_to, make_plan
from seglog.compaction.rewrite import rewrite
from seglog.compaction.schedule import Standing, choose_passed, expected_garbage, is_sure, observed_decay, standing
from seglog.errors import ConfigError, InvalidArgument
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.log.staging import compaction_batch, stage_directory
from seglog.storage import Subdirectory
from seglog.testing.internals import storage_of

NOW = 1_000_000_000_000
SECOND = 1_000_000
HOUR = 3600 * SECOND


def segment(base: int, end: int, **fields: Any) -> SegmentEntry:
    given = {"file": base + 1, "salt": 1, "created": NOW - HOUR, "bytes": 100, "records": end - base, "tombstones": 0}
    return SegmentEntry(base_offset=base, next_offset=end, **{**given, "sealed_at": NOW - HOUR, **fields})


def manifest_of(*sealed: SegmentEntry, compact: bool = True, **retention: Any) -> Manifest:
    end = sealed[-1].next_offset if sealed else 0
    active = SegmentEntry(base_offset=end or 0, file=99, salt=9, created=NOW - 10 * SECOND)
    config = LogConfig(segment_bytes=512, retention=Retention(compact=compact, **retention))
    return Manifest(log_id=7, version=3, epoch=2, next_file=100, start=0, config=config, segments=(*sealed, active))


def standing_of(*sealed: SegmentEntry, now: int = NOW, pins: Any = None, **retention: Any) -> Standing:
    return standing(manifest_of(*sealed, **retention), now, pins=pins)


# --- when -------------------------------------------------------------------------------------------------------------


def test_11_a_log_is_due_above_the_ratio_and_not_at_it() -> None:
    clean, dirty = segment(0, 10, cleaned_to=10), segment(10, 20)
    assert (standing_of(clean, dirty).ratio, standing_of(clean, dirty).due) == (0.5, None)
    assert standing_of(clean, segment(10, 20, bytes=101)).due == "dirty"
    assert standing_of(clean, dirty, min_dirty_ratio=0.49).due == "dirty"
    assert standing_of(dirty, min_dirty_ratio=1.0).due is None


def test_11_a_log_is_due_when_the_maximum_lag_has_passed() -> None:
    clean, dirty = segment(0, 10, cleaned_to=10), segment(10, 20, bytes=1)
    before = standing_of(clean, dirty, now=NOW - 1, max_compaction_lag=3600)
    assert (before.due, before.next_at) == (None, NOW)
    assert standing_of(clean, dirty, max_compaction_lag=3600).due == "lag"
    assert standing_of(clean, segment(10, 20, cleaned_to=20), max_compaction_lag=3600).due is None


def test_5_a_log_is_due_when_the_time_of_a_tombstone_has_come() -> None:
    waiting = segment(0, 10, cleaned_to=10, tombstones=1, horizons=((10, NOW),))
    before = standing_of(waiting, now=NOW - 1)
    assert (before.due, before.next_at) == (None, NOW)
    assert standing_of(waiting).due == "tombstones"
    assert standing_of(waiting).next_at is None


def test_23_no_log_is_due_for_tombstones_that_are_pinned() -> None:
    waiting = segment(0, 10, cleaned_to=10, tombstones=1, horizons=((5, NOW), (10, NOW + 1)))
    found = standing_of(waiting, pins={"slow": 0, "fast": 9})
    assert (found.due, found.pinned, found.next_at) == (None, 0, NOW + 1)
    assert standing_of(waiting, pins={"slow": 1}).due is None  # too few of them to be worth a pass
    assert standing_of(waiting, pins={"slow": 2}).due == "tombstones"


def test_10_what_is_younger_than_the_minimum_lag_counts_for_nothing_until_then() -> None:
    old, fresh = segment(0, 10, cleaned_to=10), segment(10, 20, sealed_at=NOW - 10 * SECOND)
    found = standing_of(old, fresh, min_compaction_lag=60)
    assert (found.due, found.dirty_bytes, found.total_bytes) == (None, 0, 100)
    assert found.next_at == NOW + 50 * SECOND
    assert [one.state for one in found.segments] == ["clean", "fresh", "active"]


def test_2_a_quiet_log_that_holds_records_rolls_at_the_maximum_lag() -> None:
    found = standing(manifest_of(max_compaction_lag=60), NOW, active_records=1)
    assert found.next_at == NOW + 50 * SECOND
    assert standing(manifest_of(max_compaction_lag=60), NOW, active_records=0).next_at is None


def test_a_log_that_is_not_compacted_by_key_is_never_due() -> None:
    found = standing_of(segment(0, 10), compact=False)
    assert (found.due, found.ratio, found.next_at) == (None, 0.0, None)
    assert [one.expected_garbage for one in found.segments] == [None, None]


def test_the_greatest_lag_cannot_be_less_than_the_least() -> None:
    with pytest.raises(ConfigError, match="max_compaction_lag"):
        Retention(compact=True, min_compaction_lag=10, max_compaction_lag=5)
    with pytest.raises(ConfigError, match="unkeyed"):
        Retention(unkeyed="drop")  # type: ignore[arg-type] # the point of the test


# --- which ------------------------------------------------------------------------------------------------------------


def test_21_garbage_is_expected_as_it_was_found() -> None:
    """A pass over 1,000,000 more records left half: of what is left, half will have gone when as many more came."""
    decay = observed_decay(segment(0, 100, cleaned_to=100, decay=0.0), 50, 1_000_100, 1000)
    found = segment(0, 100, records=50, cleaned_to=1_000_100, decay=decay)
    assert expected_garbage(found, 1_000_100, 1000) == 0
    assert expected_garbage(found, 2_000_100, 1000) == pytest.approx(0.5, abs=0.001)
    assert expected_garbage(found, 3_000_100, 1000) == pytest.approx(0.75, abs=0.001)


def test_21_a_segment_that_has_met_few_later_records_tells_little() -> None:
    young = segment(0, 100)
    decay = observed_decay(young, 100, 102, 1000)
    assert decay == pytest.approx(1 / 1000, rel=0.4)
    for appended in (100, 1000, 10_000):
        lower = observed_decay(young, 100, 50 + appended, 1000)
        assert lower is not None
        assert lower < (decay or 0)
        decay = lower
    assert observed_decay(segment(0, 100), 0, 200, 1000) is not None  # none is left: a lot, and finite
    assert observed_decay(segment(0, 0, decay=0.5), 0, 200, 1000) == 0.5


def passed(*sources: SegmentEntry, now: int = NOW, segment_bytes: int = 512) -> set[int]:
    """Return the base offsets of the segments that are passed over."""
    config = LogConfig(segment_bytes=segment_bytes, retention=Retention(compact=True))
    files = choose_passed(sources, config, now)
    return {source.base_offset for source in sources if source.file in files}


def large(base: int, end: int, **fields: Any) -> SegmentEntry:
    """A segment that is not to be merged."""
    return segment(base, end, **{"bytes": 500, **fields})


def test_21_what_survives_for_long_is_passed_over() -> None:
    cold = large(0, 100, cleaned_to=400, decay=1e-6)
    hot = large(300, 400, cleaned_to=400, decay=1e-2)
    assert passed(cold, hot, large(400, 500)) == {0}


def test_21_its_turn_comes_when_enough_has_died() -> None:
    cold = large(0, 100, cleaned_to=400, decay=1e-4)
    steady = [large(at, at + 100, cleaned_to=at + 100, decay=1e-9) for at in (100, 200, 300)]
    assert passed(cold, *steady, large(400, 500)) == {0, 100, 200, 300}
    assert passed(cold, *steady, large(400, 500), large(10_000, 10_100)) == {100, 200, 300}


def test_12_small_segments_are_taken_along_to_be_merged() -> None:
    small = [segment(at, at + 10, cleaned_to=400, decay=0.0) for at in range(0, 50, 10)]
    assert passed(large(0, 0, file=77, cleaned_to=400, decay=0.0), *small, large(400, 500)) == {0}


def test_5_tombstones_that_are_to_go_need_all_that_is_older_and_was_not_compared() -> None:
    compared = large(0, 100, cleaned_to=400, decay=0.0)
    not_compared = large(100, 200, cleaned_to=250, decay=0.0)
    due = large(200, 300, cleaned_to=400, decay=0.0, tombstones=1, horizons=((300, NOW),))
    assert passed(compared, not_compared, due) == {0}
    assert passed(compared, not_compared, due, now=NOW - 1) >= {0, 100}


entries = st.lists(
    st.tuples(
        st.sampled_from([10, 300, 500]),
        st.floats(0, 0.1),
        st.integers(0, 300),
        st.booleans(),
        st.sampled_from([NOW - 1, NOW + 1, NEVER]),
    ),
    max_size=12,
)


@given(drawn=entries, dirty=st.integers(0, 4), pinned=st.sampled_from([0, 150, NEVER]))
def test_21_every_choice_is_a_plan_that_can_be_carried_out(drawn: Any, dirty: int, pinned: int) -> None:
    end = 100 * len(drawn)
    clean = [
        segment(100 * at, 100 * at + 100, bytes=size, decay=decay, cleaned_to=max(end - 100, 100 * at + 100) + ahead)
        for at, (size, decay, ahead, _, _) in enumerate(drawn)
    ]
    clean = [
        seglog_entry if not holds else segment_with(seglog_entry, tombstones=1, horizons=((100 * at + 100, horizon),))
        for at, (seglog_entry, (_, _, _, holds, horizon)) in enumerate(zip(clean, drawn, strict=True))
    ]
    sources = [*clean, *(segment(end + 1000 + 100 * at, end + 1100 + 100 * at) for at in range(dirty))]
    manifest = manifest_of(*sources)
    files = choose_passed(sources, manifest.config, NOW, pinned)
    plan = make_plan(manifest, NOW, pinned=pinned, passed=files)
    assert all(source in plan.considered for source in sources if source.cleaned_to is None)
    if standing(manifest, NOW, pins={"follower": pinned}).due == "tombstones":
        assert not plan.idle


def segment_with(entry: SegmentEntry, **fields: Any) -> SegmentEntry:
    return segment(
        entry.base_offset,
        entry.next_offset or 0,
        **{"bytes": entry.bytes, "decay": entry.decay, "cleaned_to": entry.cleaned_to, **fields},
    )


def test_what_is_compared_with_cannot_be_passed_over() -> None:
    with pytest.raises(InvalidArgument, match="from 0 on"):
        make_plan(manifest_of(segment(0, 10), segment(10, 20)), NOW, passed=frozenset({11}))


# --- what it means to a log -------------------------------------------------------------------------------------------


def test_21_a_generational_pass_does_not_touch_what_is_cold(shop: Any) -> None:
    with shop.open(segment_bytes=1024, min_dirty_ratio=0.2) as log:
        for number in range(100):
            log.append(b"x" * 60, key=b"cold %d" % number)
        shop.put(log, "|")
        log.compact()
        cold = [one.name for one in log.segments[:-1]]
        for _ in range(10):
            for number in range(80):
                log.append(b"x" * 60, key=b"hot %d" % (number % 8))
            shop.put(log, "|")
            assert log.standing().due == "dirty"
            log.compact(generational=True)
            assert log.standing().due is None
        old = len(cold) - 2  # the youngest of them had met few records yet, and is looked at once
        assert [one.name for one in log.segments[:old]] == cold[:old]
        assert {record.key for record in log.scan()} >= {b"cold %d" % number for number in range(100)}
        assert sum(one.records for one in log.segments) < 130
        assert log.verify().ok


def compact_from(log: seglog.Log, start: int, now: int, pinned: int = NEVER) -> None:
    """Compact the segments that were compared with everything before `start`, and leave the others alone."""
    manifest = log.view().manifest
    old = {one.file for one in manifest.segments[:-1] if considered_to(one) < start and one.cleaned_to is not None}
    plan = make_plan(manifest, now, pinned=pinned, passed=frozenset(old))
    storage = storage_of(log)
    directory = stage_directory(compaction_batch(), now)
    stage = Subdirectory(storage, directory)
    stage.make([])
    log.finish_compaction(plan, rewrite(plan, storage, stage), directory)


def test_5_a_tombstone_stays_while_what_it_deletes_stands_in_a_segment_that_was_passed_over(shop: Any) -> None:
    with shop.open(delete_retention=0) as log:
        shop.put(log, "a b |")
        log.compact()
        shop.put(log, "a- |")
        compact_from(log, 3, shop.clock())
        compact_from(log, 3, shop.clock())
        assert shop.content(log) == "a@0 b@1 a∅@2"
        log.compact(generational=True)  # the tombstone's time has come: the schedule looks at what is older as well
        assert shop.content(log) == "b@1"


rounds = st.lists(
    st.tuples(st.lists(st.tuples(st.sampled_from("abc"), st.booleans()), min_size=1, max_size=4), st.integers(0, 12)),
    min_size=2,
    max_size=6,
)


@settings(max_examples=300)
@given(rounds=rounds, segment_bytes=st.sampled_from([512, 4096]))
def test_no_key_comes_to_life_again_whatever_is_passed_over(rounds: Any, segment_bytes: int) -> None:
    now = NOW
    retention = Retention(compact=True, delete_retention=0)
    config = LogConfig(segment_bytes=segment_bytes, segment_age=1, retention=retention)
    state: dict[bytes, bytes | None] = {}
    with seglog.open(seglog.MemoryStorage(), config, clock=lambda: now) as log:
        for records, start in rounds:
            for key, live in records:
                value = b"x" * 200 if live else None
                log.append(value, key=key.encode())
                state[key.encode()] = value
            now += 2 * SECOND
            log.expire()
            compact_from(log, start, now)
            found = {record.key: record.value for record in log.scan()}
            assert {key for key, value in found.items() if value} == {key for key, value in state.items() if value}
            offsets = [record.offset for record in log.scan()]
            assert all(earlier < later for earlier, later in pairwise(offsets))


def test_23_a_tombstone_goes_as_soon_as_the_slowest_follower_has_passed_it(shop: Any) -> None:
    with shop.open(delete_retention=0) as log:
        shop.put(log, "a a- b b- |")
        log.compact()
        assert shop.content(log) == "a∅@1 b∅@3"
        compact_from(log, 0, shop.clock(), pinned=1)
        assert shop.content(log) == "a∅@1 b∅@3"
        compact_from(log, 0, shop.clock(), pinned=2)
        assert shop.content(log) == "b∅@3"
        assert standing(log.view().manifest, shop.clock(), pins={"follower": 2}).due is None
        assert standing(log.view().manifest, shop.clock(), pins={"follower": 4}).due == "tombstones"
        compact_from(log, 0, shop.clock())
        assert shop.content(log) == ""


def test_4_records_without_a_key_are_kept_where_the_policy_says_so(shop: Any) -> None:
    with shop.open(unkeyed="keep") as log:
        shop.put(log, ". a . a . |")
        report = log.compact()
        assert (report.unkeyed, shop.content(log)) == (0, ".@0 .@2 a@3 .@4")
        assert log.append_stream([b"v"]) == 5
    with shop.open(unkeyed="reject") as log:
        shop.put(log, "b |")
        assert log.compact().unkeyed == 4
        assert shop.content(log) == "a@3 b@6"


def test_11_what_was_expected_to_die_and_did_not_stays_as_it_is(shop: Any) -> None:
    with shop.open(segment_bytes=1024) as log:
        for _ in range(3):
            for number in range(80):
                log.append(b"x" * 60, key=b"hot %d" % (number % 8))
            shop.put(log, "|")
            log.compact()
        hot = log.view().manifest.segments[-2]
        for number in range(100):
            log.append(b"x" * 60, key=b"other %d" % number)
        shop.put(log, "|")
        sources = make_plan(log.view().manifest, shop.clock()).sources
        assert is_sure(hot, sources[-1].next_offset or 0, sum(source.records or 0 for source in sources))
        report = log.compact()
        assert (report.superseded, report.records_after) == (0, 108)
        assert hot.file in {entry.file for entry in log.view().manifest.segments}
        assert log.verify().ok
        assert {name for name in storage_of(log).names() if name.endswith(".store")} == {
            one.name for one in log.segments
        }


def test_21_what_died_for_sure_is_counted_while_it_is_copied(shop: Any) -> None:
    with shop.open(segment_bytes=1024) as log:
        for _ in range(4):
            for number in range(80):
                log.append(b"x" * 60, key=b"hot %d" % (number % 8))
            shop.put(log, "|")
            report = log.compact()
            assert (report.records_after, report.superseded) == (8, report.records_before - 8)
            assert [record.key for record in log.scan()] == [b"hot %d" % number for number in range(8)]


def test_no_key_comes_to_life_again_after_a_truncate_into_what_was_compacted(shop: Any) -> None:
    """The offsets after the cut are assigned again: the records there now were compared with nothing."""
    with shop.open(segment_bytes=1024, delete_retention=0, min_dirty_ratio=0) as log:
        for number in range(400):
            log.append(b"x" * 60, key=b"k%d" % number)
        shop.put(log, "|")
        log.compact()
        log.truncate(210)
        log.append(None, key=b"k5")
        for number in range(60):
            log.append(b"x" * 60, key=b"new %d" % number)
        shop.put(log, "|")
        for _ in range(4):
            log.compact(generational=True)
            state = {record.key: record.value for record in log.scan()}
            assert state.get(b"k5") is None
            shop.put(log, "other |")
        assert b"k5" not in state
        assert all((one.cleaned_to or 0) <= log.next_offset for one in log.standing().segments)


def test_a_pin_that_moves_on_and_on_does_not_make_a_pass_of_every_step(shop: Any) -> None:
    with shop.open(delete_retention=0, segment_bytes=65536) as log:
        shop.put(log, " ".join(f"k{number} k{number}-" for number in range(200)) + " |")
        log.compact()
        passes = 0
        for offset in range(400):
            log.pin("slow", offset)
            if log.standing().due is not None:
                log.compact(generational=True)
                passes += 1
        log.pin("slow", 400)
        while log.standing().due is not None:
            log.compact(generational=True)
        assert shop.content(log) == ""
        assert 0 < passes < 40


def test_a_segment_made_while_the_clock_was_ahead_is_due_by_lag() -> None:
    ahead = segment(0, 10, created=NOW + 10**15)
    assert standing_of(ahead, min_dirty_ratio=1, max_compaction_lag=60).due == "lag"
