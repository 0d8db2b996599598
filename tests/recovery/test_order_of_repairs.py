"""The order in which a repair writes and syncs: what is replaced is kept durably before it is replaced.

The crash states of tests/crash/test_repair.py judge what a power cut leaves; here the calls themselves are compared,
since each sync protects against a cut that a file system may or may not show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from seglog.format import filename
from seglog.log.repair.repair import repair_storage
from seglog.testing.disk import Disk
from seglog.testing.disk_storage import DiskStorage
from seglog.testing.faulty import WRITING, FaultyStorage
from seglog.testing.power_loss import repeatable
from tests.crash.test_repair import DAMAGES, fill

if TYPE_CHECKING:
    from collections.abc import Iterator

OF_KEEPING = f"sync_directory {filename.QUARANTINE}"
OF_NEW_STORES = "sync_directory"


def calls_of_repair(damage: str) -> list[str]:
    """Repair a damaged log and return what was written, synced and renamed."""
    with repeatable():
        inner = DiskStorage(Disk())
        fill(inner, 20, b"value")
        DAMAGES[damage](inner)
        storage = FaultyStorage(inner)
        repair_storage(storage)
    return [f"{call.operation} {call.name}".strip() for call in storage.calls if call.operation in WRITING]


def names(calls: list[str], operation: str) -> Iterator[str]:
    return (call.partition(" ")[2] for call in calls if call.startswith(f"{operation} "))


@pytest.mark.parametrize("damage", ["a record in a sealed store", "the active store lost", "a dense index"])
def test_the_lookups_that_a_repair_replaces_are_kept_durably_before_anything_else_changes(damage: str) -> None:
    calls = calls_of_repair(damage)
    before = calls[: calls.index(OF_KEEPING)]
    kept = list(names(before, "rename"))
    assert kept
    assert all(name.startswith(f"{filename.QUARANTINE}/") for name in kept)
    copies = [f"{filename.TMP}/{name.partition('/')[2]}.kept" for name in kept]
    expected = [
        call for copy, name in zip(copies, kept, strict=True) for call in (f"datasync {copy}", f"rename {name}")
    ]
    assert [call for call in before if call.startswith(("datasync", "rename"))] == expected
    assert not list(names(before, "unlink"))


@pytest.mark.parametrize("damage", ["a record in a sealed store", "the active store lost"])
def test_new_stores_then_the_replaced_ones_in_quarantine_are_durable_before_the_manifest_changes(damage: str) -> None:
    calls = calls_of_repair(damage)
    calls = calls[calls.index(OF_KEEPING) + 1 :]
    new, linked, installed = calls.index(OF_NEW_STORES), calls.index(OF_KEEPING), calls.index("rename MANIFEST")
    assert new < linked < installed
    created = {name for name in names(calls[:new], "create") if name.endswith(".store")}
    assert created
    assert created <= set(names(calls[:new], "datasync"))
    assert set(names(calls[new:linked], "link")) >= {f"{filename.QUARANTINE}/MANIFEST"}
    assert calls[installed + 1] == "sync_directory"
    unlinked = [number for number, call in enumerate(calls) if call.startswith("unlink 0")]
    assert unlinked
    assert min(unlinked) > installed + 1
