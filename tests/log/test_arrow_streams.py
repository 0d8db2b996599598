"""Data frames of any library go in, and a log goes out, as Arrow streams: in bounded memory, undone on an error."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pytest

import seglog
from seglog.arrow import stream

SCHEMA = pa.schema([("key", pa.binary()), ("value", pa.binary())])


def batch(first: int, rows: int = 10, value: bytes = b"v") -> pa.RecordBatch:
    keys = [b"%d" % number for number in range(first, first + rows)]
    return pa.record_batch([keys, [value] * rows], schema=SCHEMA)


class Stream:
    """What has the stream interface and nothing else."""

    def __init__(self, reader: pa.RecordBatchReader) -> None:
        self._reader = reader

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> Any:
        return self._reader.__arrow_c_stream__(requested_schema)


class OneArray:
    """What has the array interface and nothing else."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
        return batch(0).__arrow_c_array__(requested_schema)


def reader_of(batches: Any) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(SCHEMA, batches)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[seglog.Log]:
    with seglog.open(tmp_path / "log", seglog.LogConfig(segment_bytes=100_000)) as log:
        yield log


def test_a_table_that_was_read_can_be_filtered_sorted_joined_and_written(log: seglog.Log, tmp_path: Path) -> None:
    log.append_batch(batch(0))
    table = log.to_arrow().select(["offset", "key", "value"])
    assert table.filter(pc.equal(table["key"], b"7"))["offset"].to_pylist() == [7]
    assert table.sort_by([("key", "descending")])["offset"][0].as_py() == 9
    assert table.join(table, "key", right_suffix="2").num_rows == 10
    pyarrow.csv.write_csv(table, tmp_path / "table.csv")
    assert log.to_arrow(values="view")["key"].type == pa.binary_view()


@pytest.mark.parametrize("make", [Stream, lambda reader: reader], ids=["interface", "reader"])
def test_a_stream_is_appended_in_order(log: seglog.Log, make: Any) -> None:
    assert log.append_batch(make(reader_of([batch(0), batch(10), batch(20)]))) == range(30)
    assert [int(record.key or b"") for record in log.scan()] == list(range(30))
    assert log.append_batch(make(reader_of([]))) == range(30, 30)
    assert log.append_batch(OneArray()) == range(30, 40)


def test_a_stream_is_read_as_it_is_appended(log: seglog.Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 1000)
    ends = []

    def source() -> Iterator[pa.RecordBatch]:
        for number in range(300):
            ends.append(log.next_offset)
            yield batch(10 * number, value=b"v" * 100)

    assert log.append_batch(Stream(reader_of(source()))) == range(3000)
    assert ends[:4] == [0, 10, 20, 30] and len(log.segments) > 3
    assert log.verify().ok


def test_a_stream_that_fails_after_several_segments_leaves_nothing(
    log: seglog.Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 1000)
    log.append_batch(batch(0))

    def failing() -> Iterator[pa.RecordBatch]:
        for number in range(300):
            yield batch(10 * number, value=b"v" * 100)
        raise OSError("the source is gone")

    with pytest.raises(seglog.InvalidArgument, match="the source is gone"):
        log.append_batch(Stream(reader_of(failing())))
    assert log.next_offset == 10 and log.append(b"next") == 10
    with pytest.raises(seglog.RecordTooLarge):
        log.append_batch(reader_of([batch(0, value=b"v" * 500), batch(0, 1, b"v" * 200_000)]))
    assert log.next_offset == 11 and log.verify().ok


@pytest.mark.parametrize("make", [Stream, lambda reader: reader], ids=["interface", "reader"])
@pytest.mark.parametrize("before", [0, 1, 30])
def test_a_stream_whose_columns_change_is_refused_and_leaves_nothing(
    log: seglog.Log, monkeypatch: pytest.MonkeyPatch, make: Any, before: int
) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 1000)
    batches = [*(batch(0, value=b"v" * 1000) for _ in range(before)), pa.record_batch([[b"v"]], names=["value"])]
    with pytest.raises(seglog.InvalidArgument, match="stream of record batches failed"):
        log.append_batch(make(reader_of(iter(batches))))
    assert log.next_offset == 0 and log.append(b"next") == 0


@pytest.mark.parametrize("make", [Stream, lambda reader: reader], ids=["interface", "reader"])
def test_a_log_that_is_closed_while_it_takes_a_stream_without_end_closes_and_keeps_nothing_of_it(
    log: seglog.Log, monkeypatch: pytest.MonkeyPatch, make: Any
) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 1000)
    log.append_batch(batch(0))

    def endless() -> Iterator[pa.RecordBatch]:
        for number in range(10_000):
            if number == 300:
                log.close()  # as a signal handler does
            assert number < 302
            yield batch(10 * number, value=b"v" * 100)

    with pytest.raises(seglog.LogClosed, match="nothing was stored"):
        log.append_batch(make(reader_of(endless())))
    with seglog.open(log.path) as again:
        assert again.next_offset == 10 and again.verify().ok


def test_what_is_no_table_is_refused_with_what_would_do(log: seglog.Log) -> None:
    with pytest.raises(seglog.InvalidType, match=r"__arrow_c_stream__.*not list"):
        log.append_batch([{"value": b"v"}])
    with pytest.raises(seglog.InvalidType, match="must have named columns"):
        log.append_batch(pa.chunked_array([[b"v"]]))
    assert log.next_offset == 0


def test_a_log_is_a_stream_that_can_be_appended_elsewhere(log: seglog.Log, tmp_path: Path) -> None:
    log.append_batch(batch(0, 500))
    reader = pa.RecordBatchReader.from_stream(log)
    assert reader.schema.field("value").type == pa.binary()
    assert reader.read_all() == log.to_arrow()
    with seglog.open(tmp_path / "copy") as copy:
        assert copy.append_batch(log) == range(500)
        assert copy.to_arrow() == log.to_arrow()


def test_a_topic_takes_and_gives_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 1000)
    with seglog.Topic.create(tmp_path / "topic", partitions=3) as topic:
        offsets = topic.append_batch(Stream(reader_of(batch(20 * number, 20, b"v" * 100) for number in range(10))))
        assert sum(map(len, offsets.values())) == 200
        table = pa.RecordBatchReader.from_stream(topic).read_all()
        assert table.num_rows == 200 and set(table["partition"].to_pylist()) == set(offsets)
        with seglog.Topic.create(tmp_path / "copy", partitions=3) as copy:
            copy.append_batch(topic)
            assert pa.RecordBatchReader.from_stream(copy).read_all() == table
        once = topic.append_batch(Stream(reader_of([batch(0)])), once="key-1")
        assert topic.append_batch(reader_of([batch(0)]), once="key-1") == once


@pytest.mark.parametrize("wrong", [None, pa.record_batch([[1]], names=["value"])], ids=["source", "columns"])
def test_an_error_of_a_stream_lists_what_a_topic_has_appended_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: pa.RecordBatch | None
) -> None:
    monkeypatch.setattr(stream, "PIECE_BYTES", 1000)

    def failing() -> Iterator[pa.RecordBatch]:
        yield from (batch(20 * number, 20, b"v" * 100) for number in range(3))
        if wrong is None:
            raise OSError("the source is gone")
        yield wrong

    with seglog.Topic.create(tmp_path / "topic", partitions=1) as topic:
        with pytest.raises(seglog.InvalidArgument) as caught:
            topic.append_batch(reader_of(failing()))
        assert "already appended: {0: range(0, 60)}" in caught.value.__notes__[0]
        assert topic.partition(0).next_offset == 60
        with pytest.raises(seglog.InvalidType) as refused:
            topic.append_batch([])
        assert not hasattr(refused.value, "__notes__")
