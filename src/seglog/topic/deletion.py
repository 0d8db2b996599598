"""Deleting a topic's directory in one step: the rename is the deletion, what follows only gives the space back.

A directory on its way out is called `.deleted-<id>`, which is no topic's name. Opens no log.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.storage import LocalStorage
from seglog.topic import description

if TYPE_CHECKING:
    from pathlib import Path

PREFIX = ".deleted-"


def take_away(path: Path) -> Path:
    """Rename a topic's directory, durably, and return the new path.

    StorageError: it is still there, or it is gone and nobody knows whether it stays so; either way it is whole.
    """
    doomed = path.with_name(PREFIX + _identity(path))
    storage = LocalStorage(path.parent)
    storage.rename(path.name, doomed.name)
    storage.sync_directory()
    return doomed


def remove(doomed: Path) -> None:
    """Remove what was taken away; what the system refuses to let go of stays for the next opening."""
    shutil.rmtree(doomed, ignore_errors=True)


def clear(root: Path) -> None:
    """Remove all that was taken away from below a directory."""
    for doomed in root.glob(PREFIX + "*"):
        remove(doomed)


def _identity(path: Path) -> str:
    """Return a topic's id, or, where that cannot be read, its name: it is to be deleted all the same."""
    try:
        return description.read(path).id
    except SeglogError:
        return path.name
