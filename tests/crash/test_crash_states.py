"""The crash simulator itself: which states it takes for legal, and that it finds out a log that forgets a sync."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("seglog.testing.storage_contract")

from seglog.errors import StorageError  # noqa: E402 - the rewrite must be asked for first
from seglog.storage import Storage  # noqa: E402 - as above
from seglog.testing.crash_states import BLOCK_BYTES, moments  # noqa: E402 - as above
from seglog.testing.disk import ROOT, Disk, Image, Named, Synced  # noqa: E402 - as above
from seglog.testing.disk_storage import DiskStorage  # noqa: E402 - as above
from seglog.testing.ledger import Ledger  # noqa: E402 - as above
from seglog.testing.power_loss import PowerLoss, repeatable  # noqa: E402 - as above
from seglog.testing.storage_contract import StorageContract  # noqa: E402 - as above
from tests.crash.scenarios import SCENARIOS  # noqa: E402 - as above

if TYPE_CHECKING:
    from seglog.testing.crash_states import Moment, State

NAMED = {scenario.name: scenario for scenario in SCENARIOS}


class TestDiskStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return DiskStorage(Disk())


def recorded() -> tuple[Disk, DiskStorage]:
    """Return a disk on which "old" holds two blocks of a, durably."""
    disk = Disk()
    DiskStorage(disk).create("old").pwrite(b"a" * 2 * BLOCK_BYTES, 0)
    disk = Disk(disk.image(), recording=True)
    return disk, DiskStorage(disk)


def states_of(disk: Disk) -> set[tuple[tuple[str, bytes], ...]]:
    """Return every state at the last moment as (name, bytes) pairs, each run of equal bytes as one byte and a count."""
    last = list(moments(disk))[-1]
    return {tuple(sorted(contents(state.image))) for state in last.states(sample=0)}


def contents(image: Image) -> list[tuple[str, bytes]]:
    return [(name, image.files[node]) for name, node in image.directories[ROOT].items()]


def test_a_disk_that_records_nothing_is_refused() -> None:
    with pytest.raises(AssertionError, match="recording=True"):
        list(moments(Disk()))


def test_each_unsynced_block_is_old_or_new() -> None:
    disk, storage = recorded()
    storage.open("old", writable=True).pwrite(b"b" * 2 * BLOCK_BYTES, 0)
    found = {dict(state)["old"] for state in states_of(disk)}
    assert found == {x * BLOCK_BYTES + y * BLOCK_BYTES for x in (b"a", b"b") for y in (b"a", b"b")}


def test_a_block_written_twice_may_hold_either() -> None:
    disk, storage = recorded()
    file = storage.open("old", writable=True)
    file.pwrite(b"b", 0)
    file.pwrite(b"c", 1)
    assert {dict(state)["old"][:3] for state in states_of(disk)} == {b"aaa", b"baa", b"bca"}


def test_a_new_block_may_hold_zeros_or_noise_or_a_block_of_another_file_and_any_size() -> None:
    disk, storage = recorded()
    file = storage.create("new")
    storage.sync_directory()
    file.pwrite(b"n" * BLOCK_BYTES, 0)
    found = {dict(state)["new"] for state in states_of(disk)}
    assert {b"", b"n" * BLOCK_BYTES, bytes(BLOCK_BYTES), b"a" * BLOCK_BYTES} < found
    assert len(found) == 5  # and noise


def test_what_was_synced_stays() -> None:
    disk, storage = recorded()
    file = storage.open("old", writable=True)
    file.pwrite(b"b", 0)
    file.datasync()
    file.pwrite(b"c", BLOCK_BYTES)
    found = {dict(state)["old"] for state in states_of(disk)}
    assert {data[:1] for data in found} == {b"b"}
    assert {data[BLOCK_BYTES : BLOCK_BYTES + 1] for data in found} == {b"a", b"c"}


def test_a_cut_file_has_either_size_and_zeros_where_it_grows_again() -> None:
    disk, storage = recorded()
    file = storage.open("old", writable=True)
    file.truncate(1)
    file.truncate(BLOCK_BYTES)
    found = {dict(state)["old"] for state in states_of(disk)}
    assert {len(data) for data in found} == {1, BLOCK_BYTES, 2 * BLOCK_BYTES}
    assert b"a" + bytes(BLOCK_BYTES - 1) in found


def test_a_name_is_there_or_not_until_its_directory_is_synced_whatever_the_file_is() -> None:
    disk, storage = recorded()
    file = storage.create("new")
    file.pwrite(b"n", 0)
    file.datasync()
    assert {tuple(name for name, _ in state) for state in states_of(disk)} == {("old",), ("new", "old")}
    storage.sync_directory()
    storage.rename("new", "newer")
    assert {tuple(name for name, _ in state) for state in states_of(disk)} == {("new", "old"), ("newer", "old")}


def test_a_move_between_directories_never_loses_the_file() -> None:
    disk, storage = recorded()
    storage.make(["below"])
    storage.rename("old", "below/old")
    storage.sync_directory("")
    storage.create("after")
    last = list(moments(disk))[-1]
    assert all("old" in state.image.directories[state.image.directories[ROOT]["below"]] for state in last.states(0))


def test_a_file_in_a_directory_that_was_never_made_is_refused() -> None:
    with pytest.raises(StorageError):
        recorded()[1].create("missing/new")


def kinds(disk: Disk) -> dict[int, str]:
    """Return what each node was called last: "" for the root, else what follows the last dot or slash of its name."""
    named = {ROOT: ""}
    for names in disk.begun.directories.values():
        named |= {node: name for name, node in names.items()}
    for entry in disk.journal or []:
        if isinstance(entry, Named):
            named |= {node: name for _, name, node in entry.changes if node is not None}
    return {node: name.rpartition(".")[2] for node, name in named.items()}


class ViolationFound(Exception):
    """What a proof is to find was found."""


class UpToTheFirst(PowerLoss):
    """A proof that ends with the first violation."""

    def _judge(self, moment: Moment, state: State, reasons: dict[int, list[str]]) -> None:
        super()._judge(moment, state, reasons)
        if self.counts.violations:
            raise ViolationFound(self.counts.violations[0])


@pytest.mark.no_cover
@pytest.mark.parametrize(
    ("forgotten", "scenario"),
    [
        ("store", "append and sync"),
        ("store", "append, each durable"),
        ("store", "roll"),
        ("store", "truncate across segments"),
        ("store", "compact"),
        ("store", "compress"),
        ("store", "publish"),
        ("MANIFEST", "roll"),
        ("MANIFEST", "truncate within the active segment"),
        ("MANIFEST", "expire"),
        ("", "create"),
        ("", "roll"),
        ("", "truncate to nothing"),
        ("", "compact"),
        ("", "compress"),
        ("", "publish"),
    ],
)
def test_a_log_that_forgets_a_sync_is_found_out(forgotten: str, scenario: str) -> None:
    """The same run, but the syncs of the stores, of the manifest or of the log's directory had no effect."""
    made, ledger, proof = Disk(), Ledger(), UpToTheFirst(sample=0, again=10_000, exhaustive=32)
    with repeatable():
        NAMED[scenario].prepare(DiskStorage(made), ledger)
        disk = Disk(made.image(), recording=True)
        disk.note(ledger.standing)
        NAMED[scenario].run(DiskStorage(disk), Ledger(disk.note, ledger.standing))
        called = kinds(disk)
        disk.journal = [
            entry for entry in disk.journal or [] if not (isinstance(entry, Synced) and called[entry.node] == forgotten)
        ]
        with pytest.raises(ViolationFound):
            proof._cut(disk, depth=0, sample=0)
