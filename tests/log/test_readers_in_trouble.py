"""A reader beside a damaged manifest, without a lease, or with the leases of users it may not touch."""

from __future__ import annotations

import errno
import os
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig, Retention
from seglog.log import leases
from seglog.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

KEEPS_LITTLE = LogConfig(segment_bytes=4096, retention=Retention(bytes=8192))


def fill(log: seglog.Log, records: int = 200) -> None:
    for _ in range(records):
        log.append(b"v" * 100)


def test_a_reader_says_that_the_manifest_was_damaged_and_serves_nothing_stale(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=1024)) as log:
        log.append(b"v")
        with seglog.open(path, mode="r") as reader:
            assert reader.next_offset == 1
            fill(log, 30)
            damaged = bytearray((path / "MANIFEST").read_bytes())
            damaged[200] ^= 1
            (path / "MANIFEST").write_bytes(damaged)
            for _ in range(2):
                with pytest.raises(seglog.CorruptLog):
                    reader.read(0)


@pytest.fixture
def without_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """As for a user who may not write below readers/."""
    monkeypatch.setattr(leases, "_take", lambda *_: None)


@pytest.mark.usefixtures("without_leases")
def test_a_reader_without_a_lease_learns_that_retention_overtook_it(path: Path) -> None:
    with seglog.open(path, KEEPS_LITTLE) as log:
        fill(log)
        with seglog.open(path, mode="r") as reader:
            scan = reader.scan()
            next(scan)
            fill(log, 400)
            with pytest.raises(seglog.SnapshotExpired) as expired:
                list(scan)
            assert expired.value.offset < expired.value.next_offset == 200


@pytest.mark.usefixtures("without_leases")
def test_a_reader_without_a_lease_learns_that_a_repair_replaced_a_store(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=4096)) as log:
        fill(log)
        with seglog.open(path, mode="r") as reader:
            scan = reader.scan()
            next(scan)
            second = sorted(path.glob("*.store"))[1]
            damaged = second.read_bytes().replace(b"v" * 100, b"v" * 99 + b"w", 1)
            second.write_bytes(damaged)
            assert log.repair().records_lost == 1  # the second store has another name from now on
            with pytest.raises(seglog.SnapshotExpired):
                list(scan)


@pytest.mark.usefixtures("without_leases")
def test_a_reader_without_a_lease_learns_that_the_log_was_cut(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=4096)) as log:
        fill(log)
        with seglog.open(path, mode="r") as reader:
            scan = reader.scan()
            next(scan)
            log.truncate(10)
            with pytest.raises(seglog.SnapshotExpired):
                list(scan)


def test_a_store_that_is_missing_is_damage_for_a_reader_still(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=4096)) as log, seglog.open(path, mode="r") as reader:
        fill(log)
        sorted(path.glob("*.store"))[1].unlink()
        with pytest.raises(seglog.CorruptLog):
            list(reader.scan())


# --- leases of other users --------------------------------------------------------------------------------------------


@pytest.fixture
def others_leases(monkeypatch: pytest.MonkeyPatch) -> None:
    """A lease can be read but not written by who collects, as one of another user."""
    real = os.open

    def as_another_user(name: Any, flags: int, *rest: int) -> int:
        if str(name).endswith("dead.lease") and flags & os.O_RDWR:
            raise PermissionError(errno.EACCES, "denied", name)
        return real(name, flags, *rest)

    monkeypatch.setattr(os, "open", as_another_user)


@pytest.mark.usefixtures("others_leases")
def test_a_dead_lease_of_another_user_does_not_keep_files(path: Path) -> None:
    with seglog.open(path, KEEPS_LITTLE) as log:
        (path / "readers" / "dead.lease").write_bytes(b"1\n")
        fill(log, 400)
        log.expire()
        assert len(list(path.glob("*.store"))) == len(log.segments)
        assert not list((path / "readers").iterdir())


def test_a_lease_that_nobody_can_judge_counts_as_held(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    storage = LocalStorage(path)
    storage.make(["readers"])
    (path / "readers" / "a.lease").write_bytes(b"7\n")
    (path / "readers" / "b.lease").write_bytes(b"5\n")

    def refused(_: LocalStorage, name: str, *, shared: bool = False) -> None:
        raise seglog.StorageError(errno.EIO, "refused", name)

    monkeypatch.setattr(LocalStorage, "try_lock", refused)
    assert leases.oldest_leased_version(storage) == 5
