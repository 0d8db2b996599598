"""Record batches: what kio writes is decoded, what is encoded kio reads, and damage is found."""

from __future__ import annotations

import datetime
import io
import struct
from contextlib import suppress

import pyarrow as pa
import pytest
from aiokafka.record import MemoryRecords
from crc32c import crc32c
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.records.readers import read_batch
from kio.records.schema import NewRecordBatch, Record, RecordHeader
from kio.records.writers import write_batch

import seglog
from seglog.kafka.records.compression import decompressed
from seglog.kafka.records.decode import decode, head_of
from seglog.kafka.records.faults import BadBatch, DamagedBatch, OldFormat, TooLarge
from seglog.kafka.records.layout import HEAD_BYTES, LOG_APPEND_TIME
from tests.kafka.encoding import encoded

UTC = datetime.UTC
NOW = 1_800_000_000_000_000
MOST = 1_000_000

header = st.tuples(st.text(max_size=5), st.none() | st.binary(max_size=20))
record = st.tuples(
    st.integers(0, 2**41),
    st.none() | st.binary(max_size=20),
    st.none() | st.binary(max_size=300),
    st.lists(header, max_size=3).map(tuple),
)


def kio_records(rows):
    """Return kio's records; kio calculates times with floats, so only whole seconds are exact."""
    return tuple(
        Record(
            attributes=0,
            timestamp=datetime.datetime.fromtimestamp(0, UTC) + datetime.timedelta(milliseconds=time),
            offset=number,
            key=key,
            value=value,
            headers=tuple(RecordHeader(key=name.encode(), value=data) for name, data in headers),
        )
        for number, (time, key, value, headers) in enumerate(rows)
    )


def kio_batch(rows, *, producer=-1, epoch=-1, sequence=-1, attributes=0):
    target = io.BytesIO()
    write_batch(
        target,
        NewRecordBatch(
            producer_id=producer,
            producer_epoch=epoch,
            partition_leader_epoch=0,
            base_sequence=sequence,
            attributes=attributes,
            records=kio_records(rows),
        ),
    )
    return target.getvalue()


def rows_of(batch):
    return [
        (
            one["timestamp"] // 1000,
            one["key"],
            one["value"],
            tuple((pair["key"], pair["value"]) for pair in one.get("headers") or ()),
        )
        for one in batch.to_pylist()
    ]


@settings(max_examples=40)
@given(st.lists(record, min_size=1, max_size=6))
def test_what_kio_writes_is_decoded(rows):
    rows = [(time // 1000 * 1000, *rest) for time, *rest in rows]
    data = memoryview(kio_batch(rows))
    assert rows_of(decode(data, head_of(data), now=NOW, most=MOST).arrow) == rows


@settings(max_examples=40)
@given(st.lists(record, min_size=1, max_size=9), st.integers(0, 2**40), st.integers(0, 2**20))
def test_what_is_encoded_kio_reads(rows, start, epoch):
    log = seglog.open(seglog.MemoryStorage(), config=seglog.LogConfig(initial_offset=start))
    for time, key, value, headers in rows:
        log.append(value, key=key, timestamp=time * 1000 + 999, force_timestamp=True, headers=headers)
    [data] = encoded(log, epoch=epoch)
    found, size = read_batch(bytes(data), 0)  # kio drops the milliseconds of its times
    assert size == len(data)
    assert (found.base_offset, found.partition_leader_epoch) == (start, epoch)
    read = MemoryRecords(bytes(data)).next_batch()
    assert read.validate_crc()
    assert [(one.offset, one.timestamp, one.key, one.value, tuple(one.headers)) for one in read] == [
        (start + number, *row) for number, row in enumerate(rows)
    ]
    again = decode(data, head_of(data), now=NOW, most=MOST)
    assert rows_of(again.arrow) == rows


def test_a_batch_of_the_servers_time_has_one_for_all_records():
    log = seglog.open(seglog.MemoryStorage())
    for time in (5000, 5999, 6000, 5000, 7000, 7000):
        log.append(b"v", timestamp=time)
    parts = encoded(log, stamped=True)
    assert [base_and_delta(part) for part in parts] == [(0, 1), (2, 0), (3, 0), (4, 1)]
    found = [one for part in parts for one in MemoryRecords(bytes(part)).next_batch()]
    assert [one.timestamp for one in found] == [5, 5, 6, 5, 7, 7]
    assert {one.timestamp_type for one in found} == {1}


def base_and_delta(data):
    return struct.unpack_from(">q", data)[0], struct.unpack_from(">i", data, 23)[0]


@given(st.lists(record, min_size=1, max_size=4), st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_found_by_the_checksum(rows, at, change):
    data = bytearray(kio_batch(rows))
    at = 17 + at % (len(data) - 17)
    data[at] ^= change
    with pytest.raises(DamagedBatch, match="checksum"):
        head_of(memoryview(data))


def with_checksum(data):
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return memoryview(data)


@given(
    st.lists(record, min_size=1, max_size=4),
    st.lists(st.tuples(st.integers(0, 10**6), st.integers(1, 255)), max_size=4),
)
def test_a_forged_batch_is_decoded_or_refused(rows, changes):
    data = bytearray(kio_batch(rows))
    for at, change in changes:
        data[HEAD_BYTES + at % (len(data) - HEAD_BYTES)] ^= change
    sealed = with_checksum(data)
    try:
        batch = decode(sealed, head_of(sealed), now=NOW, most=MOST)
    except BadBatch:
        return
    assert batch.count == len(rows) == len(batch.arrow)
    batch.arrow.validate(full=False)


@pytest.mark.parametrize(
    ("at", "form", "value", "why"),
    [
        (57, ">i", 5, "delta"),
        (23, ">i", 5, "delta"),
        (21, ">h", 0x20, "control"),
        (27, ">q", 2**62, "timestamp"),
        (21, ">h", 5, "codec"),
        (21, ">h", 1, "gzip"),
    ],
)
def test_a_head_that_contradicts_its_records_is_refused(at, form, value, why):
    data = bytearray(kio_batch([(1000, b"k", b"v", ())]))
    struct.pack_into(form, data, at, value)
    sealed = with_checksum(data)
    with pytest.raises(BadBatch, match=why):
        decode(sealed, head_of(sealed), now=NOW, most=MOST)


def test_older_formats_and_several_batches_are_refused():
    data = bytearray(kio_batch([(1000, b"k", b"v", ())]))
    with pytest.raises(BadBatch, match="one record batch"):
        head_of(memoryview(data * 2))
    data[16] = 1
    with pytest.raises(OldFormat):
        head_of(memoryview(data))
    for size in (0, 16, 30, 60):
        with pytest.raises(DamagedBatch):
            head_of(memoryview(kio_batch([(1000, b"k", b"v", ())]))[:size])


def test_a_producer_cannot_claim_that_its_time_is_the_servers():
    data = bytearray(kio_batch([(1000, b"k", b"v", ())]))
    struct.pack_into(">h", data, 21, LOG_APPEND_TIME)
    sealed = with_checksum(data)
    assert decode(sealed, head_of(sealed), now=NOW, most=MOST).arrow["timestamp"].to_pylist() == [1_000_000]


def test_a_record_without_a_time_gets_the_present_one():
    data = bytearray(kio_batch([(1000, b"k", b"v", ())]))
    struct.pack_into(">q", data, 27, -1)
    sealed = with_checksum(data)
    assert decode(sealed, head_of(sealed), now=NOW, most=MOST).arrow["timestamp"].to_pylist() == [NOW]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_compressed_data_stops_at_the_limit(codec):
    number = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[codec]
    data = memoryview(bytes(pa.compress(bytes(10_000_000), codec=codec)))  # the length of a view of Arrow's is wrong
    assert bytes(decompressed(number, data, 10_000_000)) == bytes(10_000_000)
    with pytest.raises(TooLarge):
        decompressed(number, data, 9_999_999)
    with pytest.raises(BadBatch):
        decompressed(number, data[: len(data) // 2], 10_000_000)


@given(st.binary(max_size=100_000), st.integers(1, 30))
def test_an_lz4_frame_is_decompressed_as_a_whole_and_nothing_else(values, cut):
    frame = bytes(pa.compress(values, codec="lz4"))
    assert bytes(decompressed(3, memoryview(frame), len(values))) == values
    with pytest.raises(BadBatch, match="lz4"):
        decompressed(3, memoryview(frame[:-cut]), len(values))
    with pytest.raises(BadBatch, match="goes on after its frame"):
        decompressed(3, memoryview(frame + bytes(cut)), len(values))


@given(st.integers(1, 4), st.binary(max_size=60))
def test_any_bytes_are_decompressed_or_refused(codec, data):
    with suppress(BadBatch):
        assert len(decompressed(codec, memoryview(data), 1000)) <= 1000


@given(st.lists(st.binary(max_size=2000), min_size=1, max_size=4))
def test_snappy_in_the_framing_of_java_is_decompressed(pieces):
    framed = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1)
    for piece in pieces:
        block = bytes(pa.compress(piece, codec="snappy"))
        framed += struct.pack(">i", len(block)) + block
    assert bytes(decompressed(2, memoryview(framed), MOST)) == b"".join(pieces)


@settings(max_examples=40)
@given(st.lists(record, min_size=1, max_size=6))
def test_keys_and_headers_are_counted_exactly(rows):
    data = memoryview(kio_batch(rows))
    batch = decode(data, head_of(data), now=NOW, most=MOST)
    count = max(len(headers) for _, _, _, headers in rows)
    longest = max(
        len(key or b"") + sum(len(name.encode()) + len(value or b"") for name, value in headers)
        for _, key, _, headers in rows
    )
    batch.check_heads(count, longest)
    if count:
        with pytest.raises(BadBatch, match=f"a record has {count} headers"):
            batch.check_heads(count - 1, longest)
    if longest:
        with pytest.raises(BadBatch, match=f"have {longest} bytes"):
            batch.check_heads(count, longest - 1)
