"""Pins: followers that have not read a tombstone yet keep it in the log (acceptance/compaction.md, 23)."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pytest
from xxhash import xxh64_intdigest

import seglog
from seglog.compaction.rewrite import rewrite
from seglog.errors import InvalidArgument, InvalidType, LogClosed, OffsetOutOfRange, PlanStale, StorageError
from seglog.log.pins import decode_pin, drop_pin, encode_pin, pull_back_pins, read_pins, set_pin
from seglog.log.staging import compaction_batch, stage_directory
from seglog.storage import Subdirectory
from seglog.testing.faulty import Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DAY = 86_400.0


@pytest.fixture
def shop(place: Any, shop_at: Callable[[Any], Any]) -> Any:
    return shop_at(place)


def storage_of(place: Any) -> Any:
    return place if isinstance(place, seglog.MemoryStorage) else seglog.LocalStorage(place)


def test_23_a_tombstone_stays_while_a_pinned_consumer_has_not_passed_it(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=DAY) as log, seglog.open(shop.place, mode="r") as follower:
        shop.put(log, "a b a- | b- |")
        follower.pin("copy", 2)  # it has a@0 and b@1
        log.pin("fast", 4)
        log.compact()
        clock.advance(DAY)
        assert log.compact().tombstones == 0
        assert shop.content(log) == "a∅@2 b∅@3"
        follower.pin("copy", 3)
        assert log.compact().tombstones == 1
        assert shop.content(log) == "b∅@3"
        assert log.explain(3).because == "pinned"
        log.unpin("copy")
        assert log.standing().due == "tombstones"
        assert log.compact().tombstones == 1
        assert (shop.content(log), log.pins) == ("", {"fast": 4})


def test_a_generational_pass_heeds_pins_too(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=0) as log:
        shop.put(log, "a b a- |")
        log.pin("copy", 0)
        log.compact(generational=True)
        clock.advance(1)
        assert log.compact(generational=True).tombstones == 0
        log.unpin("copy")
        assert log.compact(generational=True).tombstones == 1


def test_a_pin_is_seen_by_everyone_and_outlives_its_process(path: Path, process: Callable[..., Any]) -> None:
    with seglog.open(path) as log:
        log.append(b"v")
        reader = process(path)
        reader('log.pin("copy", 1)')
        reader.kill()
        assert log.pins == {"copy": 1}
    with seglog.open(path, mode="r") as reader:
        assert reader.pins == {"copy": 1}
        assert reader.recovery.clean


def test_a_pin_may_move_back_as_a_consumer_may_seek(place: Any) -> None:
    with seglog.open(place) as log:
        for _ in range(3):
            log.append(b"v")
        for offset in (3, 0, 2):
            log.pin("copy", offset)
            assert log.pins == {"copy": offset}
        log.unpin("copy")
        log.unpin("copy")
        assert log.pins == {}


@pytest.mark.parametrize("offset", [-1, 2, 2**63])
def test_a_pin_outside_the_log_is_refused(place: Any, offset: int) -> None:
    with seglog.open(place) as log:
        log.append(b"v")
        with pytest.raises(OffsetOutOfRange):
            log.pin("copy", offset)
        assert log.pins == {}


@pytest.mark.parametrize("name", ["", ".hidden", "a/b", "..", "x\0", "\udc80", "x" * 201])
def test_a_name_that_no_file_can_have_is_refused(place: Any, name: str) -> None:
    with seglog.open(place) as log:
        with pytest.raises(InvalidArgument):
            log.pin(name, 0)
        with pytest.raises(InvalidArgument):
            log.unpin(name)


def test_a_pin_needs_a_str_an_int_and_an_open_log(place: Any) -> None:
    with seglog.open(place) as log:
        with pytest.raises(InvalidType):
            log.pin(b"copy", 0)
        with pytest.raises(InvalidType):
            log.pin("copy", "0")
    for call in (lambda: log.pin("copy", 0), lambda: log.unpin("copy"), lambda: log.pins):
        with pytest.raises(LogClosed):
            call()


@pytest.mark.parametrize("name", ["copy", "größe 2", "a.b", "x" * 200, "new\nline"])
def test_a_name_comes_back_as_it_was(place: Any, name: str) -> None:
    with seglog.open(place) as log:
        log.pin(name, 0)
        assert log.pins == {name: 0}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{}\n",
        encode_pin(5, 0)[:-2],
        encode_pin(5, 0).replace(b"5", b"6", 1),
        encode_pin(5, 0).replace(b'"format": 1', b'"format": 2'),
        encode_pin(-1, 0),
        encode_pin(True, 0),
        b"\xff" * 5000,
        b'[]\n{"check":"%016x"}\n' % xxh64_intdigest(b"[]\n"),
        b"[" * 3000 + b'\n{"check":"%016x"}\n' % xxh64_intdigest(b"[" * 3000 + b"\n"),
    ],
)
def test_a_damaged_pin_holds_everything(place: Any, data: bytes) -> None:
    with seglog.open(place) as log:
        for _ in range(6):
            log.append(b"v")
        log.pin("copy", 5)
        storage_of(place).create("pins/copy.pin", replace=True).pwrite(data, 0)
        assert log.pins == {"copy": 0}
        log.pin("copy", 6)
        assert log.pins == {"copy": 6}


def test_what_a_pin_says_is_read_back() -> None:
    assert decode_pin(encode_pin(42, 7)) == (42, None, "", 7)
    assert decode_pin(encode_pin(42, 7, epoch=3, copy="host:/copy")) == (42, 3, "host:/copy", 7)
    assert b'"updated": 7' in encode_pin(42, 7)


def test_a_pin_that_cannot_be_read_holds_everything_and_one_that_vanishes_nothing(place: Any) -> None:
    storage = FaultyStorage(storage_of(place))
    with seglog.open(storage) as log:
        log.append(b"v")
        log.pin("copy", 1)
        storage.fault = Fault(operations=frozenset({"open"}), name=".pin", error=errno.EIO)
        assert log.pins == {"copy": 0}
        storage.fault = Fault(operations=frozenset({"open"}), name=".pin", error=errno.ENOENT)
        assert log.pins == {}
        storage.fault = Fault(operations=frozenset({"names"}), name="pins", error=errno.EIO)
        with pytest.raises(StorageError):
            log.pins  # noqa: B018 - who cannot look must not think that there are none


def test_a_writer_that_wipes_tmp_in_between_does_no_harm(place: Any) -> None:
    storage = FaultyStorage(storage_of(place))
    with seglog.open(storage) as log:
        storage.fault = Fault(operations=frozenset({"rename"}), name=".pin", error=errno.ENOENT)
        log.pin("copy", 0)
        assert storage.struck
        assert log.pins == {"copy": 0}
        storage.fault = Fault(operations=frozenset({"rename"}), name=".pin", error=errno.ENOENT, forever=True)
        with pytest.raises(StorageError):
            log.pin("copy", 0)


def test_pins_survive_opening_repair_and_a_lost_manifest_and_are_no_damage(path: Path) -> None:
    with seglog.open(path, seglog.LogConfig(segment_bytes=512)) as log:
        for _ in range(30):
            log.append(b"x" * 60)
        log.pin("copy", 7)
        (path / "pins" / "stray").write_bytes(b"of somebody else")
        log.truncate(20)
        assert log.verify().ok
    (path / "MANIFEST").unlink()
    assert set(seglog.repair(path).quarantined) == {"quarantine/MANIFEST", "quarantine/MANIFEST.prev"}
    with seglog.open(path) as log:
        assert log.pins == {"copy": 7}
        log.remove()
    assert not path.exists()


def test_a_plan_that_a_pin_has_overtaken_is_stale(shop: Any, clock: Any) -> None:
    with shop.open(delete_retention=0) as log:
        shop.put(log, "a a- | b |")
        log.compact()
        clock.advance(1)
        plan, directory = log.plan_compaction(), stage_directory(compaction_batch(), 0)
        storage = storage_of(shop.place)
        output = Subdirectory(storage, directory)
        output.make([])
        outcome = rewrite(plan, storage, output)
        assert outcome.tombstones == 1
        log.pin("copy", 1)
        with pytest.raises(PlanStale):
            log.finish_compaction(plan, outcome, directory)
        log.pin("copy", 3)  # after all that was planned
        assert log.finish_compaction(plan, outcome, directory).tombstones == 1


def test_a_follower_behind_a_cut_has_read_nothing_of_what_comes_there(place: Any, clock: Any) -> None:
    with seglog.open(place) as log:
        for _ in range(5):
            log.append(b"v")
        log.pin("ahead", 5)
        log.pin("behind", 1)
        pull_back_pins(storage_of(place), 3, clock=clock)
        assert log.pins == {"ahead": 3, "behind": 1}


def test_pins_of_a_directory_that_has_none(place: Any) -> None:
    storage = storage_of(place)
    assert read_pins(storage) == {}
    storage.make([])
    drop_pin(storage, "copy")
    set_pin(storage, "copy", 3)
    assert read_pins(storage) == {"copy": 3}
