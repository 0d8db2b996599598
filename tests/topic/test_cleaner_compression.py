"""The cleaner and compression: sealed segments of logs with a codec, after expiry and compaction, in turns."""

from __future__ import annotations

import errno
import json
import logging
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.format.store import HEADER_BYTES
from seglog.testing.faulty import Fault
from seglog.testing.internals import storage_of
from seglog.topic import Topic
from seglog.topic.cleaning import Cleaner, log_cleaning
from tests.damage import flip_in

if TYPE_CHECKING:
    from pathlib import Path

HOUR = 3600.0
SECOND = 1_000_000
SEGMENT = ". . . . . . . . . . . . | "  # records that become an eighth smaller
PLAIN = {"compact": False, "compression": "zstd"}


@pytest.fixture
def small_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """One segment in each turn."""
    monkeypatch.setattr(log_cleaning, "TURN_BYTES", 1)


def codecs(log: seglog.Log) -> list[str | None]:
    return [one.codec for one in log.segments[:-1]]


def damage(log: seglog.Log, number: int) -> None:
    """Damage a record of a segment."""
    flip_in(storage_of(log).open(log.segments[number].name, writable=True), HEADER_BYTES + 33)


# --- which log, and when ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("codec", ["lz4", "zstd"])
def test_sealed_segments_are_compressed_after_they_were_compacted(fleet: Any, codec: str) -> None:
    log = fleet.log("a", "a=1 b=1 c=1 d=1 " * 4 + "e f g h i j k l | x", compression=codec)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("compacted", "a"), ("compressed", "a")]
    assert codecs(log) == [codec]
    assert fleet.content("a").endswith("k@22 l@23 x@24")
    state = fleet.state_of(cleaner, "a")
    assert (state.doing, state.due, state.to_compress, state.done_bytes) == ("idle", None, 0, 0)
    assert state.compressed_at == fleet.clock()
    assert state.compression.rewritten == state.compression.segments == 1
    assert cleaner.run_once() == ()
    assert log.verify().ok


def test_a_log_without_a_codec_stays_plain(fleet: Any) -> None:
    log = fleet.log("a", SEGMENT * 2, compact=False)
    cleaner = fleet.cleaner()
    assert cleaner.run_once() == ()
    assert codecs(log) == [None, None]
    assert fleet.state_of(cleaner, "a").to_compress == 0


def test_what_retention_deletes_is_not_compressed_before(fleet: Any, clock: Any) -> None:
    fleet.log("a", SEGMENT, **PLAIN, age=HOUR)
    clock.advance(HOUR)
    fleet.log("b", SEGMENT, **PLAIN, age=HOUR)
    assert fleet.done(fleet.cleaner().run_once()) == [("expired", "a"), ("compressed", "b")]


def test_all_compactions_come_first_then_the_log_with_most_to_compress(fleet: Any) -> None:
    fleet.log("few", SEGMENT, **PLAIN)
    fleet.log("keyed", "a b a |")
    fleet.log("many", SEGMENT * 3, **PLAIN)
    assert fleet.done(fleet.cleaner().run_once()) == [
        ("compacted", "keyed"),
        ("compressed", "many"),
        ("compressed", "few"),
    ]


def test_noise_is_looked_at_once(fleet: Any) -> None:
    log = fleet.log("a", "a=0 |", **PLAIN)
    cleaner = fleet.cleaner()
    (event,) = cleaner.run_once()
    assert (event.what, event.compression.rewritten, codecs(log)) == ("compressed", 0, [None])
    assert (cleaner.run_once(), fleet.state_of(cleaner, "a").to_compress) == ((), 0)


def test_another_codec_and_the_way_back(fleet: Any) -> None:
    log = fleet.log("a", SEGMENT * 2, **PLAIN)
    cleaner, held = fleet.cleaner(), fleet.content("a")
    for codec, shown in (("zstd", "zstd"), ("lz4", "lz4"), ("none", None)):
        log.alter(compression=codec)
        assert fleet.done(cleaner.run_once()) == [("compressed", "a")]
        assert codecs(log) == [shown] * 2
        assert fleet.content("a") == held


def test_of_a_topic_every_partition_is_compressed(tmp_path: Path) -> None:
    config = seglog.LogConfig(segment_bytes=2048, compression="lz4")
    with Topic.create(tmp_path / "orders", partitions=2, config=config) as topic:
        for number in range(100):
            topic.append(b"x" * 40, partition=number % 2)
        events = Cleaner.of_topic(topic, interval=60).run_once()
        assert [(event.what, event.name) for event in events] == [
            ("compressed", "orders/0"),
            ("compressed", "orders/1"),
        ]
        assert all(set(codecs(topic.partition(number))) == {"lz4"} for number in range(2))


# --- turns ------------------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small_turns")
def test_each_log_has_a_turn_in_each_round_until_all_is_compressed(fleet: Any) -> None:
    a, b = fleet.log("a", SEGMENT * 2, **PLAIN), fleet.log("b", SEGMENT * 3, **PLAIN)
    cleaner, rounds = fleet.cleaner(), []
    while events := cleaner.run_once():
        rounds.append([event.name for event in events])
    assert rounds == [["b", "a"], ["b", "a"], ["b"]]
    assert codecs(a) + codecs(b) == ["zstd"] * 5


@pytest.mark.usefixtures("small_turns")
def test_a_compaction_that_becomes_due_comes_before_the_next_turn(fleet: Any, clock: Any) -> None:
    fleet.log("a", SEGMENT * 3, on="hooked", **PLAIN)
    fleet.log("b", SEGMENT, **PLAIN)
    fleet.log("keyed", "k k |", min_dirty_ratio=1.0, max_compaction_lag=HOUR)
    fleet.storages["a"].hook = lambda: clock.advance(HOUR)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("compressed", "a"), ("compacted", "keyed"), ("compressed", "b")]
    assert fleet.done(cleaner.run_once()) == [("compressed", "a")]


def test_a_compression_does_not_hold_up_the_expiry_of_other_logs(fleet: Any, clock: Any) -> None:
    fleet.log("long", SEGMENT, on="hooked", **PLAIN)
    fleet.log("old", ". | . |", compact=False, age=HOUR)
    fleet.storages["long"].hook = lambda: clock.advance(HOUR)
    assert fleet.done(fleet.cleaner().run_once()) == [("expired", "old"), ("compressed", "long")]


# --- the end of a pass ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["close", "pause"])
def test_a_compression_that_was_stopped_goes_on_with_the_segments_that_are_left(fleet: Any, end: str) -> None:
    log = fleet.log("a", SEGMENT * 3, on="hooked", **PLAIN)
    cleaner, held = fleet.cleaner(), fleet.content("a")

    def in_the_second_segment() -> None:
        if codecs(log)[0] is None:
            fleet.storages["a"].hook = in_the_second_segment
        else:
            getattr(cleaner, end)()

    in_the_second_segment()
    (event,) = cleaner.run_once()
    assert event.what == "stopped"
    assert "1 of 3 segments are stored with zstd" in event.text
    assert (codecs(log), fleet.content("a")) == (["zstd", None, None], held)
    assert (fleet.state_of(cleaner, "a").failures, fleet.state_of(cleaner, "a").to_compress > 0) == (0, True)
    after = fleet.cleaner()
    assert fleet.done(after.run_once()) == [("compressed", "a")]
    assert (codecs(log), fleet.content("a")) == (["zstd"] * 3, held)


@pytest.mark.parametrize("end", ["close", "remove"])
def test_a_log_that_ends_while_it_is_compressed_is_forgotten(fleet: Any, end: str) -> None:
    log = fleet.log("a", SEGMENT, on="hooked", **PLAIN)
    fleet.storages["a"].hook = getattr(log, end)
    cleaner = fleet.cleaner()
    assert fleet.done(cleaner.run_once()) == [("forgotten", "a")]
    assert cleaner.state() == ()


def test_a_pass_that_another_has_begun_is_no_failure(fleet: Any) -> None:
    log, cleaner = fleet.log("a", SEGMENT, on="hooked", **PLAIN), fleet.cleaner()
    fleet.storages["a"].hook = cleaner.run_once
    log.compress()
    assert [event.what for event in fleet.told] == ["stopped"]
    assert fleet.state_of(cleaner, "a").failures == 0


def test_the_rate_is_that_of_compactions(fleet: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    fleet.log("a", SEGMENT, **PLAIN)
    cleaner, rates = fleet.cleaner(bytes_per_second=1e9), []
    compress = type(fleet.logs["a"]).compress

    def noting(log: Any, **options: Any) -> Any:
        rates.append(options["bytes_per_second"])
        return compress(log, **options)

    monkeypatch.setattr(type(fleet.logs["a"]), "compress", noting)
    cleaner.run_once()
    assert rates == [1e9]


# --- failures and damage ----------------------------------------------------------------------------------------------


def test_a_failure_waits_and_is_tried_again(fleet: Any, clock: Any) -> None:
    log = fleet.log("a", SEGMENT, on="faulty", **PLAIN)
    fleet.log("b", SEGMENT, **PLAIN)
    storage, cleaner = fleet.storages["a"], fleet.cleaner(retry_first=10.0)
    storage.fault = Fault(operations=frozenset({"create"}), name="staging", error=errno.ENOSPC, forever=True)
    events = cleaner.run_once()
    assert fleet.done(events) == [("failed", "a"), ("compressed", "b")]
    assert events[0].text.startswith("the compression failed (1 in a row), next try in 10 s: ")
    state = fleet.state_of(cleaner, "a")
    assert (state.doing, state.failures, state.due) == ("retrying", 1, "compression")
    assert state.next_try_at == clock() + 10 * SECOND
    storage.fault = None
    assert cleaner.run_once() == ()
    clock.advance(10)
    assert fleet.done(cleaner.run_once()) == [("compressed", "a")]
    assert (codecs(log), fleet.state_of(cleaner, "a").error) == (["zstd"], None)


def test_what_failed_is_forgotten_when_it_need_not_be_compressed_any_more(fleet: Any) -> None:
    log = fleet.log("a", SEGMENT, on="faulty", **PLAIN)
    storage, cleaner = fleet.storages["a"], fleet.cleaner(retry_first=10.0)
    storage.fault = Fault(operations=frozenset({"create"}), name="staging", error=errno.EIO)
    cleaner.run_once()
    log.alter(compression="none")
    assert cleaner.run_once() == ()
    assert (fleet.state_of(cleaner, "a").doing, fleet.state_of(cleaner, "a").failures) == ("idle", 0)


@pytest.mark.usefixtures("small_turns")
def test_a_damaged_segment_is_shown_and_holds_up_no_other(fleet: Any, clock: Any) -> None:
    log = fleet.log("a", SEGMENT * 3, **PLAIN)
    name = log.segments[0].name
    damage(log, 0)
    cleaner = fleet.cleaner(retry_first=60.0)
    assert [fleet.done(cleaner.run_once()) for _ in range(4)] == [
        [("damaged", "a")],  # a failure, so it waits
        [],
        [],
        [],
    ]
    clock.advance(60)
    while events := cleaner.run_once():
        assert fleet.done(events) == [("damaged", "a")]
        assert name in events[0].text
    assert codecs(log) == [None, "zstd", "zstd"]
    assert (fleet.state_of(cleaner, "a").doing, name in fleet.state_of(cleaner, "a").error) == ("retrying", True)
    log.repair()
    clock.advance(HOUR)
    assert fleet.done(cleaner.run_once()) == [("compressed", "a")]
    assert (set(codecs(log)), fleet.state_of(cleaner, "a").doing) == ({"zstd"}, "idle")


# --- what it shows ----------------------------------------------------------------------------------------------------


def test_the_state_shows_a_compression_under_way_and_who_waits(fleet: Any) -> None:
    fleet.log("a", SEGMENT * 2, on="hooked", **PLAIN)
    fleet.log("b", SEGMENT, **PLAIN)
    cleaner, seen = fleet.cleaner(), []

    def with_the_store() -> None:
        fleet.storages["a"].hook = lambda: seen.extend(cleaner.state())

    fleet.storages["a"].hook = with_the_store
    cleaner.run_once()
    assert [(state.name, state.doing, state.due) for state in seen] == [
        ("a", "compressing", "compression"),
        ("b", "waiting", "compression"),
    ]
    assert 0 < seen[0].done_bytes < seen[0].pass_bytes
    assert seen[1].to_compress > 0


def test_a_state_is_json(fleet: Any) -> None:
    log = fleet.log("a", SEGMENT * 2, **PLAIN)
    damage(log, 0)
    cleaner = fleet.cleaner()
    cleaner.run_once()
    (shown,) = json.loads(json.dumps([state.to_json() for state in cleaner.state()]))
    assert (shown["compression"]["segments"], len(shown["compression"]["damaged"])) == (2, 1)
    assert (shown["report"], shown["to_compress"] > 0) == (None, True)


def test_a_line_is_logged(fleet: Any, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "seglog.cleaner")
    fleet.log("a", SEGMENT * 2, **PLAIN)
    fleet.cleaner().run_once()
    (line,) = caplog.records
    assert line.levelname == "INFO"
    assert line.getMessage().startswith("a: compressed: stored 2 of 2 segments again; ")


def test_explain_tells_what_the_cleaner_is_about_to_compress(fleet: Any) -> None:
    fleet.log("a", SEGMENT, on="hooked", **PLAIN)
    cleaner, seen = fleet.cleaner(), []
    fleet.storages["a"].hook = lambda: seen.append(cleaner.explain("a", 0))
    cleaner.run_once()
    assert "A compression is running: it has just started." in seen[0]
    fleet.put("a", SEGMENT)
    fleet.storages["a"].hook = cleaner.pause
    cleaner.run_once()
    assert "nothing is compacted, compressed or expired" in cleaner.explain("a", 0)
