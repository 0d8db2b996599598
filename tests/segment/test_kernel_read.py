"""Single reads by a kernel: what they give is what the long way gives, and what is damaged they leave to that."""

from __future__ import annotations

import os
import struct
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import seglog
from seglog.errors import CorruptRecord
from seglog.format.codec import seal_head
from seglog.format.index import DENSE_ENTRY, encode_dense_header
from seglog.kernels import point as kernel
from seglog.kernels import unchanged
from seglog.record import Record
from seglog.segment.kernel_read import PointReader
from seglog.segment.lookup import BLOCK_ENTRIES, BYTES_DATA, DenseLookup
from seglog.storage import File, LocalStorage
from tests.damage import flip
from tests.waiting import HANG_SECONDS, until

from .conftest import BASE, SALT, Made, Workshop

ENTRIES_AT = 16
RECORDS = Workshop.records(dense=True)
NEGATIVE = SALT | 1 << 63


class Points(NamedTuple):
    """A store on disk, and its lookup, whose first block is held."""

    reader: PointReader
    lookup: DenseLookup
    store: File
    index: File
    made: Made
    size: int

    def read(self, offset: int) -> Record | None:
        """Read as the kernel does."""
        return self.reader.read(self.lookup, offset, self.size)

    def lookup_of(self, entries: bytes) -> DenseLookup:
        """Return another lookup, all of it held."""
        self.index.pwrite(encode_dense_header(BASE, 0, SALT) + entries, 0)
        return held(DenseLookup(self.index, len(entries) // 16, hold=True))


def held(lookup: DenseLookup) -> DenseLookup:
    for relative in range(0, len(lookup), BLOCK_ENTRIES):
        lookup.exact(relative)
    return lookup


@pytest.fixture(scope="module")
def points(tmp_path_factory: pytest.TempPathFactory, workshop: Workshop) -> Callable[[Sequence[Record]], Points]:
    """Put records into a store on disk: points(records)."""
    kernel.load()
    storage = LocalStorage(tmp_path_factory.mktemp("points"))

    def make(records: Sequence[Record]) -> Points:
        made = workshop.store(records)
        store, index = storage.create("store", replace=True), storage.create("index", replace=True)
        store.pwrite(made.store.pread(made.end, 0), 0)
        ends = [*made.positions, made.end][1:]
        entries = [DENSE_ENTRY.pack(0, end - at, at) for at, end in zip(made.positions, ends, strict=True)]
        index.pwrite(encode_dense_header(BASE, 0, SALT) + b"".join(entries), 0)
        lookup = held(DenseLookup(index, len(records), hold=True))
        return Points(PointReader(store, made.rules), lookup, store, index, made, made.end)

    return make


@given(RECORDS)
@example([Record(BASE, 0, b"", b""), Record(BASE + 1, -1, None, None, (("k", None), ("", b"")))])
@example([Record(BASE + n, n, None, b"v") for n in range(600)])
def test_every_record_is_given_as_it_was_written(
    points: Callable[[Sequence[Record]], Points], records: list[Record]
) -> None:
    made = points(records)
    assert [made.read(record.offset) for record in records] == records
    assert all(type(made.read(record.offset)) is Record for record in records)


@given(RECORDS.filter(len), st.data())
def test_a_flipped_bit_is_left_to_the_long_way(
    points: Callable[[Sequence[Record]], Points], records: list[Record], data: st.DataObject
) -> None:
    made = points(records)
    place = data.draw(st.integers(made.made.positions[0], made.size - 1))
    (was,) = made.store.pread(1, place)
    made.store.pwrite(bytes([was ^ 1 << data.draw(st.integers(0, 7))]), place)
    hit = max(number for number, at in enumerate(made.made.positions) if at <= place)
    wanted = [None if number == hit else record for number, record in enumerate(records)]
    assert [made.read(record.offset) for record in records] == wanted


@given(RECORDS.filter(len), st.binary(min_size=16, max_size=16), st.integers(0, 2**32 - 1))
def test_an_entry_that_lies_leads_to_nothing(
    points: Callable[[Sequence[Record]], Points], records: list[Record], entry: bytes, length: int
) -> None:
    made = points(records)
    first = made.made.positions[0]
    lying = [entry, DENSE_ENTRY.pack(0, length, first), DENSE_ENTRY.pack(0, made.size - first, first)]
    for one in lying:
        if DENSE_ENTRY.unpack(one)[1:] != made.lookup.exact(0)[1:]:  # type: ignore[index] # it knows its records
            assert made.reader.read(made.lookup_of(one), BASE, made.size) is None


def test_an_entry_of_another_record_leads_to_nothing(points: Callable[[Sequence[Record]], Points]) -> None:
    made = points([Record(BASE + n, 0, None, b"same") for n in range(2)])
    entries = made.index.pread(32, ENTRIES_AT)
    assert made.reader.read(made.lookup_of(entries[16:] + entries[:16]), BASE, made.size) is None


def test_what_is_not_held_or_stands_behind_the_size_or_is_of_another_store_leads_to_nothing(
    points: Callable[[Sequence[Record]], Points], workshop: Workshop
) -> None:
    records = [Record(BASE + n, 0, None, b"v") for n in range(3)]
    made = points(records)
    fresh = DenseLookup(made.index, 3, hold=True)
    assert made.reader.read(fresh, BASE, made.size) is None
    assert made.reader.read(DenseLookup(made.index, 3), BASE, made.size) is None
    assert made.read(BASE + 3) is made.read(BASE - 1) is made.read(BASE + BLOCK_ENTRIES) is None
    assert made.reader.read(made.lookup, BASE + 2, made.size - 1) is None
    other = PointReader(made.store, made.made.rules._replace(salt=NEGATIVE))
    assert other.read(made.lookup, BASE, made.size) is None
    assert made.read(BASE) == records[0]


def test_headers_that_do_not_fill_the_metadata_are_left_to_the_long_way(
    points: Callable[[Sequence[Record]], Points],
) -> None:
    made = points([])
    head, _ = seal_head(0, 0, None, b"\x01", 0, 0xEF46DB3751D8E999, SALT)
    made.store.pwrite(head, 64)
    lookup = made.lookup_of(DENSE_ENTRY.pack(0, len(head), 64))
    assert made.reader.read(lookup, BASE, 64 + len(head)) is None
    sound, _ = seal_head(0, 0, None, struct.pack("<HI", 0, 0), 0, 0xEF46DB3751D8E999, SALT)
    made.store.pwrite(sound, 64)
    lookup = made.lookup_of(DENSE_ENTRY.pack(0, len(sound), 64))
    assert made.reader.read(lookup, BASE, 64 + len(sound)) == Record(BASE, 0, None, b"", (("", b""),))


def _replace(path: Path) -> None:
    other, status = path.with_name("other"), path.stat()
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    other.rename(path)


def _rewrite(path: Path) -> None:
    """Write another content of the same size into the file, and put its time back, as restoring tools do."""
    before = path.stat()
    until(lambda: (path.write_bytes(b"CONTENT"), path.stat())[1].st_ctime_ns > before.st_ctime_ns)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_ino == before.st_ino


CHANGES: dict[str, Callable[[Path], object]] = {
    "grown": lambda path: path.write_bytes(b"content and more"),
    "cut": lambda path: path.write_bytes(b""),
    "touched": lambda path: os.utime(path, ns=(1, 1)),
    "removed": lambda path: path.unlink(),
    "replaced by one of the same size and time": _replace,
    "written anew, with its size and time": _rewrite,
    "a directory now": lambda path: (path.unlink(), path.mkdir()),
}


@pytest.mark.skipif(unchanged.NUMBER < 0, reason="needs a system call of Linux")
@pytest.mark.parametrize("change", CHANGES)
def test_a_record_is_read_only_as_long_as_another_file_is_unchanged(
    points: Callable[[Sequence[Record]], Points], tmp_path: Path, change: str
) -> None:
    made, seen = points([Record(BASE, 7, b"k", b"v", (("h", b""),))]), tmp_path / "seen"
    seen.write_bytes(b"content")
    status, path = seen.stat(), os.fsencode(seen)
    known = (id(path) + BYTES_DATA, status.st_ino, status.st_ctime_ns, status.st_size)
    assert made.reader.read(made.lookup, BASE, made.size, known) == made.read(BASE) is not None
    assert made.reader.read(made.lookup, BASE + 1, made.size, known) is None
    CHANGES[change](seen)
    assert made.reader.read(made.lookup, BASE, made.size, known) is None


def test_a_store_that_is_shorter_or_closed_leads_to_nothing(points: Callable[[Sequence[Record]], Points]) -> None:
    made = points([Record(BASE, 0, None, b"v" * 100)])
    made.store.truncate(made.size - 1)
    assert made.read(BASE) is None
    made.store.close()
    assert made.read(BASE) is None


def test_a_store_that_is_no_file_of_the_system_goes_the_long_way(
    points: Callable[[Sequence[Record]], Points],
) -> None:
    made = points([Record(BASE, 0, None, b"v")])
    assert PointReader(made.made.store, made.made.rules).read(made.lookup, BASE, made.size) is None


@pytest.mark.parametrize(("length", "by_kernel"), [(kernel.MOST_BYTES - 32, True), (kernel.MOST_BYTES - 31, False)])
def test_records_of_more_than_a_mebibyte_go_the_long_way(
    points: Callable[[Sequence[Record]], Points], length: int, by_kernel: bool
) -> None:
    made = points([Record(BASE, 0, None, b"v" * length)])
    assert (made.read(BASE) is not None) == by_kernel


def test_the_memory_of_a_call_is_given_back(points: Callable[[Sequence[Record]], Points]) -> None:
    made = points([Record(BASE, 0, None, b"v" * 10**6), Record(BASE + 1, 0, None, b"w" * 10**6)])
    made.store.pwrite(b"x", made.size - 1)
    resident = os.sysconf("SC_PAGE_SIZE") * int(Path("/proc/self/statm").read_text().split()[1])
    for _ in range(500):
        assert made.read(BASE) is not None
        assert made.read(BASE + 1) is None
    after = os.sysconf("SC_PAGE_SIZE") * int(Path("/proc/self/statm").read_text().split()[1])
    assert after - resident < 100 * 10**6


def test_no_reference_is_kept_or_lost(points: Callable[[Sequence[Record]], Points]) -> None:
    made = points([Record(BASE, 0, None, None)])
    made.read(BASE)
    counts = [sys.getrefcount(one) for one in (None, ())]
    for _ in range(10_000):
        made.read(BASE)
        made.read(BASE + 1)
    assert all(abs(sys.getrefcount(one) - count) < 1000 for one, count in zip((None, ()), counts, strict=True))
    record = made.read(BASE)
    assert record is not None
    assert sys.getrefcount(record.offset) <= 3


def test_a_log_that_has_used_batches_reads_by_the_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[Record | None] = []
    read = PointReader.read

    def watched(self: PointReader, *arguments: Any) -> Record | None:
        given.append(read(self, *arguments))
        return given[-1]

    monkeypatch.setattr(PointReader, "read", watched)
    with seglog.open(tmp_path) as log:
        for number in range(3):
            log.append(b"v", key=b"%d" % number)
        log.to_arrow()
    with seglog.open(tmp_path) as log:
        records = [log.read(offset) for offset in (0, 1, 2)]
    assert given == [None, *records[1:]]
    assert [record.key for record in records] == [b"0", b"1", b"2"]


def test_what_a_read_refuses_is_told_by_the_long_way(tmp_path: Path) -> None:
    kernel.load()
    with seglog.open(tmp_path) as log:
        log.append(b"first")
        log.append(b"second")
    (store,) = tmp_path.glob("*.store")
    flip(store, -1)
    with seglog.open(tmp_path, mode="r") as log:
        assert log.read(0).value == b"first"
        with pytest.raises(CorruptRecord):
            log.read(1)


def test_a_process_without_batches_reads_without_a_compiler(tmp_path: Path) -> None:
    program = "import seglog, sys\nwith seglog.open(sys.argv[1]) as log: log.append(b'v'); log.read(0)\n"
    program += "assert not {'numba', 'numpy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=HANG_SECONDS)
