"""A recovered index is what its entries say, whatever index file was found before."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from seglog.format.index import DENSE_ENTRY, encode_dense_header
from seglog.segment.index_rebuild import NewIndex, OldIndex
from seglog.storage import MemoryStorage

ENTRIES = [DENSE_ENTRY.pack(number, 40, 64 + 40 * number) for number in range(12)]
HEADERS = st.sampled_from([encode_dense_header(7, records, 5) for records in (0, 3, 12)])
OTHER = DENSE_ENTRY.pack(0, 0, 0)


def written(old: bytes | None, blocks: list[bytes], header: bytes, *, dense: bool = True) -> tuple[bytes, list[int]]:
    """The contents of the file afterwards, and the reported number of each entry."""
    storage = MemoryStorage()
    storage.make(["tmp"])
    if old is not None:
        storage.create("a.index").pwrite(old, 0)
    new = NewIndex(OldIndex(storage, "a.index"), dense=dense)
    for block in blocks:
        new.extend(memoryview(block))
    told = [new.entry(number)[0] for number in range(sum(map(len, blocks)) // 16)] if dense else []
    new.write(storage, "a.index", header)
    file = storage.open("a.index")
    return file.pread(file.size(), 0), told


@given(
    st.none() | st.tuples(HEADERS, st.lists(st.sampled_from([*ENTRIES, OTHER]), max_size=14), st.integers(0, 20)),
    st.lists(st.integers(0, 12), max_size=4),
    HEADERS,
)
def test_the_file_holds_the_new_entries_whatever_it_held(old, cuts, header):
    found = None if old is None else (old[0] + b"".join(old[1]))[: len(old[0]) + 16 * len(old[1]) - old[2]]
    ends = [0, *sorted(cuts), 12]
    blocks = [b"".join(ENTRIES[first:last]) for first, last in itertools.pairwise(ends)]
    assert written(found, blocks, header) == (header + b"".join(ENTRIES), list(range(12)))


@given(st.integers(0, 12), st.integers(0, 12), HEADERS, HEADERS)
def test_an_old_index_that_begins_alike_is_gone_on_with(known, there, before, header):
    found = before + b"".join(ENTRIES[:known])
    blocks = list(ENTRIES[:there])
    assert written(found, blocks, header) == (header + b"".join(blocks), list(range(there)))


def test_a_segment_with_gaps_keeps_no_entries() -> None:
    header = encode_dense_header(7, 3, 5)
    assert written(header + ENTRIES[0], ENTRIES, header, dense=False) == (header, [])
