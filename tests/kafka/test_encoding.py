"""What a response has of a log: up to its bytes, each record verified, from segments of every kind."""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka.record import MemoryRecords
from hypothesis import given, settings
from hypothesis import strategies as st

import seglog
from seglog.errors import CorruptRecord
from seglog.kafka import codes
from seglog.kafka.records.layout import HEAD_BYTES
from seglog.kafka.requests.partition_reads import Wanted, read_all
from tests.damage import flip
from tests.kafka.encoding import encoded
from tests.log.compressed import compressed

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.log.log import Log

EVERYTHING = 2**30


def response(log: Log, start: int, most: int = EVERYTHING) -> tuple[list[memoryview], int, int]:
    """Return the batches of a response, the next offset, and its error."""
    [found] = read_all([Wanted("orders", 0, log, start, most, codes.NONE, -1)], EVERYTHING)
    return found.values["records"], found.next_offset, found.values.get("error_code", codes.NONE)


def records_of(batches: list[memoryview]) -> list[tuple[int, Any, Any]]:
    """Return offset, key and value of the records of batches, whose checksums must hold."""
    found = []
    for batch in batches:
        parsed = MemoryRecords(bytes(batch)).next_batch()
        assert parsed is not None
        assert parsed.validate_crc()
        found += [(one.offset, one.key, one.value) for one in parsed]
    return found


def of_log(log: Log) -> list[tuple[int, Any, Any]]:
    return [(one.offset, one.key, one.value) for one in log.scan()]


@settings(max_examples=40)
@given(st.lists(st.integers(0, 400), min_size=1, max_size=30), st.integers(1, 1500))
def test_a_response_has_up_to_its_bytes_and_at_least_a_record(lengths: list[int], most: int) -> None:
    log, came = seglog.open(seglog.MemoryStorage(), config=seglog.LogConfig(segment_bytes=4096)), []
    for length in lengths:
        log.append(bytes(length), key=b"key")
    while len(came) < len(lengths):
        batches, following, _ = response(log, len(came), most)
        found = records_of(batches)
        assert len(found) == 1 or sum(map(len, batches)) <= most
        came += found
        assert following == len(came)
    assert came == of_log(log)


def test_a_response_is_filled_across_segments() -> None:
    log = seglog.open(seglog.MemoryStorage(), config=seglog.LogConfig(segment_bytes=4096))
    for number in range(200):
        log.append(b"%0100d" % number)
    assert len(log.segments) > 3
    batches, following, _ = response(log, 0, 15_000)
    assert 15_000 - 120 - HEAD_BYTES < sum(map(len, batches)) <= 15_000
    assert len(batches) > 2
    assert records_of(batches) == of_log(log)[:following]


@pytest.mark.parametrize("sparse", [False, True])
def test_compressed_segments_and_gaps_are_read(tmp_path: Path, sparse: bool) -> None:
    compressed(tmp_path / "log", sparse=sparse)
    with seglog.open(tmp_path / "log") as log:
        assert records_of(encoded(log)) == of_log(log)
        came: list[Any] = []
        start = log.lowest_offset
        while more := records_of(response(log, start, 20_000)[0]):
            came, start = came + more, more[-1][0] + 1
        assert came == of_log(log)


def test_each_epoch_begins_a_batch() -> None:
    log = seglog.open(seglog.MemoryStorage())
    for cut in (6, 4, 9):
        while len(log) < cut + 3:
            log.append(b"v")
        log.truncate(cut)
    log.append(b"v")
    batches, following, _ = response(log, 0)
    heads = [struct.unpack_from(">qii", one) for one in batches]
    assert [first for first, _, _ in heads] == [0, 4, 9]
    assert following == 10
    assert all(before < after for (_, _, before), (_, _, after) in pairwise(heads))


def test_what_is_before_a_damaged_record_is_sent_and_then_an_error(tmp_path: Path) -> None:
    with seglog.open(tmp_path / "log") as log:
        for number in range(10):
            log.append(b"value %d" % number)
        log.sync()
        [store] = (tmp_path / "log").glob("*.store")
        flip(store, store.read_bytes().index(b"value 6"))
        batches, following, error = response(log, 0)
        assert (records_of(batches), following, error) == (of_log_until(log, 6), 6, codes.NONE)
        batches, following, error = response(log, 6)
        assert (batches, following, error) == ([], 6, codes.CORRUPT_MESSAGE)


def of_log_until(log: Log, stop: int) -> list[tuple[int, Any, Any]]:
    with pytest.raises(CorruptRecord):
        log.read(stop)
    return [(one.offset, one.key, one.value) for one in map(log.read, range(stop))]


def test_a_record_longer_than_a_response_comes_alone() -> None:
    log = seglog.open(seglog.MemoryStorage())
    for value in (b"a", bytes(3_000_000), b"b"):
        log.append(value)
    assert records_of(response(log, 0, 1000)[0]) == [(0, None, b"a")]
    assert records_of(response(log, 1, 1000)[0]) == [(1, None, bytes(3_000_000))]
    assert records_of(response(log, 2, 1000)[0]) == [(2, None, b"b")]


def test_a_long_record_follows_others_if_the_response_has_its_bytes() -> None:
    log = seglog.open(seglog.MemoryStorage())
    for value in (b"a", bytes(3_000_000), b"b"):
        log.append(value)
    batches, following, _ = response(log, 0, 4_000_000)
    assert ([len(value) for _, _, value in records_of(batches)], following) == ([1, 3_000_000, 1], 3)


def test_many_short_batches_hold_about_their_bytes() -> None:
    log = seglog.open(seglog.MemoryStorage())
    for number in range(400):
        log.append(bytes(1000), timestamp=number * 1000)
    batches = encoded(log, stamped=True)
    assert len(batches) == 400
    assert sum(memoryview(one.obj).nbytes for one in batches) < 4 * sum(map(len, batches))  # type: ignore[arg-type]
