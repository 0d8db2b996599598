"""Repairing a log while it is open, or again after a repair that was interrupted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog import LogConfig
from seglog.log import catalog
from tests.damage import flip

if TYPE_CHECKING:
    from pathlib import Path


def store_of(path: Path) -> Path:
    (store,) = path.glob("*.store")
    return store


@pytest.mark.parametrize("damage", ["header", "missing"])
def test_what_is_appended_after_a_live_repair_goes_to_the_new_store(path: Path, damage: str) -> None:
    with seglog.open(path) as log:
        if damage == "missing":
            store_of(path).unlink()
        else:
            flip(store_of(path), 20)
        assert log.repair().actions
        assert log.append(b"precious") == 0
        log.sync()
        assert log.read(0).value == b"precious"
    with seglog.open(path) as log:
        assert log.recovery.clean, log.recovery.events
        assert [record.value for record in log.scan()] == [b"precious"]
        assert log.verify().ok


def interrupted_repair(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damage a sealed store, and let its repair fail just before the manifest is installed."""
    with seglog.open(path, LogConfig(segment_bytes=1024)) as log:
        for number in range(30):
            log.append(b"x%03d" % number + b"y" * 100)
    store = min(path.glob("*.store"))
    store.write_bytes(store.read_bytes().replace(b"x002", b"x902"))

    def full(*_: Any, **__: Any) -> None:
        raise seglog.StorageError(28, "no space left", str(path))

    with monkeypatch.context() as patched:
        patched.setattr(catalog, "write_manifest", full)
        with pytest.raises(seglog.StorageError):
            seglog.repair(path)


def test_a_repair_after_an_interrupted_one_finishes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    interrupted_repair(path, monkeypatch)
    report = seglog.repair(path)
    assert report.records_lost == 1
    kept = {file.relative_to(path).as_posix() for file in (path / "quarantine").iterdir()}
    assert set(report.quarantined) == kept
    assert seglog.verify(path).ok
    assert seglog.repair(path).actions == ()


def test_a_repair_keeps_another_file_of_the_same_name_in_quarantine(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupted_repair(path, monkeypatch)
    (kept,) = (path / "quarantine").glob("*.store")
    kept.unlink()
    kept.write_bytes(b"something else")
    report = seglog.repair(path)
    assert f"quarantine/{kept.name}.2" in report.quarantined
    assert b"x902" in kept.with_name(f"{kept.name}.2").read_bytes()
    assert kept.read_bytes() == b"something else"
