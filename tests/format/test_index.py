"""The lookup files, byte for byte, and which record gets a mark."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh64_intdigest

from seglog.format.index import (
    DENSE_ENTRY,
    MARK,
    NO_TIMESTAMP,
    Mark,
    MarkBuilder,
    decode_durable_records,
    decode_offsets,
    decode_times,
    encode_dense_header,
    encode_offsets,
    encode_times,
    entry_position,
    floor_mark,
    unpack_marks,
)

BASE, SALT = 1_000_000_007, 0xFEDCBA9876543210
MARKS = [Mark(-7, 3, 4100), Mark(2**63 - 1, 9, 8192), Mark(5, 2**32 - 1, 2**32 - 1)]
PACKED = b"".join(MARK.pack(*mark) for mark in MARKS)
RECORDS = st.lists(st.tuples(st.integers(-5, 5), st.integers(32, 300)), max_size=60)


def flipped(data: bytes) -> list[bytes]:
    return [
        data[: bit // 8] + bytes([data[bit // 8] ^ 1 << bit % 8]) + data[bit // 8 + 1 :] for bit in range(len(data) * 8)
    ]


# --- dense --------------------------------------------------------------------------------------------------------


def test_the_dense_header_is_laid_out_field_by_field() -> None:
    check = xxh64_intdigest(struct.pack("<QIQ", BASE, 42, SALT)) & 0xFFFFFFFF
    assert encode_dense_header(BASE, 42, SALT) == struct.pack("<QII", BASE, 42, check)


def test_an_entry_is_checksum_length_position() -> None:
    assert DENSE_ENTRY.pack(1, 2, 3) == struct.pack("<Q", 1) + struct.pack("<I", 2) + struct.pack("<I", 3)
    assert [entry_position(number) for number in (0, 1, 10)] == [16, 32, 176]


@given(st.integers(0, 2**63), st.integers(0, 2**32 - 1), st.integers(0, 2**64 - 1))
def test_the_durable_count_is_read_back(base: int, records: int, salt: int) -> None:
    assert decode_durable_records(encode_dense_header(base, records, salt) + b"entries", base, salt) == records


def test_a_durable_count_that_does_not_verify_says_nothing() -> None:
    header = encode_dense_header(BASE, 42, SALT)
    assert all(decode_durable_records(data, BASE, SALT) is None for data in flipped(header))
    assert all(decode_durable_records(header[:length], BASE, SALT) is None for length in range(16))
    assert decode_durable_records(header, BASE, SALT + 1) is None, "another file"
    assert decode_durable_records(header, BASE + 1, SALT) is None, "another segment"
    assert decode_durable_records(bytes(16), 0, SALT) is None


# --- sparse -------------------------------------------------------------------------------------------------------


def test_the_time_index_is_laid_out_field_by_field() -> None:
    body = b"SLTM" + struct.pack("<H", 1) + struct.pack("<H", 0) + struct.pack("<I", 4096) + struct.pack("<I", 3)
    for max_timestamp, relative, position in MARKS:
        body += struct.pack("<q", max_timestamp) + struct.pack("<I", relative) + struct.pack("<I", position)
    assert encode_times(PACKED, 4096) == body + struct.pack("<Q", xxh64_intdigest(body))


def test_the_offset_index_is_laid_out_field_by_field() -> None:
    body = b"SLOF" + struct.pack("<H", 1) + struct.pack("<H", 0) + struct.pack("<I", 4096) + struct.pack("<I", 3)
    for _, relative, position in MARKS:
        body += struct.pack("<I", relative) + struct.pack("<I", position)
    assert encode_offsets(PACKED, 4096) == body + struct.pack("<Q", xxh64_intdigest(body))


def test_sparse_indexes_are_read_back() -> None:
    assert decode_times(encode_times(PACKED, 64)) == MARKS == unpack_marks(PACKED)
    assert decode_offsets(encode_offsets(PACKED, 64)) == [(mark.relative, mark.position) for mark in MARKS]
    assert decode_times(encode_times(b"", 64)) == []
    assert decode_offsets(encode_offsets(b"", 64)) == []


@pytest.mark.parametrize("kind", ["times", "offsets"])
def test_a_damaged_sparse_index_says_nothing(kind: str) -> None:
    encode, decode = (encode_times, decode_times) if kind == "times" else (encode_offsets, decode_offsets)
    data = encode(PACKED, 4096)
    assert all(decode(damaged) is None for damaged in flipped(data))
    assert all(decode(data[:length]) is None for length in range(len(data)))
    assert decode(data + b"\0") is None
    assert decode(bytes(len(data))) is None
    assert decode((encode_offsets if kind == "times" else encode_times)(PACKED, 4096)) is None


@pytest.mark.parametrize("kind", ["times", "offsets"])
def test_a_sparse_index_is_bound_to_its_store(kind: str) -> None:
    encode, decode = (encode_times, decode_times) if kind == "times" else (encode_offsets, decode_offsets)
    data = encode(PACKED, 64, 5)
    assert decode(data, 5) is not None
    assert decode(data, 6) is None
    assert decode(encode(PACKED, 64), 5) == decode(data, 5), "older files name no store"


# --- marks --------------------------------------------------------------------------------------------------------


def placed(records: list[tuple[int, int]]) -> list[tuple[int, int, int]]:
    """Return (timestamp, relative, position) of records given as (timestamp, length)."""
    position, found = 64, []
    for relative, (timestamp, length) in enumerate(records):
        found.append((timestamp, relative, position))
        position += length
    return found


def expected_marks(records: list[tuple[int, int, int]], interval: int) -> list[Mark]:
    """Say it as the format does: the first record that starts at or after each k * interval, k >= 1, once."""
    last = records[-1][2] if records else 0
    chosen: dict[int, Mark] = {}
    for k in range(1, last // interval + 1):
        number = next(number for number, record in enumerate(records) if record[2] >= k * interval)
        before = max((timestamp for timestamp, _, _ in records[:number]), default=NO_TIMESTAMP)
        chosen[number] = Mark(before, *records[number][1:])
    return list(chosen.values())


@given(RECORDS, st.sampled_from([64, 100, 256, 4096]))
def test_marks_stand_where_the_format_says(records: list[tuple[int, int]], interval: int) -> None:
    builder, rows = MarkBuilder(interval), placed(records)
    for row in rows:
        builder.add(*row)
    assert unpack_marks(builder.marks) == expected_marks(rows, interval)


@given(RECORDS, st.integers(0, 60))
def test_marks_go_on_from_a_state(records: list[tuple[int, int]], cut: int) -> None:
    rows, whole = placed(records), MarkBuilder(128)
    first, second = MarkBuilder(128), MarkBuilder(128)
    for row in rows:
        whole.add(*row)
    for row in rows[:cut]:
        first.add(*row)
    second.extend(b"", first.state)
    for row in rows[cut:]:
        second.add(*row)
    first.extend(bytes(second.marks), second.state)
    assert (first.marks, first.state) == (whole.marks, whole.state)


@given(RECORDS, st.integers(-6, 6))
def test_the_floor_mark_never_passes_a_record_that_is_new_enough(records: list[tuple[int, int]], wanted: int) -> None:
    builder, rows = MarkBuilder(128), placed(records)
    for row in rows:
        builder.add(*row)
    marks = unpack_marks(builder.marks)
    fitting = [mark for mark in marks if mark.max_timestamp_before < wanted]
    assert floor_mark(marks, wanted) == (fitting[-1] if fitting else None)
    mark = floor_mark(marks, wanted)
    if mark is not None:
        assert all(timestamp < wanted for timestamp, relative, _ in rows if relative < mark.relative)


def test_a_durable_count_that_counts_more_than_a_store_has_room_for_is_none() -> None:
    """Otherwise a reader that trusts it would allocate an entry for each."""
    most = (2**32 - 1 - 64) // 32
    assert decode_durable_records(encode_dense_header(7, most, 5), 7, 5, dense=True) == most
    assert decode_durable_records(encode_dense_header(7, most + 1, 5), 7, 5, dense=True) is None
    assert decode_durable_records(encode_dense_header(7, most + 1, 5), 7, 5) == most + 1  # gaps included
