"""quarantine/: the directory for evidence. Files here stay under unique names; only an operator removes them.

Knows names and bytes, not why something is evidence.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from seglog.format import filename
from seglog.segment.sealed import read_whole
from seglog.storage import Storage, must_sync


def link_aside(storage: Storage, name: str) -> str:
    """Give a file a second name in quarantine/ and return it; if it already has one, return that."""
    here = storage.identity(name)
    kept = next(kept for kept in _names_for(name.rpartition("/")[2]) if storage.identity(kept) in (None, here))
    if storage.identity(kept) is None:
        storage.link(name, kept)
    return kept


def copy_aside(storage: Storage, name: str, data: bytes) -> str:
    """Write bytes to quarantine/ and return the name; if the same bytes are already there, return their name."""
    for kept in _names_for(name):
        if storage.identity(kept) is None:
            break
        if read_whole(storage, kept) == data:
            return kept
    temporary = f"{filename.TMP}/{name}.kept"
    file = storage.create(temporary, replace=True)
    file.pwrite(data, 0)
    must_sync(file.datasync)
    storage.rename(temporary, kept)
    return kept


def _names_for(name: str) -> Iterator[str]:
    """Yield the possible names of a file in quarantine/, the plain one first."""
    yield f"{filename.QUARANTINE}/{name}"
    for number in count(2):
        yield f"{filename.QUARANTINE}/{name}.{number}"
