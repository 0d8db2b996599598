"""The active segment of a log that was not closed, changed in any way: the next opening succeeds.

Synced records before the first change are kept, behind it none is invented; what was recovered is recovered for good.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import seglog
from seglog.format import filename
from seglog.format.codec import encode_headers, record_length
from tests.fuzz.choices import Choices
from tests.fuzz.small_logs import MAKERS, Small, changed, check_reading, mend, names_of, small, storage_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from seglog.storage import MemoryStorage

HEADER = 64


def seeds() -> Iterator[bytes]:
    for number in range(len(MAKERS)):
        for way in range(4):
            for how in range(0, 8, 4):
                yield bytes([number, way, 0, 0, 2, 100, 1, how, 4, 4, 4])
                yield bytes([number, way, 1, 1, 2, 30, 0, how + 1, 9, 9, 9])


def target(data: bytes) -> None:
    choices = Choices(data)
    log = small(choices.below(len(MAKERS)))
    way = choices.below(4)
    files = _changed(log, choices, forged=way >= 2, tail=way % 2 == 1)
    first = _opened(storage := storage_of(files), None if way >= 2 else log)
    second = _opened(storage, None if way >= 2 else log)
    assert second == first, f"{first} at first, then {second}"
    if way == 1:  # nothing before the first record that was not synced was touched
        assert set(first) >= {offset for offset in log.records if offset < log.durable}


def _changed(log: Small, choices: Choices, *, forged: bool, tail: bool) -> dict[str, bytes]:
    """Change the active store, and its index unless the change is to be after the synced part."""
    store = names_of(log, filename.STORE)[-1]
    if not tail:
        return _kept(log, changed(log.files, choices, [store, store.replace(".store", ".index")], mended=forged))
    start = _synced_bytes(log, store)
    name = "tail"
    part = changed({name: log.files[store][start:]}, choices, [name], mended=False).get(name, b"")
    content = log.files[store][:start] + part
    return {**log.files, store: mend(store, log.files[store], content) if forged else content}


def _kept(log: Small, files: dict[str, bytes]) -> dict[str, bytes]:
    """Leave the store there: that a lost one is refused is another matter."""
    store = names_of(log, filename.STORE)[-1]
    old, new = log.files[store], files.get(store, b"")
    return {**files, store: old[:HEADER] + new[HEADER:]}


def _synced_bytes(log: Small, store: str) -> int:
    """Return the position of the first unsynced record in the active store."""
    unsynced = [record for offset, record in log.records.items() if offset >= log.durable]
    lengths = [record_length(one.key, encode_headers(one.headers), one.value) for one in unsynced]
    return len(log.files[store]) - sum(lengths)


def _opened(storage: MemoryStorage, log: Small | None) -> dict[int, object]:
    with seglog.open(storage) as opened:
        return dict(check_reading(opened, log))
