"""Find staged files under other names. `staging` describes stages."""

from __future__ import annotations

import errno

from seglog.errors import StorageError
from seglog.format import filename
from seglog.storage import Storage


def names_below(storage: Storage, directory: str) -> list[str]:
    """Return the names in a directory; none if it is a file, which no version of seglog creates there."""
    try:
        return storage.names(directory)
    except StorageError as error:
        if error.errno != errno.ENOTDIR:
            raise
        return []


def staged_identities(storage: Storage) -> set[object]:
    """Return the identities of all staged stores: a file that an interrupted join linked is no orphan to keep."""
    return {
        storage.identity(f"{filename.STAGING}/{batch}/{stage}/{name}")
        for batch in storage.names(filename.STAGING)
        for stage in names_below(storage, f"{filename.STAGING}/{batch}")
        for name in names_below(storage, f"{filename.STAGING}/{batch}/{stage}")
        if name.endswith("." + filename.STORE)
    }
