"""The cleaner and what goes wrong: one log's trouble is told, shown and tried again, and stops no other log."""

from __future__ import annotations

import errno
from typing import Any

import pytest

import seglog
from seglog.errors import InvalidArgument, InvalidType, StorageError
from seglog.format.store import HEADER_BYTES
from seglog.testing.faulty import WRITING, Fault
from seglog.testing.internals import storage_of
from seglog.topic.cleaning import Cleaner, Event
from tests.damage import flip_in

HOUR = 3600.0
SECOND = 1_000_000
MILLISECOND = 0.001


def test_a_log_that_fails_waits_longer_each_time_and_success_resets_it(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a b a |", on="faulty")
    storage, cleaner = fleet.storages["a"], fleet.cleaner(retry_first=1.0, retry_most=5.0)
    storage.fault = Fault(operations=frozenset({"create"}), name="staging", error=errno.EIO, forever=True)
    waits = []
    for failures in range(1, 6):
        assert fleet.done(cleaner.run_once()) == [("failed", "a")]
        state = fleet.state_of(cleaner, "a")
        assert (state.failures, state.doing) == (failures, "retrying")
        waits.append((state.next_try_at - clock()) / SECOND)
        clock.advance(waits[-1] - MILLISECOND)
        assert cleaner.run_once() == ()
        clock.advance(MILLISECOND)
    assert waits == [1, 2, 4, 5, 5]
    storage.fault = None
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    fleet.put("a", "a a b a |")
    storage.fault = Fault(operations=frozenset({"create"}), name="staging", error=errno.EIO)
    cleaner.run_once()
    assert fleet.state_of(cleaner, "a").failures == 1


@pytest.mark.parametrize("operation", sorted(WRITING))
def test_whatever_the_medium_refuses_the_other_logs_are_looked_after(fleet: Any, operation: str) -> None:
    fleet.log("bad", "a b a |" * 3, on="faulty")
    fleet.log("good", "a b a |")
    fleet.storages["bad"].fault = Fault(operations=frozenset({operation}), error=errno.EIO, forever=True)
    cleaner = fleet.cleaner()
    assert ("compacted", "good") in fleet.done(cleaner.run_once())
    assert fleet.content("good") == "b@1 a@2"
    fleet.storages["bad"].fault = None


def test_a_compaction_that_waits_for_space_does_not_hold_up_its_logs_expiry(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a b a |", on="full", age=HOUR)
    cleaner = fleet.cleaner(retry_first=2 * HOUR, retry_most=2 * HOUR)
    assert fleet.done(cleaner.run_once()) == [("failed", "a")]
    clock.advance(HOUR)
    assert fleet.done(cleaner.run_once()) == [("expired", "a")]


def test_an_expiry_that_fails_waits_like_a_compaction_and_holds_up_none(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a b a | c", on="faulty")
    clock.advance(2)
    cleaner, rolls = fleet.cleaner(retry_first=60.0), frozenset({"create"})
    fleet.storages["a"].fault = Fault(operations=rolls, name=".store", error=errno.EIO)
    events = cleaner.run_once()
    assert fleet.done(events) == [("failed", "a"), ("compacted", "a")]
    assert events[0].text.startswith("the expiry failed (1 in a row), next try in 60 s: ")
    assert (fleet.state_of(cleaner, "a").doing, fleet.state_of(cleaner, "a").failures) == ("retrying", 1)
    cleaner.run_once()
    assert len(fleet.logs["a"].segments) == 2
    clock.advance(60)
    assert cleaner.run_once() == ()
    assert len(fleet.logs["a"].segments) == 3
    assert (fleet.state_of(cleaner, "a").doing, fleet.state_of(cleaner, "a").failures) == ("idle", 0)


def test_a_poisoned_log_is_left_alone_and_shown_until_it_is_opened_again(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a b a |", on="faulty")
    cleaner = fleet.cleaner()
    fleet.storages["a"].fault = Fault(operations=frozenset({"sync_directory"}), name="", at=2, error=errno.EIO)
    assert fleet.done(cleaner.run_once()) == [("refused", "a")]
    state = fleet.state_of(cleaner, "a")
    assert state.doing == "failed"
    assert "sync failed" in str(state.error)
    clock.advance(HOUR)
    assert cleaner.run_once() == ()
    fleet.logs["a"].close()
    fleet.log("a")
    assert fleet.state_of(cleaner, "a").doing == "failed"
    cleaner.run_once()
    assert fleet.state_of(cleaner, "a").doing == "idle"
    assert fleet.content("a") == "b@1 a@2"


def test_a_log_opened_for_reading_is_left_alone_and_shown(fleet: Any) -> None:
    fleet.log("a", "a b a |")
    with seglog.open(fleet.storages["a"], mode="r") as reader:
        cleaner = Cleaner({"a": reader}, clock=fleet.clock)
        assert fleet.done(cleaner.run_once()) == [("refused", "a")]
        assert 'mode="a"' in str(fleet.state_of(cleaner, "a").error)


def test_a_closed_log_is_forgotten_with_a_word(fleet: Any) -> None:
    fleet.log("a", "a b a |").close()
    fleet.log("b", "a b a |")
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("forgotten", "a"), ("compacted", "b")]
    assert cleaner.run_once() == ()
    assert [state.name for state in cleaner.state()] == ["b"]
    fleet.log("a")
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]


@pytest.mark.parametrize("end", ["close", "remove"])
def test_a_log_that_ends_while_it_is_compacted_is_forgotten(fleet: Any, end: str) -> None:
    log = fleet.log("a", "a b a |", on="hooked")
    fleet.storages["a"].hook = getattr(log, end)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("forgotten", "a")]
    assert cleaner.state() == ()


def test_a_plan_that_went_stale_is_no_failure_and_tried_again(fleet: Any) -> None:
    log = fleet.log("a", "a b a | c c |", on="hooked")
    fleet.storages["a"].hook = lambda: log.truncate(4)
    cleaner = fleet.cleaner()
    (event,) = cleaner.run_once()
    assert event.what == "stopped"
    assert "truncated" in event.text
    assert (fleet.state_of(cleaner, "a").failures, fleet.state_of(cleaner, "a").doing) == (0, "waiting")
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    assert fleet.content("a") == "b@1 a@2 c@3"


def test_a_compaction_that_somebody_else_has_begun_is_no_failure(fleet: Any) -> None:
    log, cleaner = fleet.log("a", "a b a |", on="hooked"), fleet.cleaner()
    fleet.storages["a"].hook = cleaner.run_once
    log.compact()
    assert [event.what for event in fleet.told] == ["stopped"]
    assert fleet.state_of(cleaner, "a").failures == 0


def test_damaged_segments_are_shown_and_not_read_again_and_again(fleet: Any, clock: Any) -> None:
    log = fleet.log("a", "a=1 b=1 c=1 " * 12 + "|", segment_bytes=512)
    flip_in(storage_of(log).open(log.segments[1].name, writable=True), HEADER_BYTES + 33)
    cleaner = fleet.cleaner(retry_first=60.0)
    assert fleet.done(cleaner.run_once()) == [("damaged", "a")]
    state = fleet.state_of(cleaner, "a")
    assert len(state.damaged) == 1
    assert log.segments[1].name in state.damaged[0]
    assert (state.doing, state.failures, state.next_try_at) == ("retrying", 1, clock() + 60 * SECOND)
    assert cleaner.run_once() == ()
    log.repair()
    clock.advance(60)
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    assert (fleet.state_of(cleaner, "a").damaged, fleet.state_of(cleaner, "a").failures) == ((), 0)


def test_where_it_cannot_be_told_which_logs_there_are_the_known_ones_are_looked_after(fleet: Any) -> None:
    fleet.log("a", "a b a |")
    refuse = []

    def logs() -> dict[str, seglog.Log]:
        if refuse:
            raise StorageError(errno.EIO, "no list")
        return fleet.logs

    cleaner = Cleaner(logs, clock=fleet.clock)
    cleaner.run_once()
    refuse.append(True)
    fleet.put("a", "a a a a |")
    assert fleet.done(cleaner.run_once()) == [("failed", ""), ("compacted", "a")]


def test_an_error_of_on_event_changes_nothing(fleet: Any, caplog: pytest.LogCaptureFixture) -> None:
    fleet.log("a", "a b a |")

    def on_event(event: Event) -> None:
        raise ValueError(event.what)

    assert fleet.done(Cleaner(fleet.logs, clock=fleet.clock, on_event=on_event).run_once()) == [("compacted", "a")]
    assert "on_event failed" in caplog.text


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["interval", "retry_first", "retry_most", "bytes_per_second"])
def test_numbers_that_cannot_be_are_refused(name: str) -> None:
    for number in (0, -1, float("nan"), float("inf")):
        with pytest.raises(InvalidArgument, match=name):
            Cleaner({}, **{name: number})
    for number in ("1", True):
        with pytest.raises(InvalidType, match=name):
            Cleaner({}, **{name: number})


def test_what_are_no_logs_is_refused() -> None:
    with pytest.raises(InvalidType, match="mapping"):
        Cleaner([])  # type: ignore[arg-type] # the point of the test


def test_a_closed_cleaner_does_nothing_more(fleet: Any) -> None:
    fleet.log("a", "a b a |")
    with fleet.cleaner() as cleaner:
        pass
    cleaner.close()
    for call in (cleaner.run_once, cleaner.start):
        with pytest.raises(InvalidArgument, match="closed"):
            call()
    assert fleet.content("a") == "a@0 b@1 a@2"
