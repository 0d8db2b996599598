"""Delete a topic's directory in one step: the rename is the deletion, the rest only frees the space.

A directory being deleted is called `.deleted-<id>`, which is not a valid topic name. Opens no log.
"""

from __future__ import annotations

from contextlib import suppress

from seglog.errors import SeglogError, StorageError
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout import description

PREFIX = ".deleted-"


def take_away(root: Storage, name: str) -> str:
    """Rename a topic's directory below `root`, durably, and return the new name.

    Raises StorageError: it still exists, or it is gone but perhaps not durably; either way it is complete.
    """
    doomed = PREFIX + _identity(root, name)
    root.rename(name, doomed)
    root.sync_directory()
    return doomed


def remove(root: Storage, doomed: str) -> None:
    """Remove a renamed directory; what cannot be removed stays for the next opening."""
    with suppress(StorageError):
        root.remove_directory(doomed)


def clear(root: Storage) -> None:
    """Remove all renamed directories below a directory."""
    for name in root.names():
        if name.startswith(PREFIX):
            remove(root, name)


def _identity(root: Storage, name: str) -> str:
    """Return a topic's id or, if that cannot be read, its name: it must be deletable nevertheless."""
    try:
        return description.read(Subdirectory(root, name)).id
    except SeglogError:
        return name
