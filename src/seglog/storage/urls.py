"""URLs that name a storage, such as s3://bucket/prefix: by scheme, the function that opens it.

The packages of our own schemes are layers above this one, and some are extras; so they are named here, not imported,
and loaded at the first use. Others come from installed distributions, by the entry point group "seglog.storages", so
that every process finds them, also Spark's executors; or from `register_scheme`, for one process.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, cast

from seglog.errors import InvalidArgument, InvalidType

if TYPE_CHECKING:
    from seglog.storage.base import Storage

GROUP = "seglog.storages"
_ARCHIVE = "seglog.archive.storage"
MODULES = dict.fromkeys(("s3", "s3a", "gs", "az", "abfs", "abfss", "file", "memory"), _ARCHIVE)
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*")
_registered: dict[str, Callable[[str], Storage]] = {}


def register_scheme(scheme: str, storage_at: Callable[[str], Storage]) -> None:
    """Let URLs of a scheme name storages, in this process: wherever a path of a log or a topic is taken.

    A distribution does it for all processes, with an entry point of the group "seglog.storages" whose name is the
    scheme.

    Args:
        scheme: Lower case, such as "vault" for vault://orders.
        storage_at: Returns the storage of a URL, also of what is below another one: vault://shop and
            vault://shop/orders/0. Its `path` must be that URL.

    Raises:
        InvalidArgument: If it is no scheme, or one of seglog's own, or http or https.
        InvalidType: If `storage_at` cannot be called.
    """
    if not isinstance(scheme, str) or not _SCHEME.fullmatch(scheme):
        raise InvalidArgument(f"{scheme!r} is not a scheme, such as 'vault' for vault://orders")
    if scheme in MODULES or scheme in ("http", "https"):
        raise InvalidArgument(f"the scheme {scheme!r} has a meaning already; choose another one")
    if not callable(storage_at):
        raise InvalidType(f"storage_at must be a function of a URL, not {type(storage_at).__name__}")
    _registered[scheme] = storage_at


def is_storage_url(place: str) -> bool:
    """Whether a text is a URL that names a storage, not a path."""
    scheme, colon, _ = place.partition("://")
    return bool(colon) and (scheme in MODULES or _function_of(scheme) is not None)


def storage_at_url(url: str) -> Storage:
    """Return the storage that a URL names. Raises LogNotFound, MissingExtra, StorageError."""
    scheme = url.partition("://")[0]
    if scheme in MODULES:
        return cast("Callable[[str], Storage]", import_module(MODULES[scheme]).storage_at_url)(url)
    found = _function_of(scheme)
    if found is None:
        raise InvalidArgument(f"no storage is installed for the scheme of {url!r}; see docs/storage.md")
    return found(url)


def _function_of(scheme: str) -> Callable[[str], Storage] | None:
    """Return what opens the URLs of a scheme. What is not installed is looked for again: Spark adds files later."""
    if scheme not in _registered and scheme not in ("http", "https"):
        from importlib.metadata import entry_points  # noqa: PLC0415 - most processes use no URL

        for entry in entry_points(group=GROUP, name=scheme):
            _registered[scheme] = entry.load()
    return _registered.get(scheme)
