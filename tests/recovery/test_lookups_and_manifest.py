"""Index and manifest: what is derived may be lost, what is not is rebuilt, and both say so.

The numbers are those of the list of what the log must survive (docs/reliability.md).
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.log.repair.repair import repair_storage
from seglog.log.staging import Stage
from seglog.record import Record
from seglog.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
VALUES = [b"value %04d " % number * 4 for number in range(20)]

HARMS: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "of 0 bytes": lambda path: path.write_bytes(b""),
    "longer": lambda path: path.write_bytes(path.read_bytes() + bytes(160)),
    "longer by garbage": lambda path: path.write_bytes(path.read_bytes() + b"\xa5" * 160),
    "shorter by an entry": lambda path: path.write_bytes(path.read_bytes()[:-16]),
    "shorter than a header": lambda path: path.write_bytes(path.read_bytes()[:7]),
    "no multiple of 16": lambda path: path.write_bytes(path.read_bytes()[:-5]),
    "zero-filled": lambda path: path.write_bytes(bytes(path.stat().st_size)),
    "garbage": lambda path: path.write_bytes(random.Random(1).randbytes(path.stat().st_size)),
    "turned round": lambda path: path.write_bytes(path.read_bytes()[:16] + path.read_bytes()[:15:-1]),
}


def check_all(path: Path, *, mode: Any = "a") -> None:
    with seglog.open(path, mode=mode) as log:
        assert [log.read(offset).value for offset in range(20)] == VALUES
        assert [record.value for record in log.scan()] == VALUES
        assert [log.offset_at(offset) for offset in range(20)] == list(range(20))
        assert log.offset_at(20) is None
        assert log.to_arrow(5)["value"].to_pylist() == VALUES[5:]


# --- 12: lookups ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
@pytest.mark.parametrize("which", ["sealed index", "sealed times", "active index"])
def test_12_a_lookup_that_is(scene: Any, which: str, harm: Callable[[Path], object]) -> None:
    scene.fill(VALUES, SMALL)
    state, kind = which.split()
    number = 1 if state == "sealed" else -1
    path, whole = scene.file(number, kind), scene.file(number, kind).read_bytes()
    harm(path)
    check_all(scene.path, mode="r")
    check_all(scene.path)
    healed = path.read_bytes()
    assert healed[: len(whole)] == whole, "made anew byte for byte"
    with seglog.open(scene.path) as log:
        assert log.recovery.clean
        assert [problem for problem in log.verify().problems if len(healed) == len(whole)] == []


@pytest.mark.parametrize("which", ["sealed index", "sealed times", "active index"])
def test_12_any_flipped_bit_of_a_lookup_loses_nothing(scene: Any, which: str) -> None:
    scene.fill(VALUES, SMALL)
    state, kind = which.split()
    number = 1 if state == "sealed" else -1
    path, whole = scene.file(number, kind), scene.file(number, kind).read_bytes()
    offsets = [place.offset for place in scene.places(number)]
    for at in range(len(whole)):
        path.write_bytes(whole)
        scene.flip(path, at, bit=at % 8)
        with seglog.open(scene.path) as log:
            assert [log.read(offset).value for offset in offsets] == [VALUES[offset] for offset in offsets]
            assert [log.offset_at(offset) for offset in offsets] == offsets
            assert not log.recovery.damaged
            assert log.next_offset == 20


@pytest.mark.parametrize("kind", ["offsets", "times"])
@pytest.mark.parametrize("harm", HARMS.values(), ids=HARMS.keys())
def test_12_a_lookup_of_a_segment_with_gaps_that_is(scene: Any, kind: str, harm: Callable[[Path], object]) -> None:
    offsets = [0, *range(10, 60, 5)]
    with seglog.open(scene.path, SMALL) as log:
        for offset in offsets:
            log.append_at(offset, Record(offset, offset, None, b"value %04d " % offset * 4))
    number = next(n for n, entry in enumerate(scene.manifest().segments) if entry.sealed and not entry.dense)
    path, whole = scene.file(number, kind), scene.file(number, kind).read_bytes()
    harm(path)
    with seglog.open(scene.path) as log:
        assert [record.offset for record in log.scan()] == offsets
        assert [log.read(offset).value for offset in offsets] == [b"value %04d " % offset * 4 for offset in offsets]
        assert [log.offset_at(offset) for offset in offsets] == offsets
        with pytest.raises(seglog.OffsetCompacted):
            log.read(12)
    assert path.read_bytes() == whole


@pytest.mark.parametrize("kind", ["index", "times", "offsets"])
def test_12_a_lookup_without_a_store_is_removed(scene: Any, kind: str) -> None:
    scene.fill(VALUES, SMALL)
    stray = scene.path / f"00000000000000000007-99.{kind}"
    shutil.copy(scene.file(1, "index"), stray)
    with seglog.open(scene.path) as log:
        assert not stray.exists()
        assert [record.value for record in log.scan()] == VALUES
        while len(log.segments) < 5:
            log.append(b"x" * 60)
        assert log.segments[-1].name.endswith("-100.store"), "its number is not given to another file"


def test_12_all_lookups_lost_at_once(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    for path in [*scene.path.glob("*.index"), *scene.path.glob("*.times")]:
        path.unlink()
    check_all(scene.path, mode="r")
    check_all(scene.path)
    assert seglog.verify(scene.path).ok


def test_12_a_lookup_that_was_lost_while_the_log_is_open(scene: Any) -> None:
    with seglog.open(scene.path, SMALL) as log:
        for offset, value in enumerate(VALUES):
            log.append(value, timestamp=offset)
        for path in [*scene.path.glob("*.index"), *scene.path.glob("*.times")]:
            path.unlink()
        assert [log.read(offset).value for offset in range(20)] == VALUES
        log.append(b"more")
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == [*VALUES, b"more"]


def test_12_the_lookup_of_one_segment_in_place_of_another(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    shutil.copy(scene.file(0, "index"), scene.file(1, "index"))
    shutil.copy(scene.file(0, "times"), scene.file(1, "times"))
    with seglog.open(scene.path) as log:
        assert [log.read(offset).value for offset in range(20)] == VALUES
        assert [log.offset_at(offset) for offset in range(20)] == list(range(20))


# --- 13: a stale index ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_13_an_index_from_before_a_truncate_brings_no_record_back(scene: Any, crashed: bool) -> None:
    scene.fill(VALUES[:10])
    stale, old = scene.file(kind="index").read_bytes(), scene.file(kind="index")
    if crashed:
        with scene.dying() as log:
            log.truncate(4)
            log.append(b"new")
    else:
        with seglog.open(scene.path) as log:
            log.truncate(4)
            log.append(b"new")
    expected = [*VALUES[:4], b"new"]
    for target in (old, scene.file(kind="index")):
        target.write_bytes(stale)
        with seglog.open(scene.path, mode="r") as log:
            assert [record.value for record in log.scan()] == expected
        with seglog.open(scene.path) as log:
            assert log.next_offset == 5
            assert [log.read(offset).value for offset in range(5)] == expected
            assert not log.recovery.damaged


@pytest.mark.parametrize("lost", ["MANIFEST", "both"])
@pytest.mark.parametrize("cut", [3, 5, 10, 12])
def test_13_nor_does_a_manifest_that_is_rebuilt_after_a_truncate(scene: Any, cut: int, lost: str) -> None:
    scene.fill(VALUES, SMALL)
    with scene.dying() as log:
        held = iter(log.scan())  # a reader keeps the files that the truncate retires
        next(held)
        log.truncate(cut)
        log.append(b"new")
    expected = [*VALUES[:cut], b"new"]
    (scene.path / "MANIFEST").unlink()
    if lost == "both":
        (scene.path / "MANIFEST.prev").unlink()
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == expected
        assert log.next_offset == cut + 1


@pytest.mark.parametrize("mode", ["r", "a"])
def test_13_nor_does_a_manifest_from_before_it_that_was_copied_back(scene: Any, mode: Any) -> None:
    scene.fill(VALUES[:10])
    outdated = (scene.path / "MANIFEST").read_bytes()
    with seglog.open(scene.path) as log:
        log.truncate(6)
        log.append(b"again", timestamp=6)
    (scene.path / "MANIFEST").write_bytes(outdated)
    with seglog.open(scene.path, mode=mode) as log:
        assert [record.value for record in log.scan()] == [*VALUES[:6], b"again"]
        (event,) = log.recovery.events
        assert (event.kind, "older than the log" in event.detail) == ("manifest", True)


def test_13_bytes_behind_a_cut_never_come_back(scene: Any) -> None:
    """The store keeps records that were cut off; a reader positioned there gets a clear error, a new one sees none."""
    scene.fill(VALUES[:10])
    with seglog.open(scene.path) as log:
        for cut in (8, 6, 4):
            log.truncate(cut)
            assert [record.value for record in log.scan()] == VALUES[:cut]
            assert log.append(b"again") == cut
            log.truncate(cut)
    assert scene.values() == VALUES[:4]
    assert seglog.verify(scene.path).ok


# --- 14: the manifest -----------------------------------------------------------------------------------------------


def missing(path: Path) -> None:
    path.unlink()


def empty(path: Path) -> None:
    path.write_bytes(b"")


def half_written(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def zero_filled(path: Path) -> None:
    path.write_bytes(bytes(path.stat().st_size))


def one_bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[data.index(b'{"check"') // 3] ^= 4  # of the base: each change is there twice
    path.write_bytes(data)


@pytest.mark.parametrize("harm", [missing, empty, half_written, zero_filled, one_bit])
@pytest.mark.parametrize("previous", ["there", "missing", "damaged"])
@pytest.mark.parametrize("crashed", [False, True], ids=["closed", "crashed"])
def test_14_a_manifest_is_rebuilt_from_names_and_stores_and_that_is_reported(
    scene: Any, harm: Callable[[Path], None], previous: str, crashed: bool
) -> None:
    if crashed:
        scene.fill_and_crash(VALUES[:18], VALUES[18:], SMALL)
    else:
        scene.fill(VALUES, SMALL)
    harm(scene.path / "MANIFEST")
    if previous == "missing":
        (scene.path / "MANIFEST.prev").unlink()
    elif previous == "damaged":
        one_bit(scene.path / "MANIFEST.prev")
    check_all(scene.path, mode="r")
    with seglog.open(scene.path) as log:
        assert [event.kind for event in log.recovery.events] == ["manifest"]
        assert log.recovery.damaged
        if previous == "there":
            assert log.config.segment_bytes == 512
        assert [problem.kind for problem in log.verify().problems if problem.kind != "index"] == ["manifest"]
        assert [segment.base_offset for segment in log.segments] == [0, 5, 10, 15]
    check_all(scene.path)
    report = seglog.repair(scene.path)
    assert "accept" in [action.kind for action in report.actions]
    assert report.records_lost == 0
    check_all(scene.path)
    assert seglog.verify(scene.path).ok


def test_14_every_length_of_the_manifest_opens(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    manifest, whole = scene.path / "MANIFEST", (scene.path / "MANIFEST").read_bytes()
    for length in range(0, len(whole), 23):
        manifest.write_bytes(whole[:length])
        is_left = length > len(whole) - len(whole.splitlines(keepends=True)[-1])  # a copy of the last change
        with seglog.open(scene.path) as log:
            assert [record.value for record in log.scan()] == VALUES
            assert [event.kind for event in log.recovery.events] == ([] if is_left else ["manifest"])


@pytest.mark.parametrize("records", [0, 3])
def test_14_a_young_log_that_lost_its_only_manifest(scene: Any, records: int) -> None:
    scene.fill(VALUES[:records], seglog.LogConfig(segment_bytes=4096))
    (scene.path / "MANIFEST").unlink()
    assert not (scene.path / "MANIFEST.prev").exists()
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == VALUES[:records]
        assert log.append(b"on") == records


def test_14_an_expired_log_that_lost_its_manifest_still_begins_where_it_did(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    with seglog.open(scene.path, seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))) as log:
        log.expire()
        start = log.lowest_offset
        assert start > 0
    (scene.path / "MANIFEST").unlink()
    with seglog.open(scene.path) as log:
        assert log.lowest_offset == start
        assert [record.value for record in log.scan()] == VALUES[start:]


def test_14_a_segment_lost_together_with_the_manifest_is_a_gap_and_nothing_is_renumbered(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    gone = scene.entry(1)
    scene.file(1).unlink()
    (scene.path / "MANIFEST").unlink()
    (scene.path / "MANIFEST.prev").unlink()
    with seglog.open(scene.path) as log:
        expected = [offset for offset in range(20) if not gone.base_offset <= offset < gone.next_offset]
        assert [(record.offset, record.value) for record in log.scan()] == [
            (offset, VALUES[offset]) for offset in expected
        ]
        with pytest.raises(seglog.OffsetCompacted):
            log.read(gone.base_offset)


def test_14_a_store_under_the_name_of_another_brings_no_record_at_another_offset(scene: Any) -> None:
    """MANIFEST.prev knows which file belongs there."""
    scene.fill(VALUES, SMALL)
    with seglog.open(scene.path) as log:
        log.alter(retention=seglog.Retention(bytes=2**40))  # so that MANIFEST.prev names the present active segment
    first, last = scene.file(1, "store"), scene.file(-1, "store")
    (scene.path / "MANIFEST").unlink()
    right = last.read_bytes()
    shutil.copyfile(first, last)
    for mode in ("r", "a"):
        with pytest.raises(seglog.CorruptLog, match="has the name of another one"):
            seglog.open(scene.path, mode=mode)
    last.write_bytes(right)
    check_all(scene.path)


def lose_manifests(path: Path) -> None:
    (path / "MANIFEST").unlink()
    (path / "MANIFEST.prev").unlink()


def move(scene: Any, how: str, kinds: tuple[str, ...]) -> Path:
    """Put files of the first segment under the names of the last; return the path of its store."""
    first, last = scene.entry(0), scene.entry(-1)
    lose_manifests(scene.path)
    for kind in kinds:
        one, other = scene.path / first.name(kind), scene.path / last.name(kind)
        if not one.exists():
            continue
        before = other.read_bytes() if other.exists() else None
        shutil.copyfile(one, other)
        if how == "renamed":
            one.unlink()
        elif how == "exchanged" and before is not None:
            one.write_bytes(before)
    return Path(scene.path / last.name())


@pytest.mark.parametrize("how", ["copied", "renamed", "exchanged"])
@pytest.mark.parametrize(
    ("compacted", "kinds"),
    [(False, ("store",)), (False, ("store", "times")), (False, ("store", "index", "times")), (True, ("store",))],
    ids=["dense", "dense, with its times", "dense, with its lookups", "compacted"],
)
def test_14_without_any_manifest_a_store_under_the_name_of_another_is_refused(
    scene: Any, how: str, compacted: bool, kinds: tuple[str, ...]
) -> None:
    """Its index names its base, its salt is in another store, or the lookups under another name are its own."""
    fill(scene, compacted=compacted)
    last = scene.entry(-1)
    with seglog.open(scene.path, mode="r") as log:
        before = list(log.scan(stop=last.base_offset))
    place = move(scene, how, kinds)
    names = sorted(path.name for path in scene.path.iterdir())
    for mode in ("r", "a"):
        with pytest.raises(seglog.CorruptLog, match="move it away"):
            seglog.open(scene.path, mode=mode)
    with pytest.raises(seglog.CorruptLog, match="move it away"):
        repair_storage(LocalStorage(scene.path))
    assert sorted(path.name for path in scene.path.iterdir()) == names, "nothing was changed"
    if how == "copied":
        with pytest.raises(seglog.CorruptLog, match=place.name):  # the one that its lookups do not fit
            seglog.open(scene.path)
        place.unlink()
        repair_storage(LocalStorage(scene.path))
        with seglog.open(scene.path) as log:
            assert list(log.scan()) == before


def test_14_without_any_manifest_a_stage_that_was_published_twice_is_served_twice(scene: Any) -> None:
    """One file under two names, which is no misplaced one."""
    with seglog.open(scene.path) as log:
        log.append(b"before")
        stage = Stage(LocalStorage(scene.path), "query-1")
        stage.append_batch(pa.table({"value": pa.array([b"a", b"b"], pa.binary())}))
        staged = stage.finish()
        assert [log.publish(staged, query="query", batch=number) for number in (1, 2)] == [range(1, 3), range(3, 5)]
        stage.discard()
    lose_manifests(scene.path)
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == [b"before", b"a", b"b", b"a", b"b"]


def test_14_lookups_that_all_are_damaged_put_no_store_out_of_place(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    lose_manifests(scene.path)
    for path in scene.path.iterdir():
        if path.suffix in (".index", ".times"):
            path.write_bytes(bytes(path.stat().st_size))
    with seglog.open(scene.path) as log:
        assert [record.value for record in log.scan()] == VALUES


def fill(scene: Any, *, compacted: bool) -> None:
    if not compacted:
        return scene.fill(VALUES, SMALL)
    config = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64, retention=seglog.Retention(compact=True))
    with seglog.open(scene.path, config) as log:
        for number in range(40):
            log.append(b"value %04d" % number, key=b"key %d" % (number % 9))
        log.compact()
        log.append(b"last", key=b"key")
    return None


def test_a_store_that_takes_the_place_of_another_one_is_named_when_it_is_opened(scene: Any) -> None:
    scene.fill(VALUES, SMALL)
    shutil.copy(scene.file(1), scene.file(0))
    with seglog.open(scene.path, mode="r") as log:
        with pytest.raises(seglog.CorruptLog, match="its salt differs"):
            log.read(0)
        assert log.read(log.next_offset - 1).value == VALUES[-1]
    assert "foreign" in [problem.kind for problem in seglog.verify(scene.path).problems]
