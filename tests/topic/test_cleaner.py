"""The cleaner, round by round: acceptance/compaction.md 2, 5, 11, 19 and 20, failures, and what it shows."""

from __future__ import annotations

import json
import logging
import os
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seglog
from seglog.errors import InvalidArgument
from seglog.format.store import HEADER_BYTES
from seglog.testing.internals import storage_of
from seglog.topic import Topic
from seglog.topic.cleaning import Cleaner
from tests.damage import flip_in

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3600.0
SECOND = 1_000_000
MILLISECOND = 0.001


def open_files() -> int:
    """How many descriptors this process has open."""
    return len(os.listdir("/proc/self/fd"))  # noqa: PTH208 - links, not paths


# --- line 2: a quiet log ----------------------------------------------------------------------------------------------


def test_2_a_quiet_log_rolls_on_schedule_and_is_compacted(fleet: Any, clock: Any) -> None:
    fleet.log("a", "k k k", segment_age=None, max_compaction_lag=HOUR)
    created = fleet.logs["a"].segments[0].created
    cleaner = fleet.cleaner()
    assert cleaner.run_once() == ()
    assert fleet.state_of(cleaner, "a").next_at == created + HOUR * SECOND
    clock.advance(HOUR - MILLISECOND)
    assert cleaner.run_once() == ()
    clock.advance(MILLISECOND)
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    assert fleet.content("a") == "k@2"
    assert fleet.state_of(cleaner, "a").doing == "idle"


# --- line 5: tombstones -----------------------------------------------------------------------------------------------


def test_5_a_timer_sees_to_a_tombstone_without_a_new_write(fleet: Any, clock: Any) -> None:
    fleet.log("a", "k k- |", delete_retention=24 * HOUR)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    assert fleet.content("a") == "k∅@1"
    assert fleet.state_of(cleaner, "a").next_at == clock() + 24 * HOUR * SECOND
    clock.advance(24 * HOUR - MILLISECOND)
    assert cleaner.run_once() == ()
    clock.advance(MILLISECOND)
    (event,) = cleaner.run_once()
    assert event.report is not None
    assert event.report.tombstones == 1
    assert fleet.content("a") == ""
    assert fleet.state_of(cleaner, "a").next_at is None


# --- line 11: which log, and when -------------------------------------------------------------------------------------


def test_11_the_dirtiest_log_first(fleet: Any) -> None:
    for name, clean, dirty in (("half", 10, 12), ("all", 0, 5), ("most", 10, 40)):
        fleet.log(name, "a=1 b=1 c=1 " * clean + "|", segment_bytes=512, min_dirty_ratio=0.1)
        fleet.logs[name].compact()
        fleet.put(name, "a=2 b=2 c=2 " * dirty + "|")
    ratios = {name: log.standing().ratio for name, log in fleet.logs.items()}
    assert ratios["all"] > ratios["most"] > ratios["half"] > 0.1
    assert fleet.done(fleet.cleaner().run_once()) == [
        ("compacted", "all"),
        ("compacted", "most"),
        ("compacted", "half"),
    ]


def test_11_not_chosen_at_the_ratio_only_above_it(fleet: Any) -> None:
    log = fleet.log("a", "a=1 b=1 |")
    log.compact()
    fleet.put("a", "c=1 d=1 |")
    assert log.standing().ratio == log.config.retention.min_dirty_ratio == 0.5
    cleaner = fleet.cleaner()
    assert cleaner.run_once() == ()
    assert fleet.state_of(cleaner, "a").ratio == 0.5
    fleet.put("a", "c=1 |")
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]


def test_11_the_maximum_lag_passed(fleet: Any, clock: Any) -> None:
    fleet.log("a", "k k |", min_dirty_ratio=1.0, max_compaction_lag=HOUR)
    cleaner = fleet.cleaner()
    assert cleaner.run_once() == ()
    clock.advance(HOUR)
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    assert fleet.content("a") == "k@1"


def test_11_a_log_due_by_lag_has_its_turn_in_the_same_round_as_dirtier_ones(fleet: Any, clock: Any) -> None:
    fleet.log("late", "k k |", min_dirty_ratio=1.0, max_compaction_lag=HOUR).compact()
    fleet.put("late", "k |")
    clock.advance(HOUR)
    fleet.log("dirty", "k k |")
    assert fleet.logs["late"].standing().ratio < fleet.logs["dirty"].standing().ratio
    assert fleet.done(fleet.cleaner().run_once()) == [("compacted", "dirty"), ("compacted", "late")]


def test_a_log_that_is_not_compacted_by_key_is_expired_only(fleet: Any, clock: Any) -> None:
    fleet.log("a", ". . | . |", compact=False, age=HOUR)
    cleaner = fleet.cleaner()
    assert cleaner.run_once() == ()
    clock.advance(HOUR)
    (event,) = cleaner.run_once()
    assert (event.what, event.text) == ("expired", "retention deleted 2 segments")
    assert (fleet.state_of(cleaner, "a").expired, fleet.state_of(cleaner, "a").ratio) == (2, 0)
    assert fleet.content("a") == ""


def test_retention_by_age_works_beside_compaction(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a a | b b |", age=HOUR)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    clock.advance(HOUR)
    assert fleet.done(cleaner.run_once()) == [("expired", "a")]


# --- line 19: restarts ------------------------------------------------------------------------------------------------


def test_19_progress_survives_a_restart(fleet: Any) -> None:
    log = fleet.log("a", "a b a | b c | a |", segment_bytes=512)
    fleet.log("b", "k k |")
    assert len(fleet.cleaner().run_once()) == 2
    held, segments = fleet.content("a"), log.segments
    fleet.close()
    again = fleet.log("a", segment_bytes=512)
    fleet.log("b")
    assert fleet.cleaner().run_once() == ()
    assert (fleet.content("a"), again.segments[:-1]) == (held, segments[:-1])


def test_19_a_compaction_that_was_cut_off_is_begun_anew_after_a_restart(fleet: Any) -> None:
    fleet.log("a", "a b a |", on="hooked")
    cleaner = fleet.cleaner()
    fleet.storages["a"].hook = cleaner.close
    assert fleet.done(cleaner.run_once()) == [("stopped", "a")]
    assert fleet.content("a") == "a@0 b@1 a@2"
    fleet.close()
    fleet.log("a")
    assert fleet.done(fleet.cleaner().run_once()) == [("compacted", "a")]
    assert fleet.content("a") == "b@1 a@2"


# --- line 20: space ---------------------------------------------------------------------------------------------------


def test_20_without_space_a_log_waits_and_goes_on_once_there_is_some(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a b a |", on="full")
    fleet.log("b", "a b a |")
    cleaner = fleet.cleaner(retry_first=10.0)
    assert fleet.done(cleaner.run_once()) == [("failed", "a"), ("compacted", "b")]
    state = fleet.state_of(cleaner, "a")
    assert "100 are free" in str(state.error)
    assert (state.doing, state.failures, state.next_try_at) == ("retrying", 1, clock() + 10 * SECOND)
    assert fleet.content("a") == "a@0 b@1 a@2"
    fleet.storages["a"].free = 2**30
    assert cleaner.run_once() == ()
    clock.advance(10)
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    assert (fleet.state_of(cleaner, "a").doing, fleet.state_of(cleaner, "a").error) == ("idle", None)


def test_20_old_files_go_as_soon_as_no_reader_holds_them(local_fleet: Any, tmp_path: Path) -> None:
    log, cleaner = local_fleet.log("orders", "a b a |"), local_fleet.cleaner()
    old = tmp_path / "orders" / log.segments[0].name
    with seglog.open(tmp_path / "orders", mode="r") as reader:
        under_way = reader.scan()
        assert next(under_way).offset == 0
        assert local_fleet.done(cleaner.run_once()) == [("compacted", "orders")]
        cleaner.run_once()
        assert old.exists()
        assert [record.offset for record in under_way] == [1, 2]
    assert cleaner.run_once() == ()
    assert not old.exists()


# --- logs come and go -------------------------------------------------------------------------------------------------


def test_logs_come_and_go(fleet: Any) -> None:
    cleaner = fleet.cleaner()
    assert (cleaner.run_once(), cleaner.state()) == ((), ())
    fleet.log("a", "a b a |")
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]
    fleet.logs.pop("a").close()
    assert (cleaner.run_once(), cleaner.state()) == ((), ())


def test_of_a_topic_every_partition_is_looked_after(tmp_path: Path) -> None:
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True))
    with Topic.create(tmp_path / "orders", partitions=2, config=config) as topic:
        for number in range(60):
            topic.append(b"x" * 40, key=b"k%d" % (number % 4))
        cleaner = Cleaner.of_topic(topic, interval=60)
        assert [event.name for event in cleaner.run_once()] == ["orders/0", "orders/1"]
        assert [state.name for state in cleaner.state()] == ["orders/0", "orders/1"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="no /proc here")  # noqa: PTH112 - one look
def test_one_hundred_logs_at_once_take_hardly_a_file_more(local_fleet: Any) -> None:
    fleet = local_fleet
    for number in range(100):
        fleet.log(f"log{number}", "a b a |")
    files = open_files()
    most: list[int] = []
    cleaner = Cleaner(fleet.logs, clock=fleet.clock, on_event=lambda event: most.append(open_files()))
    assert fleet.done(cleaner.run_once()) == [("compacted", name) for name in sorted(fleet.logs)]
    assert max(most) <= files + 2  # those of the log at work, and of its lease
    assert all(fleet.content(name) == "b@1 a@2" for name in fleet.logs)
    assert cleaner.run_once() == ()
    assert {state.doing for state in cleaner.state()} == {"idle"}


# --- a compaction beside others ---------------------------------------------------------------------------------------


def test_a_compaction_does_not_hold_up_the_expiry_of_other_logs(fleet: Any, clock: Any) -> None:
    fleet.log("long", "a b a |", on="hooked")
    fleet.log("old", ". | . |", compact=False, age=HOUR)
    fleet.storages["long"].hook = lambda: clock.advance(HOUR)
    assert fleet.done(fleet.cleaner().run_once()) == [("expired", "old"), ("compacted", "long")]


def test_a_log_is_not_expired_in_the_middle_of_its_own_compaction(fleet: Any, clock: Any) -> None:
    fleet.log("a", "a b a |", on="hooked", age=HOUR)
    fleet.storages["a"].hook = lambda: clock.advance(HOUR)
    assert fleet.done(fleet.cleaner().run_once()) == [("compacted", "a"), ("expired", "a")]


def test_every_log_has_one_turn_in_a_round(fleet: Any, clock: Any) -> None:
    fleet.log("a", "k k- |", on="hooked", delete_retention=1)
    fleet.log("b", "k k |")
    fleet.storages["a"].hook = lambda: clock.advance(1)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("compacted", "a"), ("compacted", "b")]
    assert fleet.state_of(cleaner, "a").doing == "waiting"
    assert fleet.done(cleaner.run_once()) == [("compacted", "a")]


def test_a_compaction_does_not_hold_up_logs_that_come_meanwhile(fleet: Any, clock: Any) -> None:
    fleet.log("long", "a b a |", on="hooked")

    def come() -> None:
        fleet.log("new", "a a |")
        clock.advance(15)

    fleet.storages["long"].hook = come
    assert fleet.done(fleet.cleaner().run_once()) == [("compacted", "long"), ("compacted", "new")]


def test_a_pause_stops_a_compaction_and_nothing_begins_until_it_is_over(fleet: Any) -> None:
    fleet.log("a", "a b a |", on="hooked")
    fleet.log("b", "k k |")
    cleaner = fleet.cleaner()
    fleet.storages["a"].hook = cleaner.pause
    assert fleet.done(cleaner.run_once()) == [("stopped", "a")]
    assert fleet.content("a") == "a@0 b@1 a@2"
    assert {state.doing for state in cleaner.state()} == {"paused"}
    assert {state.failures for state in cleaner.state()} == {0}
    assert cleaner.run_once() == ()
    cleaner.resume()
    assert fleet.done(cleaner.run_once()) == [("compacted", "a"), ("compacted", "b")]


def test_the_state_shows_a_compaction_under_way_and_who_waits(fleet: Any) -> None:
    fleet.log("a", "a b a |", on="hooked")
    fleet.log("b", "k k |")
    cleaner, seen = fleet.cleaner(), []
    fleet.storages["a"].hook = lambda: seen.extend(cleaner.state())
    cleaner.run_once()
    assert [(state.name, state.doing, state.due) for state in seen] == [
        *(("a", "compacting", "dirty"), ("b", "waiting", "dirty")),
    ]
    assert 0 < seen[0].done_bytes < seen[0].pass_bytes
    after = fleet.state_of(cleaner, "a")
    assert after.report is not None
    assert (after.doing, after.done_bytes, after.report.superseded) == ("idle", 0, 1)
    assert after.compacted_at == fleet.clock()


def test_the_rate_is_that_of_all_logs_together_and_may_be_changed(fleet: Any, monkeypatch: Any) -> None:
    for name in "abc":
        fleet.log(name, "a b a |")
    cleaner, rates = fleet.cleaner(bytes_per_second=1e9), []
    compact = type(fleet.logs["a"]).compact

    def noting(log: Any, **options: Any) -> Any:
        assert options["generational"]
        rates.append(options["bytes_per_second"])
        cleaner.bytes_per_second = None if len(rates) == 2 else rates[-1] * 2
        return compact(log, **options)

    monkeypatch.setattr(type(fleet.logs["a"]), "compact", noting)
    assert len(cleaner.run_once()) == 3
    assert rates == [1e9, 2e9, None]


# --- what it shows ----------------------------------------------------------------------------------------------------


def test_a_state_is_json(fleet: Any) -> None:
    log = fleet.log("a", "a=1 b=1 c=1 " * 12 + "|", segment_bytes=512)
    flip_in(storage_of(log).open(log.segments[1].name, writable=True), HEADER_BYTES + 33)
    fleet.log("b", "a b a |")
    cleaner = fleet.cleaner()
    cleaner.run_once()
    first, second = json.loads(json.dumps([state.to_json() for state in cleaner.state()]))
    assert (first["doing"], len(first["damaged"]), len(first["report"]["damaged"])) == ("retrying", 1, 1)
    assert (second["doing"], second["report"]["superseded"], second["name"]) == ("idle", 1, "b")


def test_a_line_is_logged_for_each_thing_done(fleet: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "seglog.cleaner")
    fleet.log("a", "a b a |", on="full")
    fleet.log("b", "a b a |")
    fleet.cleaner().run_once()
    (failed, compacted) = caplog.records
    assert (failed.levelname, compacted.levelname) == ("WARNING", "INFO")
    assert failed.getMessage().startswith("a: the compaction failed (1 in a row), next try in 1 s: ")
    assert compacted.getMessage().startswith("b: compacted: removed 1 superseded, 0 tombstones, 0 without key; ")


def test_explain_tells_of_the_record_and_of_what_the_cleaner_is_about_to_do(fleet: Any) -> None:
    log, cleaner = fleet.log("a", "a b a |", on="full"), fleet.cleaner(retry_first=60)
    cleaner.run_once()
    text = cleaner.explain("a", 0)
    assert text.startswith(log.explain(0).text)
    assert "After a failure the cleaner waits until 2023-11-14 22:1" in text
    assert "100 are free" in text
    cleaner.pause()
    assert "The cleaner is paused" in cleaner.explain("a", 0)
    cleaner.resume()
    fleet.storages["a"].free = 2**30
    fleet.clock.advance(60)
    cleaner.run_once()
    assert "nothing to do" in cleaner.explain("a", 1)
    with pytest.raises(InvalidArgument, match="no log 'x'"):
        cleaner.explain("x", 0)


def test_explain_knows_logs_before_the_first_round(fleet: Any) -> None:
    log = fleet.log("a", "a")
    assert fleet.cleaner().explain("a", 0).startswith(log.explain(0).text)


# --- any story --------------------------------------------------------------------------------------------------------

WORDS = st.lists(st.sampled_from(["a", "b", "c=5", "a-", "b-", "|"]), max_size=12).map(" ".join)
STORIES = st.lists(st.tuples(WORDS, st.sampled_from([0, 1, 50, 1000])), max_size=6)


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(story=STORIES, ratio=st.sampled_from([0.0, 0.5, 1.0]), lag=st.sampled_from([None, 500]))
def test_whatever_is_written_the_cleaner_comes_to_rest(
    clock: Any, shop_at: Any, story: Any, ratio: float, lag: Any
) -> None:
    """With the clock at rest a few rounds do all there is to do, and every key keeps its latest record."""
    shop = shop_at(seglog.MemoryStorage())
    with shop.open(segment_bytes=512, min_dirty_ratio=ratio, max_compaction_lag=lag, delete_retention=100) as log:
        cleaner, latest = Cleaner({"a": log}, clock=clock), {}
        for text, seconds in story:
            start = log.next_offset
            shop.put(log, text)
            latest |= {record.key: record for record in log.scan(start)}
            clock.advance(seconds)
            assert all(event.what == "compacted" for _ in range(3) for event in cleaner.run_once())
            assert cleaner.run_once() == ()
            assert log.standing().due is None
        held = {record.key: record for record in log.scan()}
        assert {key: one for key, one in latest.items() if one.value is not None}.items() <= held.items()
        assert all(latest[key] == one for key, one in held.items())
