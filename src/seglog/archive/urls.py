"""Choose the object store of a URL: file:// and memory:// need no extra, s3://, gs:// and az:// need `archive`."""

from __future__ import annotations

import threading
from urllib.parse import unquote, urlsplit

from seglog.archive.directory import DirectoryStore
from seglog.archive.objects import ObjectStore
from seglog.errors import InvalidArgument, InvalidType
from seglog.storage import LocalStorage, MemoryStorage, Subdirectory

CLOUDS = ("s3", "s3a", "gs", "az", "abfs", "abfss")
_memories: dict[str, MemoryStorage] = {}
_guard = threading.Lock()


def object_store(place: str | ObjectStore) -> ObjectStore:
    """Return the object store of a URL, or the store itself. Errors as in `store_at`; InvalidType for anything else."""
    if isinstance(place, str):
        return store_at(place)
    if not hasattr(place, "create") or not hasattr(place, "keys"):
        raise InvalidType(f"an archive is the URL of one or an ObjectStore, not {type(place).__name__}")
    return place


def store_at(url: str) -> ObjectStore:
    """Return the object store of a URL. Raises InvalidArgument for any other text, MissingExtra without obstore."""
    try:
        parts = urlsplit(url)
    except ValueError as error:
        raise InvalidArgument(f"{url!r} is not a URL: {error}") from None
    if parts.scheme == "file" and parts.netloc in ("", "localhost") and parts.path:
        return DirectoryStore(LocalStorage(unquote(parts.path).rstrip("/") or "/"), url)
    if parts.scheme == "memory" and parts.netloc:
        with _guard:
            whole = _memories.setdefault(parts.netloc, MemoryStorage())
        prefix = parts.path.strip("/")
        return DirectoryStore(Subdirectory(whole, prefix) if prefix else whole, url)
    if parts.scheme in CLOUDS and parts.netloc:
        from seglog.archive.cloud import CloudStore  # noqa: PLC0415 - an optional dependency

        return CloudStore.at(url)
    raise InvalidArgument(
        f"{url!r} is not the URL of an archive; write s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX or "
        "file:///DIRECTORY"
    )
