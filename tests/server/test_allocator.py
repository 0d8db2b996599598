"""Full garbage collections of a server: few while they take long, and the program's own settings afterwards."""

from __future__ import annotations

import gc

import pytest

from seglog.server.runtime import allocator as module
from seglog.server.runtime.allocator import SHARE, Allocator


@pytest.fixture
def clock(monkeypatch):
    """Give a clock that a full collection moves on by what it says."""
    now = {"seconds": 1000.0, "collection": 0.05, "collections": 0}

    def collect():
        now["seconds"] += now["collection"]
        now["collections"] += 1

    monkeypatch.setattr(module, "monotonic", lambda: now["seconds"])
    monkeypatch.setattr(module.gc, "collect", collect)
    return now


@pytest.mark.parametrize(("seconds", "collections"), [(0.05, 20), (0.0001, 100)])
def test_full_collections_take_at_most_their_share_of_the_time(clock, seconds, collections):
    clock["collection"] = seconds
    allocator, begun = Allocator(), clock["seconds"]
    for _ in range(100):
        clock["seconds"] += 1.0
        assert allocator.is_due()
        allocator.release()
    passed = clock["seconds"] - begun
    assert clock["collections"] <= collections
    assert clock["collections"] * seconds <= SHARE * passed + seconds
    assert clock["collections"] >= min(100, SHARE * passed / seconds / 1.3)


def test_a_program_has_its_own_collections_again_after_a_server():
    before = gc.get_threshold(), gc.get_freeze_count()
    with Allocator().settled():
        assert gc.get_threshold()[2] > 1_000_000
        assert gc.get_freeze_count() > before[1]
    assert (gc.get_threshold(), gc.get_freeze_count()) == before
