"""A repair destroys nothing: every byte that it replaces is kept, whenever the power fails in the middle of it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

import seglog
from seglog import LogConfig
from seglog.format import filename
from seglog.log.repair.repair import RepairReport, repair_storage
from seglog.log.repair.verify import verify_storage
from seglog.storage import Storage
from seglog.testing.crash_states import EXHAUSTIVE, moments
from seglog.testing.disk import Disk, Image
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.power_loss import repeatable, ticking
from tests.proofs import Tell

CONFIG = LogConfig(segment_bytes=512, index_interval_bytes=64)
MANIFESTS = (filename.MANIFEST, filename.MANIFEST_PREVIOUS)
Files = dict[str, bytes]


class Wounded(NamedTuple):
    """A damaged log on a disk. values: of its records before; readable: the offsets that nothing has happened to."""

    image: Image
    files: Files
    values: dict[int, bytes]
    readable: set[int]
    keeps_manifests: bool


def store(storage: Storage, number: int, kind: str = filename.STORE) -> str:
    """Return the number-th segment's file; -1 is the active one."""
    names = [name for name in storage.names() if name.endswith(f".{filename.STORE}")]
    return sorted(names)[number].removesuffix(filename.STORE) + kind


def flip(number: int, position: int, kind: str = filename.STORE) -> Callable[[Storage], None]:
    """Return what flips a bit in a segment's file; a negative position counts from its end."""

    def harm(storage: Storage) -> None:
        flip_in(storage, store(storage, number, kind), position)

    return harm


def flip_in(storage: Storage, name: str, position: int) -> None:
    file = storage.open(name, writable=True)
    at = position % file.size()
    file.pwrite(bytes([file.pread(1, at)[0] ^ 4]), at)


def lose(number: int, kind: str = filename.STORE) -> Callable[[Storage], None]:
    return lambda storage: storage.unlink(store(storage, number, kind))


def shorten(storage: Storage) -> None:
    file = storage.open(store(storage, 1), writable=True)
    file.truncate(file.size() - 100)


def lose_manifests(storage: Storage) -> None:
    for name in MANIFESTS:
        storage.unlink(name)


def lose_manifest_and_active(storage: Storage) -> None:
    storage.unlink(filename.MANIFEST)
    lose(-1)(storage)


def exchange(of: str) -> Callable[[Storage], None]:
    """Return what puts another log's file in place of one: MANIFEST, or the second store."""

    def harm(storage: Storage) -> None:
        other = DiskStorage(Disk())
        fill(other, 16, b"other")
        mine, theirs = (of, of) if of in MANIFESTS else (store(storage, 1), store(other, 1))
        file = other.open(theirs)
        storage.create(mine, replace=True).pwrite(file.pread(file.size(), 0), 0)

    return harm


def both(*harms: Callable[[Storage], None]) -> Callable[[Storage], None]:
    """Return several damages at once."""

    def harm(storage: Storage) -> None:
        for one in harms:
            one(storage)

    return harm


DAMAGES: dict[str, Callable[[Storage], None]] = {
    "a record in a sealed store": flip(1, 120),
    "a record in the active store": flip(-1, -5),
    "the header of a sealed store": flip(1, 17),
    "the header of the active store": flip(-1, 17),
    "a sealed store cut short": shorten,
    "a sealed store lost": lose(1),
    "the active store lost": lose(-1),
    "another log's store": exchange("store"),
    "another log's MANIFEST": exchange(filename.MANIFEST),
    "a bit in MANIFEST": lambda storage: flip_in(storage, filename.MANIFEST, 40),
    "MANIFEST lost": lambda storage: storage.unlink(filename.MANIFEST),
    "both manifests lost": lose_manifests,
    "MANIFEST and the active store lost": lose_manifest_and_active,
    "a dense index": flip(1, 33, filename.INDEX),
    "a dense index lost": lose(1, filename.INDEX),
    "the active index": flip(-1, -3, filename.INDEX),
    "a time index": flip(1, -3, filename.TIMES),
    "a sealed store lost and a record in another": both(lose(1), flip(0, 120)),
    "a sealed store lost and a record in the active one": both(lose(1), flip(-1, -5)),
}


def fill(storage: Storage, records: int, word: bytes) -> dict[int, bytes]:
    values = {number: b"%s %d " % (word, number) * 3 for number in range(records)}
    with seglog.open(storage, CONFIG, clock=ticking()) as log:
        for value in values.values():
            log.append(value)
    return values


def wounded(harm: Callable[[Storage], None], records: int = 20) -> Wounded:
    """Make a log, all of it durable, and damage it."""
    disk = Disk()
    storage = DiskStorage(disk)
    values = fill(storage, records, b"value")
    harm(storage)
    report = verify_storage(storage)
    assert not report.ok
    gone = {offset for gap in report.unreadable for offset in range(gap.first, gap.stop or records)}
    lookups = {problem.kind for problem in report.problems} == {"index"}
    return Wounded(disk.image(), files_of(storage), values, set(values) - gone, not lookups)


def files_of(storage: Storage, *directories: str) -> Files:
    """Return name -> bytes of every file in these directories; those of the log itself without the lock."""
    found = {}
    for directory in directories or ("",):
        for name in storage.sizes(directory):
            path = f"{directory}/{name}" if directory else name
            file = storage.open(path)
            found[path] = file.pread(file.size(), 0)
    found.pop(filename.LOCK, None)
    return found


def check_repaired(log: Wounded, storage: Storage) -> None:
    """All evidence is there, all that was readable is, and another repair finds nothing to do."""
    everything = files_of(storage, "", filename.QUARANTINE)
    kept = set(everything.values())
    lost = [name for name, data in log.files.items() if data not in kept]
    assert not [name for name in lost if log.keeps_manifests or name not in MANIFESTS], f"{lost} are kept nowhere"
    assert verify_storage(storage).ok
    assert repair_storage(storage, clock=ticking()).actions == ()
    assert files_of(storage, "", filename.QUARANTINE) == everything
    with seglog.open(storage, clock=ticking()) as opened:
        found = {record.offset: record.value for record in opened.scan()}
        assert found == {offset: log.values[offset] for offset in log.readable}
        assert opened.next_offset == len(log.values)


@pytest.mark.parametrize("what", DAMAGES)
def test_what_a_repair_replaces_is_in_quarantine_and_a_second_repair_changes_nothing(what: str) -> None:
    log = wounded(DAMAGES[what])
    storage = DiskStorage(Disk(log.image))
    report = repair_storage(storage, clock=ticking())
    assert report.actions
    check_repaired(log, storage)
    there = files_of(storage, filename.QUARANTINE)
    assert set(there) == {name for name in report.quarantined if name.startswith(filename.QUARANTINE)}


@pytest.mark.parametrize("what", DAMAGES)
def test_a_dry_run_names_the_same_losses_and_changes_nothing(what: str) -> None:
    log = wounded(DAMAGES[what])
    storage = DiskStorage(Disk(log.image))
    planned = repair_storage(storage, dry_run=True)
    assert files_of(storage, "", filename.QUARANTINE) == log.files
    done: RepairReport = repair_storage(storage, clock=ticking())
    assert (done.actions, done.records_lost) == (planned.actions, planned.records_lost)
    assert done.records_lost == len(log.values) - len(log.readable)


def test_one_damaged_manifest_after_another_is_kept() -> None:
    storage, damaged = DiskStorage(Disk()), []
    fill(storage, 3, b"value")
    for _ in range(3):
        storage.unlink(filename.MANIFEST_PREVIOUS)
        flip_in(storage, filename.MANIFEST, 40)
        damaged.append(files_of(storage)[filename.MANIFEST])
        seglog.open(storage, clock=ticking()).close()
    assert list(files_of(storage, filename.QUARANTINE).values()) == damaged


def test_another_logs_manifest_over_a_log_of_one_store_does_not_cost_the_store() -> None:
    storage, other = DiskStorage(Disk()), DiskStorage(Disk())
    values = fill(storage, 2, b"value")
    fill(other, 2, b"other")
    theirs = files_of(other)[filename.MANIFEST]
    storage.create(filename.MANIFEST, replace=True).pwrite(theirs, 0)
    with seglog.open(storage, clock=ticking()) as log:
        assert [event.kind for event in log.recovery.events] == ["manifest"]
        assert {record.offset: record.value for record in log.scan()} == values


def test_another_logs_store_in_a_log_of_one_store_is_never_served_for_its_own() -> None:
    storage, other = DiskStorage(Disk()), DiskStorage(Disk())
    fill(storage, 2, b"value")
    fill(other, 2, b"other")
    storage.create(store(storage, 0), replace=True).pwrite(files_of(other)[store(other, 0)], 0)
    with pytest.raises(seglog.CorruptLog):
        seglog.open(storage, clock=ticking())
    assert [action.kind for action in repair_storage(storage, clock=ticking()).actions] == ["drop"]
    with seglog.open(storage, clock=ticking()) as log:
        assert (log.next_offset, list(log.scan())) == (2, [])


def test_a_damaged_manifest_is_kept_whenever_the_power_fails_while_the_log_is_opened() -> None:
    storage = DiskStorage(Disk())
    fill(storage, 3, b"value")
    flip_in(storage, filename.MANIFEST, 40)
    damaged = files_of(storage)[filename.MANIFEST]
    disk = Disk(storage.disk.image(), recording=True)
    seglog.open(DiskStorage(disk), clock=ticking()).close()
    for moment in moments(disk):
        for state in moment.states(sample=30):
            left = DiskStorage(Disk(state.image))
            assert damaged in [*files_of(left).values(), *files_of(left, filename.QUARANTINE).values()]


@pytest.mark.no_cover
@pytest.mark.parametrize("what", DAMAGES)
def test_a_repair_that_the_power_cut_short_is_finished_by_the_next_and_has_destroyed_nothing(what: str) -> None:
    assert cut_everywhere(wounded(DAMAGES[what]), sample=0, seed=0, exhaustive=4)["states"] > 1


@pytest.mark.proof
@pytest.mark.parametrize("what", DAMAGES)
def test_every_state_that_a_power_cut_may_leave_of_a_repair(what: str, tell: Tell) -> None:
    tell("cut repairs", damage=what, **cut_everywhere(wounded(DAMAGES[what]), sample=16, seed=0))


def cut_everywhere(log: Wounded, *, sample: int, seed: int, exhaustive: int = EXHAUSTIVE) -> dict[str, int]:
    """Cut the power at every moment of a repair; repair each state that leaves, and check it. Returns counts."""
    disk = Disk(log.image, recording=True)
    disk.note("repair")
    with repeatable():
        repair_storage(DiskStorage(disk), clock=ticking())
    counts, seen = {"moments": 0, "states": 0, "violations": 0}, set[int]()
    for moment in moments(disk):
        counts["moments"] += 1
        for state in moment.states(sample, seed, exhaustive=exhaustive):
            if state.key not in seen:
                seen.add(state.key)
                counts["states"] += 1
                storage = DiskStorage(Disk(state.image))
                try:
                    repair_storage(storage, clock=ticking())
                    check_repaired(log, storage)
                except (AssertionError, seglog.SeglogError) as error:
                    error.add_note(f"power cut at {moment.at}, state {state.key:016x}, seed {seed}")
                    raise
    return counts


def one_round(seed: int, root: Path) -> dict[str, int]:
    """Damage one more log in every way and cut its repairs short in more; see tests/crash/deep.py."""
    source, counts = random.Random(seed), Counter[str]()
    for what, harm in DAMAGES.items():
        try:
            counts.update(cut_everywhere(wounded(harm, source.randrange(16, 40)), sample=30, seed=seed))
        except BaseException as error:
            error.add_note(f"one_round({seed}): {what}")
            raise
    return dict(counts)
