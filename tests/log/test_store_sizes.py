"""The sizes of stores at an opening: the same with and without a kernel, and the same errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import seglog
from seglog import LocalStorage, LogConfig
from seglog.errors import CorruptLog, StorageError
from seglog.kernels import unchanged
from seglog.log import store_sizes as module
from seglog.log.store_sizes import FEW, store_sizes
from seglog.storage import Subdirectory, sizes_of

SEGMENTS = FEW + 10


@pytest.fixture(params=["kernel", "no kernel"])
def loaded(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Load the kernel, or let it be one that is not loaded."""
    if request.param == "kernel":
        unchanged.load()
    else:
        monkeypatch.setattr(module, "loaded_kernel", lambda *_: None)


@pytest.fixture
def names(tmp_path: Path) -> list[str]:
    """Names of more than FEW stores; some are links, directories, or missing."""
    (tmp_path / "part").mkdir()
    made = [f"{number:020d}-{number + 1}.store" for number in range(SEGMENTS)]
    for number, name in enumerate(made):
        (tmp_path / "part" / name).write_bytes(bytes(number))
    for number in (3, 4, 5, 6):
        (tmp_path / "part" / made[number]).unlink()
    (tmp_path / "part" / made[4]).mkdir()
    (tmp_path / "part" / made[5]).symlink_to(made[9])
    (tmp_path / "part" / made[6]).symlink_to("nowhere")
    return made


@pytest.mark.usefixtures("loaded")
def test_sizes_come_in_order_and_none_for_what_is_no_file(tmp_path: Path, names: list[str]) -> None:
    storage = Subdirectory(LocalStorage(tmp_path), "part")
    wanted: list[Any] = [*range(3), None, None, 9, None, *range(7, SEGMENTS)]
    assert store_sizes(storage, names) == wanted == sizes_of(storage, names, ending=".store")
    assert store_sizes(storage, names[::-1]) == wanted[::-1]
    assert store_sizes(storage, names[:7]) == wanted[:7]
    assert store_sizes(storage, []) == []


@pytest.mark.usefixtures("loaded")
def test_what_cannot_be_asked_for_is_an_error(tmp_path: Path, names: list[str]) -> None:
    storage = LocalStorage(tmp_path / "part")
    with pytest.raises(StorageError):
        store_sizes(storage, [*names, "n" * 300])
    with pytest.raises(StorageError):
        store_sizes(LocalStorage(tmp_path / "nowhere"), names)


@pytest.mark.usefixtures("loaded")
def test_an_opening_reports_a_short_store_and_refuses_a_missing_one(path: Path) -> None:
    with seglog.open(path, LogConfig(segment_bytes=512)) as log:
        for _ in range(SEGMENTS):
            log.append(b"v" * 400)
    stores = sorted(path.glob("*.store"))
    assert len(stores) == SEGMENTS
    with seglog.open(path) as log:
        assert log.recovery.clean
    stores[40].write_bytes(stores[40].read_bytes()[:100])
    with seglog.open(path) as log:
        (event,) = log.recovery.events
        assert (event.kind, event.path, event.position) == ("damage", str(stores[40]), 100)
    stores[41].unlink()
    with pytest.raises(CorruptLog, match="the store of offsets 41 up to 42 is missing"):
        seglog.open(path)
