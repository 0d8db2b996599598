"""A copy, and a leader that was fenced, stay so whatever is lost of their manifests."""

from __future__ import annotations

import errno
import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

import seglog
from seglog import Mirror
from seglog.format.manifest import LEADER, Role
from seglog.log.catalog import read_manifest
from seglog.log.role_file import decode_role, encode_role, read_role, settle_role, write_role
from seglog.replication.promote import promote
from seglog.storage import MemoryStorage
from seglog.testing.faulty import Crashed, Fault, FaultyStorage
from tests.replication.conftest import SMALL, fill

if TYPE_CHECKING:
    from pathlib import Path

MANIFESTS = ("MANIFEST", "MANIFEST.prev")


@pytest.fixture
def copied(source: Path, target: Path) -> Path:
    with seglog.open(source, SMALL) as log:
        fill(log, 50)
        with Mirror(source, target) as mirror:
            mirror.step()
    return target


def format_of(log: Path) -> int:
    return int(json.loads((log / "MANIFEST").read_bytes().split(b"\n")[0])["format"])


@pytest.mark.parametrize("lost", [MANIFESTS, ("MANIFEST",)])
def test_a_copy_that_loses_its_manifests_is_still_a_copy(copied: Path, lost: tuple[str, ...]) -> None:
    for name in lost:
        (copied / name).unlink()
    with pytest.raises(seglog.LogReadOnly, match="seglog promote"):
        seglog.open(copied)
    with seglog.open(copied, mode="r") as log:
        assert log.next_offset == 50
    seglog.repair(copied)
    with pytest.raises(seglog.LogReadOnly):
        seglog.open(copied)
    assert promote(copied) == 1
    with seglog.open(copied) as log:
        assert log.append(b"a leader now") == 50


def test_a_copy_without_records_that_loses_its_manifests_is_still_a_copy(source: Path, target: Path) -> None:
    with seglog.open(source), Mirror(source, target) as mirror:
        mirror.step()
    for name in MANIFESTS:
        (target / name).unlink(missing_ok=True)
    with pytest.raises(seglog.LogReadOnly):
        seglog.open(target)
    with seglog.open(source) as log, Mirror(source, target) as mirror:
        log.append(b"1")
        mirror.step()


def test_a_copy_whose_role_is_damaged_too_is_still_a_copy(copied: Path) -> None:
    for name in MANIFESTS:
        (copied / name).unlink()
    (copied / "ROLE").write_bytes(b"damaged")
    with pytest.raises(seglog.LogReadOnly):
        seglog.open(copied)


def test_a_fenced_leader_that_loses_its_manifests_is_still_fenced(source: Path) -> None:
    with seglog.open(source, SMALL) as log:
        fill(log, 20)
        log.fence(7)
    for lost in (MANIFESTS[:1], MANIFESTS):
        for name in lost:
            (source / name).unlink()
        with pytest.raises(seglog.LogFenced, match="term 7"):
            seglog.open(source)
        seglog.repair(source)
    assert promote(source) == 8


def test_a_promoted_log_that_loses_its_manifests_keeps_its_term(copied: Path, source: Path) -> None:
    promote(copied)
    for name in MANIFESTS:
        (copied / name).unlink()
    with seglog.open(copied) as log:
        assert log.view().manifest.role == Role(term=1)


def test_earlier_versions_refuse_every_log_that_is_no_plain_leader(copied: Path, source: Path, tmp_path: Path) -> None:
    """Every manifest that a writer has written they refuse anyhow; of backups they read those of plain leaders."""
    seglog.backup(source, tmp_path / "of-leader")
    seglog.backup(copied, tmp_path / "of-copy")
    assert (format_of(tmp_path / "of-leader"), format_of(tmp_path / "of-copy")) == (1, 2)
    assert (format_of(source), format_of(copied)) == (3, 3)
    promote(copied)
    seglog.backup(copied, tmp_path / "of-promoted")
    assert format_of(tmp_path / "of-promoted") == 2  # they would drop the term
    with seglog.open(source) as log:
        log.fence(1)
    seglog.backup(source, tmp_path / "of-fenced")
    assert format_of(tmp_path / "of-fenced") == 2


def test_a_log_of_the_first_version_with_roles_gets_its_role_file(copied: Path) -> None:
    (copied / "ROLE").unlink()
    with Mirror(copied.parent / "leader", copied):
        assert (copied / "ROLE").exists()


def test_a_role_file_that_a_crash_left_behind_is_removed(source: Path) -> None:
    with seglog.open(source) as log:
        log.append(b"1")
        write_role(log._storage, Role(fenced=1))  # then the process died, before the manifest
    with seglog.open(source) as log:
        assert log.append(b"2") == 1
    assert not (source / "ROLE").exists()


@pytest.mark.parametrize(
    "data",
    [b"", b"\n", b"x" * 100, encode_role(Role(term=1))[:-3], encode_role(Role(term=1)).replace(b"1", b"2", 1)],
)
def test_a_damaged_role_is_no_role(data: bytes) -> None:
    assert decode_role(data) is None


def test_what_was_written_is_read_again() -> None:
    storage = MemoryStorage()
    storage.make(["tmp"])
    assert read_role(storage) is None
    for role in (Role(copy="0" * 16, fenced=3), Role(term=2), LEADER):
        settle_role(storage, role, is_there=True)
        assert read_role(storage) == (None if role == LEADER else role)


def _played(fault: Fault | None) -> tuple[MemoryStorage, int]:
    """Fence a leader, make it a copy of another log, and promote it; return what is left, and the calls that write."""
    leader, plain = MemoryStorage(), MemoryStorage()
    with seglog.open(leader) as log:
        log.append(b"1")
        with Mirror(leader, plain) as mirror:
            mirror.step()
    promote(plain)
    faulty = FaultyStorage(plain, fault)
    with suppress(seglog.SeglogError, Crashed):
        with seglog.open(faulty) as log:
            log.fence(2)
        promote(faulty)
    return plain, sum(Fault().counts(call) for call in faulty.calls)


@pytest.mark.parametrize("error", [errno.EIO, None], ids=["EIO", "death"])
def test_whatever_call_fails_the_file_never_gives_more_than_the_manifest(error: int | None) -> None:
    _, total = _played(None)
    assert total > 20
    for at in range(1, total + 1):
        plain, _ = _played(Fault(at=at, error=error, keep=0.5))
        manifest = read_manifest(plain)
        assert manifest is not None
        stored = read_role(plain)
        assert manifest.role.accepts or (stored is not None and not stored.accepts), f"call {at}"
