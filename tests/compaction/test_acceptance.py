"""acceptance/compaction.md, the lines about one log and one pass, by their numbers."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

import seglog
from seglog import ConfigError, OffsetCompacted, OffsetOutOfRange
from seglog.compaction.superseded import Search
from seglog.errors import KeyRequired
from seglog.storage import LocalStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage

HOUR = 3600.0
MILLISECOND = 0.001


def test_1_offsets_never_change_and_order_is_kept(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a b a |")
        report = log.compact()
        assert shop.content(log) == "b@1 a@2"
        assert (report.superseded, report.records_before, report.records_after, report.keys) == (1, 3, 2, 2)
        assert log.verify().ok
    with seglog.open(shop.place, mode="r") as reader:
        assert shop.content(reader) == "b@1 a@2"


def test_2_the_active_segment_is_never_compacted(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a a a")
        assert log.compact().segments_before == 0
        assert shop.content(log) == "a@0 a@1 a@2"
        shop.put(log, "| a a")
        log.compact()
        assert shop.content(log) == "a@2 a@3 a@4"  # what supersedes it is not sealed yet


def test_2_the_active_segment_ends_first_where_that_is_asked_for(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a a b")
        assert log.compact(roll=True).superseded == 1
        assert shop.content(log) == "a@1 b@2"
        assert log.compact(roll=True).rounds == 0
        names = [one.name for one in log.segments]
        log.compact(roll=True)
        assert [one.name for one in log.segments] == names


def test_20_what_a_dead_pass_had_written_goes_when_the_log_is_opened(shop: Any, clock: Any) -> None:
    inner = shop.place if isinstance(shop.place, seglog.MemoryStorage) else LocalStorage(shop.place)
    shop.place = FaultyStorage(inner)
    log = shop.open()
    shop.put(log, " ".join("abcd" * 20) + " |")
    shop.place.fault = Fault(operations=frozenset({"pwrite"}), name="MANIFEST")
    with pytest.raises(Crashed):
        log.compact()
    assert inner.names("staging") != []
    shop.place = inner
    with shop.open() as log:
        assert inner.names("staging") == []
        assert len(shop.content(log).split()) == 80
        assert log.compact().records_after == 4


def test_3_empty_bytes_are_a_key_and_a_value(shop: Any) -> None:
    with shop.open() as log:
        log.append(b"", key=b"")
        log.append(b"", key=b"k")
        log.append(b"x", key=b"")
        log.append(b"", key=b"")
        shop.put(log, "|")
        assert log.compact().unkeyed == 0
        assert [(record.offset, record.key, record.value) for record in log.scan()] == [(1, b"k", b""), (3, b"", b"")]


def test_4_a_record_without_key_is_refused_and_names_its_position(shop: Any) -> None:
    with shop.open() as log:
        with pytest.raises(KeyRequired, match="the record has no key"):
            log.append(b"v")
        with pytest.raises(KeyRequired):
            log.append_stream([b"v"])
        batch = pa.table({"key": [b"a", b"", None, None], "value": [b"1", b"2", b"3", b"4"]})
        with pytest.raises(KeyRequired, match="row 2 of the batch") as caught:
            log.append_batch(batch)
        assert caught.value.row == 2
        with pytest.raises(KeyRequired, match="row 0 of the batch"):
            log.append_batch(batch.select(["value"]))
        assert isinstance(caught.value, ValueError)
        assert log.next_offset == 0
        assert log.append_batch(batch.slice(0, 2)) == range(2)


def test_4_records_from_before_the_policy_are_dropped_and_counted(shop: Any) -> None:
    with shop.open(compact=False) as log:
        shop.put(log, ". a . a |")
        with pytest.raises(ConfigError, match="compact=True"):
            log.compact()
    with shop.open() as log:
        shop.put(log, "b |")
        assert log.compact().unkeyed == 2
        assert shop.content(log) == "a@3 b@4"


def test_5_a_tombstone_stays_from_its_first_compaction_for_the_delete_retention(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=24 * HOUR) as log:
        shop.put(log, "a a- |")
        clock.advance(1000 * HOUR)  # neither the record's timestamp nor the roll starts the clock
        log.compact()
        assert shop.content(log) == "a∅@1"
        clock.advance(24 * HOUR - MILLISECOND)
        assert log.compact().tombstones == 0
        assert shop.content(log) == "a∅@1"
        clock.advance(MILLISECOND)
        assert log.compact().tombstones == 1
        assert shop.content(log) == ""
        assert log.next_offset == 2


def test_5_the_clock_of_a_tombstone_goes_on_over_merges_and_reopening(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=24 * HOUR) as log:
        shop.put(log, "a a- |")
        log.compact()
        clock.advance(12 * HOUR)
        shop.put(log, "b b- c |")
        log.compact()
        assert shop.content(log) == "a∅@1 b∅@3 c@4"
        assert shop.ranges(log)[:-1] == [(0, 5, 3)]
    with shop.open(delete_retention=24 * HOUR) as log:
        clock.advance(12 * HOUR)
        log.compact()
        assert shop.content(log) == "b∅@3 c@4"
        clock.advance(12 * HOUR)
        log.compact()
        assert shop.content(log) == "c@4"


def test_6_a_tombstone_is_superseded_by_a_later_value(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "b a- a=v |")
        log.compact()
        assert shop.content(log) == "b@0 a@2"


def test_7_the_end_of_a_log_stays_where_every_record_went(shop: Any) -> None:
    with shop.open(delete_retention=0) as log:
        shop.put(log, "a a b b- a- |")
        log.compact()
        log.compact()
        assert shop.content(log) == ""
        assert (log.lowest_offset, log.next_offset, log.verify().ok) == (0, 5, True)
    with shop.open(delete_retention=0) as log:
        assert (log.lowest_offset, log.next_offset, shop.content(log)) == (0, 5, "")
        with pytest.raises(OffsetCompacted) as caught:
            log.read(1)
        assert caught.value.next_offset == 5
        assert log.append(b"v", key=b"c") == 5
        with pytest.raises(OffsetCompacted) as caught:
            log.read(1)
        assert caught.value.next_offset == 5
        assert log.offset_at(0) == 5


def test_9_a_map_that_is_too_small_goes_over_ranges_of_keys(shop: Any) -> None:
    with shop.open(dedupe_bytes=1024, segment_bytes=65536) as log:
        for _ in range(3):
            shop.put(log, " ".join(f"k{number}" for number in range(300)) + " |")
        report = log.compact()
        assert report.rounds > 300 * 24 / 1024
        assert (report.keys, report.superseded, report.records_after) == (300, 600, 300)
        assert shop.content(log) == " ".join(f"k{number}@{number + 600}" for number in range(300))


def test_10_the_cleanable_end_is_before_the_first_segment_that_is_too_fresh(shop: Any, clock: Any) -> None:
    with shop.open(min_compaction_lag=HOUR) as log:
        shop.put(log, "a a |")
        clock.advance(HOUR / 2)
        shop.put(log, "a a |")
        clock.advance(HOUR / 2 - 2 - MILLISECOND)  # the seal itself took two seconds
        assert log.compact().end == 0
        clock.advance(MILLISECOND)
        assert log.compact().end == 2
        assert shop.content(log) == "a@1 a@2 a@3"
        clock.advance(HOUR)
        assert log.compact().end == 4
        assert shop.content(log) == "a@3"


def test_11_segments_in_which_nothing_died_are_not_rewritten(shop: Any) -> None:
    with shop.open(segment_bytes=512) as log:
        for number in range(40):
            log.append(b"x" * 60, key=b"once%d" % number)
        before = log.segments
        report = log.compact()
        assert (report.rewritten, report.superseded) == (0, 0)
        assert log.segments == before
        log.append(b"x" * 60, key=b"once22")
        shop.put(log, "|")
        assert log.compact().rewritten <= 2  # the one that held it, and the small one of the new record
        assert len({one.name for one in before} - {one.name for one in log.segments}) <= 2


def test_12_small_neighbours_are_merged_up_to_the_size_of_a_segment(shop: Any) -> None:
    with shop.open(segment_bytes=1024) as log:
        for number in range(40):
            log.append(b"x" * 60, key=b"k%d" % number)
            shop.put(log, "|")
        log.compact()
        sizes = [one.bytes for one in log.segments[:-1]]
        assert len(sizes) == 4
        assert all(size <= 1024 for size in sizes)
        assert shop.ranges(log)[0][:2] == (0, 10)
        assert [record.offset for record in log.scan()] == list(range(40))


def test_12_outputs_roll_in_the_middle_of_a_pass(shop: Any) -> None:
    with shop.open(segment_bytes=65536) as log:
        for number in range(600):
            log.append(b"x" * 60, key=b"%d" % (number % 500))
        shop.put(log, "|")
    with shop.open(segment_bytes=4096) as log:
        log.compact()
        assert shop.content(log) == " ".join(f"{number % 500}@{number}" for number in range(100, 600))
        assert len(log.segments) > 10
        assert all(one.bytes <= 4096 for one in log.segments)
        ends = [one.next_offset for one in log.segments]
        assert [one.base_offset for one in log.segments] == [0, *ends[:-1]]


def test_12_relative_offsets_pass_four_thousand_million(shop: Any) -> None:
    with shop.open() as log:
        for offset in (0, 1, 2**33, 2**33 + 1, 2**40):
            log.append_at(offset, seglog.Record(offset, offset, b"k%d" % (offset % 2), b"v"))
        shop.put(log, "|")
        log.compact()
        assert shop.content(log) == f"k1@{2**33 + 1} k0@{2**40}"
        assert log.verify().ok


def test_14_reading_at_gaps(shop: Any) -> None:
    with shop.open() as log:
        for offset in range(40, 62):
            log.append_at(offset, seglog.Record(offset, 10 * offset, b"k%d" % offset, b"v"))
        keep = {50, 51, 60, 61}
        for offset in set(range(40, 62)) - keep:
            log.append(b"later", key=b"k%d" % offset)
        log.truncate(log.next_offset)
        shop.put(log, "|")
        log.compact()
        base = log.segments[0]
        assert [record.offset for record in log.scan(stop=62)] == sorted(keep)
        assert (base.base_offset, base.dense) == (0, False) or base.base_offset == 40
        assert next(iter(log.scan(41))).offset == 50
        assert next(iter(log.scan(55))).offset == 60
        assert next(iter(log.scan(62))).offset >= 62
        with pytest.raises(OffsetCompacted) as caught:
            log.read(55)
        assert caught.value.next_offset == 60
        with pytest.raises(OffsetOutOfRange):
            log.read(log.next_offset)


def test_14_the_next_record_may_stand_in_a_later_segment(shop: Any) -> None:
    with shop.open(segment_bytes=512, delete_retention=0) as log:
        for number in range(40):
            log.append(None if number % 8 else b"x" * 60, key=b"%d" % number)
        shop.put(log, "|")
        log.compact()
        log.compact()
        there = [record.offset for record in log.scan()]
        assert there == [0, 8, 16, 24, 32]
        for offset in range(40):
            if offset not in there:
                with pytest.raises(OffsetCompacted) as caught:
                    log.read(offset)
                assert caught.value.next_offset == min([one for one in there if one > offset], default=40)


def test_15_and_16_lookups_of_a_compacted_segment(shop: Any) -> None:
    with shop.open() as log:
        for offset in range(200):
            log.append(b"x" * 60, key=b"%d" % (offset % 150), timestamp=10 * offset)
        shop.put(log, "|")
        log.compact()
        assert shop.content(log).startswith("50@50 51@51")
    for mode in ("a", "r"):
        with seglog.open(shop.place, mode=mode) as log:
            assert [log.offset_at(time) for time in (0, 500, 501, 620, 621, 1990, 1991)] == [
                *(50, 50, 51, 62, 63, 199, None),
            ]
            for start in range(0, 200, 7):
                assert next(iter(log.scan(start))).offset == max(start, 50)


def test_17_size_time_and_key_combine(shop: Any, clock: Any) -> None:
    with shop.open(segment_bytes=1024, bytes=6000, age=HOUR) as log:
        for number in range(300):
            log.append(b"x" * 60, key=b"%d" % (number % 150))
        assert log.size < 6000 + 2 * 1024  # by size, while it is written
        shop.put(log, "|")
        log.compact()
        kept = [record.offset for record in log.scan()]
        assert len(kept) == len({record.key for record in log.scan()})  # by key
        clock.advance(HOUR)
        log.append(b"x", key=b"new")
        log.expire()
        assert shop.content(log) == "new@300"  # by time, whatever is latest of its key
        assert log.next_offset == 301


def test_18_retention_drops_whole_compacted_segments(shop: Any, clock: Any) -> None:
    with shop.open(segment_bytes=1024, age=HOUR) as log:
        for number in range(60):
            log.append(b"x" * 60, key=b"%d" % (number % 45))
        shop.put(log, "|")
        log.compact()
        assert shop.content(log).startswith("15@15")
        first = log.segments[0]
        clock.advance(HOUR)
        log.append(b"x", key=b"new")
        assert log.expire() > 0
        assert log.lowest_offset >= first.next_offset
        assert log.verify().ok


def test_19_what_was_compacted_is_not_compacted_again(shop: Any) -> None:
    with shop.open() as log:
        shop.put(log, "a b a | c |")
        assert log.compact().rounds == 1
        assert log.compact().rounds == 0
        names = [one.name for one in log.segments]
    with shop.open() as log:
        assert log.compact().rounds == 0
        assert [one.name for one in log.segments] == names
        shop.put(log, "d |")
        assert log.compact().keys == 1  # only what is new is mapped


def test_20_the_old_files_go_at_once_where_no_reader_holds_them(local: Any) -> None:
    with local.open() as log:
        local.put(log, "a b a |")
        old = local.place / log.segments[0].name
        assert old.exists()
        log.compact()
        assert not old.exists()
        assert list((local.place / "staging").iterdir()) == []
        assert not list((local.place / "tmp").iterdir())


def test_20_a_reader_holds_the_old_files(local: Any) -> None:
    with local.open() as log:
        local.put(log, "a b a |")
        old = local.place / log.segments[0].name
        with seglog.open(local.place, mode="r") as reader:
            under_way = reader.scan()
            assert next(under_way).offset == 0
            log.compact()
            assert old.exists()
            assert [record.offset for record in under_way] == [1, 2]
            assert local.content(reader) == "b@1 a@2"
        local.put(log, "c |")
        assert not old.exists()


def test_8_every_pass_has_a_secret_seed_of_its_own(shop: Any, monkeypatch: Any) -> None:
    """That all 16 bytes are compared is shown in tests/kernels/test_keymap.py."""
    seeds = []

    def search(*arguments: Any, **options: Any) -> Search:
        seeds.append(arguments[2])
        return Search(*arguments, **options)

    monkeypatch.setattr("seglog.compaction.rewrite.Search", search)
    with shop.open() as log:
        for _ in range(3):
            shop.put(log, "a b a |")
            log.compact()
    assert len({word for seed in seeds for word in seed}) == 6


def test_records_longer_than_a_window_are_read_and_copied(shop: Any) -> None:
    long, longer = b"x" * (3 * 2**20), b"y" * (5 * 2**20 + 1)
    with shop.open(segment_bytes=2**24) as log:
        for key, value in ((b"a", long), (b"b", b"v"), (b"c", longer), (b"a", longer), (b"b", long), (b"d", b"")):
            log.append(value, key=key)
        shop.put(log, "|")
        assert log.compact().records_after == 4
        assert [(one.offset, one.key, len(one.value)) for one in log.scan()] == [
            *((2, b"c", len(longer)), (3, b"a", len(longer)), (4, b"b", len(long)), (5, b"d", 0)),
        ]
        assert log.read(3).value == longer
        assert log.verify().ok
