"""Garbage that is counted without copying anything: what a pass would find, and no more."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seglog
from seglog.compaction.estimate import measure
from seglog.compaction.plan import make_plan, record_bytes
from seglog.errors import CompactionAborted, CorruptLog

HOUR = 3600.0


def storage_of(place: Any) -> Any:
    return place if isinstance(place, seglog.MemoryStorage) else seglog.LocalStorage(place)


def measured(shop: Any, log: seglog.Log, **options: Any) -> list[tuple[int, int]]:
    """Return (base offset, records that would go) of every segment."""
    found = measure(log.plan_compaction(), storage_of(shop.place), **options)
    return [(one.entry.base_offset, one.dead) for one in found]


def test_records_that_would_go_are_counted_by_segment(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=HOUR) as log:
        shop.put(log, "a b a | c a b- | d | a")
        before = log.segments
        assert measured(shop, log) == [(0, 3), (3, 0), (6, 0)]
        assert log.segments == before
        log.compact()
        clock.advance(HOUR)
        assert measured(shop, log) == [(0, 1)]
        log.pin("copy", 0)
        assert measured(shop, log) == [(0, 0)]
        log.unpin("copy")
        assert log.compact().tombstones == 1


def test_what_lives_is_estimated_by_the_number_of_records(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a b a b |")
        found = measure(log.plan_compaction(), storage_of(shop.place))
        assert [2 * one.live_bytes for one in found] == [record_bytes(found[0].entry)]


def test_a_log_with_nothing_sealed_has_nothing_to_measure(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a a")
        assert measured(shop, log) == []


def test_segments_that_are_passed_over_keep_all_they_have(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a a | b b |")
        plan = log.plan_compaction()
        manifest = log.view().manifest
        passing = make_plan(manifest, plan.made_at, passed=frozenset({plan.sources[0].file}))
        found = measure(passing, storage_of(shop.place))
        assert [one.dead for one in found] == [0, 1]
        assert found[0].live_bytes == record_bytes(found[0].entry)


def test_a_reader_measures_beside_the_writer(shop: Any) -> None:
    with shop.open() as log, seglog.open(shop.place, mode="r") as reader:
        shop.put(log, "a b a |")
        view = reader.view()
        plan = make_plan(view.manifest, shop.clock())
        log.compact()
        assert [one.dead for one in measure(plan, storage_of(shop.place))] == [1]
        del view
        reader.view()
        shop.put(log, "c |")
        with pytest.raises(CorruptLog):
            measure(plan, storage_of(shop.place))


def test_progress_is_told_and_a_measurement_can_be_stopped(shop: Any) -> None:
    with shop.open(dedupe_bytes=1024) as log:
        shop.put(log, " ".join(f"k{number}" for number in range(80)) + " |")
        steps: list[tuple[int, int]] = []
        assert measured(shop, log, progress=lambda done, total: steps.append((done, total))) == [(0, 0)]
        assert steps[-1][0] == steps[-1][1] > 0
        with pytest.raises(CompactionAborted):
            measured(shop, log, abort=lambda: True)


def test_a_segment_that_cannot_be_walked_through_counts_as_alive(local: Any) -> None:
    with local.open() as log:
        local.put(log, "a a | b a |")
    store = sorted(local.place.glob("*.store"))[0]
    data = bytearray(store.read_bytes())
    data[64 + 8] ^= 0xFF  # the first record's length
    store.write_bytes(data)
    with local.open() as log:
        assert measured(local, log) == [(0, 0), (2, 0)]


steps = st.lists(st.sampled_from(["a", "b", "c", "a-", ".", "|", "a b |"]), max_size=20)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=steps, second=steps)
def test_what_is_measured_is_what_a_compaction_lets_go_of(shop_at: Any, first: Any, second: Any) -> None:
    shop = shop_at(seglog.MemoryStorage())
    with shop.open(delete_retention=0, unkeyed="keep") as log:
        shop.put(log, " ".join(first))
        log.compact()
        shop.put(log, " ".join(second))
    with shop.open(delete_retention=0) as log:
        counted = sum(dead for _, dead in measured(shop, log))
        report = log.compact()
        assert counted == report.records_before - report.records_after
