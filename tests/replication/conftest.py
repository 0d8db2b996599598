"""Shared by the tests of replication: logs with small segments, and the comparison of a copy with its source."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SMALL = seglog.LogConfig(segment_bytes=1024)
KEYED = seglog.LogConfig(segment_bytes=512, retention=seglog.Retention(compact=True, delete_retention=0))


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return tmp_path / "leader"


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy"


@pytest.fixture
def same() -> Callable[[Any, Any], None]:
    """Assert that a copy has exactly the records and the next offset of its source."""

    def compare(source: Any, target: Any) -> None:
        with seglog.open(source, mode="r") as one, seglog.open(target, mode="r") as other:
            assert list(other.scan()) == list(one.scan())
            assert (other.lowest_offset, other.next_offset) == (one.lowest_offset, one.next_offset)
            assert seglog.verify(target).ok

    return compare


def fill(log: seglog.Log, count: int, word: str = "value", keys: int = 7) -> None:
    for number in range(count):
        log.append(b"%s %d" % (word.encode(), number), key=b"%d" % (number % keys), headers=[("n", b"%d" % number)])
