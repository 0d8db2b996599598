"""What verify, repair, recovery and readers tell of damage: all of it, with the right numbers, and it can be mended."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import seglog
from seglog.cli import main

RECORDS = 60


@pytest.fixture
def place(tmp_path):
    """A closed log of several segments, every record synced."""
    with seglog.open(tmp_path / "log", seglog.LogConfig(segment_bytes=1024)) as log:
        for number in range(RECORDS):
            log.append(b"value number %d" % number, key=b"k")
    return tmp_path / "log"


def stores(place: Path) -> list[Path]:
    return sorted(place.glob("*.store"))


def flip(path: Path, position: int) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def record_length(place: Path) -> int:
    info = seglog.open(place, mode="r").segments[0]
    return (info.bytes - 64) // info.records


def test_adjacent_damaged_records_are_all_counted_by_verify_and_by_repair(place):
    length = record_length(place)
    for number in (1, 2, 3):
        flip(stores(place)[0], 64 + number * length + 40)
    problems = seglog.verify(place).problems
    assert [(problem.offset, problem.records) for problem in problems] == [(1, 3)]
    assert seglog.repair(place, dry_run=True).records_lost == 3
    assert seglog.repair(place).records_lost == 3
    assert seglog.verify(place).ok
    with seglog.open(place) as log:
        assert sum(1 for _ in log.scan()) == RECORDS - 3


def test_records_lost_at_the_end_of_the_active_segment_are_counted(place):
    active = stores(place)[-1]
    for back in (3, 60):
        flip(active, -back)
    report = seglog.repair(place)
    assert report.records_lost == 2
    with seglog.open(place) as log:
        assert (log.next_offset, sum(1 for _ in log.scan())) == (RECORDS, RECORDS - 2)


def test_a_lost_active_store_counts_the_records_its_index_knew(place):
    with seglog.open(place, mode="r") as log:
        held = log.next_offset - log.segments[-1].base_offset
    stores(place)[-1].unlink()
    assert seglog.repair(place).records_lost == held
    with seglog.open(place) as log:
        assert log.next_offset == RECORDS


@pytest.mark.parametrize("kind", ["index", "times"])
@pytest.mark.parametrize("how", ["gone", "flipped"])
def test_repair_makes_a_lookup_anew_and_verify_is_satisfied(place, kind, how):
    lookup = stores(place)[0].with_suffix("." + kind)
    before = lookup.read_bytes()
    if how == "gone":
        lookup.unlink()
    else:
        flip(lookup, len(before) // 2)
    assert [problem.kind for problem in seglog.verify(place).problems] == ["index"]
    seglog.repair(place)
    assert seglog.verify(place).ok
    assert lookup.read_bytes() == before


def test_a_flipped_header_of_an_index_is_found(place):
    flip(stores(place)[0].with_suffix(".index"), 9)
    assert [problem.kind for problem in seglog.verify(place).problems] == ["index"]


def test_a_rebuilt_manifest_names_the_offsets_that_no_store_holds(place):
    first, lost, following = (int(store.name[:20]) for store in stores(place)[:3])
    assert first == 0
    stores(place)[1].unlink()
    (place / "MANIFEST").unlink()
    (problem,) = seglog.verify(place).problems
    assert f"no store holds offsets {lost} up to {following}" in problem.detail


def test_a_reader_knows_of_synced_records_that_are_damaged_at_the_end(place):
    flip(stores(place)[-1], -3)
    with seglog.open(place, mode="r") as log:
        assert log.next_offset == RECORDS
        with pytest.raises(seglog.CorruptRecord):
            log.read(RECORDS - 1)
        with pytest.raises(seglog.CorruptRecord):
            list(log.scan())
        with pytest.raises(seglog.CorruptRecord):
            log.to_arrow()


def test_the_command_line_tells_what_recovery_met(place, capsys):
    with stores(place)[-1].open("ab") as store:
        store.write(b"half a record")
    assert main(["append", str(place), "next"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out.strip().splitlines()[-1]) == RECORDS
    assert "recovery: torn" in captured.err
