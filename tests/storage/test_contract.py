"""Every storage that seglog ships keeps the contract; the faulty one too, as long as nothing is planned to fail."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

pytest.register_assert_rewrite("seglog.testing.storage_contract")

from seglog.storage import LocalStorage, MemoryStorage, Storage, Subdirectory  # noqa: E402 - the rewrite must be asked for first
from seglog.testing.faulty import FaultyStorage  # noqa: E402 - as above
from seglog.testing.storage_contract import StorageContract  # noqa: E402 - as above

if TYPE_CHECKING:
    from pathlib import Path


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(tmp_path / "parent" / "log")


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return MemoryStorage()


class TestFaultyStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return FaultyStorage(LocalStorage(tmp_path / "log"))


class TestSubdirectory(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return Subdirectory(LocalStorage(tmp_path / "log"), "deep/er")
