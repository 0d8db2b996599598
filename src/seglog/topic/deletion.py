"""Deleting a topic's directory in one step: the rename is the deletion, what follows only gives the space back.

A directory on its way out is called `.deleted-<id>`, which is no topic's name. Opens no log.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from seglog.errors import SeglogError, StorageError
from seglog.storage import Subdirectory
from seglog.topic import description

if TYPE_CHECKING:
    from seglog.storage import Storage

PREFIX = ".deleted-"


def take_away(root: Storage, name: str) -> str:
    """Rename a topic's directory below `root`, durably, and return the new name.

    StorageError: it is still there, or it is gone and nobody knows whether it stays so; either way it is whole.
    """
    doomed = PREFIX + _identity(root, name)
    root.rename(name, doomed)
    root.sync_directory()
    return doomed


def remove(root: Storage, doomed: str) -> None:
    """Remove what was taken away; what the system refuses to let go of stays for the next opening."""
    with suppress(StorageError):
        root.remove_directory(doomed)


def clear(root: Storage) -> None:
    """Remove all that was taken away from below a directory."""
    for name in root.names():
        if name.startswith(PREFIX):
            remove(root, name)


def _identity(root: Storage, name: str) -> str:
    """Return a topic's id, or, where that cannot be read, its name: it is to be deleted all the same."""
    try:
        return description.read(Subdirectory(root, name)).id
    except SeglogError:
        return name
