"""Retention that counts from the timestamps of records, as in Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Retention

if TYPE_CHECKING:
    pass

DAY = 86_400 * 1_000_000
BEGIN = 20_000 * DAY


def config(age_from: Any = "records") -> LogConfig:
    return LogConfig(segment_bytes=512, retention=Retention(age=86_400, age_from=age_from))


def fill(log: seglog.Log, timestamp: int) -> None:
    for _ in range(5):
        log.append(b"v" * 57, timestamp=timestamp)


@pytest.mark.parametrize(("age_from", "left"), [("sealed", 0), ("records", 10)])
def test_old_records_go_at_once_if_the_age_counts_from_them(tmp_path: Any, age_from: str, left: int) -> None:
    now = BEGIN
    with seglog.open(tmp_path / "log", config(age_from), clock=lambda: now) as log:
        fill(log, BEGIN - 3 * DAY)
        fill(log, BEGIN - 2 * DAY)
        fill(log, BEGIN)
        log.expire()
        assert (log.lowest_offset, log.next_offset) == (left, 15)


def test_an_active_segment_of_old_records_goes_too(tmp_path: Any) -> None:
    with seglog.open(tmp_path / "log", config(), clock=lambda: BEGIN) as log:
        log.append(b"of 1970", timestamp=0, force_timestamp=True)
        assert log.explain(0).text.count("after its newest record") == 1
        assert log.expire() == 1
        assert (log.lowest_offset, log.next_offset) == (1, 1)


def test_a_time_in_the_future_keeps_no_segment_forever(tmp_path: Any) -> None:
    now = [BEGIN]
    with seglog.open(tmp_path / "log", config(), clock=lambda: now[0]) as log:
        fill(log, BEGIN + 3650 * DAY)
        fill(log, BEGIN)
        assert log.expire() == 0
        now[0] += DAY
        assert log.expire() >= 1
        assert log.lowest_offset >= 5


def test_explain_names_the_moment_at_which_the_segment_goes(tmp_path: Any) -> None:
    now = [BEGIN]
    with seglog.open(tmp_path / "log", config(), clock=lambda: now[0]) as log:
        fill(log, BEGIN - DAY // 2)
        fill(log, BEGIN)
        until = log.explain(0).until
        assert until == BEGIN + DAY // 2
        now[0] = until - 1
        assert log.expire() == 0
        now[0] = until
        assert log.expire() == 1


def test_old_records_behind_newer_ones_seal_no_segment_as_nothing_can_be_deleted(tmp_path: Any) -> None:
    with seglog.open(tmp_path / "log", config(), clock=lambda: BEGIN) as log:
        fill(log, BEGIN)
        for _ in range(3):
            log.append(b"old", timestamp=BEGIN - 5 * DAY)
            assert log.expire() == 0
        assert len(log.segments) == 2


def test_old_records_that_wait_for_a_table_seal_no_segment(tmp_path: Any) -> None:
    waiting = LogConfig(retention=Retention(age=86_400, age_from="records", after="table"))
    with seglog.open(tmp_path / "log", waiting, clock=lambda: BEGIN) as log:
        for _ in range(3):
            log.append(b"old", timestamp=BEGIN - 5 * DAY)
            assert log.expire() == 0
        assert len(log.segments) == 1
