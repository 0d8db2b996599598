"""Sizes of named files, as an opening asks for them: the same whatever kind of storage has them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from seglog import LocalStorage, MemoryStorage
from seglog.errors import StorageError
from seglog.storage import Storage, Subdirectory, local_directory, sizes_of
from seglog.testing.faulty import FaultyStorage

KINDS: dict[str, Callable[[Path], Storage]] = {
    "local": LocalStorage,
    "part of a local": lambda path: Subdirectory(LocalStorage(path), "part"),
    "part of a part": lambda path: Subdirectory(Subdirectory(LocalStorage(path), "part"), "0"),
    "memory": lambda _: MemoryStorage(),
    "part of memory": lambda _: Subdirectory(MemoryStorage(), "part"),
    "with faults": lambda path: FaultyStorage(LocalStorage(path)),
}


@pytest.fixture(params=KINDS)
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    made = KINDS[request.param](tmp_path)
    made.make([])
    return made


def test_sizes_come_in_the_order_of_the_names_and_none_for_what_is_no_file(storage: Storage) -> None:
    storage.create("four.store").pwrite(b"four", 0)
    storage.create("empty.store")
    storage.make(["directory.store"])
    names = ["four.store", "missing.store", "empty.store", "directory.store", "four.store"]
    assert sizes_of(storage, names, ending=".store") == [4, None, 0, None, 4]
    assert sizes_of(storage, [], ending=".store") == []


def test_a_directory_without_faults_is_the_same_one_however_it_is_named(tmp_path: Path) -> None:
    for kind, make in KINDS.items():
        found = local_directory(make(tmp_path))
        assert (None if found is None else found.path) == (
            make(tmp_path).path if kind in ("local", "part of a local", "part of a part") else None
        )


def test_a_directory_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="nowhere"):
        sizes_of(LocalStorage(tmp_path / "nowhere"), ["a.store"], ending=".store")
