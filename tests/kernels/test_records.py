"""Encoding, scanning and decoding against a plain Python reading of docs/format.md, and against damage."""

import struct
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st

from seglog.arrow.convert import ArrowBatch, decode_batches
from seglog.format.index import DENSE_ENTRY
from seglog.kernels.layout import MARK, MarksState
from seglog.kernels.scan import scan_chunks, scan_store

pytestmark = pytest.mark.no_cover  # as the kernels

NULL = 0xFFFFFFFF
SALT = 0xFEDCBA9876543210
INTERVAL = 64
START = 64  # where a store's records begin
LEAST = -(2**63)


class Row(NamedTuple):
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()


def plain_headers(headers) -> bytes:
    return b"".join(
        struct.pack("<H", len(name.encode()))
        + name.encode()
        + struct.pack("<I", NULL if value is None else len(value))
        + (value or b"")
        for name, value in headers
    )


def plain_record(row: Row, relative: int, salt: int = SALT) -> bytes:
    headers, key, value = plain_headers(row.headers), row.key or b"", row.value or b""
    body = struct.pack(
        "<IIIIq",
        20 + len(key) + len(headers),
        NULL if row.value is None else len(value),
        relative,
        NULL if row.key is None else len(key),
        row.timestamp,
    )
    body += key + headers
    return struct.pack("<Q", xxhash.xxh64_intdigest(body, salt ^ xxhash.xxh64_intdigest(value))) + body + value


class Plain(NamedTuple):
    store: bytes
    entries: list[tuple[int, int, int]]
    marks: list[tuple[int, int, int]]
    next_mark: int


def plain_store(rows, offsets=None, interval=INTERVAL) -> Plain:
    store, entries, marks = bytearray(START), [], []
    next_mark, newest = interval, LEAST
    for row, relative in zip(rows, offsets or range(len(rows)), strict=True):
        record, position = plain_record(row, relative), len(store)
        if position >= next_mark:
            marks.append((newest, relative, position))
            next_mark = (position // interval + 1) * interval
        newest = max(newest, row.timestamp)
        entries.append((struct.unpack_from("<Q", record)[0], len(record), position))
        store += record
    return Plain(bytes(store), entries, marks, next_mark)


def as_table(rows) -> pa.Table:
    pairs = pa.struct([("key", pa.string()), ("value", pa.binary())])
    headers = [[{"key": name, "value": value} for name, value in row.headers] for row in rows]
    return pa.table(
        {
            "timestamp": pa.array([row.timestamp for row in rows], pa.int64()),
            "key": pa.array([row.key for row in rows], pa.binary()),
            "value": pa.array([row.value for row in rows], pa.binary()),
            "headers": pa.array(headers, pa.list_(pairs)),
        }
    )


def decoded(store: bytes, **changed):
    arguments = {
        "path": "a.store",
        "salt": SALT,
        "base_offset": 1000,
        "relative": 0,
        "position": START,
        "end": len(store),
        "dense": True,
        "tail": True,
    }
    return decode_batches(store, **{**arguments, **changed})


def rows_of(batches) -> list[tuple[int, Row]]:
    found = []
    for batch in batches:
        batch.validate(full=True)
        timestamps = batch.column("timestamp").cast(pa.int64()).to_pylist()
        for row, timestamp in zip(batch.drop_columns(["timestamp"]).to_pylist(), timestamps, strict=True):
            headers = tuple((pair["key"], pair["value"]) for pair in row["headers"])
            found.append((row["offset"], Row(timestamp, row["key"], row["value"], headers)))
    return found


def scanned(store: bytes, **changed):
    arguments = {
        "salt": SALT,
        "relative": 0,
        "position": START,
        "end": len(store),
        "dense": True,
        "interval": INTERVAL,
    }
    return scan_store(store, **{**arguments, **changed})


bytes_or_null = st.none() | st.binary(max_size=40)
rows_strategy = st.lists(
    st.builds(
        Row,
        st.integers(-(2**63), 2**63 - 1),
        bytes_or_null,
        bytes_or_null,
        st.lists(st.tuples(st.text(max_size=4), st.none() | st.binary(max_size=14)), max_size=3).map(tuple),
    ),
    max_size=60,
)
SAMPLE = [
    Row(5, b"k", b"v" * 13),
    Row(-1, None, None, (("h", b"x"), ("é", None))),
    Row(7, b"", b""),
    Row(6, b"a key beyond twelve", b"short"),
    Row(2**63 - 1, b"k", None),
]


@given(rows_strategy, st.integers(0, 60))
def test_rows_encode_to_the_bytes_of_the_document_in_any_two_pieces(rows, cut):
    plain, cut = plain_store(rows), min(cut, len(rows))
    batch = ArrowBatch.prepare(as_table(rows), now=0)
    lengths = [length for _, length, _ in plain.entries]
    assert batch.widest == ((lengths.index(max(lengths)), max(lengths)) if lengths else (0, 0))
    out = bytearray(batch.bytes)
    at = batch.bytes_before(cut)
    state = MarksState.start(INTERVAL)
    first = batch.encode(0, cut, out=out, relative=0, position=START, salt=SALT, marks_state=state)
    rest = batch.encode(
        cut,
        len(rows),
        out=memoryview(out)[at:] if at < len(out) else bytearray(),
        relative=cut,
        position=START + at,
        salt=SALT,
        marks_state=first.marks_state,
    )
    assert bytes(out) == plain.store[START:]
    assert (first.length, rest.length) == (at, len(out) - at)
    assert [*DENSE_ENTRY.iter_unpack(first.entries), *DENSE_ENTRY.iter_unpack(rest.entries)] == plain.entries
    marks = np.concatenate([first.marks, rest.marks])
    assert marks.view(MARK).reshape(-1).tolist() == plain.marks
    assert rest.marks_state == (INTERVAL, plain.next_mark, max([LEAST, *(row.timestamp for row in rows)]))
    assert first.tombstones + rest.tombstones == sum(row.value is None for row in rows)
    assert first.min_timestamp == min((row.timestamp for row in rows[:cut]), default=None)
    assert first.max_timestamp == max((row.timestamp for row in rows[:cut]), default=None)


@given(rows_strategy)
def test_a_scan_finds_what_the_document_says(rows):
    plain = plain_store(rows)
    scan = scanned(plain.store)
    assert (scan.records, scan.position, scan.next_relative) == (len(rows), len(plain.store), len(rows))
    assert scan.entries.tolist() == plain.entries
    assert scan.marks.tolist() == plain.marks
    assert scan.reason is None
    assert scan.tombstones == sum(row.value is None for row in rows)
    assert scan.min_timestamp == min((row.timestamp for row in rows), default=None)
    assert scan.max_timestamp == max((row.timestamp for row in rows), default=None)


@given(rows_strategy, st.integers(1, 70), st.sampled_from(["view", "binary"]))
def test_rows_come_back_from_a_store_in_batches_of_any_size(rows, size, values):
    batches = decoded(plain_store(rows).store, max_records=size, values=values)
    assert rows_of(batches) == [(1000 + number, row) for number, row in enumerate(rows)]
    assert batches.reason is None


@given(rows_strategy, st.integers(0, 70), st.integers(0, 70))
def test_a_range_leaves_out_what_lies_outside(rows, first, stop):
    batches = decoded(plain_store(rows).store, first=first, stop=stop)
    expected = [(1000 + number, row) for number, row in enumerate(rows)][first:stop]
    assert rows_of(batches) == expected


@given(rows_strategy.filter(bool), st.data())
def test_gaps_are_valid_in_a_sparse_segment_alone(rows, data):
    offsets = sorted(data.draw(st.sets(st.integers(0, 200), min_size=len(rows), max_size=len(rows))))
    store = plain_store(rows, offsets).store
    assert [offset - 1000 for offset, _ in rows_of(decoded(store, dense=False))] == offsets
    assert scanned(store, dense=False).records == len(rows)
    whole = sum(1 for number, offset in enumerate(offsets) if number == offset)
    assert len(rows_of(decoded(store))) == whole
    assert scanned(store).records == whole


def test_an_offset_that_goes_back_is_not_valid_in_a_sparse_segment():
    store = plain_store(SAMPLE, [3, 4, 4, 5, 6]).store
    assert scanned(store, dense=False).records == 2
    assert "offset" in scanned(store, dense=False).reason
    assert len(rows_of(decoded(store, dense=False))) == 2


def test_no_flipped_bit_is_ever_accepted():
    plain = plain_store(SAMPLE)
    for bit in range(8 * START, 8 * len(plain.store)):
        damaged = bytearray(plain.store)
        damaged[bit // 8] ^= 1 << bit % 8
        hit = next(n for n, (_, length, at) in enumerate(plain.entries) if bit // 8 < at + length)
        scan, batches = scanned(bytes(damaged)), decoded(bytes(damaged))
        assert (scan.records, scan.position) == (hit, plain.entries[hit][2])
        assert rows_of(batches) == [(1000 + n, row) for n, row in enumerate(SAMPLE[:hit])]
        assert batches.reason == scan.reason
        assert scan.reason is not None


def test_a_store_cut_at_any_byte_keeps_its_whole_records():
    plain = plain_store(SAMPLE)
    for size in range(START, len(plain.store)):
        whole = sum(at + length <= size for _, length, at in plain.entries)
        scan = scanned(plain.store[:size])
        assert scan.records == whole
        assert (scan.reason is None) == (scan.position == size)
        assert scanned(plain.store, end=size).records == whole
        assert len(rows_of(decoded(plain.store[:size]))) == whole


@pytest.mark.parametrize("zeros", [1, 31, 32, 100, 5000])
def test_zeros_are_never_a_record(zeros):
    store = plain_store(SAMPLE).store + bytes(zeros)
    assert scanned(store).records == len(SAMPLE)
    assert scanned(store).reason is not None
    assert scanned(bytes(START + zeros), salt=0).records == 0


def test_a_record_of_another_file_is_not_valid_here():
    assert scanned(plain_store(SAMPLE).store, salt=SALT ^ 1).records == 0


@pytest.mark.parametrize(
    "headers",
    [b"\0", b"\1\0\xff\0\0\0\0", b"\0\0\1\0\0\0", b"\0\0\0\0\0\0\0", struct.pack("<HI", 0, NULL - 1)],
    ids=["short", "not UTF-8", "value beyond", "one byte more", "value far beyond"],
)
def test_headers_that_do_not_fill_the_metadata_make_a_record_invalid(headers):
    body = struct.pack("<IIIIq", 20 + len(headers), 0, 0, NULL, 0) + headers
    record = struct.pack("<Q", xxhash.xxh64_intdigest(body, SALT ^ xxhash.xxh64_intdigest(b""))) + body
    scan = scanned(bytes(START) + record)
    assert (scan.records, scan.reason) == (0, "the headers do not fill the metadata")


def test_a_key_beyond_the_metadata_makes_a_record_invalid():
    body = struct.pack("<IIIIq", 20, 0, 0, 1, 0)
    record = struct.pack("<Q", xxhash.xxh64_intdigest(body, SALT ^ xxhash.xxh64_intdigest(b""))) + body
    assert scanned(bytes(START) + record).reason == "metadata_len cannot hold the fixed fields and the key"


def test_a_scan_goes_on_where_another_stopped():
    plain = plain_store(SAMPLE * 10)
    first = scanned(plain.store, max_records=17)
    assert (first.records, first.reason) == (17, None)
    rest = scanned(plain.store, relative=first.next_relative, position=first.position, marks_state=first.marks_state)
    assert first.entries.tolist() + rest.entries.tolist() == plain.entries
    assert first.marks.tolist() + rest.marks.tolist() == plain.marks
    assert scanned(plain.store, max_records=0).records == 0


def test_long_and_large_stores_are_scanned_in_pieces():
    many = plain_store([Row(n, None, None) for n in range(70_000)])
    large = plain_store([Row(n, None, bytes([n]) * (5 << 20)) for n in range(8)])
    for plain in (many, large):
        seen = []
        scan = scanned(plain.store, progress=seen.append)
        assert scan.entries.tolist() == plain.entries
        assert scan.marks.tolist() == plain.marks
        assert len(seen) > 1
        assert seen[-1] == len(plain.store) - START
    pieces = scan_chunks(
        large.store,
        salt=SALT,
        relative=0,
        position=START,
        end=len(large.store),
        dense=True,
        marks_state=MarksState.start(INTERVAL),
    )
    assert [piece.records for piece in pieces] == [3, 3, 2]


def test_a_batch_ends_before_the_record_that_passes_its_bytes():
    rows = [Row(n, None, b"v" * size) for n, size in enumerate([10, 10, 500, 10, 10, 10])]
    batches = list(decoded(plain_store(rows).store, max_bytes=100))
    assert [batch.num_rows for batch in batches] == [2, 1, 2, 1]
    assert [offset for offset, _ in rows_of(batches)] == list(range(1000, 1006))


def test_views_near_the_end_of_the_memory_read_nothing_behind_it():
    for length in range(14):
        rows = [Row(1, bytes(range(length)), bytes(range(100, 100 + length)))]
        store = np.frombuffer(plain_store(rows).store, np.uint8)
        assert rows_of(decoded(store)) == [(1000, rows[0])]
