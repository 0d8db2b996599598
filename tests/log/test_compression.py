"""Logs with compressed segments: they are read, cut, checked, copied and repaired as plain ones are."""

from __future__ import annotations

import random
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.config import LogConfig, Retention
from seglog.errors import CompactionAborted, ConfigError, CorruptLog, CorruptRecord, OffsetCompacted
from seglog.format import filename
from seglog.format.index import MARK, decode_offsets, encode_offsets
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.log.compression import Compressor
from seglog.log.opening import storage_at
from seglog.log.repair.repair import repair_storage
from seglog.segment import batches, stats
from seglog.segment.blocks import find_blocks
from seglog.segment.sealed import open_store
from seglog.testing.internals import state_of
from tests.log.test_fetched_ranges import Exact

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.config import Compression
    from seglog.log.log import Log

SEGMENT_BYTES = 200_000
RECORDS = 5000
CODECS: list[Compression] = ["lz4", "zstd"]


def value(number: int) -> bytes:
    return b'{"number": %d, "city": "%s", "carrier": "UA"}' % (number, b"EWR JFK LGA SFO".split()[number % 4])


def fill(log: Log, start: int, stop: int) -> None:
    """Append records of about 100 bytes; a few are longer than a block, or tombstones, or have headers."""
    rows = [
        (number * 1000, f"k{number % 700}".encode(), None if number % 97 == 5 else value(number), [("h", b"x")])
        if number % 50 == 0
        else (number * 1000, f"k{number % 700}".encode(), value(number) * (2000 if number % 1999 == 7 else 1), [])
        for number in range(start, stop)
    ]
    for timestamp, key, content, headers in rows:
        log.append(content, key=key, timestamp=timestamp, headers=headers)


def made(place: Any, codec: Compression, *, sparse: bool = False, records: int = RECORDS) -> Log:
    """Return a log with some sealed segments that are not compressed yet, and an active one."""
    retention = Retention(compact=True) if sparse else Retention()
    config = LogConfig(
        segment_bytes=SEGMENT_BYTES, compression=codec, retention=retention, buffer_bytes=65536, open_segments_max=2
    )
    log = seglog.open(place, config)
    fill(log, 0, records)
    if sparse:
        log.compact(roll=True)
        fill(log, records, records + 200)
    log.sync()
    return log


def everything(log: Log) -> list[seglog.Record]:
    return list(log.scan())


def entries(log: Log) -> Any:
    return state_of(log).live.catalog.current.segments[:-1]


def stores(path: Path) -> dict[int, bytes]:
    """Base offset -> bytes of every store in a directory."""
    return {int(one.name[:20]): one.read_bytes() for one in sorted(path.glob("*.store"))}


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("sparse", [False, True])
def test_a_compressed_log_is_smaller_and_has_the_same_records(place: Any, codec: Compression, *, sparse: bool) -> None:
    with made(place, codec, sparse=sparse) as log:
        before, size, table = everything(log), log.size, log.to_arrow()
        steps: list[tuple[int, int]] = []
        report = log.compress(progress=lambda done, total: steps.append((done, total)))
        assert steps == sorted(steps)
        assert steps[-1][0] >= steps[-1][1] * 0.99
        assert report.damaged == ()
        assert report.segments == report.rewritten == len(entries(log)) > 0
        assert report.bytes_after < report.bytes_before / 2
        assert log.size == size - report.bytes_before + report.bytes_after
        assert all(entry.codec == codec and entry.stored < entry.bytes for entry in entries(log))
        check_all_reads(log, before, table)
        assert log.verify().problems == ()
        assert log.compress().segments == 0
    with seglog.open(place, mode="r") as reader:
        check_all_reads(reader, before, table)
    with seglog.open(place) as log:
        assert log.recovery.events == ()
        check_all_reads(log, before, table)


def check_all_reads(log: Log, before: list[seglog.Record], table: Any) -> None:
    assert everything(log) == before
    assert log.to_arrow().equals(table)
    assert [len(batch) for batch in log.batches(max_records=100)]
    assert sum(len(batch) for batch in log.batches(max_records=100)) == len(before)
    chosen = random.Random(1).sample(before, 300)
    assert [log.read(one.offset) for one in chosen] == chosen
    assert log.read_many([one.offset for one in chosen]) == chosen
    first, last = before[len(before) // 3].offset, before[len(before) // 2].offset
    part = [one for one in before if first <= one.offset < last]
    assert list(log.scan(first, last)) == part
    assert sum(len(batch) for batch in log.batches(first, last)) == len(part)
    assert log.offset_at(part[0].timestamp) <= part[0].offset
    assert list(islice(log.follow(first, timeout=0), len(part))) == part


def test_what_compaction_removed_is_still_known_as_removed(place: Any) -> None:
    with made(place, "zstd", sparse=True) as log:
        there = {one.offset for one in everything(log)}
        log.compress()
        gone = [offset for offset in range(log.next_offset) if offset not in there]
        for offset in random.Random(2).sample(gone, 50):
            with pytest.raises(OffsetCompacted):
                log.read(offset)


def test_a_range_of_a_compressed_segment_may_end_in_a_gap(place: Any) -> None:
    config = LogConfig(segment_bytes=SEGMENT_BYTES, compression="lz4", retention=Retention(compact=True))
    with seglog.open(place, config) as log:
        for number in range(1500):
            log.append(value(number), key=b"%d" % (number if number % 7 == 0 else 1))
        log.compact(roll=True)
        log.compress()
        offsets = [one.offset for one in log.scan()]
        for number in range(10, len(offsets), 7):
            start, stop = offsets[number - 10], offsets[number] - 1
            found = [one for batch in log.batches(start, stop) for one in batch.column("offset").to_pylist()]
            assert found == [one for one in offsets if start <= one < stop]


def test_the_way_back_writes_the_same_stores(path: Path) -> None:
    made(path, "none").close()
    before = stores(path)
    with seglog.open(path, LogConfig(compression="lz4")) as log:
        assert log.compress().rewritten > 0
    assert stores(path) != before
    with seglog.open(path, LogConfig(compression="zstd")) as log:
        assert log.compress().rewritten > 0
        assert {entry.codec for entry in entries(log)} == {"zstd"}
    with seglog.open(path, LogConfig(compression="none")) as log:
        assert log.compress().rewritten > 0
        assert {(entry.codec, entry.stored) for entry in entries(log)} == {(None, None)}
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
            assert not {b"codec", b"stored", b"compression"} & set((path / name).read_bytes().split(b'"'))
        everything(log)
    # the header's span is the only difference: a rolled store has none
    assert {base: data[HEADER_BYTES:] for base, data in stores(path).items()} == {
        base: data[HEADER_BYTES:] for base, data in before.items()
    }
    assert not list(path.glob("*.blocks"))


def test_the_way_back_goes_on_after_a_pass_that_died_at_its_end(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with made(path, "lz4") as log:
        log.compress()
        with monkeypatch.context() as patch:
            patch.setattr(Compressor, "_forget_codecs", lambda self: None)
            log.compress("none")
        assert b"codec" in (path / filename.MANIFEST).read_bytes()
    with seglog.open(path) as log:
        assert log.compress().segments == 0
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
            assert b"codec" not in (path / name).read_bytes()
        manifest = (path / filename.MANIFEST).read_bytes()
        log.compress()
        assert (path / filename.MANIFEST).read_bytes() == manifest


@pytest.mark.parametrize("after", ["lz4", "none"])
def test_a_pass_includes_a_segment_whose_records_were_all_cut_off(path: Path, after: Compression) -> None:
    config = LogConfig(segment_bytes=SEGMENT_BYTES, compression="zstd", retention=Retention(compact=True))
    with seglog.open(path, config) as log:
        for number in range(2000):
            log.append(value(number), key=b"same" if number < 1000 else b"%d" % number)
        log.compact(roll=True)
        log.compress()
        log.truncate(500)
        assert [(entry.records, entry.codec) for entry in entries(log)] == [(0, "zstd")]
        log.compress(after)
        assert [(entry.codec, entry.stored) for entry in entries(log)] == [(None if after == "none" else after, None)]
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
            assert after != "none" or b"codec" not in (path / name).read_bytes()
        assert log.compress().segments == 0
        assert log.verify().problems == ()


def test_noise_stays_plain_and_is_not_tried_again(path: Path) -> None:
    source = random.Random(3)
    with seglog.open(path, LogConfig(segment_bytes=SEGMENT_BYTES, compression="zstd")) as log:
        for _ in range(3000):
            log.append(source.randbytes(300))
        before = {entry.file for entry in entries(log)}
        report = log.compress()
        assert (report.segments, report.rewritten) == (len(before), 0)
        assert {entry.file for entry in entries(log)} == before
        assert {(entry.codec, entry.stored) for entry in entries(log)} == {("zstd", None)}
        assert log.compress().segments == 0
        assert log.verify().problems == ()


def test_a_segment_that_only_the_former_codec_makes_smaller_becomes_plain(path: Path) -> None:
    symbols = random.Random(3).choices(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=900_000)
    with seglog.open(path, LogConfig(segment_bytes=SEGMENT_BYTES, compression="zstd")) as log:
        for start in range(0, len(symbols), 4000):  # six bits in each byte, and no repetitions
            log.append(bytes(symbols[start : start + 4000]))
        before = everything(log)
        log.compress()
        assert all(entry.compressed for entry in entries(log))
        log.compress("lz4")
        assert [(entry.codec, entry.compressed) for entry in entries(log)] == [("lz4", False)] * len(entries(log))
        assert everything(log) == before
        assert log.compress().segments == 0  # not tried again
        assert not log.verify().problems


def test_a_log_without_compression_has_no_trace_of_it(path: Path) -> None:
    with made(path, "none") as log:
        assert log.compress().segments == 0
    text = (path / filename.MANIFEST).read_bytes()
    assert b"compression" not in text
    assert b"codec" not in text


# --- beside it --------------------------------------------------------------------------------------------------------


def test_readers_and_followers_go_on_while_segments_are_replaced(place: Any) -> None:
    with made(place, "zstd") as log, seglog.open(place, mode="r") as reader:
        before = everything(log)
        mine, theirs = iter(log.scan()), iter(reader.scan())
        arrow = log.batches(max_records=500)
        seen = [list(islice(mine, 10)), list(islice(theirs, 10))]
        rows = [next(arrow)]
        log.compress()
        fill(log, RECORDS, RECORDS + 100)
        log.sync()
        assert seen[0] + list(mine) == before
        assert seen[1] + list(theirs) == before
        rows += list(arrow)
        assert sum(len(batch) for batch in rows) == len(before)
        assert everything(reader)[: len(before)] == before
        assert reader.read(RECORDS + 50).offset == RECORDS + 50


def test_a_store_is_unlinked_only_when_no_reader_needs_it(path: Path) -> None:
    with made(path, "zstd") as log, seglog.open(path, mode="r") as reader:
        reading = iter(reader.scan())
        next(reading)
        plain = {entry.name() for entry in entries(log)}
        log.compress()
        assert all((path / name).exists() for name in plain)
        list(reading)
        del reading
        assert reader.lowest_offset == 0
        log.expire()
        assert not any((path / name).exists() for name in plain)


@pytest.mark.parametrize("sparse", [False, True])
def test_a_cut_inside_a_block_is_a_number_in_the_manifest(place: Any, *, sparse: bool) -> None:
    with made(place, "zstd", sparse=sparse) as log:
        log.compress()
        before = everything(log)
        cut = before[len(before) // 3].offset
        log.truncate(cut)
        kept = [one for one in before if one.offset < cut]
        assert everything(log) == kept
        assert log.verify().problems == ()
        fill(log, 20_000, 22_500)
        after = everything(log)
        assert log.compress().damaged == ()
        assert everything(log) == after
        assert log.verify().problems == ()
    with seglog.open(place) as log:
        assert everything(log) == after


def test_records_before_an_offset_inside_a_block_are_hidden(place: Any) -> None:
    with made(place, "lz4") as log:
        log.compress()
        before = everything(log)
        log.delete_before(2345)
        assert everything(log) == before[2345:]
        assert log.verify().problems == ()


def test_compacting_a_compressed_log_and_compressing_a_compacted_one(place: Any) -> None:
    with made(place, "zstd", sparse=True) as log:
        log.compress()
        fill(log, RECORDS + 200, RECORDS + 2500)
        before = {one.key: one for one in everything(log)}
        report = log.compact(roll=True)
        assert report.damaged == ()
        assert report.superseded > 0
        log.compress()
        assert {one.key: one for one in everything(log)} == before
        assert log.verify().problems == ()


def test_what_expires_or_is_cut_during_a_pass_is_left_out(path: Path) -> None:
    with made(path, "zstd") as log:
        before, gone = everything(log), []

        def expire(done: int, total: int) -> None:
            if not gone:
                gone.append(threading.Thread(target=log.delete_before, args=[entries(log)[1].next_offset]))
                gone[0].start()
                gone[0].join()

        report = log.compress(progress=expire)
        assert report.damaged == ()
        assert 0 < report.rewritten < report.segments
        assert everything(log) == [one for one in before if one.offset >= log.lowest_offset]
        assert log.verify().problems == ()


def test_a_pass_that_is_stopped_leaves_whole_segments_in_either_form(path: Path) -> None:
    with made(path, "zstd") as log:
        before, limit = everything(log), entries(log)[0].bytes * 5 // 2
        seen = [0]

        def note(done: int, total: int) -> None:
            seen[0] = done

        with pytest.raises(CompactionAborted, match="1 of 3 segments"):
            log.compress(progress=note, abort=lambda: seen[0] > limit)
        assert [entry.codec for entry in entries(log)] == ["zstd", None, None]
        assert list((path / "staging").iterdir()) == []
        assert everything(log) == before
        with pytest.raises(ConfigError, match="compression"):
            log.compress("brotli")  # type: ignore[arg-type] # on purpose


def test_a_pass_may_be_limited_to_the_oldest_segments(path: Path) -> None:
    with made(path, "zstd") as log:
        before, sizes = everything(log), [entry.bytes for entry in entries(log)]
        assert log.standing().to_compress == sum(sizes)
        assert log.compress(max_bytes=1).segments == 1
        assert [entry.codec for entry in entries(log)] == ["zstd", *[None] * (len(sizes) - 1)]
        assert log.standing().to_compress == sum(sizes[1:])
        assert log.compress(max_bytes=sizes[1] + 1).rewritten == 2
        assert log.standing().to_compress == sum(sizes[3:])
        assert log.compress(max_bytes=2**40).segments == len(sizes) - 3
        assert (log.standing().to_compress, log.compress(max_bytes=1).segments) == (0, 0)
        assert everything(log) == before


def test_the_way_back_in_parts_leaves_no_trace_either(path: Path) -> None:
    with made(path, "lz4") as log:
        log.compress()
        log.alter_compression("none")
        while log.standing().to_compress:
            assert log.compress(max_bytes=1).rewritten == 1
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
            assert not {b"codec", b"stored", b"compression"} & set((path / name).read_bytes().split(b'"'))


def test_another_codec_is_stored_and_taken_by_the_next_pass(place: Any) -> None:
    with made(place, "none") as log:
        assert log.standing().to_compress == 0
        log.alter_compression("lz4")
        assert log.standing().to_compress > 0
        with pytest.raises(ConfigError, match="compression"):
            log.alter_compression("brotli")  # type: ignore[arg-type] # on purpose
    with seglog.open(place) as log:
        assert log.config.compression == "lz4"
        log.compress()
        assert {entry.codec for entry in entries(log)} == {"lz4"}
    with seglog.open(place, mode="r") as reader, pytest.raises(seglog.LogReadOnly):
        reader.alter_compression("none")


def test_retention_counts_what_is_on_the_disk(path: Path) -> None:
    with made(path, "zstd") as log:
        log.compress()
        log.alter_retention(Retention(bytes=log.size))
        assert log.expire() == 0
        log.alter_retention(Retention(bytes=log.size // 2))
        assert log.expire() > 0


# --- damage -----------------------------------------------------------------------------------------------------------


def compressed(path: Path, codec: Compression = "zstd", *, sparse: bool = False) -> tuple[list[seglog.Record], Any]:
    with made(path, codec, sparse=sparse) as log:
        log.compress()
        return everything(log), tuple(entries(log))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 0x55
    path.write_bytes(bytes(data))


def readable(log: Log, before: list[seglog.Record]) -> set[int]:
    found = set()
    for one in before:
        try:
            assert log.read(one.offset) == one
        except CorruptRecord:
            continue
        found.add(one.offset)
    return found


@pytest.mark.parametrize("lose_table", [False, True])
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
        lost = {one.offset for one in before} - readable(log, before)
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


def test_explain_names_the_codec_and_how_many_times_smaller_the_segment_is(path: Path) -> None:
    before, sealed = compressed(path)
    with seglog.open(path, mode="r") as log:
        first, last = log.explain(0).segment, log.explain(before[-1].offset).segment
        assert first is not None
        assert (first.codec, first.times_smaller) == ("zstd", sealed[0].bytes / sealed[0].stored)
        assert first.text == f"sealed segment {sealed[0].name()} (zstd, {first.times_smaller:.1f} times smaller)"
        assert last is not None
        assert (last.codec, last.times_smaller, last.text) == (None, 1.0, f"active segment {last.name}")


def test_the_header_of_a_compressed_store_says_so(path: Path) -> None:
    _, sealed = compressed(path)
    header = decode_header((path / sealed[0].name()).read_bytes()[:64], "")
    assert header is not None
    assert header.blocks
    assert header.span == sealed[0].next_offset - sealed[0].base_offset


def test_no_records_are_appended_to_a_compressed_store(path: Path) -> None:
    _, sealed = compressed(path)
    with pytest.raises(CorruptLog, match="compressed"):
        open_store(storage_at(path), sealed[0], writable=True)


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


def test_a_backup_has_the_stored_bytes(path: Path, tmp_path: Path) -> None:
    before, sealed = compressed(path)
    seglog.backup(path, tmp_path / "backup")
    for entry in sealed:
        assert (tmp_path / "backup" / entry.name()).read_bytes() == (path / entry.name()).read_bytes()
    with seglog.open(tmp_path / "backup", mode="r") as log:
        assert everything(log) == before


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
