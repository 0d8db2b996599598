"""Rotten: what decay, and people who mean well, do to stores that were sound.

The numbers are those of the list of what the log must survive (docs/reliability.md).
"""

from __future__ import annotations

import shutil
import struct
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest
from xxhash import xxh64_intdigest

import seglog
from seglog.format.codec import NATIVE

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
VALUES = [b"value %04d " % number * 4 for number in range(20)]


def read_all_but(log: seglog.Log, damaged: set[int], values: list[bytes]) -> None:
    for offset, value in enumerate(values):
        if offset in damaged:
            with pytest.raises(seglog.CorruptRecord) as caught:
                log.read(offset)
            assert caught.value.offset == offset
        else:
            assert log.read(offset).value == value


# --- 6: sealed segments ---------------------------------------------------------------------------------------------


def test_06_a_bit_flip_in_a_sealed_segment_costs_one_record_and_says_which(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    place, path = scene.places(1)[2], scene.file(1)
    for at in range(place.length):
        scene.flip(path, place.position + at, bit=at % 8)
        with seglog.open(scene.path) as log:
            with pytest.raises(seglog.CorruptRecord) as caught:
                log.read(place.offset)
            error = caught.value
            assert (error.path, error.offset, error.position) == (str(path), place.offset, place.position)
            assert log.read(place.offset - 1).value == VALUES[place.offset - 1]
            assert log.read(place.offset + 1).value == VALUES[place.offset + 1]
        scene.flip(path, place.position + at, bit=at % 8)


@pytest.mark.parametrize("index", ["there", "lost"])
def test_06_all_other_records_stay_readable_and_verify_lists_the_damage(scene: Any, index: str) -> None:
    scene.fill(VALUES, SMALL)
    place = scene.places(1)[2]
    scene.flip(scene.file(1), place.position + 8)  # the length field: the way to the next record is lost
    if index == "lost":
        scene.file(1, "index").unlink()
    with seglog.open(scene.path) as log:
        assert log.recovery.clean, "sealed segments are looked at when they are read"
        read_all_but(log, {place.offset}, VALUES)
        (problem,) = [problem for problem in log.verify().problems if problem.kind == "record"]
        assert (problem.offset, problem.position) == (place.offset, place.position)
        assert log.verify().records == 19


def test_06_a_scan_stops_at_damage_unless_told_to_skip_and_then_says_what_it_skipped(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    place = scene.places(1)[2]
    scene.flip(scene.file(1), place.position + 40)
    with seglog.open(scene.path) as log:
        seen = []
        with pytest.raises(seglog.CorruptRecord) as caught:
            for record in log.scan():
                seen.append(record.offset)  # noqa: PERF401 - what was seen before the error counts
        assert seen == list(range(place.offset))
        assert (caught.value.offset, caught.value.position) == (place.offset, place.position)
        skipped: list[seglog.CorruptRecord] = []
        offsets = [record.offset for record in log.scan(on_corrupt=skipped.append)]
        assert offsets == [offset for offset in range(20) if offset != place.offset]
        assert [(error.offset, error.position) for error in skipped] == [(place.offset, place.position)]
        with pytest.raises(seglog.CorruptRecord) as batch_error:
            log.to_arrow()
        assert (batch_error.value.offset, batch_error.value.position) == (place.offset, place.position)


# --- 7: lengths -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", [8, 12, 20], ids=["metadata_len", "value_len", "key_len"])
@pytest.mark.parametrize("length", [0, 2**31, 2**32 - 2])
@pytest.mark.parametrize("where", ["tail", "durable", "sealed"])
def test_07_a_bad_length_is_bounded_by_the_file(scene: Any, field: int, length: int, where: str) -> None:
    if where == "sealed":
        scene.fill(VALUES, SMALL)
    elif where == "durable":
        scene.fill(VALUES[:5])
    else:
        scene.fill_and_crash(VALUES[:3], VALUES[3:5])
    number = 0 if where == "sealed" else -1
    place = scene.places(number)[3]
    scene.overwrite(scene.file(number), place.position + field, struct.pack("<I", length))
    tracemalloc.start()
    with seglog.open(scene.path) as log:
        if where == "tail":
            assert log.next_offset == 3
        else:
            read_all_but(log, {3}, VALUES[:5])
        log.verify()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 64 * 1024 * 1024


# --- 8: swapped and copied ------------------------------------------------------------------------------------------


def swapped(scene: Any) -> set[int]:
    one, other = scene.places(1)[1], scene.places(1)[3]
    data = scene.file(1).read_bytes()
    scene.overwrite(scene.file(1), one.position, data[other.position : other.position + other.length])
    scene.overwrite(scene.file(1), other.position, data[one.position : one.position + one.length])
    return {one.offset, other.offset}


def copied_within(scene: Any) -> set[int]:
    one, other = scene.places(1)[1], scene.places(1)[2]
    data = scene.file(1).read_bytes()
    scene.overwrite(scene.file(1), other.position, data[one.position : one.position + one.length])
    return {other.offset}


def copied_from_another_segment(scene: Any) -> set[int]:
    one, other = scene.places(0)[1], scene.places(1)[1]
    data = scene.file(0).read_bytes()
    scene.overwrite(scene.file(1), other.position, data[one.position : one.position + one.length])
    return {other.offset}


def a_whole_segment_copied(scene: Any) -> set[int]:
    offsets = {place.offset for place in scene.places(1)}
    data = scene.file(0).read_bytes()
    scene.file(1).write_bytes(data[:64] + data[64:])
    return offsets


def a_whole_segment_copied_below_its_own_header(scene: Any) -> set[int]:
    offsets = {place.offset for place in scene.places(1)}
    scene.file(1).write_bytes(scene.file(1).read_bytes()[:64] + scene.file(0).read_bytes()[64:])
    return offsets


@pytest.mark.parametrize(
    "harm",
    [
        swapped,
        copied_within,
        copied_from_another_segment,
        a_whole_segment_copied,
        a_whole_segment_copied_below_its_own_header,
    ],
)
def test_08_records_that_were_swapped_or_copied_are_detected(scene: Any, harm: Callable[[Any], set[int]]) -> None:
    scene.fill(VALUES, SMALL)
    damaged = harm(scene)
    with seglog.open(scene.path) as log:
        for offset in range(20):
            if offset not in damaged:
                assert log.read(offset).value == VALUES[offset]
            else:
                with pytest.raises((seglog.CorruptRecord, seglog.CorruptLog)):
                    log.read(offset)
        assert not log.verify().ok


def test_08_a_record_with_a_true_checksum_at_a_wrong_place_is_detected(scene: Any) -> None:
    """Somebody who knows the salt writes a record that verifies by itself, but is not the one that belongs there."""
    scene.fill(VALUES, SMALL)
    place, entry = scene.places(1)[1], scene.entry(1)
    parts, _, _ = NATIVE.encode(place.offset - entry.base_offset + 1, 0, None, VALUES[0], b"", entry.salt)
    scene.overwrite(scene.file(1), place.position, b"".join(parts))
    with seglog.open(scene.path) as log:
        with pytest.raises(seglog.CorruptRecord):
            log.read(place.offset)
        assert not log.verify().ok


def test_08_a_scan_past_a_record_that_was_taken_out_gives_all_that_moved_up(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    out, data = scene.places(1)[1], scene.file(1).read_bytes()
    scene.file(1).write_bytes(data[: out.position] + data[out.position + out.length :])
    scene.file(1, "index").unlink()
    with seglog.open(scene.path) as log:
        read_all_but(log, {out.offset}, VALUES)
        errors: list[seglog.CorruptRecord] = []
        offsets = [record.offset for record in log.scan(on_corrupt=errors.append)]
        assert offsets == [offset for offset in range(20) if offset != out.offset]
        assert [error.offset for error in errors] == [out.offset]


def test_08_a_repair_keeps_what_stands_behind_a_record_in_another_ones_place(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    covered, later = scene.places(1)[1], scene.places(1)[4]
    data = scene.file(1).read_bytes()
    scene.overwrite(scene.file(1), covered.position, data[later.position : later.position + later.length])
    report = seglog.repair(scene.path)
    assert report.records_lost == 1
    with seglog.open(scene.path) as log:
        assert [record.offset for record in log.scan()] == [number for number in range(20) if number != covered.offset]
        assert log.verify().ok


def test_08_a_repair_lets_go_of_another_file_in_the_active_stores_place_and_keeps_it(scene: Any, tmp_path: Any) -> None:
    scene.fill(VALUES, SMALL)
    other = type(scene)(tmp_path / "other")
    other.fill(VALUES, SMALL)
    foreign, base = other.file().read_bytes(), scene.entry().base_offset
    scene.file().write_bytes(foreign)
    report = seglog.repair(scene.path)
    assert [action.kind for action in report.actions if action.kind != "reindex"] == ["drop"]
    assert foreign in [file.read_bytes() for file in (scene.path / "quarantine").iterdir()]
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == VALUES[:base]
        assert log.append(b"next") == 20, "no offset that was given out is given again"
        assert log.verify().ok


@pytest.mark.parametrize("number", [1, -1], ids=["sealed", "active"])
def test_08_another_file_under_the_name_of_a_store_is_refused_and_left_alone(
    scene: Any, tmp_path: Any, number: int
) -> None:
    scene.fill(VALUES, SMALL)
    other = type(scene)(tmp_path / "other")
    other.fill(VALUES, SMALL)
    path, base = scene.file(number), scene.entry(number).base_offset
    path.write_bytes(other.file(number).read_bytes())
    before = scene.snapshot()
    for mode in ("a", "r"):
        with pytest.raises(seglog.CorruptLog, match="not the file that"), seglog.open(scene.path, mode=mode) as log:
            log.read(base)
    assert scene.snapshot() == before
    assert "foreign" in {problem.kind for problem in seglog.verify(scene.path).problems}


# --- 9: cut at a boundary -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("left", [0, 1, 4])
def test_09_a_sealed_store_cut_at_a_record_boundary_is_detected_from_the_manifest(scene: Any, left: int) -> None:
    scene.fill(VALUES, SMALL)
    places = scene.places(1)
    scene.cut(scene.file(1), places[left].position)
    lost = {place.offset for place in places[left:]}
    with seglog.open(scene.path) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.path, event.position) == ("damage", str(scene.file(1)), places[left].position)
        read_all_but(log, lost, VALUES)
        assert "short" in {problem.kind for problem in log.verify().problems}
        skipped: list[seglog.CorruptRecord] = []
        assert [record.offset for record in log.scan(on_corrupt=skipped.append)] == [
            offset for offset in range(20) if offset not in lost
        ]
        assert skipped
        for start in (0, min(lost), max(lost)):
            with pytest.raises(seglog.CorruptRecord):
                log.to_arrow(start)


# --- 10: a missing segment ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", [0, 1, 2], ids=["the first", "one between", "the last sealed"])
def test_10_a_missing_segment_refuses_writers_names_the_gap_and_nothing_is_renumbered(scene: Any, missing: int) -> None:
    scene.fill(VALUES, SMALL)
    entry = scene.entry(missing)
    scene.file(missing).unlink()
    before = scene.snapshot()
    with pytest.raises(seglog.CorruptLog) as caught:
        seglog.open(scene.path)
    assert f"offsets {entry.base_offset} up to {entry.next_offset}" in str(caught.value)
    assert scene.snapshot() == before
    gone = range(entry.base_offset, entry.next_offset)
    with seglog.open(scene.path, mode="r") as log:
        for offset in range(20):
            if offset not in gone:
                assert log.read(offset).value == VALUES[offset]
        with pytest.raises(seglog.CorruptLog):
            log.read(gone[0])
        with pytest.raises(seglog.CorruptLog):
            list(log.scan(gone[0]))
    assert [problem.kind for problem in seglog.verify(scene.path).problems] == ["missing"]


def test_10_a_missing_active_segment_is_refused_too(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    scene.file().unlink()
    before = scene.snapshot()
    with pytest.raises(seglog.CorruptLog, match="missing"):
        seglog.open(scene.path)
    assert scene.snapshot() == before


@pytest.mark.parametrize("missing", [0, 1, -1])
def test_10_after_a_repair_the_log_goes_on_with_the_gap(scene: Any, missing: int) -> None:
    scene.fill(VALUES, SMALL)
    entry = scene.entry(missing)
    gone = range(entry.base_offset, entry.next_offset or 20)
    scene.file(missing).unlink()
    report = seglog.repair(scene.path)
    assert [action.kind for action in report.actions] == ["drop"]
    with seglog.open(scene.path) as log:
        assert [record.offset for record in log.scan()] == [offset for offset in range(20) if offset not in gone]
        for offset in gone:
            with pytest.raises(seglog.OffsetError):
                log.read(offset)
        assert log.append(b"next") == 20
        assert log.verify().ok


# --- 11: a later version --------------------------------------------------------------------------------------------


def newer_header(data: bytes, at: int, value: bytes) -> bytes:
    body = bytearray(data[:56])
    body[at : at + len(value)] = value
    return bytes(body) + struct.pack("<Q", xxh64_intdigest(bytes(body))) + data[64:]


@pytest.mark.parametrize("mode", ["a", "r"])
def test_11_a_manifest_of_a_later_version_is_refused_and_left_alone(scene: Any, mode: Any) -> None:
    scene.fill(VALUES, SMALL)
    manifest = scene.path / "MANIFEST"
    body = manifest.read_bytes().partition(b'{"check"')[0].replace(b'"format": 3', b'"format": 4', 1)
    manifest.write_bytes(body + b'{"check":"%016x"}\n' % xxh64_intdigest(body))
    before = scene.snapshot()
    calls: list[Callable[[], object]] = [
        lambda: seglog.open(scene.path, mode=mode),
        lambda: seglog.verify(scene.path),
        lambda: seglog.repair(scene.path),
    ]
    for call in calls:
        with pytest.raises(seglog.FormatVersionError, match="version 4"):
            call()
    assert scene.snapshot() == before


@pytest.mark.parametrize(("at", "value"), [(8, b"\x02\x00"), (12, b"\x02\x00\x00\x00")], ids=["version", "flags"])
@pytest.mark.parametrize("number", [1, -1], ids=["sealed", "active"])
def test_11_a_store_of_a_later_version_is_refused_and_is_not_corrupt(
    scene: Any, number: int, at: int, value: bytes
) -> None:
    scene.fill(VALUES, SMALL)
    path, base = scene.file(number), scene.entry(number).base_offset
    path.write_bytes(newer_header(path.read_bytes(), at, value))
    before = scene.snapshot()
    with pytest.raises(seglog.FormatVersionError) as caught:
        seglog.open(scene.path).read(base)
    assert str(path) in str(caught.value)
    with pytest.raises(seglog.FormatVersionError), seglog.open(scene.path, mode="r") as log:
        log.read(base)
    assert scene.snapshot() == before


def test_a_flipped_bit_of_the_manifests_version_is_damage_and_the_manifest_is_made_anew(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    manifest = scene.path / "MANIFEST"
    scene.flip(manifest, manifest.read_bytes().index(b'"format": 3') + 10, bit=1)
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == VALUES


def test_05_a_repair_keeps_the_records_behind_a_damaged_one_that_was_never_synced(scene: Any) -> None:
    """Opening cuts at the first bad record that is not known to be durable; a repair takes all that can be read."""
    values = [b"value %d" % number for number in range(30)]
    scene.fill_and_crash([], values)
    scene.flip(scene.file(), scene.places()[7].position + 33)
    before = scene.file().read_bytes()
    planned = seglog.repair(scene.path, dry_run=True)
    done = seglog.repair(scene.path)
    assert planned.records_lost == done.records_lost == 1
    assert (scene.path / "quarantine" / "00000000000000000000-1.store").read_bytes() == before
    assert scene.values() == values[:7] + values[8:]


def test_05_a_repair_leaves_out_a_batch_that_was_never_finished(scene: Any) -> None:
    values = [b"value %d" % number for number in range(12)]
    scene.fill_and_crash([], values)
    places = scene.places()
    scene.flip(scene.file(), places[3].position + 33)
    scene.overwrite(scene.file(), places[8].position, bytes(32))  # the head that is written last
    seglog.repair(scene.path)
    assert scene.values() == values[:3] + values[4:8]


def test_08_a_copy_of_a_store_under_a_later_name_adds_no_record(scene: Any) -> None:
    values = [b"value %d" % number for number in range(12)]
    scene.fill(values, seglog.LogConfig(segment_bytes=512))
    name = f"{12:020d}-{scene.manifest().next_file}.store"
    shutil.copy(scene.file(), scene.path / name)
    with seglog.open(scene.path, mode="r") as log:
        assert [record.value for record in log.scan()] == values
    with seglog.open(scene.path) as log:
        assert [event.kind for event in log.recovery.events] == ["orphan"]
        assert [record.value for record in log.scan()] == values
    assert (scene.path / "quarantine" / name).read_bytes() == scene.file().read_bytes()
    assert not (scene.path / name).exists()
