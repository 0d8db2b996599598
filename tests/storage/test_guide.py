"""docs/storage.md: its storage keeps the contract, and works wherever a path does."""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite("seglog.testing.storage_contract")

from seglog.storage import Storage, Subdirectory  # noqa: E402 - the rewrite must be asked for first
from seglog.testing.storage_contract import StorageContract  # noqa: E402 - as above
from tests.storage.guide import DictStorage  # noqa: E402 - as above


class TestTheStorageOfTheGuide(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return DictStorage()  # type: ignore[no-any-return] # the page has no annotations


class TestADirectoryOfTheStorageOfTheGuide(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return Subdirectory(DictStorage(), "deep/er")
