"""Whether a log is still the one that was read: traces of real logs, and what a position makes of them."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, MemoryStorage, Retention
from seglog.errors import LogTruncated
from seglog.log.history import Trace, was_cut
from seglog.spark.read.data_loss import Position, lost_below, position_at
from seglog.spark.read.local_logs import snapshot_of
from seglog.topic.groups.position import Cursor
from seglog.topic.layout.places import Place
from seglog.topic.read_trace import Passage, from_json, passage_of, to_json

A, B = ("orders", 0), ("orders", 1)
CONFIG = LogConfig(segment_bytes=512, retention=Retention(compact=True))
READ = Trace("a", 0, 3)
PLACE = Place("orders", 0, "orders/0")


def filled(count: int = 20) -> Any:
    """A log of several segments; all records of one key, so that a compaction rewrites what is sealed."""
    log = seglog.open(MemoryStorage(), CONFIG)
    grow(log, count)
    return log


def grow(log: Any, count: int) -> None:
    for _ in range(count):
        log.append(b"x" * 20, key=b"k")


def test_a_log_that_only_grows_rolls_and_is_compacted_is_not_cut() -> None:
    with filled() as log:
        known = log.view().trace_of(10)
        grow(log, 30)
        log.compact()
        assert log.view().trace_of(10).epoch == 0
        assert not was_cut(known, log.view().trace_of(10))


def test_a_truncate_below_a_position_is_noticed_however_the_log_grows_and_one_above_it_is_harmless() -> None:
    for cut in range(20):
        with filled() as log:
            known = log.view().trace_of(10)
            log.truncate(cut)
            assert was_cut(known, log.view().trace_of(10)) == (cut < 10)
            grow(log, 30)
            assert was_cut(known, log.view().trace_of(10)) == (cut < 10)


def spark_position(log: Any, offset: int) -> Position:
    return position_at(snapshot_of(log.view(), PLACE), offset)


def cut_by_both(log: Any, known: Trace, position: Position) -> bool:
    """Whether it was cut by a consumer's trace and a Spark position, which agree."""
    cut = was_cut(known, log.view().trace_of(position.offset))
    assert cut == (lost_below(snapshot_of(log.view(), PLACE), position) is not None)
    return cut


@pytest.mark.parametrize("gap", [0, 1, 40])
def test_a_truncate_below_a_position_is_noticed_where_the_log_went_on_behind_a_gap(gap: int) -> None:
    for cut in range(1, 20):
        with filled() as log:
            known, above = log.view().trace_of(10), log.view().trace_of(cut)
            position, position_above = spark_position(log, 10), spark_position(log, cut)
            log.truncate(cut)
            log.append_at(cut + gap, seglog.Record(0, 0, b"k", b"new"))
            grow(log, 30)
            assert cut_by_both(log, known, position) == (cut < 10)
            assert not cut_by_both(log, above, position_above), "all before it is there"


def test_a_truncate_to_a_position_behind_a_gap_takes_nothing_from_it_and_one_before_the_gap_does() -> None:
    for cut, lost in ((100, False), (105, False), (3, True)):
        with filled(5) as log:
            log.append_at(100, seglog.Record(0, 0, b"k", b"behind"))
            grow(log, 10)
            known, position = log.view().trace_of(100), spark_position(log, 100)
            tail = log.tail(100)
            log.truncate(cut)
            assert not lost or position.offset > log.next_offset
            grow(log, 200)
            assert cut_by_both(log, known, position) == lost
            if not lost:
                assert tail.poll(1)[0].offset == 100


def test_at_the_end_of_a_log_whose_active_segment_is_empty_behind_a_gap_a_truncate_is_noticed() -> None:
    with filled(5) as log:
        log.append_at(100, seglog.Record(0, 0, b"k", b"behind"))
        log.truncate(100)
        known, position = log.view().trace_of(100), spark_position(log, 100)
        log.truncate(3)
        grow(log, 200)
        assert cut_by_both(log, known, position)


def test_a_manifest_made_anew_after_a_compaction_cuts_nothing() -> None:
    storage = MemoryStorage()
    with seglog.open(storage, replace(CONFIG, segment_bytes=1024)) as log:
        for number in range(100):
            log.append(b"v" * 60, key=b"k%d" % (number * 7 % 40))
        log.compact()
        ends = range(log.next_offset + 1)
        known = [(log.view().trace_of(end), spark_position(log, end)) for end in ends]
    storage.unlink("MANIFEST")
    with seglog.open(storage) as log:
        assert log.recovery.events
        assert [end for end in ends if cut_by_both(log, *known[end])] == []


def test_a_log_made_anew_is_another_one() -> None:
    with filled() as log, filled() as other:
        assert was_cut(log.view().trace_of(10), other.view().trace_of(10))
        assert was_cut(log.view().trace_of(0), other.view().trace_of(0))


def test_where_nothing_was_read_before_it_a_truncate_takes_nothing_from_a_position() -> None:
    with filled() as log:
        known = log.view().trace_of(0)
        assert known.file is None
        log.truncate(0)
        grow(log, 5)
        assert not was_cut(known, log.view().trace_of(0))


def test_a_truncate_while_a_piece_is_read_is_noticed_by_the_next() -> None:
    with filled() as log:
        view = log.view()
        log.truncate(5)
        grow(log, 30)
        assert was_cut(passage_of(view, 10, 15).after, log.view().trace_of(15))


@given(
    st.dictionaries(
        st.tuples(st.text(), st.integers(0, 9999)),
        st.tuples(st.text(), st.integers(0), st.none() | st.integers(0), st.none() | st.integers(0)),
    )
)
def test_passages_go_through_a_header_and_come_back(told: dict[Any, Any]) -> None:
    passages = {
        place: Passage(Trace(log, epoch, before), Trace(log, epoch, after))
        for place, (log, epoch, before, after) in told.items()
    }
    text = to_json(passages.items())
    assert text.isascii()
    assert from_json(text) == passages


def test_the_header_is_what_the_contract_says() -> None:
    text = to_json([(A, Passage(READ, Trace("a", 0, 4)))])
    assert json.loads(text) == {"orders": {"0": ["a", 0, 3, 4]}}


# --- what a position makes of it --------------------------------------------------------------------------------------


@pytest.fixture
def cursor() -> Cursor:
    """Two partitions, both read and committed to 10."""
    cursor = Cursor()
    cursor.adopt([A, B])
    for partition in (A, B):
        cursor.place(partition, 0, committed=True)
        cursor.took(partition, 10, True, passage=Passage(Trace("a", 0, None), READ))
    cursor.committed({"orders": {0: 10, 1: 10}})
    return cursor


def cut(offset: int = 13) -> dict[str, Any]:
    """What a fetch says after a truncate: other records up to `offset`."""
    return {"next_offset": offset, "returned": True, "passage": Passage(Trace("a", 1, 7), Trace("a", 1, 7))}


def test_a_cut_is_raised_until_a_seek_and_moves_nothing(cursor: Cursor) -> None:
    for _ in range(2):
        with pytest.raises(LogTruncated, match=r"partition 1 of topic 'orders'.* 10.*seek") as caught:
            cursor.took(B, **cut())
    assert vars(caught.value) == {"topic": "orders", "partition": 1}
    assert cursor.positions == {"orders": {0: 10, 1: 10}}
    cursor.seek(B, 5)
    assert cursor.took(B, **cut())
    assert cursor.positions == {"orders": {0: 10, 1: 13}}


def test_a_position_in_what_was_cut_is_not_committed(cursor: Cursor) -> None:
    cursor.took(B, 12, True, passage=Passage(READ, READ))
    with pytest.raises(LogTruncated):
        cursor.took(B, **cut())
    assert cursor.to_commit() == {}
    cursor.adopt([A])
    assert cursor.to_commit() == {}


def test_a_seek_after_a_cut_is_committed_even_to_where_the_group_was(cursor: Cursor) -> None:
    with pytest.raises(LogTruncated):
        cursor.took(B, **cut())
    cursor.seek(B, 10)
    assert cursor.to_commit() == {"orders": {1: 10}}


def test_who_is_placed_anew_has_read_nothing_unless_it_says_so(cursor: Cursor) -> None:
    standing = cursor.standing
    assert standing[B] == (10, 10, READ)
    cursor.reset()
    cursor.adopt([A, B])
    cursor.place(A, 10)
    cursor.place(B, 10, trace=standing[B].trace)
    assert cursor.took(A, **cut())
    with pytest.raises(LogTruncated):
        cursor.took(B, **cut())


def test_who_is_told_nothing_compares_nothing(cursor: Cursor) -> None:
    assert cursor.took(A, 10, False)
    with pytest.raises(LogTruncated):
        cursor.took(A, **cut())
    cursor.took(A, 12, True)
    assert cursor.took(A, **cut()), "the trace was of another position"


def test_at_offset_0_another_log_is_as_good_as_the_one_before() -> None:
    cursor = Cursor()
    cursor.adopt([A])
    cursor.place(A, 0)
    for log in ("a", "b"):
        assert cursor.took(A, 0, False, passage=Passage(Trace(log, 0, None), Trace(log, 0, None)))


def test_each_fetch_is_compared_with_the_one_before(cursor: Cursor) -> None:
    files = [Trace("a", 0, 3), Trace("a", 0, 3), Trace("a", 2, 3), Trace("a", 2, 5)]
    for step, (before, after) in enumerate(pairwise(files)):
        assert cursor.took(A, 11 + step, True, passage=Passage(before, after))
    with pytest.raises(LogTruncated):
        cursor.took(A, **cut())
