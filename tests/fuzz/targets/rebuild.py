"""A log with a missing or damaged manifest and changed stores: rebuilt from what is left, or refused.

Reading it, rebuilding it in place, and accepting that by repair: no record comes back that was never written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import seglog
from seglog.errors import SeglogError
from seglog.format import filename
from seglog.log.repair.repair import repair_storage
from tests.fuzz.choices import Choices, mangled_text
from tests.fuzz.small_logs import MAKERS, changed, check_reading, names_of, small, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

LOST, DAMAGED, BOTH_LOST = 0, 1, 2


def seeds() -> Iterator[bytes]:
    for number in range(len(MAKERS)):
        for how in (LOST, DAMAGED, BOTH_LOST):
            for way in range(4):
                yield bytes([number, how, way, 40, 1, 2, 3, 2, 90, 0, 6, 7])


def target(data: bytes) -> None:
    choices = Choices(data)
    log = small(choices.below(len(MAKERS)))
    how, way = choices.below(3), choices.below(4)
    files = dict(log.files)
    if how == DAMAGED:
        files[filename.MANIFEST] = mangled_text(files[filename.MANIFEST], choices)
    else:
        del files[filename.MANIFEST]
        if how == BOTH_LOST:
            files.pop(filename.MANIFEST_PREVIOUS, None)
    forged = way >= 2
    if way:
        files = changed(files, choices, names_of(log, ".store") or names_of(log), mended=forged)
    storage, source = storage_of(files), None if forged else log
    for mode in ("r", "a"):
        with suppress(SeglogError), seglog.open(storage, mode=mode) as opened:
            check_reading(opened, source, rebuilt=True)
    with suppress(SeglogError):
        repair_storage(storage)
    with suppress(SeglogError), seglog.open(storage) as opened:
        check_reading(opened, source, rebuilt=True)
        assert opened.read(opened.append(b"new", key=b"new")).value == b"new"
