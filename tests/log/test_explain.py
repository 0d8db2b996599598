"""Why a record is still there, or is not: every reason reached for real."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import seglog
from seglog.errors import CorruptRecord, InvalidType, LogClosed, OffsetOutOfRange
from seglog.log.explain.verdicts import WAITING

if TYPE_CHECKING:
    from collections.abc import Callable

HOUR, DAY = 3600.0, 86_400.0
SECOND = 1_000_000


@pytest.fixture
def shop(place: Any, shop_at: Callable[[Any], Any]) -> Any:
    return shop_at(place)


@pytest.fixture
def local(path: Any, shop_at: Callable[[Any], Any]) -> Any:
    return shop_at(path)


def told(log: seglog.Log, offset: int) -> tuple[str, str]:
    """Return what a record is and why it is kept; explaining its key gives the same."""
    one = log.explain(offset)
    assert one.text.endswith(".")
    assert one.offset == offset
    if one.key is not None:
        assert one in log.explain_key(one.key)
    return one.what, one.because


def damage(path: Any, segment: int, nth: int) -> None:
    """Flip a bit in the value of the n-th record of a segment; every record is of one byte key and value."""
    store = sorted(path.glob("*.store"))[segment]
    data = bytearray(store.read_bytes())
    data[64 + 34 * nth + 33] ^= 1
    store.write_bytes(data)


def test_2_explain_says_why_a_record_is_still_there(shop: Any, clock: Any) -> None:
    with shop.open(min_compaction_lag=HOUR, max_compaction_lag=DAY, segment_age=None) as log:
        shop.put(log, "a b a")
        assert told(log, 0) == ("superseded", "active segment")
        found = log.explain(0)
        assert found.until == clock.now + round(DAY) * SECOND, "then the active segment rolls"
        assert found.superseded_by == 2
        assert (found.segment.base_offset, found.segment.state) == (0, "active")
        clock.advance(DAY)
        assert "rolls at the next append" in log.explain(0).text
        log.expire()
        assert told(log, 0) == ("superseded", "younger than the minimum lag")
        assert log.explain(0).until == clock.now + round(HOUR) * SECOND
        assert log.explain(0).segment.state == "fresh"
        clock.advance(HOUR)
        assert told(log, 0) == ("superseded", "compaction is due")
        assert told(log, 1) == ("latest", "latest of its key")
        log.compact()
        assert told(log, 0) == ("gone", "compacted")
        assert log.explain(0).next_offset == 1
        assert log.explain(1).segment.state == "clean"


def test_a_record_waits_while_what_supersedes_it_is_not_sealed_or_too_fresh(shop: Any, clock: Any) -> None:
    with shop.open(min_compaction_lag=HOUR) as log:
        shop.put(log, "a |")
        clock.advance(HOUR)
        shop.put(log, "a")
        assert told(log, 0) == ("superseded", "active segment")
        assert log.explain(0).superseded_by == 1
        shop.put(log, "|")
        assert told(log, 0) == ("superseded", "younger than the minimum lag")
        assert log.explain(0).segment.state == "dirty"
        clock.advance(HOUR)
        assert told(log, 0) == ("superseded", "compaction is due")


def test_the_newest_record_that_counts_supersedes_and_else_the_next_one(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a a | a | a a")
        assert [one.superseded_by for one in log.explain_key(b"a")] == [2, 2, 3, 4, None]
        assert [log.explain(offset).superseded_by for offset in range(5)] == [2, 2, 3, 4, None]


def test_a_compaction_that_is_not_due_says_when_it_will_be(shop: Any, clock: Any) -> None:
    with shop.open(min_dirty_ratio=0.9, max_compaction_lag=DAY) as log:
        shop.put(log, "a b c d e f |")
        log.compact()
        shop.put(log, "a a")
        created = clock.now
        shop.put(log, "|")
        assert told(log, 0) == ("superseded", "dirty ratio not reached")
        found = log.explain(0)
        assert "dirty, one is due above 90%" in found.text
        assert 0 <= created + round(DAY) * SECOND - found.until <= 10 * SECOND
        clock.advance(DAY)
        assert told(log, 0) == ("superseded", "compaction is due")
        assert "(lag)" in log.explain(0).text


def test_without_a_maximum_lag_time_alone_changes_nothing(shop: Any) -> None:
    with shop.open(min_dirty_ratio=1) as log:
        shop.put(log, "a a |")
        assert told(log, 0) == ("superseded", "dirty ratio not reached")
        assert log.explain(0).until is None


def test_a_segment_that_a_generational_pass_leaves_alone(shop: Any) -> None:
    with shop.open(segment_bytes=2048) as log:
        for number in range(50):
            log.append(b"x" * 4, key=b"k%02d" % number)
        for _ in range(30):  # passes in which nothing of the first segment dies
            shop.put(log, "hot " * 100 + "|")
            log.compact()
        shop.put(log, "k00 " + "hot " * 100 + "|")
        assert log.standing().due == "dirty"
        assert told(log, 0) == ("superseded", "expected to yield too little")
        log.compact(generational=True)
        assert told(log, 0)[0] == "superseded"
        log.compact()
        assert told(log, 0) == ("gone", "compacted")


def test_a_tombstone_from_its_first_compaction_to_its_end(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=DAY, min_compaction_lag=HOUR) as log:
        shop.put(log, "a a-")
        assert told(log, 1) == ("tombstone", "active segment")
        shop.put(log, "|")
        assert told(log, 1) == ("tombstone", "younger than the minimum lag")
        clock.advance(HOUR)
        assert told(log, 1) == ("tombstone", "no clock yet")
        log.compact()
        due = clock.now + round(DAY) * SECOND
        assert told(log, 1) == ("tombstone", "tombstone's time has not come")
        assert log.explain(1).until == due
        log.pin("copy", 1)
        assert log.explain(1).until is None, "time alone does not do it"
        assert "'copy' has read it by then" in log.explain(1).text
        clock.advance(DAY)
        assert told(log, 1) == ("tombstone", "pinned")
        log.pin("other", 0)
        assert "'copy', 'other' have not read it" in log.explain(1).text
        log.unpin("copy")
        log.pin("other", 2)
        assert told(log, 1) == ("tombstone", "compaction is due")
        log.compact()
        assert told(log, 1) == ("gone", "compacted")


def test_a_tombstone_that_a_later_record_supersedes_goes_by_whichever_is_first(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=DAY) as log:
        shop.put(log, "a- |")
        log.compact()
        shop.put(log, "a")
        assert told(log, 0) == ("superseded", "active segment")
        clock.advance(DAY)
        assert told(log, 0) == ("tombstone", "compaction is due")
        shop.put(log, "|")
        assert told(log, 0) == ("superseded", "compaction is due")


def test_records_without_a_key(shop: Any) -> None:
    with shop.open(compact=False) as log:
        shop.put(log, ". |")
    with shop.open() as log:
        assert told(log, 0) == ("unkeyed", "compaction is due")
    with shop.open(unkeyed="keep", age=HOUR) as log:
        assert told(log, 0) == ("unkeyed", "no key")
        assert "by retention.age" in log.explain(0).text
        log.compact()
        assert shop.content(log) == ".@0"
    with shop.open(unkeyed="reject") as log:
        assert told(log, 0) == ("unkeyed", "dirty ratio not reached")


def test_damage_holds_the_records_of_its_segment(local: Any, clock: Any) -> None:
    with local.open() as log:
        local.put(log, "a b a | a c- |")
    damage(local.place, 0, 1)
    with local.open() as log:
        assert told(log, 0) == ("superseded", "damaged segment")
        assert "00000000000000000000-1.store is damaged at position" in log.explain(0).text
        assert told(log, 4) == ("tombstone", "no clock yet")
        with pytest.raises(CorruptRecord):
            log.explain(1)
        assert [one.offset for one in log.explain_key(b"b")] == []
        log.compact()
        assert told(log, 0) == ("superseded", "damaged segment"), "it was left as it is"
        log.repair()
        log.compact()
        assert told(log, 0) == ("gone", "compacted")


def test_a_later_record_in_a_damaged_segment_does_not_count(local: Any) -> None:
    with local.open() as log:
        local.put(log, "a c- | a b d- |")
    damage(local.place, 1, 1)
    with local.open() as log:
        assert told(log, 0) == ("superseded", "damaged segment")
        assert log.explain(0).superseded_by == 2
        assert told(log, 1) == ("tombstone", "no clock yet")
        assert told(log, 4) == ("tombstone", "damaged segment")
        assert told(log, 2) == ("latest", "damaged segment"), "nobody knows what the damaged record was"


@pytest.mark.parametrize(
    ("retention", "words"),
    [
        ({}, "No retention by age or size"),
        ({"age": HOUR}, "retention.age"),
        ({"bytes": 4096}, "more bytes follow it, by retention.bytes"),
        ({"bytes": 4096, "age": HOUR}, ", or once"),
    ],
)
def test_a_log_that_is_not_compacted_by_key_tells_of_its_retention(shop: Any, retention: Any, words: str) -> None:
    with shop.open(compact=False, **retention) as log:
        shop.put(log, "a . a- | a")
        for offset in range(4):
            found = log.explain(offset)
            assert (found.what, found.because) == ("record", "not compacted by key")
            assert words in found.text
            assert found.segment.state == ("active" if offset == 3 else "sealed")
            assert found.superseded_by is None
        assert [one.offset for one in log.explain_key(b"a")] == [0, 2, 3]


def test_retention_by_age_lets_go_when_explain_says(shop: Any, clock: Any) -> None:
    with shop.open(age=HOUR) as log:
        shop.put(log, "a |")
        assert told(log, 0) == ("latest", "latest of its key")
        until = log.explain(0).until
        clock.now = until - 1
        shop.put(log, "b")
        assert log.expire() == 0
        clock.now = until
        assert log.expire() == 1
        assert told(log, 0) == ("gone", "expired")
        assert log.explain(0).segment is None


def test_retention_by_size_lets_go_when_explain_says(shop: Any) -> None:
    with shop.open(compact=False, bytes=1000) as log:
        shop.put(log, "a |")
        left = int(log.explain(0).text.partition("once ")[2].partition(" ")[0].replace(",", ""))
        log.append(b"x" * (left - 33 - 1), key=b"k")
        assert log.expire() == 0
        log.append(b"", key=b"")
        assert log.expire() == 1


def test_offsets_at_which_nothing_stands(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a")
        assert told(log, 1) == ("not yet", "never written")
        assert "truncate" not in log.explain(1).text
        log.truncate(0)
        assert "truncate" in log.explain(0).text
        log.append_at(5, seglog.Record(5, 0, b"k", b"v"))
        assert told(log, 2) == ("gone", "a gap")
        assert log.explain(2).next_offset == 5
        with pytest.raises(OffsetOutOfRange):
            log.explain(-1)


def test_a_moment_that_no_calendar_has_is_a_number(shop: Any, clock: Any) -> None:
    clock.now = 253_400_000_000 * SECOND  # in December 9999
    with shop.open(age=HOUR * 24 * 365) as log:
        shop.put(log, "a |")
        assert f"at {log.explain(0).until} us by retention.age" in log.explain(0).text


def test_offsets_before_the_first_one(place: Any) -> None:
    with seglog.open(place, seglog.LogConfig(initial_offset=10)) as log:
        log.append(b"v")
        assert told(log, 9) == ("gone", "never written")


def test_a_key_that_is_not_there_has_nothing_to_explain(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a b |")
        assert log.explain_key(b"c") == ()
        log.append(b"v", key=b"")
        assert [one.offset for one in log.explain_key(b"")] == [2]
        with pytest.raises(InvalidType):
            log.explain_key("a")
    with pytest.raises(LogClosed):
        log.explain(0)


def test_a_reader_explains_as_the_writer_does(shop: Any) -> None:
    with (
        shop.open(min_dirty_ratio=1, segment_bytes=512, segment_age=None) as log,
        seglog.open(shop.place, mode="r") as reader,
    ):
        shop.put(log, " ".join(f"{key}={'x' * 300}" for key in "abaca") + " c-")
        for offset in range(7):
            assert reader.explain(offset) == log.explain(offset)
        assert reader.explain_key(b"a") == log.explain_key(b"a")


def test_records_that_arrow_does_not_take_are_compared_all_the_same(shop: Any, monkeypatch: Any) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise seglog.errors.InvalidArgument("too long for Arrow")

    with shop.open(min_dirty_ratio=1) as log:
        shop.put(log, "a b a- | a")
        usual = [log.explain(offset) for offset in range(4)], log.explain_key(b"a")
        monkeypatch.setattr("seglog.log.view.View.batches", refuse)
        assert ([log.explain(offset) for offset in range(4)], log.explain_key(b"a")) == usual


steps = st.lists(
    st.sampled_from(["a", "b", "c", "a-", "b-", "|", "| a |", "compact", "generational", "wait", "pin", "unpin"]),
    max_size=25,
)


@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=steps, lag=st.sampled_from([0, HOUR]), ratio=st.sampled_from([0.0, 1.0]))
def test_what_explain_says_a_compaction_would_take_is_what_it_takes(
    shop_at: Any, clock: Any, steps: list[str], lag: float, ratio: float
) -> None:
    shop = shop_at(seglog.MemoryStorage())
    with shop.open(min_compaction_lag=lag, delete_retention=2 * HOUR, min_dirty_ratio=ratio) as log:
        for step in steps:
            if step == "wait":
                clock.advance(HOUR)
            elif step == "pin":
                log.pin("copy", log.next_offset)
            elif step == "unpin":
                log.unpin("copy")
            elif step in ("compact", "generational"):
                log.compact(generational=step == "generational")
            else:
                shop.put(log, step)
        there = [record.offset for record in log.scan()]
        going = {offset for offset in there if log.explain(offset).because in WAITING}
        for key in (b"a", b"b", b"c"):
            assert {one.offset for one in log.explain_key(key) if one.because in WAITING} <= going
        log.compact()
        assert [record.offset for record in log.scan()] == [offset for offset in there if offset not in going]
