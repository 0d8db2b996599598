"""Damage to logs with compressed segments: what it costs, what reports it, and what is rebuilt or repaired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.config import LogConfig, Retention
from seglog.errors import CorruptLog, CorruptRecord
from seglog.format import filename
from seglog.format.index import MARK, decode_offsets, encode_offsets
from seglog.log.opening import storage_at
from seglog.log.repair.repair import repair_storage
from seglog.segment import batches, stats
from seglog.segment.blocks import find_blocks
from tests.log.compressed import (
    CODECS,
    SEGMENT_BYTES,
    check_all_reads,
    compressed,
    entries,
    everything,
    made,
    stores,
    value,
)
from tests.log.test_fetched_ranges import Exact

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.config import Compression
    from seglog.log.log import Log


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x55
    path.write_bytes(bytes(data))


def unreadable(log: Log, before: list[seglog.Record], entry: Any) -> set[int]:
    """Return which of a segment's records, and of a tenth of all others, cannot be read."""
    tried = [one for one in before if entry.base_offset <= one.offset < entry.next_offset or one.offset % 10 == 0]
    return {one.offset for one in tried} - readable(log, tried)


def readable(log: Log, before: list[seglog.Record]) -> set[int]:
    found = set()
    for one in before:
        try:
            assert log.read(one.offset) == one
        except CorruptRecord:
            continue
        found.add(one.offset)
    return found


@pytest.mark.no_cover
@pytest.mark.parametrize("lose_table", [False, pytest.param(True, marks=pytest.mark.proof)])
@pytest.mark.parametrize("byte", [0, 8, 12, 16, 20, 21, 22, 40])
def test_a_damaged_block_costs_its_records_and_no_other(path: Path, byte: int, *, lose_table: bool) -> None:
    before, sealed = compressed(path)
    entry = sealed[0]
    store = path / entry.name()
    place = find_blocks(storage_at(path).open(entry.name()), entry.salt).places[2]
    assert place is not None
    flip(store, place.position + byte)
    if lose_table:
        (path / entry.name(filename.BLOCKS)).unlink()
    with seglog.open(path) as log:
        lost = unreadable(log, before, entry)
        assert lost
        assert max(lost) - min(lost) == len(lost) - 1
        whole = {one.offset for one in before}
        found = {one.offset for one in log.scan(on_corrupt=lambda error: None)}
        assert whole - found == lost
        problems = log.verify().problems
        assert {"block", "record"} <= {one.kind for one in problems}
        assert log.compress().segments == 0
        report = log.repair()
        assert report.records_lost == len(lost)
        assert {one.offset for one in everything(log)} == whole - lost
        assert log.verify().problems == ()


def test_the_report_of_a_damaged_segment_does_not_keep_files_that_are_retired(path: Path) -> None:
    with made(path, "zstd") as log:
        flip(path / entries(log)[0].name(), 1000)
        report = log.compress()
        assert (len(report.damaged), report.rewritten) == (1, len(entries(log)) - 1)
        log.expire()
        assert len(list(path.glob("*.store"))) == len(log.segments)


def test_a_lost_or_wrong_table_costs_nothing(path: Path) -> None:
    before, sealed = compressed(path)
    first, second = (path / entry.name(filename.BLOCKS) for entry in sealed[:2])
    table = first.read_bytes()
    for damage in (b"", table[:-1], second.read_bytes(), table[:100] + b"x" + table[101:]):
        first.write_bytes(damage)
        with seglog.open(path) as log:
            assert everything(log) == before
        assert first.read_bytes() == table
    first.unlink()
    with seglog.open(path, mode="r") as log:
        assert everything(log) == before
    assert not first.exists()


def test_a_store_that_was_cut_short_is_reported(path: Path) -> None:
    before, sealed = compressed(path)
    store = path / sealed[0].name()
    store.write_bytes(store.read_bytes()[: sealed[0].stored // 2])
    with seglog.open(path) as log:
        assert [event.kind for event in log.recovery.events] == ["damage"]
        kept = readable(log, before)
        assert 0 in kept
        assert {one.offset for one in before if one.offset >= sealed[0].next_offset} <= kept
        assert "short" in {one.kind for one in log.verify().problems}


def test_the_plain_form_in_the_place_of_a_compressed_store_is_reported_and_repaired(path: Path) -> None:
    with made(path, "zstd") as log:
        before, plain = everything(log), stores(path)
        log.compress()
        entry = entries(log)[1]
    (path / entry.name()).write_bytes(plain[entry.base_offset])
    with seglog.open(path) as log:
        assert everything(log) == before, "its records are the same"
        assert [(one.kind, one.path) for one in log.verify().problems] == [("header", str(path / entry.name()))]
    repair_storage(storage_at(path))
    with seglog.open(path) as log:
        assert everything(log) == before
        assert log.verify().ok


def test_a_damaged_source_stays_as_it_is(path: Path) -> None:
    with made(path, "none") as log:
        before, entry = everything(log), entries(log)[1]
    flip(path / entry.name(), 100_000)
    with seglog.open(path, LogConfig(compression="zstd")) as log:
        report = log.compress()
        assert [one.path for one in report.damaged] == [str(path / entry.name())]
        assert [one.codec for one in entries(log)].count(None) == 1
        assert len(readable(log, before)) == len(before) - 1


def test_a_damaged_source_is_reported_again_and_read_again_only_when_it_has_changed(path: Path) -> None:
    with made(path, "none") as log:
        first, second = entries(log)[:2]
    flip(path / first.name(), 100_000)
    with seglog.open(path, LogConfig(compression="zstd")) as log:
        assert len(log.compress(max_bytes=1).damaged) == 1
        report = log.compress(max_bytes=1)
        assert (len(report.damaged), report.segments, report.rewritten) == (1, 2, 1)
        assert (report.bytes_before, entries(log)[1].codec) == (second.bytes, "zstd")
        log.compress()
        steps: list[int] = []
        report = log.compress(progress=lambda done, total: steps.append(done))
        assert (steps, report.segments, len(report.damaged)) == ([], 1, 1)
        log.repair()
        assert log.compress().damaged == ()
        assert log.standing().to_compress == 0


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sparse", [False, True])
def test_both_manifests_are_rebuilt_from_compressed_stores(path: Path, codec: Compression, *, sparse: bool) -> None:
    before, sealed = compressed(path, codec, sparse=sparse)
    for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
        (path / name).unlink()
    with seglog.open(path) as log:
        assert everything(log) == before
        assert [(one.file, one.codec, one.stored) for one in entries(log)] == [
            (one.file, codec, one.stored) for one in sealed
        ]
        assert log.verify().problems


def test_both_manifests_are_rebuilt_while_the_plain_stores_are_still_there(path: Path) -> None:
    with made(path, "zstd") as log, seglog.open(path, mode="r") as reader:
        reading = iter(reader.scan())
        next(reading)
        log.compress()
        before = everything(log)
        copies = {one.name: one.read_bytes() for one in path.iterdir() if one.is_file()}
    there = storage_at(path.parent / "copy")
    there.make(filename.DIRECTORIES)
    for name, data in copies.items():
        if not name.startswith(filename.MANIFEST) and name != filename.LOCK:
            there.create(name).pwrite(data, 0)
    with seglog.open(path.parent / "copy") as log:
        assert everything(log) == before
        assert {one.codec for one in entries(log)} == {"zstd"}


def test_a_log_whose_active_store_is_lost_is_rebuilt_up_to_its_compressed_segments(path: Path) -> None:
    before, sealed = compressed(path)
    (active,) = path.glob(f"{sealed[-1].next_offset:020d}-*.store")
    for lost in (path / filename.MANIFEST, path / filename.MANIFEST_PREVIOUS, active):
        lost.unlink()
    with pytest.raises(CorruptLog, match="run `seglog repair`"):
        seglog.open(path)
    repair_storage(storage_at(path))
    with seglog.open(path) as log:
        kept = [one for one in before if one.offset < sealed[-1].next_offset]
        assert everything(log)[: len(kept)] == kept
        assert log.append(b"goes on") >= sealed[-1].next_offset


# --- large segments: windows and stretches that are smaller than they ------------------------------------------------


@pytest.fixture
def small_windows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Surveys by kernels in windows, scans in stretches, both smaller than a segment, and than a long record."""
    monkeypatch.setattr(stats, "KERNEL_FROM_BYTES", 0)
    monkeypatch.setattr(stats, "WINDOW_BYTES", 20_000)
    monkeypatch.setattr(batches, "AHEAD_BYTES", 30_000)
    monkeypatch.setattr(batches, "AHEAD_LEAST_BYTES", 10_000)


@pytest.mark.usefixtures("small_windows")
@pytest.mark.parametrize("sparse", [False, True])
def test_windows_and_stretches_find_what_one_walk_finds(path: Path, *, sparse: bool) -> None:
    with made(path, "zstd", sparse=sparse) as log:
        before, table = everything(log), log.to_arrow()
        assert log.compress().damaged == ()
        check_all_reads(log, before, table)
        assert log.verify().problems == ()
        sealed = tuple(entries(log))
    for entry in sealed:
        for kind in filename.LOOKUPS:
            (path / entry.name(kind)).unlink(missing_ok=True)
    with seglog.open(path) as log:
        check_all_reads(log, before, table)
        log.repair()
        assert log.verify().problems == ()


@pytest.mark.usefixtures("small_windows")
def test_damage_ends_a_scan_at_the_same_record_as_in_a_plain_segment(path: Path) -> None:
    before, sealed = compressed(path)
    place = find_blocks(storage_at(path).open(sealed[0].name()), sealed[0].salt).places[2]
    assert place is not None
    flip(path / sealed[0].name(), place.position + 40)
    with seglog.open(path) as log:
        first = min({one.offset for one in before} - readable(log, before))
        seen: list[int] = []
        with pytest.raises(CorruptRecord) as caught:
            for batch in log.batches():
                seen += batch.column("offset").to_pylist()
        assert seen == list(range(first))
        assert caught.value.offset == first


@pytest.mark.usefixtures("small_windows")
def test_a_wrong_lookup_costs_only_time(path: Path) -> None:
    before, sealed = compressed(path, sparse=True)
    offsets = path / sealed[0].name(filename.OFFSETS)
    pairs = decode_offsets(offsets.read_bytes(), sealed[0].salt)
    assert pairs is not None
    marks = b"".join(MARK.pack(0, relative, position + 7) for relative, position in pairs)
    offsets.write_bytes(encode_offsets(marks, 4096, sealed[0].salt))
    with seglog.open(path) as log:
        rows = [offset for batch in log.batches() for offset in batch.column("offset").to_pylist()]
        assert rows == [one.offset for one in before]


@pytest.mark.parametrize("codec", ["zstd", "none"])
def test_a_rebuild_without_lookups_knows_the_other_form_of_a_store(path: Path, codec: Compression) -> None:
    with made(path, "none" if codec == "zstd" else "zstd", sparse=True) as log:
        log.compress()
        before = everything(log)
        previous = (path / filename.MANIFEST).read_bytes()
        log.compress(codec)
    for kind in filename.LOOKUPS:
        for lookup in path.glob(f"*.{kind}"):
            lookup.unlink()
    (path / filename.MANIFEST).write_bytes(b"damaged")
    (path / filename.MANIFEST_PREVIOUS).write_bytes(previous)
    with seglog.open(path) as log:
        assert everything(log) == before


@pytest.mark.parametrize("codec", [*CODECS, "none"])
def test_batches_return_what_is_before_damage_whatever_else_is_damaged(path: Path, codec: Compression) -> None:
    config = LogConfig(
        segment_bytes=SEGMENT_BYTES * 3,
        index_interval_bytes=10**6,
        compression=codec,
        retention=Retention(compact=True),
    )
    with seglog.open(path, config) as log:
        for number in range(6000):
            log.append(value(number), key=b"%d" % (number if number % 7 else 1))
        log.compact(roll=True)
        log.compress()
        entry = entries(log)[0]
        whole = [one.offset for one in log.scan() if one.offset < entry.next_offset]
    if codec == "none":
        positions = [1000, 300_000]
    else:
        places = find_blocks(storage_at(path).open(entry.name()), entry.salt).places
        positions = [place.position + 100 for place in (places[0], places[4]) if place is not None]
    for position in positions:
        flip(path / entry.name(), position)
    with seglog.open(path, mode="r") as log:
        if codec == "none":
            reader = log.view().reader_of(whole[0])
            reader.store = Exact(reader.store)
        readable_ones = {one.offset for one in log.scan(on_corrupt=lambda error: None)}
        lost = [one for one in whole if one not in readable_ones]
        start = next(one for one in whole if one > lost[0] and one in readable_ones)
        expected = [one for one in whole if start <= one < min(one for one in lost if one > start)]
        in_a_gap = next(one for one in range(lost[-1], whole[-1]) if one not in whole)
        found: list[int] = []
        with pytest.raises(CorruptRecord):
            for batch in log.batches(start, in_a_gap):
                found += batch.column("offset").to_pylist()
        assert found == expected
