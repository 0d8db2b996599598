"""A sketch counts distinct keys, independent of who added them and how often."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.crash.sketch import Sketch

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("different", [0, 1, 1_000, 40_000, 60_000, 3_000_000])
def test_keys_are_counted_within_three_percent_however_often_they_come(tmp_path: Path, different: int) -> None:
    keys = np.random.default_rng(different).integers(0, 2**64, different, np.uint64)
    sketch = Sketch(tmp_path / "sketch")
    sketch.add(keys)
    sketch.add(keys[::2])
    assert sketch.count() == pytest.approx(different, rel=0.03)


def test_what_is_added_after_a_pause_adds_up_with_what_was_kept(tmp_path: Path) -> None:
    keys = np.random.default_rng(7).integers(0, 2**64, 200_000, np.uint64)
    for part in np.split(keys, 4):
        sketch = Sketch(tmp_path / "sketch")
        sketch.add(part)
        sketch.keep()
    whole = Sketch(tmp_path / "whole")
    whole.add(keys)
    assert Sketch(tmp_path / "sketch").count() == whole.count()
