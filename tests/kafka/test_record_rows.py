"""Records that are stored without Arrow: the bytes, figures and errors are those of the same records as Arrow."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from crc32c import crc32c
from hypothesis import given
from hypothesis import strategies as st

import seglog
from seglog.arrow.convert import ArrowBatch, EncodableRows, MarksState
from seglog.errors import OnceConflict
from seglog.kafka.records.decode import decode, head_of
from seglog.kafka.records.faults import BadBatch
from seglog.kafka.records.layout import CHECKED_FROM, CHECKSUM_AT, HEAD, HEAD_BYTES, LENGTH_FROM
from seglog.kafka.wire.buffers import Writer
from seglog.log.log import Log
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from seglog.kafka.records.records import Records

NOW, MOST = 1_800_000_000_000_000, 1_000_000
CELLS = st.none() | st.binary(max_size=14) | st.binary(min_size=15, max_size=300)
"""Keys and values, also of the lengths at which Arrow begins to store them apart."""
ROWS = st.lists(st.tuples(st.integers(-(2**40), 2**40), CELLS, CELLS), min_size=1, max_size=70)
FIRST_TIMES = st.sampled_from([-1, 0, 1_700_000_000_123, -(2**40)])
CHANGES = st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=3)
Row = tuple[int, bytes | None, bytes | None]
STATE = MarksState(256, 512, 1_700_000_000_000_000)


def batch_of(rows: Sequence[tuple[Any, ...]], first_time: int, codec: str | None = None) -> memoryview:
    """Return a batch as a producer sends it; each row is a timestamp delta, a key, a value, and headers."""
    records = b"".join(record(number, *row) for number, row in enumerate(rows))
    if codec is not None:
        records = bytes(pa.compress(records, codec=codec))
    attributes, last = 0 if codec is None else 4, len(rows) - 1
    head = (
        0,
        HEAD_BYTES - LENGTH_FROM + len(records),
        -1,
        2,
        0,
        attributes,
        last,
        first_time,
        0,
        -1,
        -1,
        -1,
        len(rows),
    )
    return sealed(bytearray(HEAD.pack(*head) + records))


def record(number: int, delta: int, key: bytes | None, value: bytes | None, *headers: tuple[bytes, bytes]) -> bytes:
    body = b"\0" + varint(delta) + varint(number) + span(key) + span(value) + varint(len(headers))
    body += b"".join(span(name) + span(data) for name, data in headers)
    return varint(len(body)) + body


def span(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def varint(number: int) -> bytes:
    target = Writer()
    target.varint((number << 1) ^ (number >> 63))
    return b"".join(bytes(part) for part in target.parts())


def sealed(data: bytearray) -> memoryview:
    struct.pack_into(">I", data, CHECKSUM_AT, crc32c(bytes(data[CHECKED_FROM:])))
    return memoryview(bytes(data))


def decoded(data: memoryview) -> Records:
    return decode(data, head_of(data), now=NOW, most=MOST)


def encoded(rows: EncodableRows) -> tuple[Any, ...]:
    """Return what a store and its lookups get of the rows."""
    out = np.zeros(rows.bytes, np.uint8)
    found = rows.encode(0, rows.rows, out=out, relative=7, position=300, salt=99, marks_state=STATE)
    figures = found.length, found.marks_state, found.tombstones, found.min_timestamp, found.max_timestamp
    return out.tobytes(), found.entries.tobytes(), found.marks.tobytes(), figures, rows.widest


@given(ROWS, FIRST_TIMES)
def test_records_take_the_bytes_that_they_take_as_arrow(rows: list[Row], first_time: int) -> None:
    records = decoded(batch_of(rows, first_time))
    assert encoded(records.to_rows()) == encoded(ArrowBatch.prepare(records.arrow, now=0))


@given(ROWS, FIRST_TIMES)
def test_a_log_reads_back_what_was_sent(rows: list[Row], first_time: int) -> None:
    with seglog.open(seglog.MemoryStorage()) as log:
        assert log._append_encodable(decoded(batch_of(rows, first_time)).to_rows()) == range(len(rows))
        found = [(one.timestamp, one.key, one.value) for one in log.scan()]
    times = (first_time + delta for delta, _, _ in rows)
    assert found == [(NOW if time == -1 else time * 1000, *row[1:]) for time, row in zip(times, rows, strict=True)]


@given(ROWS, FIRST_TIMES)
def test_the_first_record_is_the_first_of_arrow(rows: list[Row], first_time: int) -> None:
    records = decoded(batch_of(rows, first_time))
    [row] = records.arrow.slice(0, 1).to_pylist()
    assert records.first() == (row["timestamp"], row["key"], row["value"])


@given(ROWS, CHANGES)
def test_a_forged_batch_is_stored_alike_or_refused(rows: list[Row], changes: list[tuple[int, int]]) -> None:
    data = bytearray(batch_of(rows, 1000))
    for at, change in changes:
        data[HEAD_BYTES + at % (len(data) - HEAD_BYTES)] ^= change
    try:
        records = decoded(sealed(data))
    except BadBatch:
        return
    if not records.headers:
        assert encoded(records.to_rows()) == encoded(ArrowBatch.prepare(records.arrow, now=0))


def test_decompressed_records_live_as_long_as_their_rows() -> None:
    rows = [(number, b"k%d" % number, b"value " * number) for number in range(500)]
    prepared = decoded(batch_of(rows, 0, "zstd")).to_rows()
    with seglog.open(seglog.MemoryStorage()) as log:
        log._append_encodable(prepared)
        assert [(one.key, one.value) for one in log.scan()] == [row[1:] for row in rows]


def test_a_header_that_looks_like_a_mark_is_removed_from_records() -> None:
    trace, mark = (b"trace", b"1"), (b"seglog-once", b"1 0123456789abcdef key")
    rows = [(0, None, b"first", mark, trace), (0, None, b"second", trace, mark), (0, None, b"third", mark)]
    with seglog.Broker(seglog.MemoryStorage()) as broker:
        topic = broker.create_topic("copied", partitions=1)
        topic.append_batch(decoded(batch_of(rows, 0)).arrow, partition=0)
        found = [(one.value, one.headers) for one in topic.partition(0).scan()]
    kept = (("trace", b"1"),)
    assert found == [(b"first", kept), (b"second", kept), (b"third", ())]


def as_arrow(log: Log, records: Records) -> range:
    return log.append_batch(records.arrow, force_timestamp=True)


def as_rows(log: Log, records: Records) -> range:
    return log._append_encodable(records.to_rows())


def refused(log: Log, append: Callable[[Log, Records], range], records: Records) -> tuple[str, str]:
    """Return the error of an append that stores nothing."""
    with pytest.raises(seglog.SeglogError) as caught:
        append(log, records)
    assert log.next_offset == 0
    return type(caught.value).__name__, str(caught.value)


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (seglog.LogConfig(segment_bytes=512, segment_overflow_bytes=0), "RecordTooLarge"),
        (seglog.LogConfig(retention=seglog.Retention(compact=True)), "KeyRequired"),
    ],
)
def test_a_log_refuses_both_for_the_same_reason(config: seglog.LogConfig, name: str) -> None:
    records = decoded(batch_of([(0, b"k", b"v"), (1, None, b"x" * 1000)], 0))
    with seglog.open(seglog.MemoryStorage(), config) as log:
        error = refused(log, as_rows, records)
        assert error == refused(log, as_arrow, records)
        assert error[0] == name


def test_records_are_distributed_over_segments_as_arrow_is() -> None:
    config = seglog.LogConfig(segment_bytes=2000, segment_overflow_bytes=0)
    records = decoded(batch_of([(number, None, b"x" * (number % 90)) for number in range(300)], 0))
    ends = []
    for append in (as_rows, as_arrow):
        with seglog.open(seglog.MemoryStorage(), config) as log:
            for _ in range(3):
                append(log, records)
            ends.append([(one.base_offset, one.next_offset, one.bytes) for one in log.segments])
    assert ends[0] == ends[1]
    assert len(ends[0]) > 10


def test_a_log_that_is_only_read_refuses_records(tmp_path: Any) -> None:
    records = decoded(batch_of([(0, None, b"v")], 0))
    with (
        seglog.open(tmp_path / "log"),
        seglog.open(tmp_path / "log", mode="r") as reader,
        pytest.raises(seglog.LogReadOnly),
    ):
        as_rows(reader, records)


# --- with an idempotency key ------------------------------------------------------------------------------------------


def once_as_arrow(topic: Topic, records: Records, once: str) -> range:
    return topic.append_batch(records.arrow, partition=0, once=once, force_timestamp=True)[0]


def once_as_rows(topic: Topic, records: Records, once: str) -> range:
    return topic._append_unmarked_once(0, records, once)


ONCE_WAYS = [once_as_arrow, once_as_rows]


def stored(topic: Topic) -> list[Any]:
    return [(one.timestamp, one.key, one.value, one.headers) for one in topic.partition(0).scan()]


@given(st.lists(st.tuples(ROWS, st.integers(0, 3)), min_size=1, max_size=4))
def test_appends_with_a_key_are_stored_repeated_and_refused_alike(appends: list[tuple[list[Row], int]]) -> None:
    found = []
    for append in ONCE_WAYS:
        answers: list[Any] = []
        with seglog.Broker(seglog.MemoryStorage()) as broker:
            topic = broker.create_topic("t", partitions=1)
            for rows, key in [*appends, *appends]:
                try:
                    answers.append(append(topic, decoded(batch_of(rows, 1000)), f"kafka 0 {key} 0 0"))
                except OnceConflict as error:
                    answers.append(str(error))
            found.append((answers, stored(topic)))
    assert found[0] == found[1]


@pytest.mark.parametrize(("first", "then"), [ONCE_WAYS, ONCE_WAYS[::-1]])
def test_a_batch_that_one_way_stored_is_known_to_the_other_after_a_restart(
    first: Callable[..., range], then: Callable[..., range], tmp_path: Any
) -> None:
    records = decoded(batch_of([(0, b"k%d" % row, b"v" * row) for row in range(40)], 1000))
    with Topic.create(tmp_path / "t", partitions=1) as topic:
        assert first(topic, records, "a") == range(40)
    with Topic.open(tmp_path / "t") as topic:
        assert then(topic, records, "a") == range(40)
        assert topic.partition(0).next_offset == 40
        with pytest.raises(OnceConflict):
            then(topic, decoded(batch_of([(0, b"other", b"v")], 1000)), "a")


@pytest.mark.parametrize("append", ONCE_WAYS)
def test_the_rest_of_a_batch_that_a_crash_has_cut_is_appended(append: Callable[..., range], tmp_path: Any) -> None:
    records = decoded(batch_of([(row, b"k", b"value %d" % row) for row in range(30)], 1000))
    with Topic.create(tmp_path / "t", partitions=1) as topic:
        once_as_rows(topic, records, "a")
        topic.partition(0).truncate(11)
    with Topic.open(tmp_path / "t") as topic:
        assert append(topic, records, "a") == range(30)
        assert [one.value for one in topic.partition(0).scan()] == [b"value %d" % row for row in range(30)]


def test_a_key_of_another_form_is_refused(tmp_path: Any) -> None:
    records = decoded(batch_of([(0, None, b"v")], 0))
    with Topic.create(tmp_path / "t", partitions=1) as topic, pytest.raises(seglog.InvalidArgument):
        once_as_rows(topic, records, "ü")
