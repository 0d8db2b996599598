"""Many records with one call of a kernel: what single calls give, however the records are read together."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from seglog.format.index import DENSE_ENTRY, encode_dense_header
from seglog.kernels import point as kernel
from seglog.record import Record
from seglog.segment import read_many
from seglog.segment.lookup import BLOCK_ENTRIES, DenseLookup
from seglog.segment.reader import SegmentReader
from seglog.storage import LocalStorage

from .conftest import BASE, SALT, Workshop

RECORDS = Workshop.records(dense=True)
Opener = Callable[..., SegmentReader]


@pytest.fixture(scope="module")
def opener(tmp_path_factory: pytest.TempPathFactory, workshop: Workshop) -> Opener:
    """Put records into a store on disk, and open it: opener(records). entries: those of its index, if they lie."""
    storage = LocalStorage(tmp_path_factory.mktemp("many"))

    def make(records: Sequence[Record], entries: Sequence[bytes] | None = None) -> SegmentReader:
        made = workshop.store(records)
        store, index = storage.create("store", replace=True), storage.create("index", replace=True)
        store.pwrite(made.store.pread(made.end, 0), 0)
        ends = [*made.positions, made.end][1:]
        sound = [DENSE_ENTRY.pack(0, end - at, at) for at, end in zip(made.positions, ends, strict=True)]
        index.pwrite(encode_dense_header(BASE, 0, SALT) + b"".join(entries or sound), 0)
        lookup = DenseLookup(index, len(records), hold=True)
        end = BASE + len(records)
        return SegmentReader(store, lookup, made.rules, next_offset=end, size=made.end, marks=list)

    return make


def by_kernel(reader: SegmentReader, offsets: Sequence[int]) -> list[Any]:
    """Return the cells of each record as the kernel gives them, None without."""
    found = read_many._read_by_kernel(reader, np.array(offsets, np.int64))
    special = found.pop()
    assert special == sum(cells is None or cells[4] != () for cells in found)
    return found


def one_by_one(reader: SegmentReader, offsets: Sequence[int]) -> list[Any]:
    """Return the same by single calls."""
    return [by_kernel(reader, [offset])[0] for offset in offsets]


def offsets_of(records: Sequence[Record]) -> st.SearchStrategy[list[int]]:
    return st.lists(st.integers(BASE - 1, BASE + len(records)), max_size=60)


@given(RECORDS, st.data())
@example([Record(BASE + n, n, None, b"v") for n in range(600)], None)
def test_records_are_given_in_the_order_asked_for(
    opener: Opener, records: list[Record], data: st.DataObject | None
) -> None:
    reader = opener(records)
    wanted = list(range(BASE + 599, BASE, -7)) if data is None else data.draw(offsets_of(records))
    there = {record.offset: record for record in records}
    found = by_kernel(reader, wanted)
    assert [None if cells is None else cells[:4] for cells in found] == [
        there[offset][:4] if offset in there else None for offset in wanted
    ]
    known = [offset for offset in wanted if offset in there]
    assert list(read_many.read_many(reader, np.array(known, np.int64))) == [there[offset] for offset in known]


@given(RECORDS.filter(len), st.data())
def test_a_flipped_bit_hides_one_record_and_none_beside_it(
    opener: Opener, records: list[Record], data: st.DataObject
) -> None:
    reader = opener(records)
    place = data.draw(st.integers(64, reader.size - 1))
    (was,) = reader.store.pread(1, place)
    reader.store.pwrite(bytes([was ^ 1 << data.draw(st.integers(0, 7))]), place)
    offsets = data.draw(offsets_of(records))
    found = by_kernel(reader, offsets)
    assert found == one_by_one(reader, offsets)
    assert len({offset for offset, cells in zip(offsets, found, strict=True) if cells is None and offset >= BASE}) <= 2


@given(RECORDS.filter(len), st.data())
def test_entries_that_lie_lead_to_what_single_calls_find(
    opener: Opener, records: list[Record], data: st.DataObject
) -> None:
    sound = opener(records).lookup.entries(0, len(records))  # type: ignore[attr-defined] # a DenseLookup
    entries = [sound[at : at + 16] for at in range(0, len(sound), 16)]
    near = st.builds(DENSE_ENTRY.pack, st.just(0), st.integers(0, 200), st.integers(0, 4000))
    lies = st.one_of(st.binary(min_size=16, max_size=16), near, st.sampled_from(entries))
    for number in data.draw(st.sets(st.integers(0, len(entries) - 1))):
        entries[number] = data.draw(lies)
    reader, offsets = opener(records, entries), data.draw(offsets_of(records))
    assert by_kernel(reader, offsets) == one_by_one(reader, offsets)


@given(RECORDS.filter(len), st.data())
def test_a_store_that_was_cut_short_gives_the_records_before_the_cut(
    opener: Opener, records: list[Record], data: st.DataObject
) -> None:
    reader = opener(records)
    reader.store.truncate(data.draw(st.integers(0, reader.size)))
    offsets = data.draw(offsets_of(records))
    found = by_kernel(reader, offsets)
    assert found == one_by_one(reader, offsets)


@pytest.mark.parametrize("gap", [0, 40, kernel.GAP_BYTES - 60, kernel.GAP_BYTES, 2 * kernel.GAP_BYTES])
def test_records_are_read_together_or_alone_whatever_is_between_them(opener: Opener, gap: int) -> None:
    """Every second record is wanted; what is between two is damaged, and does not matter."""
    records = [Record(BASE + n, n, None, b"%d" % n * 3 if n % 2 == 0 else b"g" * gap) for n in range(50)]
    reader = opener(records)
    data = reader.store.pread(reader.size, 0)
    for at in range(len(data)):
        if data[at : at + 9] == b"g" * 9:
            reader.store.pwrite(b"?", at)
    wanted = [record.offset for record in records[::2]]
    assert [cells[3] for cells in by_kernel(reader, wanted)] == [record.value for record in records[::2]]


def test_long_records_are_read_in_several_calls(opener: Opener) -> None:
    records = [Record(BASE + n, n, None, bytes([n]) * 400_000) for n in range(9)]
    reader, offsets = opener(records), [record.offset for record in records]
    for wanted in (offsets, offsets[::-1], [*offsets, *offsets]):
        assert [Record(*cells) for cells in by_kernel(reader, wanted)] == [records[one - BASE] for one in wanted]


def test_the_memory_of_a_call_is_given_back(opener: Opener) -> None:
    reader = opener([Record(BASE + n, 0, None, b"v" * 10**6) for n in range(3)])
    reader.store.pwrite(b"x", reader.size - 1)
    offsets = [BASE + 2, BASE, BASE + 1, BASE + 2]
    resident = resident_bytes()
    for _ in range(300):
        assert [cells is None for cells in by_kernel(reader, offsets)] == [True, False, False, True]
    assert resident_bytes() - resident < 100 * 10**6


def resident_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * int(Path("/proc/self/statm").read_text().split()[1])


def test_blocks_that_were_not_read_before_are_read(opener: Opener) -> None:
    records = [Record(BASE + n, n, None, b"v%d" % n) for n in range(3 * BLOCK_ENTRIES)]
    reader = opener(records)
    for start in (2 * BLOCK_ENTRIES, 0):
        wanted = list(range(BASE + start, BASE + start + 20))
        assert [cells[3] for cells in by_kernel(reader, wanted)] == [b"v%d" % (one - BASE) for one in wanted]
