"""The cleaner's thread: it looks when something comes due, and ends at once. Nothing sleeps, every wait is bounded."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.errors import InvalidArgument
from seglog.topic.cleaning import Cleaner, Event, log_cleaning
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterator

NEVER = 10_000.0  # an interval that no test waits for


class Watch:
    """Takes a cleaner's events; `next` waits for one."""

    def __init__(self) -> None:
        self._events: queue.Queue[Event] = queue.Queue()

    def __call__(self, event: Event) -> None:
        self._events.put(event)

    def next(self) -> Event:
        return self._events.get(timeout=HANG_SECONDS)


@pytest.fixture
def watch() -> Watch:
    return Watch()


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    yield
    left = [thread for thread in threading.enumerate() if thread.name.startswith(("seglog-cleaner", "seglog-compact"))]
    assert left == [], "close has to wait for the thread's end"


def keyed(place: Any, **retention: Any) -> seglog.Log:
    """Return a log by the real time, with one sealed segment k, k∅."""
    kept = seglog.Retention(compact=True, **retention)
    with seglog.open(place, seglog.LogConfig(segment_bytes=512, retention=kept)) as log:
        log.append(b"v" * 200, key=b"k")
        log.append(None, key=b"k")
        log.append(b"v" * 400, key=b"later")  # does not fit any more
    return seglog.open(place)


def test_5_the_timer_is_set_by_what_the_log_says_not_by_the_interval(watch: Watch) -> None:
    with keyed(seglog.MemoryStorage()) as other:
        other.compact()  # the kernels are loaded: the next pass takes less time than the tombstone stays
    with keyed(seglog.MemoryStorage(), delete_retention=0.5) as log:
        with Cleaner({"a": log}, interval=NEVER, on_event=watch).start() as cleaner:
            first, second = watch.next(), watch.next()
            assert first.report is not None
            assert second.report is not None
            assert (first.report.superseded, first.report.tombstones) == (1, 0)
            assert (second.report.superseded, second.report.tombstones) == (0, 1)
            assert cleaner.state()[0].failures == 0
        assert [record.key for record in log.scan()] == [b"later"]


def test_a_log_that_is_due_again_after_its_compaction_waits_for_no_interval(fleet: Any, watch: Watch) -> None:
    fleet.log("a", "k k- |", on="hooked", delete_retention=1)
    fleet.storages["a"].hook = lambda: fleet.clock.advance(1)
    with Cleaner(fleet.logs, clock=fleet.clock, interval=NEVER, on_event=watch).start():
        assert [watch.next().report.tombstones for _ in range(2)] == [0, 1]


def test_2_a_quiet_log_rolls_and_is_compacted_by_the_timer(watch: Watch) -> None:
    kept = seglog.Retention(compact=True, max_compaction_lag=0.2)
    with seglog.open(seglog.MemoryStorage(), seglog.LogConfig(retention=kept)) as log:
        log.append_batch(pa.table({"key": [b"k"] * 3, "value": [b"v"] * 3}))  # at once: a late append would roll, too
        with Cleaner({"a": log}, interval=NEVER, on_event=watch).start():
            assert watch.next().what == "compacted"
        assert [record.offset for record in log.scan()] == [2]


def test_it_looks_at_least_once_in_every_interval(watch: Watch) -> None:
    """That a log's age lets go of a segment is known to the log alone."""
    config = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(age=0.2))
    with seglog.open(seglog.MemoryStorage(), config) as log:
        log.append(b"v" * 400)
        log.append(b"v" * 400)
        with Cleaner({"a": log}, interval=0.02, on_event=watch).start():
            assert watch.next().what == "expired"


def test_it_tries_again_once_the_wait_after_a_failure_is_over(local_fleet: Any, watch: Watch) -> None:
    log = local_fleet.log("a", "a b a |", on="full")

    def on_event(event: Event) -> None:
        if event.what == "failed":
            local_fleet.storages["a"].free = 2**30
        watch(event)

    with Cleaner({"a": log}, interval=NEVER, retry_first=0.05, on_event=on_event).start():
        assert [watch.next().what for _ in range(2)] == ["failed", "compacted"]


def test_wake_makes_it_look_now(fleet: Any, watch: Watch) -> None:
    fleet.log("a", "a b a |")
    with Cleaner(fleet.logs, clock=fleet.clock, interval=NEVER, on_event=watch).start() as cleaner:
        assert watch.next().name == "a"
        fleet.log("b", "a b a |")
        cleaner.wake()
        assert (watch.next().name, fleet.content("b")) == ("b", "b@1 a@2")


def test_a_resume_goes_on_where_a_pause_stopped(fleet: Any, watch: Watch) -> None:
    fleet.log("a", "a b a |", on="hooked")
    cleaner = Cleaner(fleet.logs, clock=fleet.clock, interval=NEVER, on_event=watch)
    fleet.storages["a"].hook = cleaner.pause
    with cleaner.start():
        assert watch.next().what == "stopped"
        assert cleaner.state()[0].doing == "paused"
        cleaner.resume()
        assert watch.next().what == "compacted"


def test_close_ends_a_compaction_under_way_at_once_and_the_log_is_as_it_was(fleet: Any, watch: Watch) -> None:
    log, under_way = fleet.log("a", "a b a |"), threading.Event()
    segments = log.segments

    def logs() -> dict[str, seglog.Log]:
        """Asked for in the middle of a compaction, too."""
        if any(state.pass_bytes for state in cleaner.state()):
            under_way.set()
        return {"a": log}

    # A byte in a quarter of an hour: it never comes to its end.
    cleaner = Cleaner(logs, interval=0.01, bytes_per_second=0.001, on_event=watch)
    cleaner.start()
    assert under_way.wait(HANG_SECONDS)
    cleaner.close()
    assert watch.next().what == "stopped"
    assert (fleet.content("a"), log.segments) == ("a@0 b@1 a@2", segments)
    assert log.append(b"v", key=b"a") == 3  # the logs stay open


def test_turns_of_compression_that_are_left_wait_for_no_interval(
    fleet: Any, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_cleaning, "TURN_BYTES", 1)
    log = fleet.log("a", ". . . . . . . . . . . . | " * 3, compact=False, compression="zstd")
    with Cleaner(fleet.logs, clock=fleet.clock, interval=NEVER, on_event=watch).start():
        assert [watch.next().what for _ in range(3)] == ["compressed"] * 3
    assert [one.codec for one in log.segments] == ["zstd", "zstd", "zstd", None]


def test_close_ends_a_compression_under_way_at_once_and_the_log_is_as_it_was(fleet: Any, watch: Watch) -> None:
    log, under_way = fleet.log("a", ". . . . . . . . . . . . |", compact=False, compression="zstd"), threading.Event()
    segments = log.segments

    def logs() -> dict[str, seglog.Log]:
        if any(state.pass_bytes for state in cleaner.state()):
            under_way.set()
        return {"a": log}

    # A byte in a quarter of an hour: it never comes to its end.
    cleaner = Cleaner(logs, interval=0.01, bytes_per_second=0.001, on_event=watch)
    cleaner.start()
    assert under_way.wait(HANG_SECONDS)
    cleaner.close()
    assert watch.next().what == "stopped"
    assert log.segments == segments
    assert log.append(b"v") == 12  # the logs stay open


def test_close_while_it_waits_ends_at_once(fleet: Any, watch: Watch) -> None:
    fleet.log("a", "a b a |")
    with Cleaner(fleet.logs, clock=fleet.clock, interval=NEVER, on_event=watch).start() as cleaner:
        watch.next()
        cleaner.start()
        assert [thread.name for thread in threading.enumerate()].count("seglog-cleaner") == 1
    cleaner.close()


def test_on_event_may_use_the_cleaner_but_not_ask_for_a_round(fleet: Any, caplog: pytest.LogCaptureFixture) -> None:
    fleet.log("a", "a b a |")
    fleet.log("b", "a b a |")
    answers: queue.Queue[Any] = queue.Queue()

    def on_event(event: Event) -> None:
        try:
            cleaner.run_once()
        except InvalidArgument as error:
            answers.put(str(error))
        cleaner.state()
        cleaner.wake()
        cleaner.close()

    cleaner = Cleaner(fleet.logs, clock=fleet.clock, on_event=on_event)
    cleaner.start()
    assert "on_event" in answers.get(timeout=HANG_SECONDS)
    cleaner.close()
    assert fleet.content("b") == "a@0 b@1 a@2"  # its turn never came
    assert "on_event failed" not in caplog.text


def test_the_state_can_be_asked_for_by_any_thread_at_any_time(fleet: Any, watch: Watch) -> None:
    for name in "abcdef":
        fleet.log(name, "a b a |" * 3)
    over, wrong = threading.Event(), []

    def ask() -> None:
        while not over.is_set():
            wrong.extend(state for state in cleaner.state() if state.done_bytes > state.pass_bytes)

    cleaner = Cleaner(fleet.logs, clock=fleet.clock, interval=NEVER, on_event=watch)
    threads = [threading.Thread(target=ask) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        with cleaner.start():
            assert {watch.next().name for _ in fleet.logs} == set(fleet.logs)
    finally:
        over.set()
        for thread in threads:
            thread.join(HANG_SECONDS)
    assert wrong == []
    assert {state.doing for state in cleaner.state()} == {"idle"}


def test_appends_go_on_while_the_cleaner_works(local_fleet: Any, watch: Watch) -> None:
    kept = seglog.Retention(compact=True, min_dirty_ratio=0.1)
    config = seglog.LogConfig(segment_bytes=4096, retention=kept)
    with seglog.open(local_fleet.place("busy"), config) as log:
        compactions = number = 0
        with Cleaner({"a": log}, interval=0.001, on_event=watch).start():
            while compactions < 5:
                log.append(b"%d" % number, key=b"%d" % (number % 37))
                number += 1
                if number % 500 == 0:
                    compactions += watch.next().what == "compacted"
            latest = {record.key: int(record.value or b"") for record in log.scan()}
            assert latest == {b"%d" % (one % 37): one for one in range(number - 37, number)}
        assert log.verify().ok
