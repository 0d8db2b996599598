"""A medium that has no space, cannot be read or takes nothing: a clean error, the old state, and nothing deleted.

The numbers are those of the list of what the log must survive (docs/reliability.md).
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import seglog
from seglog.storage import LocalStorage
from seglog.testing.faulty import READING, SYNCING, WRITING, Call, Fault, FaultyStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=512, index_interval_bytes=64)
KEEP = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(bytes=600))
DIRECTORY_SYNC = frozenset({"sync_directory"})
PUTTING = frozenset({"pwrite", "pwritev"})
REFUSABLE = WRITING - SYNCING


def value(number: int) -> bytes:
    return b"value %04d " % number * 4


def fill(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 20)


def roll(log: seglog.Log, ledger: Any) -> None:
    ledger.append(log, 12)


def truncate(log: seglog.Log, ledger: Any) -> None:
    ledger.truncate(log, 7)


def table(*values: bytes) -> pa.Table:
    return pa.table({"value": values})


@pytest.fixture
def faulty(scene: Any) -> FaultyStorage:
    return FaultyStorage(LocalStorage(scene.path))


# --- 18. no space for structure -------------------------------------------------------------------------------------


def test_18_no_space_for_a_new_segment_leaves_the_old_one_and_the_append_may_be_tried_again(
    scene: Any, faulty: FaultyStorage
) -> None:
    log = seglog.open(faulty, SMALL)
    while log.size < 450:
        log.append(b"x" * 40)
    before, manifest = list(log.scan()), scene.manifest()
    faulty.fault = Fault(operations=REFUSABLE, name="-2.", error=errno.ENOSPC, forever=True)
    for _ in range(3):
        with pytest.raises(seglog.StorageError) as caught:
            log.append(b"x" * 100)
        assert caught.value.errno == errno.ENOSPC
        faulty.fault = Fault(operations=REFUSABLE, name=".store", error=errno.ENOSPC, forever=True)
    assert list(log.scan()) == before
    assert scene.manifest() == manifest
    assert len(list(scene.path.glob("*.store"))) == 1
    faulty.fault = None
    assert log.append(b"x" * 100) == len(before)
    assert len(log.segments) == 2


@pytest.mark.parametrize("error", [errno.ENOSPC, errno.EIO, errno.EDQUOT])
@pytest.mark.parametrize("forever", [False, True])
def test_18_a_refusal_at_any_step_of_opening_leaves_all_that_was_there(
    laboratory: Any, check_survivor: Any, error: int, forever: bool
) -> None:
    """Opening after a crash cuts a torn record: it does so, or it refuses."""

    def crash_while_appending(log: seglog.Log, ledger: Any) -> None:
        ledger.append(log, 3)
        torn = laboratory.template / log.segments[-1].name
        with torn.open("ab") as store:
            store.write(b"torn" * 10)

    laboratory.prepare(crash_while_appending, SMALL, close=False)

    def nothing(log: seglog.Log, ledger: Any) -> None:
        log.close()

    for run in laboratory.runs(nothing, Fault(error=error, forever=forever), opening=True):
        run.storage.crash()
        check_survivor(run.path, run.ledger)


def test_18_a_tear_is_cut_though_there_is_no_space_to_keep_its_bytes(scene: Any, faulty: FaultyStorage) -> None:
    scene.fill([b"one"])
    with scene.file().open("ab") as store:
        store.write(b"torn" * 10)
    faulty.fault = Fault(operations=PUTTING, name=".torn", error=errno.ENOSPC, forever=True)
    with seglog.open(faulty) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.bytes) == ("torn", 40)
        assert "no space" in event.detail
        assert log.append(b"two") == 1
    assert scene.torn_files() == []
    assert scene.values() == [b"one", b"two"]


def test_18_damage_is_not_cut_when_there_is_no_space_to_keep_its_bytes(scene: Any, faulty: FaultyStorage) -> None:
    scene.fill_and_crash([b"one"], [b"two", b"three"])
    scene.flip(scene.file(), scene.places()[1].position + 33)
    before = scene.snapshot()
    faulty.fault = Fault(operations=PUTTING, name=".torn", error=errno.ENOSPC, forever=True)
    with pytest.raises(seglog.StorageError) as caught:
        seglog.open(faulty)
    assert caught.value.errno == errno.ENOSPC
    assert scene.snapshot() == before


# --- 19. a failed read ----------------------------------------------------------------------------------------------


def test_19_a_read_error_is_no_corruption(scene: Any, faulty: FaultyStorage) -> None:
    scene.fill([value(number) for number in range(20)], SMALL)
    log = seglog.open(faulty)
    reads: list[Callable[[], object]] = [
        lambda: log.read(1),
        lambda: log.read(19),
        lambda: list(log.scan()),
        lambda: log.offset_at(19),
        log.verify,
    ]
    for read in reads:
        faulty.fault = Fault(operations=frozenset({"pread"}), name=".store", error=errno.EIO, forever=True)
        with pytest.raises(seglog.StorageError) as caught:
            read()
        assert caught.value.errno == errno.EIO
        assert ".store" in str(caught.value.filename)
        faulty.fault = None
        read()
    assert log.append(b"on") == 20
    log.close()


@pytest.mark.parametrize("opening", ["after a close", "after a crash", "with a torn record"])
def test_19_a_read_error_while_opening_cuts_nothing(scene: Any, opening: str) -> None:
    values = [value(number) for number in range(20)]
    if opening == "after a close":
        scene.fill(values[:18], SMALL)
    else:
        scene.fill_and_crash(values[:18], values[18:], SMALL)
    if opening == "with a torn record":
        scene.cut(scene.file(), scene.file().stat().st_size - 3)
    whole = scene.places()[-1].position + scene.places()[-1].length
    stores = {path: path.read_bytes() for path in scene.path.glob("*.store")}
    stores[scene.file()] = stores[scene.file()][:whole]  # a tear may be cut before something else fails
    for at in range(1, 1000):
        faulty = FaultyStorage(LocalStorage(scene.path), Fault(operations=READING, at=at, error=errno.EIO))
        try:
            log = seglog.open(faulty)
        except seglog.StorageError as error:
            assert error.errno == errno.EIO
            assert {path: path.read_bytes()[: len(data)] for path, data in stores.items()} == stores
            faulty.crash()
            continue
        if not faulty.struck or Call("rename", "MANIFEST") in faulty.calls:  # after that nothing can be cut
            break
        log.close()
        pytest.fail("a read failed and nobody said so")
    assert at > 5
    faulty.fault = None
    log.close()
    assert scene.values() == values[: {"after a close": 18, "after a crash": 20, "with a torn record": 19}[opening]]


def test_19_a_read_error_of_a_lookup_costs_no_data(scene: Any, faulty: FaultyStorage) -> None:
    scene.fill([value(number) for number in range(20)], SMALL)
    log = seglog.open(faulty)
    faulty.fault = Fault(operations=frozenset({"open"}), name=".index", error=errno.EIO, forever=True)
    assert [log.read(offset).value for offset in range(20)] == [value(number) for number in range(20)]


# --- 20. nothing may be written, opened, entered --------------------------------------------------------------------


@pytest.mark.parametrize("error", [errno.EROFS, errno.EACCES, errno.EMFILE, errno.EDQUOT])
def test_20_a_directory_that_takes_nothing_is_refused_and_left_as_it_is(
    scene: Any, faulty: FaultyStorage, error: int
) -> None:
    scene.fill([value(number) for number in range(20)], SMALL)
    before = scene.snapshot()
    faulty.fault = Fault(error=error, forever=True)
    with pytest.raises(seglog.StorageError) as caught:
        seglog.open(faulty)
    assert caught.value.errno == error
    assert scene.snapshot() == before


def test_20_a_read_only_directory_can_be_read(scene: Any, faulty: FaultyStorage) -> None:
    scene.fill([value(number) for number in range(20)], SMALL)
    before = scene.snapshot()
    faulty.fault = Fault(error=errno.EROFS, forever=True)
    with seglog.open(faulty, mode="r") as log:
        assert [record.value for record in log.scan()] == [value(number) for number in range(20)]
        assert log.verify().ok
    assert scene.snapshot() == before


def test_20_a_remount_below_an_open_log_is_an_error_and_deletes_nothing(scene: Any, faulty: FaultyStorage) -> None:
    log = seglog.open(faulty, SMALL)
    for number in range(20):
        log.append(value(number))
    log.sync()
    before = scene.snapshot()
    faulty.fault = Fault(operations=REFUSABLE, error=errno.EROFS, forever=True)
    calls: list[Callable[[], object]] = [
        lambda: log.append(b"x"),
        lambda: log.append_batch(table(b"x")),
        lambda: log.truncate(3),
    ]
    for call in calls:
        with pytest.raises(seglog.SeglogError) as caught:
            call()
        assert isinstance(caught.value, OSError)
    assert [record.value for record in log.scan()] == [value(number) for number in range(20)]
    log.close()
    assert scene.snapshot() == before


@pytest.mark.parametrize("mode", ["a", "r"])
def test_20_no_file_descriptor_left_is_a_clean_error(scene: Any, mode: Any) -> None:
    scene.fill([value(number) for number in range(20)], SMALL)
    before = scene.snapshot()
    taking = frozenset({"open", "create", "try_lock", "names", "sizes"})
    for at in range(1, 100):
        fault = Fault(operations=taking, at=at, error=errno.EMFILE, forever=True)
        faulty = FaultyStorage(LocalStorage(scene.path), fault)
        try:
            log = seglog.open(faulty, mode=mode)
            values = [record.value for record in log.scan()]
        except seglog.StorageError as error:
            assert error.errno == errno.EMFILE
        else:
            assert values == [value(number) for number in range(20)]
        struck = faulty.struck
        faulty.crash()
        assert scene.snapshot() == before
        if not struck:
            return


# --- 21. a failed sync of the directory -----------------------------------------------------------------------------


@pytest.mark.parametrize("operation", [roll, truncate], ids=["roll", "truncate"])
def test_21_a_directory_that_cannot_be_synced_poisons(laboratory: Any, check_survivor: Any, operation: Any) -> None:
    laboratory.prepare(fill, SMALL)
    runs = 0
    for run in laboratory.runs(operation, Fault(operations=DIRECTORY_SYNC, error=errno.EIO)):
        if run.storage.struck:
            runs += 1
            assert isinstance(run.error, seglog.LogPoisoned)
            with pytest.raises(seglog.LogPoisoned):
                run.log.append(b"never")
            run.log.close()
        run.storage.crash()
        check_survivor(run.path, run.ledger)
    assert runs >= 2, "one for the new store, one for the manifest"


def test_21_expire_too(laboratory: Any, check_survivor: Any) -> None:
    laboratory.prepare(fill, SMALL)
    seglog.open(laboratory.template, KEEP).close()

    def expire(log: seglog.Log, ledger: Any) -> None:
        ledger.expiring(log.segments[-2].base_offset)
        log.expire()

    for run in laboratory.runs(expire, Fault(operations=DIRECTORY_SYNC, error=errno.EIO)):
        if run.storage.struck:
            assert isinstance(run.error, seglog.LogPoisoned)
            assert run.log.read(0).value == value(0), "nothing is unlinked before the manifest is known to be there"
        run.storage.crash()
        check_survivor(run.path, run.ledger)


def test_21_a_log_whose_directory_cannot_be_synced_is_not_created(tmp_path: Path) -> None:
    storage = FaultyStorage(LocalStorage(tmp_path / "log"), Fault(operations=DIRECTORY_SYNC, error=errno.EIO))
    with pytest.raises(seglog.LogPoisoned):
        seglog.open(storage)
    storage.fault = None
    with seglog.open(storage) as log:
        assert log.append(b"first") == 0
