"""Passes that compress segments and write them back: what is read meanwhile and afterwards, and what is stored."""

from __future__ import annotations

import random
import threading
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.config import LogConfig, Retention
from seglog.errors import CompactionAborted, ConfigError, CorruptLog, OffsetCompacted
from seglog.format import filename
from seglog.format.store import HEADER_BYTES, decode_header
from seglog.log.compression import Compressor
from seglog.log.opening import storage_at
from seglog.segment.sealed import open_store
from tests.log.compressed import (
    CODECS,
    RECORDS,
    SEGMENT_BYTES,
    check_all_reads,
    compressed,
    entries,
    everything,
    fill,
    made,
    stores,
    value,
)

if TYPE_CHECKING:
    from pathlib import Path

    from seglog.config import Compression


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


def test_a_backup_has_the_stored_bytes(path: Path, tmp_path: Path) -> None:
    before, sealed = compressed(path)
    seglog.backup(path, tmp_path / "backup")
    for entry in sealed:
        assert (tmp_path / "backup" / entry.name()).read_bytes() == (path / entry.name()).read_bytes()
    with seglog.open(tmp_path / "backup", mode="r") as log:
        assert everything(log) == before


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
    with made(path, "zstd", records=2 * RECORDS) as log:
        before, sizes = everything(log), [entry.bytes for entry in entries(log)]
        assert log.standing().to_compress == sum(sizes)
        assert log.compress(max_bytes=1).segments == 1
        assert [entry.codec for entry in entries(log)] == ["zstd", *[None] * (len(sizes) - 1)]
        assert log.standing().to_compress == sum(sizes[1:])
        assert log.compress(max_bytes=sizes[1] + 1).rewritten == 2
        assert log.standing().to_compress == sum(sizes[3:])
        assert log.compress(max_bytes=2**40).segments == len(sizes) - 3 > 0
        assert (log.standing().to_compress, log.compress(max_bytes=1).segments) == (0, 0)
        assert everything(log) == before


def test_the_way_back_in_parts_leaves_no_trace_either(path: Path) -> None:
    with made(path, "lz4") as log:
        log.compress()
        log.alter(compression="none")
        while log.standing().to_compress:
            assert log.compress(max_bytes=1).rewritten == 1
        for name in (filename.MANIFEST, filename.MANIFEST_PREVIOUS):
            assert not {b"codec", b"stored", b"compression"} & set((path / name).read_bytes().split(b'"'))


def test_another_codec_is_stored_and_taken_by_the_next_pass(place: Any) -> None:
    with made(place, "none") as log:
        assert log.standing().to_compress == 0
        log.alter(compression="lz4")
        assert log.standing().to_compress > 0
        with pytest.raises(ConfigError, match="compression"):
            log.alter(compression="brotli")  # type: ignore[arg-type] # on purpose
    with seglog.open(place) as log:
        assert log.config.compression == "lz4"
        log.compress()
        assert {entry.codec for entry in entries(log)} == {"lz4"}
    with seglog.open(place, mode="r") as reader, pytest.raises(seglog.LogReadOnly):
        reader.alter(compression="none")


def test_retention_counts_what_is_on_the_disk(path: Path) -> None:
    with made(path, "zstd") as log:
        log.compress()
        log.alter(retention=Retention(bytes=log.size))
        assert log.expire() == 0
        log.alter(retention=Retention(bytes=log.size // 2))
        assert log.expire() > 0
