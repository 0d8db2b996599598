"""URLs that name a storage, such as s3://bucket/prefix: by scheme, the module that opens it.

These packages are layers above this one, and some are extras; so they are named here, not imported, and loaded at the
first use. Such a module has a function `storage_at_url(url) -> Storage`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from seglog.storage.base import Storage

_ARCHIVE = "seglog.archive.storage"
MODULES = dict.fromkeys(("s3", "s3a", "gs", "az", "abfs", "abfss", "file", "memory"), _ARCHIVE)


def is_storage_url(place: str) -> bool:
    """Whether a text is a URL that names a storage, not a path."""
    scheme, colon, _ = place.partition("://")
    return bool(colon) and scheme in MODULES


def storage_at_url(url: str) -> Storage:
    """Return the storage that a URL names. Raises LogNotFound, MissingExtra, StorageError."""
    module = import_module(MODULES[url.partition("://")[0]])
    return cast("Callable[[str], Storage]", module.storage_at_url)(url)
