"""Resync after damage: finds exactly the first valid record, at any position and any boundary of reads."""

from __future__ import annotations

import random
import struct
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from seglog.format.codec import InvalidRecord
from seglog.record import Record
from seglog.segment import resync
from seglog.segment.resync import Found, find_record

FILLS = st.sampled_from([b"\0", b"\xff", b"\x14\0\0\0", b"\xa5"])


def brute(made: Any, position: int, end: int, least: int) -> Found | None:
    """Try every byte."""
    data = made.store.pread(end, 0)
    for start in range(position, len(data)):
        try:
            record, _, _ = made.rules.codec.decode(data, start, len(data), made.rules.base_offset, made.rules.salt)
        except InvalidRecord:
            continue
        if record.offset >= least:
            return Found(start, record.offset)
    return None


@pytest.mark.parametrize("window", [32, 100, resync.WINDOW])
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_the_first_valid_record_is_found(
    workshop: Any, monkeypatch: pytest.MonkeyPatch, window: int, data: st.DataObject
) -> None:
    monkeypatch.setattr(resync, "WINDOW", window)
    made = workshop.store(data.draw(workshop.records(dense=False, most=12)), dense=False)
    start = data.draw(st.integers(64, made.end))
    length = data.draw(st.integers(0, made.end - start))
    made.store.pwrite((data.draw(FILLS) * length)[:length], start)
    position = data.draw(st.integers(64, made.end))
    least = made.rules.base_offset + data.draw(st.integers(0, 20))
    assert find_record(made.store, made.rules, position=position, end=made.end, least=least) == brute(
        made, position, made.end, least
    )


def test_an_older_record_is_passed_over(workshop: Any) -> None:
    made = workshop.store([Record(1000 + number, 0, None, b"value") for number in range(5)])
    found = find_record(made.store, made.rules, position=65, end=made.end, least=1003)
    assert found == Found(made.positions[3], 1003)


def test_nothing_is_found_where_nothing_is(workshop: Any) -> None:
    made = workshop.store([])
    made.store.pwrite(bytes(5000), 64)
    assert find_record(made.store, made.rules, position=64, end=5064, least=0) is None
    assert find_record(made.store, made.rules, position=64, end=9999, least=0) is None, "the store is shorter"
    assert find_record(made.store, made.rules, position=64, end=64, least=0) is None


def test_a_record_that_passes_the_end_is_none(workshop: Any) -> None:
    made = workshop.store([Record(1000, 0, None, b"value")])
    assert find_record(made.store, made.rules, position=64, end=made.end - 1, least=0) is None
    assert find_record(made.store, made.rules, position=64, end=made.end, least=0) == Found(64, 1000)


class CountingFile:
    """Counts the bytes that are read."""

    def __init__(self, file: Any) -> None:
        self.file, self.read = file, 0

    def pread(self, length: int, position: int) -> bytes:
        data: bytes = self.file.pread(length, position)
        self.read += len(data)
        return data


def test_small_integers_which_look_like_lengths_are_read_once(workshop: Any) -> None:
    made = workshop.store([])
    numbers = random.Random(1).choices(range(20, 1000), k=2**15)
    made.store.pwrite(struct.pack(f"<{len(numbers)}I", *numbers), 64)
    file, size = CountingFile(made.store), made.store.size()
    assert find_record(file, made.rules, position=64, end=size, least=1000) is None
    assert file.read < 2 * size


def test_a_search_gives_up_once_it_has_hashed_its_budget(workshop: Any) -> None:
    made = workshop.store([Record(1000, 0, None, b"value")])
    heads = struct.pack("<IIII", 20, 2**19, 0, 2**32 - 1) * 2**15
    whole = made.store.pread(made.end - 64, 64)
    made.store.pwrite(heads + bytes(2**19) + whole, 64)
    file, size = CountingFile(made.store), made.store.size()
    assert find_record(file, made.rules, position=64, end=size, least=1000, budget=2**24) is None
    assert file.read < 2**25
    position = size - len(whole)
    assert find_record(file, made.rules, position=position - 32, end=size, least=1000) == Found(position, 1000)
