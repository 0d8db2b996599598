"""Many records in one call: what single reads return, of one moment, and the same errors."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog import LogConfig, Record, Retention
from seglog.errors import CorruptRecord, InvalidType, LogClosed, NotDurableYet, OffsetCompacted, OffsetOutOfRange
from seglog.log.many import FEW

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = LogConfig(segment_bytes=4096)
KEYED = LogConfig(segment_bytes=4096, retention=Retention(compact=True))
MANY = 1000


def fill(log: seglog.Log, count: int, mark: bytes = b"v") -> None:
    """Append records with and without key, value and headers."""
    for number in range(count):
        kind = number % 5
        log.append(
            None if kind == 3 else mark + b"%d" % number * (number % 20),
            key=None if kind == 1 else b"k%d" % (number % 70),
            headers=[("h", b"%d" % number), ("none", None)] if kind == 2 else (),
            timestamp=number,
        )


def compacted(place: Any) -> seglog.Log:
    """Return a log with gaps in and between its segments."""
    log = seglog.open(place, KEYED)
    for number in range(MANY):
        log.append(b"%d" % number, key=b"%d" % (number % 300 if number < 600 else number % 7), timestamp=number)
    log.compact(roll=True)
    for number in range(100):
        log.append(b"%d" % number, key=b"%d" % number, timestamp=number)
    return log


def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of a call, or its error as text."""
    try:
        return call()
    except seglog.SeglogError as error:
        return type(error).__name__, str(error)


@pytest.mark.parametrize("mode", ["a", "r"])
@pytest.mark.parametrize("config", [SMALL, LogConfig()], ids=["many segments", "one segment"])
def test_it_returns_what_single_reads_return_in_the_order_asked_for(place: Any, config: LogConfig, mode: Any) -> None:
    with seglog.open(place, config) as writer:
        fill(writer, MANY)
        writer.append_batch(pa.table({"value": pa.array([b"a"] * MANY, pa.binary())}))
    with seglog.open(place, mode=mode) as log:
        offsets = random.Random(1).choices(range(log.next_offset), k=500)
        for wanted in (offsets, sorted(offsets), offsets[:FEW], offsets[: FEW - 1], [7] * 20, [9, 8] * 20, offsets):
            records = log.read_many(wanted)
            assert records == [log.read(offset) for offset in wanted]
            assert {type(record) for record in records} == {Record}


def test_offsets_are_any_integers(place: Any) -> None:
    with seglog.open(place) as log:
        fill(log, 20)
        wanted = list(range(20))
        for offsets in (np.arange(20), iter(wanted), range(20), tuple(wanted)):
            assert [record.offset for record in log.read_many(offsets)] == wanted
        assert log.read_many([]) == []
        for wrong in (5, None, ["1"], [1.0], [None], [True] * 0 + [b"1"]):
            with pytest.raises(InvalidType):
                log.read_many(wrong)  # type: ignore[arg-type] # the wrong type is the test


def test_an_offset_outside_the_log_is_named(place: Any) -> None:
    with seglog.open(place) as log:
        fill(log, 20)
        for bad in (20, -1, 2**70, -(2**70)):
            assert outcome(lambda bad=bad: log.read_many([*range(10), bad, 99])) == outcome(  # type: ignore[misc]
                lambda bad=bad: log.read(bad)  # type: ignore[misc]
            )
        with pytest.raises(OffsetOutOfRange, match="offset 99"):
            log.read_many([1, 99, -1])
    for offsets in ([], [1]):
        with pytest.raises(LogClosed):
            log.read_many(offsets)


def test_a_record_that_compaction_removed_is_named_or_omitted(place: Any) -> None:
    with compacted(place) as log:
        there = [record.offset for record in log.scan()]
        gone = next(offset for offset in range(log.next_offset) if offset not in there)
        assert outcome(lambda: log.read_many([*there, gone])) == outcome(lambda: log.read(gone))
        with pytest.raises(OffsetCompacted):
            log.read_many([there[0], gone])
        everything = log.read_many(range(log.next_offset), skip_compacted=True)
        assert everything == list(log.scan())
        assert log.read_many(list(reversed(there))) == list(reversed(list(log.scan())))
        assert log.read_many([gone, there[-1]], skip_compacted=True) == [log.read(there[-1])]


@given(data=st.data())
def test_any_offsets_give_what_single_reads_give(log_with_gaps: seglog.Log, data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(-1, log_with_gaps.next_offset), max_size=40))
    singles = [outcome(lambda one=one: log_with_gaps.read(one)) for one in wanted]  # type: ignore[misc]
    bad = [one for one in singles if not isinstance(one, Record)]
    out_of_range = [one for one in bad if one[0] == "OffsetOutOfRange"]
    expected = out_of_range[0] if out_of_range else bad[0] if bad else singles
    assert outcome(lambda: log_with_gaps.read_many(wanted)) == expected
    if not out_of_range:
        left = [one for one in singles if isinstance(one, Record)]
        assert log_with_gaps.read_many(wanted, skip_compacted=True) == left


@pytest.fixture(scope="module")
def log_with_gaps(tmp_path_factory: pytest.TempPathFactory) -> seglog.Log:
    """A log that is read only."""
    return compacted(tmp_path_factory.mktemp("gaps") / "log")


def test_a_damaged_record_is_an_error_and_its_neighbors_are_read(path: Path) -> None:
    with seglog.open(path) as log:
        fill(log, 3 * MANY)
    (store,) = path.glob("*.store")
    data = bytearray(store.read_bytes())
    data[data.index(b"v10091009")] ^= 1
    store.write_bytes(data)
    with seglog.open(path, mode="r") as log:
        with pytest.raises(CorruptRecord) as raised:
            log.read_many(range(3 * MANY))
        assert raised.value.offset == 1009
        others = [offset for offset in range(3 * MANY) if offset != 1009]
        assert log.read_many(others) == [log.read(offset) for offset in others]


def test_a_damaged_index_costs_time_but_no_record(path: Path) -> None:
    with seglog.open(path, SMALL) as log:
        fill(log, MANY)
        expected = list(log.scan())
    for index in path.glob("*.index"):
        index.write_bytes(index.read_bytes()[:-100] + bytes(100))
    with seglog.open(path, mode="r") as log:
        assert log.read_many(range(MANY)) == expected


def test_long_records_are_among_them(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=64 * 2**20)) as log:
        for number in range(12):
            log.append(b"%d" % number * (2**20 if number % 4 == 0 else 3))
        assert log.read_many(range(12)) == list(log.scan())


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_growing_segment_is_read_as_far_as_it_goes(path: Path, mode: Any) -> None:
    with seglog.open(path) as writer, seglog.open(path, mode=mode if mode == "r" else "r") as reader:
        log = writer if mode == "a" else reader
        for _ in range(6):
            fill(writer, 300)
            writer.sync()  # writes the index as well, the last block of it in part
            assert log.read_many(range(writer.next_offset)) == list(writer.scan())


def test_a_reader_sees_no_record_that_is_not_durable(path: Path) -> None:
    with seglog.open(path) as writer, seglog.open(path, mode="r", expose="durable") as reader:
        fill(writer, 20)
        writer.sync()
        fill(writer, 20)
        assert len(reader.read_many(range(20))) == 20
        with pytest.raises(NotDurableYet):
            reader.read_many(range(21))


def test_a_reader_in_another_process_meets_cuts_and_compactions(path: Path, process: Any) -> None:
    with seglog.open(path, KEYED) as writer:
        for number in range(MANY):
            writer.append(b"%d" % number, key=b"%d" % (number % 50))
        there = process(path)
        values = "[record.value for record in log.read_many(range({}, {}), skip_compacted=True)]"
        assert there(values.format(0, MANY)) == str([record.value for record in writer.scan()])
        writer.truncate(500)
        for number in range(500):
            writer.append(b"new %d" % number, key=b"%d" % (number % 40))
        assert there(values.format(0, MANY)) == str([record.value for record in writer.scan()])
        writer.truncate(900)
        assert there("log.read_many(range(850, 901))").startswith("OffsetOutOfRange: offset 900")
        assert there("log.read_many(range(850, 900))[0].value") == repr(writer.read(850).value)
        writer.compact(roll=True)
        assert there(values.format(0, 900)) == str([record.value for record in writer.scan()])


def test_readers_read_while_the_log_is_cut_and_compacted(path: Path, together: Any) -> None:
    """What a call returns is of one moment: every record has the mark of one round, or of the one before it."""
    with seglog.open(path, KEYED) as writer, seglog.open(path, mode="r") as reader:
        ended = False

        def fill_up(mark: int) -> None:
            for number in range(200):
                writer.append(b"%d" % mark, key=b"%d" % number)
            writer.sync()

        def write() -> None:
            nonlocal ended
            try:
                for mark in range(1, 15):
                    writer.truncate(0) if mark % 3 else writer.compact(roll=True)
                    fill_up(mark)
            finally:
                ended = True

        def read(log: seglog.Log) -> None:
            while not ended:
                try:
                    end = log.next_offset
                    records = log.read_many(range(max(0, end - 200), end), skip_compacted=True)
                except (OffsetOutOfRange, seglog.LogTruncated):
                    continue
                assert [record.offset for record in records] == sorted({record.offset for record in records})
                marks = [int(record.value or b"0") for record in records]
                assert marks == sorted(marks)

        fill_up(0)
        together(write, lambda: read(reader), lambda: read(writer))


# --- by key -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["a", "r"])
def test_the_newest_record_of_each_key_is_found(place: Any, mode: Any) -> None:
    with seglog.open(place, SMALL) as writer:
        fill(writer, MANY)
    with seglog.open(place, mode=mode) as log:
        newest = {record.key: record for record in log.scan()}
        keys = [key for key in newest if key is not None]
        random.Random(2).shuffle(keys)
        found = log.read_keys([*keys, b"absent", keys[0]])
        assert list(found) == keys
        assert found == {key: newest[key] for key in keys}
        assert log.read_keys([]) == {} == log.read_keys([b""])


def test_the_newest_record_of_a_deleted_key_is_its_tombstone(place: Any) -> None:
    with compacted(place) as log:
        offset = log.append(None, key=b"5")
        assert log.read_keys([b"5", b"250"]) == {
            b"5": log.read(offset),
            b"250": next(record for record in log.scan() if record.key == b"250"),
        }
        for wrong in (b"5", "5", [5], None):
            with pytest.raises(InvalidType):
                log.read_keys(wrong)  # type: ignore[arg-type] # the wrong type is the test


def test_keys_are_not_searched_before_the_oldest_that_is_found(path: Path) -> None:
    with seglog.open(path, SMALL) as log:
        fill(log, MANY)
    first = min(path.glob("*.store"))
    first.write_bytes(first.read_bytes()[:100] + bytes(first.stat().st_size - 100))
    with seglog.open(path, mode="r") as log:
        assert log.read_keys([b"k69"])[b"k69"].offset == 979
        with pytest.raises(CorruptRecord):
            log.read_keys([b"absent"])
