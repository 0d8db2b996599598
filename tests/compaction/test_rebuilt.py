"""A compacted log that lost its manifests: what compaction wrote wins over what it replaced."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import seglog

STORY = "a b c | a b- d | e- e- |"
AFTER = "c@2 a@3 b∅@4 d@5 e∅@7"


@pytest.mark.parametrize("lost", [["MANIFEST"], ["MANIFEST", "MANIFEST.prev"]])
@pytest.mark.parametrize("held", [True, False])
def test_a_lost_manifest_brings_nothing_back(local: Any, lost: list[str], held: bool) -> None:
    with local.open() as log:
        local.put(log, STORY)
        reader = seglog.open(local.place, mode="r") if held else None
        log.compact()
        assert local.content(log) == AFTER
        stores = len(list(Path(local.place).glob("*.store")))
        assert stores == (5 if held else 2)
    for name in lost:
        (local.place / name).unlink()
    if reader is not None:
        reader.close()
    with local.open() as log:
        assert log.recovery.damaged
        assert local.content(log) == AFTER
        assert log.next_offset == 8
        log.compact()
        local.put(log, "c |")
        log.compact()
        assert local.content(log) == "a@3 b∅@4 d@5 e∅@7 c@8"


def test_a_segment_of_which_nothing_is_left_keeps_its_place(local: Any) -> None:
    with local.open(delete_retention=0) as log:
        local.put(log, "a- b- |")
        with seglog.open(local.place, mode="r"):
            log.compact()
            log.compact()
            assert local.content(log) == ""
    for name in ("MANIFEST", "MANIFEST.prev"):
        (local.place / name).unlink()
    with local.open() as log:
        assert local.content(log) == ""
        assert log.append(b"v", key=b"k") == 2
