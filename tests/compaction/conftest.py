"""What the tests of compaction share: a keyed log on either medium, in the notation of acceptance/compaction.md."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture(params=["local", "memory"])
def shop(request: Any, tmp_path: Path, shop_at: Callable[[Any], Any]) -> Any:
    """A log on either medium."""
    return shop_at(tmp_path / "orders" if request.param == "local" else seglog.MemoryStorage())


@pytest.fixture
def local(tmp_path: Path, shop_at: Callable[[Any], Any]) -> Any:
    """A log on the file system."""
    return shop_at(tmp_path / "orders")
