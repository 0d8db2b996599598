"""A whole log whose files were changed: opened for reading and for writing, read, verified, appended to, opened again.

Whatever stands in the files: an error of ours or a log. Where no checksum was forged, no record that was never written.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import seglog
from seglog.errors import SeglogError
from seglog.log.repair.verify import verify_storage
from tests.fuzz.choices import Choices
from tests.fuzz.small_logs import MAKERS, Small, changed, check_reading, names_of, small, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.storage import MemoryStorage

READ, WRITE = 0, 1


def seeds() -> Iterator[bytes]:
    for number in range(len(MAKERS)):
        for way in range(4):
            for name in range(0, 6, 2):
                yield bytes([number, way, 0, name, 2 + name, 80 + 11 * name, 0, 5, name, 3])


def target(data: bytes) -> None:
    choices = Choices(data)
    log = small(choices.below(len(MAKERS)))
    way = choices.below(4)
    mended = way >= 2
    storage = storage_of(changed(log.files, choices, names_of(log), mended=mended))
    source = None if mended else log
    with suppress(SeglogError):
        verify_storage(storage)
    if way % 2 == READ:
        _check_reader(storage, source)
    else:
        _check_writer(storage, source)


def _check_reader(storage: MemoryStorage, source: Small | None) -> None:
    with suppress(SeglogError), seglog.open(storage, mode="r") as log:
        check_reading(log, source)
    with suppress(SeglogError), seglog.open(storage, mode="r", expose="durable") as log:
        check_reading(log, source)


def _check_writer(storage: MemoryStorage, source: Small | None) -> None:
    """Open for writing, append, and open again: what was read and what was appended is still there."""
    try:
        log = seglog.open(storage)
    except SeglogError:
        return
    with log:
        found = check_reading(log, source)
        offset = log.append(b"new", key=b"new")
        assert offset not in found and log.read(offset).value == b"new"
        log.sync()
    with suppress(SeglogError):  # a sealed store of a newer version does not prevent opening, but is reported here
        verify_storage(storage)
    with seglog.open(storage) as again:
        assert again.read(offset).value == b"new"
        for number, record in found.items():
            assert again.read(number) == record
