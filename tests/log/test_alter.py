"""Another retention for a log that is open: all that rests on it follows, at once and for good, or nothing does."""

from __future__ import annotations

import errno
import itertools
import shutil
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from tests.waiting import NEVER_SECONDS, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.conftest import ManualClock

SMALL = LogConfig(segment_bytes=512)
OLD = Retention(age=60)
NEW = Retention(bytes=600, age=None, compact=True, unkeyed="keep")
HOUR = 3600.0


def fill(log: seglog.Log, records: int = 40) -> None:
    for number in range(records):
        log.append(b"v%d" % number, key=b"k%d" % (number % 3))


def test_it_is_stored_and_the_rest_of_the_config_stays(place: Any) -> None:
    with seglog.open(place, SMALL) as log:
        log.alter(retention=NEW)
        assert (log.config.retention, log.config.segment_bytes) == (NEW, 512)
    with seglog.open(place) as log:
        assert (log.config.retention, log.config.segment_bytes) == (NEW, 512)


def test_a_reader_in_another_process_sees_it(path: Path, process: Callable[..., Any]) -> None:
    with seglog.open(path, SMALL) as log:
        reader = process(path)
        assert reader("log.config.retention.compact") == "False"
        log.alter(retention=NEW)
        assert reader("log.config.retention == seglog.Retention(bytes=600, compact=True, unkeyed='keep')") == "True"


def test_a_log_that_is_compacted_from_now_on_takes_no_record_without_a_key(place: Any) -> None:
    with seglog.open(place, SMALL) as log:
        log.append(b"v")
        log.alter(retention=Retention(compact=True))
        with pytest.raises(seglog.KeyRequired):
            log.append(b"v")
        log.alter(retention=Retention(compact=False))
        assert log.append(b"v") == 1


def test_a_log_is_compacted_as_soon_as_it_may_be_and_no_longer_than_that(place: Any) -> None:
    with seglog.open(place, SMALL) as log:
        fill(log)
        with pytest.raises(seglog.ConfigError, match="not compacted by key"):
            log.compact()
        log.alter(retention=Retention(compact=True))
        assert log.compact(roll=True).records_after == 3
        fill(log)
        log.alter(retention=Retention(compact=False))
        with pytest.raises(seglog.ConfigError, match="not compacted by key"):
            log.compact(roll=True)


def test_another_age_of_segments_counts_for_the_active_one_too(place: Any, clock: ManualClock) -> None:
    with seglog.open(place, SMALL, clock=clock) as log:
        log.append(b"v")
        clock.advance(HOUR)
        log.alter(segment_age=2 * HOUR)
        log.append(b"v")
        assert len(log.segments) == 1
        log.alter(segment_age=HOUR)
        log.append(b"v")
        assert len(log.segments) == 2
        with pytest.raises(seglog.ConfigError, match="segment_age"):
            log.alter(segment_age=-1)
    with seglog.open(place, clock=clock) as log:
        assert (log.config.segment_age, log.config.segment_bytes) == (HOUR, 512)
        log.alter(segment_age=None)
        clock.advance(HOUR)
        log.append(b"v")
        assert len(log.segments) == 2
    with seglog.open(place, mode="r") as reader, pytest.raises(seglog.LogReadOnly):
        reader.alter(segment_age=1)


def test_another_size_of_segments_counts_from_the_next_append_on(place: Any) -> None:
    with seglog.open(place, SMALL) as log:
        fill(log)
        full = len(log.segments)
        log.alter(segment_bytes=10_000)
        fill(log)
        assert len(log.segments) == full
        log.append(bytes(9_000))  # a record has the space of the new size, too
        log.alter(segment_bytes=512)
        with pytest.raises(seglog.RecordTooLarge):
            log.append(bytes(9_000))
        log.append(b"v")
        assert len(log.segments) == full + 2
    with seglog.open(place) as log:
        assert (log.config.segment_bytes, log.config.segment_overflow_bytes) == (512, 256)
        assert len(log) == 82


@pytest.mark.parametrize("overflow", [0, 100])
def test_the_overflow_of_a_record_stays_if_it_was_set(place: Any, overflow: int) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, segment_overflow_bytes=overflow)) as log:
        log.alter(segment_bytes=4096)
        assert log.config.store_limit == 4096 + overflow
        log.alter(segment_overflow_bytes=None)
        assert log.config.store_limit == 4096 + 2048


def test_records_that_wait_in_memory_obey_another_size_of_segments(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=65536)) as log:
        log.append(bytes(1000))
        log.alter(segment_bytes=512)
        with pytest.raises(seglog.RecordTooLarge):
            log.append(bytes(1000))
        log.append(bytes(10))
        assert [segment.records for segment in log.segments] == [1, 1]
        log.alter(segment_bytes=4096)
        for _ in range(3):
            log.append(bytes(1000))
        assert [segment.records for segment in log.segments] == [1, 4]


def test_appends_are_synced_by_another_number_of_records_from_now_on(place: Any) -> None:
    with seglog.open(place, LogConfig(buffer_bytes=10_000)) as log:
        log.append(b"v")
        log.alter(flush_records=2)
        log.append(b"v")
        assert log.durable_offset == 2
        log.alter(flush_records=1)
        assert [log.durable_offset for _ in range(3) if log.append(b"v")] == [3, 4, 5]
        log.alter(flush_records=None)
        log.append(b"v")
        assert log.durable_offset == 5


@pytest.mark.parametrize("before", [None, NEVER_SECONDS])
def test_appends_are_synced_by_another_interval_from_now_on(place: Any, before: float | None) -> None:
    with seglog.open(place, LogConfig(flush_interval=before)) as log:
        log.append(b"v")
        log.alter(flush_interval=0.01)
        until(lambda: log.durable_offset == 1)
        log.alter(flush_interval=None)
        log.alter(flush_interval=0.01)
        log.append(b"v")
        until(lambda: log.durable_offset == 2)
        log.alter(flush_interval=None)  # a log without an interval closes


def test_age_begins_to_count_for_a_log_that_had_none(place: Any, clock: ManualClock) -> None:
    with seglog.open(place, SMALL, clock=clock) as log:
        fill(log)
        clock.advance(HOUR)
        assert log.expire() == 0
        log.alter(retention=Retention(age=HOUR))
        clock.advance(1)
        assert log.expire() > 0
        assert log.lowest_offset == log.next_offset == 40


def test_size_lets_go_at_the_next_roll(place: Any) -> None:
    with seglog.open(place, SMALL) as log:
        fill(log)
        log.alter(retention=Retention(bytes=600))
        assert log.lowest_offset == 0
        fill(log)
        assert log.lowest_offset > 40


def test_max_compaction_lag_makes_a_quiet_log_roll(place: Any, clock: ManualClock) -> None:
    with seglog.open(place, SMALL, clock=clock) as log:
        log.append(b"v", key=b"k")
        log.alter(retention=Retention(compact=True, max_compaction_lag=HOUR))
        clock.advance(HOUR)
        log.expire()
        assert len(log.segments) == 2


def test_the_same_once_more_changes_nothing(path: Path) -> None:
    with seglog.open(path, LogConfig(retention=OLD)) as log:
        before = (path / "MANIFEST").read_bytes()
        log.alter(retention=OLD)
        assert (path / "MANIFEST").read_bytes() == before


@pytest.mark.parametrize("retention", [None, 5, {"bytes": 5}])
def test_what_is_no_retention_is_refused(place: Any, retention: Any) -> None:
    with seglog.open(place, SMALL) as log:
        with pytest.raises(seglog.ConfigError, match=r"must be a seglog\.Retention"):
            log.alter(retention=retention)
        assert log.config == SMALL


def test_a_reader_refuses(path: Path) -> None:
    with seglog.open(path), seglog.open(path, mode="r") as log, pytest.raises(seglog.LogReadOnly):
        log.alter(retention=NEW)


@pytest.mark.parametrize("other", [Retention(compact=False), Retention(compact=True, delete_retention=2)])
def test_a_compaction_under_way_ends_where_it_began_by_other_rules(place: Any, other: Retention) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, retention=Retention(compact=True))) as log:
        fill(log)

        def alter(done: int, total: int) -> None:
            log.alter(retention=other)

        with pytest.raises(seglog.PlanStale, match="altered"):
            log.compact(roll=True, progress=alter)
        assert [record.offset for record in log.scan()] == list(range(40))


# --- a process or a medium that fails ---------------------------------------------------------------------------------


def runs(path: Path, fault: Callable[[int], Fault]) -> Any:
    """Yield (storage, directory, error, log) of runs that go wrong one call later each, until one does not."""
    with seglog.open(path, LogConfig(retention=OLD)) as log:
        fill(log, 5)
    for at in itertools.count(1):
        copy = path.with_name(f"run {at}")
        shutil.copytree(path, copy)
        storage = FaultyStorage(LocalStorage(copy))
        log, error = seglog.open(storage), None
        storage.fault = fault(at)
        try:
            log.alter(retention=NEW)
        except (Crashed, seglog.SeglogError) as caught:
            error = caught
        struck = storage.struck
        yield storage, copy, error, log
        storage.crash()
        if not struck:
            assert at > 3
            return


@pytest.mark.parametrize("keep", [0.0, 0.6])
def test_a_crash_at_any_call_leaves_the_old_one_or_the_new_one_and_every_record(path: Path, keep: float) -> None:
    found = []
    for storage, copy, _, _ in runs(path, lambda at: Fault(at=at, keep=keep)):
        storage.crash()
        with seglog.open(copy) as log:
            found.append(log.config.retention)
            assert [record.offset for record in log.scan()] == [0, 1, 2, 3, 4]
            assert log.append(b"v", key=b"k") == 5
    commit = found.index(NEW)
    assert commit > 0
    assert found == [OLD] * commit + [NEW] * (len(found) - commit), "one call is the commit"


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO])
def test_a_medium_that_refuses_leaves_the_old_one_or_stops_the_writer(path: Path, error: int) -> None:
    refused = 0
    for storage, copy, met, log in runs(path, lambda at: Fault(at=at, error=error)):
        storage.fault = None
        if isinstance(met, seglog.LogPoisoned):  # unknown which of the two is on disk
            with pytest.raises(seglog.LogPoisoned):
                log.append(b"v", key=b"k")
            log.close()
        else:
            assert met is None or isinstance(met, seglog.StorageError)
            refused += met is not None
            kept = OLD if met else NEW
            assert log.config.retention == kept
            log.append(b"v", key=b"k")
            log.close()
            with seglog.open(copy) as again:
                assert (again.config.retention, again.next_offset) == (kept, 6)
    assert refused > 0
