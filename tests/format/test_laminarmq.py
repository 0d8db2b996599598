from __future__ import annotations

import struct
import zlib

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from seglog.config import MAX_OFFSET
from seglog.format.codec import InvalidRecord
from seglog.format.laminarmq import decode_index, decode_record, parse_segment_file, segment_file, split_record

WIDTHS = {"u32": ("<BI", 2**32 - 1), "u64": ("<BQ", MAX_OFFSET)}
RECORDS = st.sampled_from(sorted(WIDTHS)).flatmap(
    lambda width: st.tuples(st.just(width), st.integers(0, WIDTHS[width][1]), st.binary(max_size=12), st.binary())
)


def encoded(width: str, offset: int, metadata: bytes, value: bytes) -> bytes:
    told = metadata + struct.pack(WIDTHS[width][0], 1, offset)
    return struct.pack("<I", len(told)) + told + value


@given(RECORDS)
def test_a_record_of_either_width_gives_its_metadata_and_value(record: tuple[str, int, bytes, bytes]) -> None:
    _, offset, metadata, value = record
    data = encoded(*record)
    assert split_record(data, offset) == (metadata, value)
    assert decode_record(data, zlib.crc32(data), offset) == (metadata, value)


@given(RECORDS, st.integers(0, 2**32))
def test_a_record_of_another_offset_is_refused(record: tuple[str, int, bytes, bytes], other: int) -> None:
    width, offset, *_ = record
    told = encoded(width, offset, b"", b"")
    assume(not any(told.endswith(struct.pack(layout, 1, other)) for layout, most in WIDTHS.values() if other <= most))
    with pytest.raises(InvalidRecord, match="another offset"):
        split_record(told + b"value", other)


@given(RECORDS, st.data())
def test_a_changed_byte_is_refused(record: tuple[str, int, bytes, bytes], draw: st.DataObject) -> None:
    data = bytearray(encoded(*record))
    checksum = zlib.crc32(data)
    data[draw.draw(st.integers(0, len(data) - 1))] ^= draw.draw(st.integers(1, 255))
    with pytest.raises(InvalidRecord):
        decode_record(bytes(data), checksum, record[1])


@given(RECORDS, st.integers(0, 40), st.binary(max_size=9))
def test_a_record_with_other_bytes_anywhere_is_a_record_or_refused(
    record: tuple[str, int, bytes, bytes], at: int, other: bytes
) -> None:
    data = encoded(*record)
    data = data[:at] + other + data[at + len(other) :]
    try:
        metadata, value = split_record(data, record[1])
    except InvalidRecord:
        return
    assert data.endswith(value)
    assert len(data) - len(metadata) - len(value) in (9, 13)


ENTRIES = [(1, 9, 0), (2, 30, 9), (3, 12, 39)]


def index(base: int, entries: list[tuple[int, int, int]]) -> bytes:
    return struct.pack("<QQ", base, 0) + b"".join(struct.pack("<QII", *entry) for entry in entries)


def test_an_index_gives_its_entries_and_how_many_bytes_at_its_end_are_none() -> None:
    for more, cut in ((b"", 0), (b"\1" * 5, 5), (bytes(32), 32), (bytes(21), 21)):
        found = decode_index(index(7, ENTRIES) + more, 7)
        assert (found.entries.tolist(), found.repeated, found.cut_bytes) == (ENTRIES, False, cut)


@pytest.mark.parametrize("base", [0, 7])
def test_a_base_that_stands_there_twice_is_no_entry(base: int) -> None:
    found = decode_index(index(base, [(base, 0, 0), *ENTRIES]), base)
    assert (found.entries.tolist(), found.repeated, found.cut_bytes) == (ENTRIES, True, 0)


def test_an_index_that_holds_nothing_yet_is_empty() -> None:
    for data in (b"", b"\1\2\3", index(7, [])):
        assert decode_index(data, 7).entries.size == 0
    assert decode_index(b"\1\2\3", 7).cut_bytes == 3


def test_an_index_of_another_base_is_refused() -> None:
    with pytest.raises(InvalidRecord, match="base 8"):
        decode_index(index(8, ENTRIES), 7)


@given(st.integers(0, MAX_OFFSET), st.sampled_from(["store", "index"]))
def test_names_are_read_as_they_are_made(base: int, kind: str) -> None:
    assert parse_segment_file(segment_file(base, kind)) == (base, kind)


@pytest.mark.parametrize(
    "name", ["", "0", "0.log", "00.index", "-1.index", "+1.store", "9223372036854775808.index", "0.index~"]
)
def test_other_names_are_not(name: str) -> None:
    assert parse_segment_file(name) is None
