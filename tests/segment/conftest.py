"""Stores made of records, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from hypothesis import strategies as st

from seglog.format.codec import NATIVE, Rules, encode_headers
from seglog.format.manifest import SegmentEntry
from seglog.format.store import StoreHeader
from seglog.record import Record
from seglog.storage import File, MemoryStorage

BASE, SALT = 1000, 0x0123456789ABCDEF


class Made(NamedTuple):
    """A store, its records and where each begins, and where the last one ends."""

    storage: MemoryStorage
    entry: SegmentEntry
    store: File
    records: list[Record]
    positions: list[int]
    end: int

    @property
    def rules(self) -> Rules:
        return Rules(self.entry.base_offset, self.entry.salt, self.entry.dense)


class Workshop:
    """Makes stores."""

    def store(self, records: Sequence[Record], *, dense: bool = True) -> Made:
        storage = MemoryStorage()
        storage.make(["tmp"])
        entry = SegmentEntry(base_offset=BASE, file=1, salt=SALT, created=0, dense=dense)
        data, positions = bytearray(StoreHeader(SALT, 7, 0).encode()), []
        for record in records:
            positions.append(len(data))
            packed = encode_headers(record.headers)
            parts, _, _ = NATIVE.encode(record.offset - BASE, record.timestamp, record.key, record.value, packed, SALT)
            data += b"".join(parts)
        store = storage.create(entry.name())
        store.pwrite(data, 0)
        return Made(storage, entry, store, list(records), positions, len(data))

    @staticmethod
    def records(*, dense: bool, most: int = 40) -> st.SearchStrategy[list[Record]]:
        """Records of one segment, from BASE on, with gaps unless dense."""
        gaps = st.just(0) if dense else st.integers(0, 3)
        row = st.tuples(
            gaps,
            st.integers(-9, 9) | st.sampled_from([-(2**63), 2**63 - 1]),
            st.none() | st.binary(max_size=9),
            st.none() | st.binary(max_size=70),
            st.lists(st.tuples(st.text(max_size=3), st.none() | st.binary(max_size=3)), max_size=2).map(tuple),
        )
        return st.lists(row, max_size=most).map(_numbered)


def _numbered(
    rows: list[tuple[int, int, bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]]],
) -> list[Record]:
    records, offset = [], BASE
    for gap, timestamp, key, value, headers in rows:
        offset += gap
        records.append(Record(offset, timestamp, key, value, headers))
        offset += 1
    return records


@pytest.fixture(scope="session")
def workshop() -> Workshop:
    return Workshop()
