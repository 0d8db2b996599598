"""Whatever goes in comes out, whichever way it went in and whichever way it is read."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog import LogConfig, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1

EDGES = {
    "an empty value": Record(0, 1, b"k", b""),
    "a tombstone": Record(0, 1, b"k", None),
    "a tombstone without key": Record(0, 1, None, None),
    "an empty key": Record(0, 1, b"", b"v"),
    "an empty key and an empty value": Record(0, 1, b"", b""),
    "no key": Record(0, 1, None, b"v"),
    "a value of zeros": Record(0, 1, b"\0" * 40, b"\0" * 40),
    "a value beyond a view's inline bytes": Record(0, 1, b"k" * 13, b"v" * 13),
    "a value of all bytes": Record(0, 1, bytes(range(256)), bytes(range(256)) * 3),
    "a header with an empty value": Record(0, 1, b"k", b"v", (("a", b""),)),
    "a header with a null value": Record(0, 1, b"k", b"v", (("a", None),)),
    "a header with an empty key": Record(0, 1, b"k", b"v", (("", b"x"),)),
    "the same header twice": Record(0, 1, b"k", b"v", (("a", b"1"), ("a", b"2"))),
    "a header with a unicode key": Record(0, 1, b"k", b"v", (("größe-ключ-鍵-🔑", "wert-ü".encode()),)),
    "a thousand headers": Record(0, 1, b"k", b"v", tuple((f"h{i}", b"%d" % i if i % 3 else None) for i in range(1000))),
    "headers of a tombstone": Record(0, 1, b"k", None, (("why", b"gone"),)),
    "a timestamp of 0": Record(0, 0, b"k", b"v"),
    "a negative timestamp": Record(0, -1, b"k", b"v"),
    "the least timestamp": Record(0, INT64_MIN, b"k", b"v"),
    "the greatest timestamp": Record(0, INT64_MAX, b"k", b"v"),
}


def table_of(records: list[Record]) -> pa.Table:
    return pa.table(
        {
            "value": pa.array([record.value for record in records], pa.binary()),
            "key": pa.array([record.key for record in records], pa.binary()),
            "timestamp": pa.array([record.timestamp for record in records], pa.int64()),
            "headers": pa.array(
                [[{"key": key, "value": value} for key, value in record.headers] for record in records],
                pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())])),
            ),
        }
    )


def records_of(batch: Any) -> Iterator[Record]:
    columns = [
        batch.column("offset").to_pylist(),
        batch.column("timestamp").cast(pa.int64()).to_pylist(),
        *(batch.column(name).to_pylist() for name in ("key", "value", "headers")),
    ]
    for offset, timestamp, key, value, headers in zip(*columns, strict=True):
        yield Record(offset, timestamp, key, value, tuple((one["key"], one["value"]) for one in headers))


def by_append(log: seglog.Log, records: list[Record]) -> None:
    for record in records:
        offset = log.append(record.value, key=record.key, timestamp=record.timestamp, headers=record.headers)
        assert offset == log.next_offset - 1


def by_stream(log: seglog.Log, records: list[Record]) -> None:
    for record in records:
        if record.value is None:  # a stream has a value, if only an empty one
            by_append(log, [record])
        else:
            chunks = [record.value[i : i + 7] for i in range(0, len(record.value), 7)]
            log.append_stream(chunks, key=record.key, timestamp=record.timestamp, headers=record.headers)


def by_batch(log: seglog.Log, records: list[Record]) -> None:
    first = log.next_offset
    assert log.append_batch(table_of(records)) == range(first, first + len(records))


def by_read(log: seglog.Log) -> list[Record]:
    return [log.read(offset) for offset in range(log.lowest_offset, log.next_offset)]


def by_scan(log: seglog.Log) -> list[Record]:
    return list(log.scan())


def by_view_batches(log: seglog.Log) -> list[Record]:
    return [record for batch in log.batches(max_records=3) for record in records_of(batch)]


def by_binary_batches(log: seglog.Log) -> list[Record]:
    return [record for batch in log.batches(values="binary") for record in records_of(batch)]


def by_table(log: seglog.Log) -> list[Record]:
    return list(records_of(log.to_arrow()))


def by_single_batches(log: seglog.Log) -> list[Record]:
    return [
        record
        for offset in range(log.lowest_offset, log.next_offset)
        for record in records_of(log.to_arrow(offset, offset + 1, values="binary"))
    ]


WRITERS = [by_append, by_stream, by_batch]
READERS = [by_read, by_scan, by_view_batches, by_binary_batches, by_table, by_single_batches]


def all_ways_agree(log: seglog.Log, expected: list[Record]) -> None:
    for reader in READERS:
        assert reader(log) == expected, reader.__name__


@pytest.mark.parametrize("write", WRITERS)
@pytest.mark.parametrize("edge", EDGES)
def test_an_edge_comes_out_as_it_went_in(place: Any, write: Callable[..., None], edge: str) -> None:
    with seglog.open(place) as log:
        write(log, [EDGES[edge]])
        all_ways_agree(log, [EDGES[edge]])


@pytest.mark.parametrize("write", WRITERS)
def test_all_edges_in_many_small_segments_come_out_in_order_also_after_reopening(
    place: Any, write: Callable[..., None]
) -> None:
    records = [record for record in EDGES.values() if len(record.headers) < 1000] * 3
    expected = [record._replace(offset=offset) for offset, record in enumerate(records)]
    config = LogConfig(segment_bytes=1100, segment_overflow_bytes=2048, index_interval_bytes=128)
    with seglog.open(place, config) as log:
        write(log, records)
        assert len(log.segments) > 3
        all_ways_agree(log, expected)
    with seglog.open(place) as log:
        assert log.recovery.clean
        all_ways_agree(log, expected)
        assert log.verify().ok
    with seglog.open(place, mode="r") as reader:
        all_ways_agree(reader, expected)


@pytest.mark.parametrize("write", WRITERS)
def test_offsets_begin_where_the_config_says(place: Any, write: Callable[..., None]) -> None:
    first = 2**40 + 7
    records = list(EDGES.values())
    with seglog.open(place, LogConfig(initial_offset=first, segment_bytes=2**16)) as log:
        assert (log.lowest_offset, log.next_offset, len(log)) == (first, first, 0)
        write(log, records)
        all_ways_agree(log, [record._replace(offset=first + i) for i, record in enumerate(records)])
        with pytest.raises(seglog.OffsetOutOfRange):
            log.read(first - 1)


def test_an_empty_log_reads_as_nothing(place: Any) -> None:
    with seglog.open(place) as log:
        all_ways_agree(log, [])
        assert (log.lowest_offset, log.next_offset, log.durable_offset, len(log.segments)) == (0, 0, 0, 1)
        assert log.to_arrow().schema.names == ["offset", "timestamp", "key", "value", "headers"]


def test_an_empty_batch_and_no_chunks_at_all(place: Any) -> None:
    with seglog.open(place) as log:
        assert log.append_batch(table_of([])) == range(0)
        assert log.append_stream([], timestamp=5) == 0
        all_ways_agree(log, [Record(0, 5, None, b"")])


def test_a_stream_of_single_bytes_and_of_empty_chunks(place: Any) -> None:
    value = bytes(range(256)) * 20
    with seglog.open(place) as log:
        log.append_stream((value[i : i + 1] for i in range(len(value))), timestamp=5)
        pieces: list[Any] = [b"", b"a", b"", bytearray(b"b"), memoryview(b"c"), b""]
        log.append_stream(pieces, timestamp=6)
        all_ways_agree(log, [Record(0, 5, None, value), Record(1, 6, None, b"abc")])


def test_a_stream_longer_than_its_buffer(place: Any) -> None:
    chunk = bytes(range(251)) * 1000
    with seglog.open(place) as log:
        log.append_stream([chunk] * 5, key=b"k", timestamp=5)
        assert log.read(0) == Record(0, 5, b"k", chunk * 5)


def test_whatever_holds_bytes_is_taken_as_bytes(place: Any) -> None:
    with seglog.open(place) as log:
        untyped: Any = log  # more than the annotations say
        untyped.append(bytearray(b"v"), key=memoryview(b"key")[1:], timestamp=1, headers={"h": bytearray(b"x")})
        log.append(b"v", timestamp=1, headers=iter([("h", b"x")]))
        assert log.read(0) == Record(0, 1, b"ey", b"v", (("h", b"x"),))
        assert log.read(1) == Record(1, 1, None, b"v", (("h", b"x"),))


def test_a_record_without_a_timestamp_gets_the_logs_own_time(place: Any, clock: Any) -> None:
    with seglog.open(place, clock=clock) as log:
        log.append(b"a")
        clock.advance(1)
        log.append_stream([b"b"])
        clock.advance(1)
        log.append_batch(pa.table({"value": pa.array([b"c"], pa.binary())}))
        clock.advance(1)
        times = [record.timestamp for record in log.scan()]
    assert times == [clock.now - 3_000_000, clock.now - 2_000_000, clock.now - 1_000_000]


def test_what_a_log_gave_can_be_appended_to_another(place: Any) -> None:
    records = [record._replace(offset=i) for i, record in enumerate(EDGES.values())]
    with seglog.open(seglog.MemoryStorage("source")) as source, seglog.open(place) as target:
        by_append(source, records)
        target.append_batch(source.to_arrow())
        for batch in source.batches(values="binary"):
            target.append_batch(batch)
        assert by_scan(target)[: len(records)] == records
        assert [record._replace(offset=0) for record in by_scan(target)[len(records) :]] == list(EDGES.values())


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (0, 7), (3, 17), (5, 5), (9, 3), (19, 20), (20, None), (4, 99)])
def test_a_range_is_the_same_for_every_reader(place: Any, start: int, stop: int | None) -> None:
    with seglog.open(place, LogConfig(segment_bytes=512)) as log:
        by_append(log, [Record(0, i, None, b"%d" % i * 40) for i in range(20)])
        expected = [record.offset for record in by_read(log)][start:stop]
        assert [record.offset for record in log.scan(start, stop)] == expected
        assert log.to_arrow(start, stop).column("offset").to_pylist() == expected
        batches = log.batches(start, stop, max_records=2, values="binary")
        assert [offset for batch in batches for offset in batch.column("offset").to_pylist()] == expected


@pytest.mark.parametrize("values", ["view", "binary"])
def test_a_range_that_ends_before_a_damaged_record_is_read(path: Any, values: Any) -> None:
    with seglog.open(path) as log:
        by_append(log, [Record(0, 1, None, b"%d" % i * 40) for i in range(10)])
        entry = log.segments[0]
    store = path / entry.name
    data = bytearray(store.read_bytes())
    data[64 + 5 * 72 + 40] ^= 1  # in the value of offset 5
    store.write_bytes(data)
    with seglog.open(path, mode="r") as log:
        assert [record.offset for record in log.scan(0, 5)] == [0, 1, 2, 3, 4]
        assert log.to_arrow(0, 5, values=values).column("offset").to_pylist() == [0, 1, 2, 3, 4]
        assert log.to_arrow(6, values=values).column("offset").to_pylist() == [6, 7, 8, 9]
        for read in (lambda: log.to_arrow(0, 6, values=values), lambda: list(log.scan(0, 6)), lambda: log.read(5)):
            with pytest.raises(seglog.CorruptRecord) as caught:
                read()
            assert (caught.value.offset, caught.value.position) == (5, 64 + 5 * 72)
