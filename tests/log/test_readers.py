"""Reading beside a writer in one process: a reader follows every change, or reports why it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Record, Retention

if TYPE_CHECKING:
    from collections.abc import Iterator

SMALL = LogConfig(segment_bytes=512)


def values(log: seglog.Log, start: int | None = None) -> list[bytes | None]:
    found = [record.value for record in log.scan(start)]
    assert log.to_arrow(start).column("value").to_pylist() == found
    assert [log.read(offset).value for offset in range(log.next_offset - len(found), log.next_offset)] == found
    return found


def value(offset: int) -> bytes:
    return (b"%d-" % offset).ljust(57, b"v")


def fill(log: seglog.Log, count: int) -> None:
    for _ in range(count):
        log.append(value(log.next_offset), timestamp=log.next_offset)


@pytest.fixture
def writer(place: Any) -> Iterator[seglog.Log]:
    with seglog.open(place, SMALL) as log:
        yield log


@pytest.fixture
def reader(place: Any, writer: seglog.Log) -> Iterator[seglog.Log]:
    with seglog.open(place, mode="r") as log:
        yield log


def test_a_record_is_there_once_its_append_has_returned(writer: seglog.Log, reader: seglog.Log) -> None:
    for offset in range(30):
        assert reader.next_offset == offset
        writer.append(value(offset))
        assert reader.read(offset).value == value(offset)
    assert values(reader) == [value(offset) for offset in range(30)]


def test_a_reader_decodes_only_the_segments_that_are_new(writer: seglog.Log, reader: seglog.Log) -> None:
    fill(writer, 30)
    before = reader.view().manifest
    fill(writer, 30)
    after = reader.view().manifest
    sealed = len(before.segments) - 1
    assert len(after.segments) - 1 > sealed > 2
    assert all(one is other for one, other in zip(before.segments[:sealed], after.segments[:sealed], strict=True))
    assert values(reader) == [value(offset) for offset in range(60)]


def test_streams_batches_and_gaps_are_there_too(writer: seglog.Log, reader: seglog.Log) -> None:
    writer.append_stream([b"a", b"b"])
    assert values(reader) == [b"ab"]
    writer.append_batch(pa.table({"value": pa.array([b"c"] * 40, pa.binary())}))
    assert values(reader) == [b"ab"] + [b"c"] * 40
    writer.append_at(100, Record(100, 0, None, b"d"))
    assert [record.offset for record in reader.scan(40)] == [40, 100]
    assert reader.read(100).value == b"d"


def test_facts_are_those_of_the_writer(writer: seglog.Log, reader: seglog.Log) -> None:
    for _ in range(4):
        fill(writer, 6)
        writer.sync()
        assert reader.segments == writer.segments
        assert (reader.size, len(reader), reader.path) == (writer.size, len(writer), writer.path)
        assert (reader.lowest_offset, reader.next_offset) == (writer.lowest_offset, writer.next_offset)
        assert reader.durable_offset == writer.durable_offset
        assert reader.config == writer.config
        assert [reader.offset_at(time) for time in range(25)] == [writer.offset_at(time) for time in range(25)]


def test_an_iterator_is_what_the_log_was_when_it_began(writer: seglog.Log, reader: seglog.Log) -> None:
    fill(writer, 7)
    records, batches = reader.scan(), reader.batches(max_records=2)
    first = [next(records).value], next(batches).column("value").to_pylist()
    fill(writer, 20)
    assert reader.next_offset == 27
    assert first[0] + [record.value for record in records] == [value(offset) for offset in range(7)]
    assert first[1] + [one for batch in batches for one in batch.column("value").to_pylist()] == [
        value(offset) for offset in range(7)
    ]


def test_an_iterator_goes_on_as_the_log_was_also_behind_a_cut(writer: seglog.Log, reader: seglog.Log) -> None:
    fill(writer, 23)
    records, batches = reader.scan(), reader.batches(max_records=2)
    first = [next(records).value], next(batches).column("value").to_pylist()
    writer.truncate(3)
    for _ in range(30):
        writer.append(b"new" * 10)
    assert reader.next_offset == 33
    assert first[0] + [record.value for record in records] == [value(offset) for offset in range(23)]
    rest = [one for batch in batches for one in batch.column("value").to_pylist()]
    assert first[1] + rest == [value(offset) for offset in range(23)]


def test_a_reader_outlives_writers(place: Any) -> None:
    with seglog.open(place, SMALL) as log:
        fill(log, 3)
    with seglog.open(place, mode="r") as reader:
        tail = reader.tail(0)
        for _ in range(4):
            with seglog.open(place) as log:
                fill(log, 4)
        assert [record.offset for record in tail.poll()] == list(range(19))


def test_what_expired_is_out_of_range_and_says_where_the_log_begins(place: Any) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512, retention=Retention(bytes=0))) as writer:
        fill(writer, 3)
        with seglog.open(place, mode="r") as reader:
            tail = reader.tail(0)
            assert len(tail.poll(2)) == 2
            fill(writer, 20)
            assert reader.lowest_offset == 20
            with pytest.raises(seglog.OffsetOutOfRange) as caught:
                reader.read(5)
            assert (caught.value.lowest_offset, caught.value.next_offset) == (20, 23)
            with pytest.raises(seglog.OffsetOutOfRange) as caught:
                tail.poll()
            assert (caught.value.offset, caught.value.lowest_offset) == (2, 20)
            assert [record.offset for record in reader.scan(0)] == [20, 21, 22]


# --- truncate ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", [0, 1, 10, 40])
@pytest.mark.parametrize("cut", [0, 3, 5, 9])
def test_a_reader_that_stood_behind_a_cut_is_told_even_if_the_log_grew_again(
    writer: seglog.Log, reader: seglog.Log, cut: int, again: int
) -> None:
    fill(writer, 10)
    tail = reader.tail(0)
    assert len(tail.poll()) == 10
    writer.truncate(cut)
    for _ in range(again):
        writer.append(b"new")
    for _ in range(2):
        with pytest.raises(seglog.LogTruncated, match="truncated below offset 10; seek to") as caught:
            tail.poll()
    assert isinstance(caught.value, ValueError)
    assert values(reader) == [value(offset) for offset in range(cut)] + [b"new"] * again


@pytest.mark.parametrize("mode", ["a", "r"])
def test_a_reader_that_stood_at_or_before_the_cut_goes_on(place: Any, writer: seglog.Log, mode: Any) -> None:
    fill(writer, 10)
    reader = writer if mode == "a" else seglog.open(place, mode="r")
    tail, at_the_cut = reader.tail(0), reader.tail(7)
    assert len(tail.poll(4)) == 4
    for _ in range(3):
        writer.truncate(7)
        writer.append(b"new")
    assert [record.value for record in tail.poll()] == [value(4), value(5), value(6), b"new"]
    assert [record.value for record in at_the_cut.poll()] == [b"new"]


def test_a_cut_read_is_out_of_range_until_the_offset_is_there_again(writer: seglog.Log, reader: seglog.Log) -> None:
    fill(writer, 10)
    assert reader.read(7).value == value(7)
    writer.truncate(4)
    with pytest.raises(seglog.OffsetOutOfRange):
        reader.read(7)
    for _ in range(4):
        writer.append(b"new")
    assert reader.read(7).value == b"new"
    assert reader.read(3).value == value(3)


# --- only what is durable ----------------------------------------------------------------------------------------


def test_a_durable_reader_never_shows_what_was_not_synced(place: Any) -> None:
    with seglog.open(place, SMALL) as writer, seglog.open(place, mode="r", expose="durable") as reader:
        steps: list[Any] = [
            lambda: fill(writer, 3),
            writer.sync,
            lambda: writer.append_stream([b"v"]),
            lambda: writer.append_batch(pa.table({"value": pa.array([b"w"] * 2, pa.binary())})),
            writer.sync,
            lambda: fill(writer, 9),
            lambda: writer.truncate(8),
            lambda: fill(writer, 2),
            writer.sync,
            lambda: writer.append_at(50, Record(50, 0, None, b"x")),
            lambda: writer.append_at(60, Record(60, 0, None, b"x")),
            writer.sync,
            lambda: fill(writer, 1),
            writer.sync,
        ]
        for step in steps:
            step()
            assert reader.next_offset == reader.durable_offset
            assert [record.offset for record in reader.scan()] == [
                record.offset for record in writer.scan(None, writer.durable_offset)
            ]
        assert reader.next_offset == 62


def test_an_index_that_was_written_ahead_of_a_sync_is_not_believed_by_a_durable_reader(place: Any) -> None:
    with seglog.open(place) as writer, seglog.open(place, mode="r", expose="durable") as reader:
        writer.append(b"synced")
        writer.sync()
        for _ in range(40):
            writer.append(b"v" * 100_000)  # past 1 MiB the index goes to its file, unsynced
        assert reader.next_offset == 1
        with seglog.open(place, mode="r", expose="durable") as another:
            assert (another.next_offset, another.durable_offset) == (1, 1)
        writer.sync()
        assert reader.next_offset == 41


def test_an_appended_reader_tells_what_is_durable(place: Any) -> None:
    with seglog.open(place) as writer, seglog.open(place, mode="r") as reader:
        fill(writer, 3)
        assert (reader.next_offset, reader.durable_offset) == (3, 0)
        writer.sync()
        assert (reader.next_offset, reader.durable_offset) == (3, 3)


# --- the end of a log, and leases --------------------------------------------------------------------------------


def test_a_log_that_was_removed_is_not_there_any_more(place: Any) -> None:
    writer = seglog.open(place, SMALL)
    fill(writer, 3)
    reader = seglog.open(place, mode="r")
    writer.remove()
    with pytest.raises(seglog.LogNotFound, match="the log was removed"):
        reader.read(0)
    reader.close()
    with pytest.raises(seglog.LogClosed):
        writer.append(b"v")
    with pytest.raises(seglog.LogNotFound):
        seglog.open(place, mode="r")
    with seglog.open(place) as log:
        assert log.next_offset == 0


def test_a_lease_lasts_as_long_as_its_reader(path: Any) -> None:
    with seglog.open(path) as writer:
        fill(writer, 1)
        with seglog.open(path, mode="r") as reader:
            assert len(list((path / "readers").iterdir())) == 1
            assert reader.read(0).value == value(0)
        assert list((path / "readers").iterdir()) == []


def test_files_stay_until_the_iterator_is_done_and_no_longer(path: Any) -> None:
    with seglog.open(path, SMALL) as writer:
        fill(writer, 12)
    with (
        seglog.open(path, LogConfig(segment_bytes=512, retention=Retention(bytes=0))) as writer,
        seglog.open(path, mode="r") as reader,
    ):
        records, gone = reader.scan(), path / writer.segments[0].name
        first = next(records)
        assert writer.expire() == 2
        assert reader.lowest_offset == 10
        writer.expire()
        assert gone.exists()
        assert [first, *records] == [Record(offset, offset, None, value(offset)) for offset in range(12)]
        del records
        assert reader.lowest_offset == 10
        writer.expire()
        assert not gone.exists()
        assert reader.read(11).value == value(11)


def test_a_lease_that_a_writer_took_for_one_left_behind_is_taken_again(watched: Any, path: Any) -> None:
    with seglog.open(path) as writer:
        fill(writer, 1)
    take, taken = watched.try_lock, []

    def in_the_wrong_moment(name: str, *, shared: bool = False) -> Any:
        lock = take(name, shared=shared)
        taken.append(name)
        if len(taken) == 1:
            watched.unlink(name)  # a writer that held it just before
        return lock

    watched.try_lock = in_the_wrong_moment
    with seglog.open(watched, mode="r"):
        assert len(list((path / "readers").iterdir())) == 1
    assert len(taken) == 2
