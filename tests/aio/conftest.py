"""What the tests for asyncio share: both media."""

from __future__ import annotations

from typing import Any

import pytest

import seglog


@pytest.fixture(params=["local", "memory"])
def place(request: Any, tmp_path: Any) -> Any:
    """Where a log may be made: a path, or memory."""
    return tmp_path / "orders" if request.param == "local" else seglog.MemoryStorage()
