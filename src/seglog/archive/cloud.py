"""Object stores of cloud providers, through obstore (the extra `archive`): s3://, gs://, az://."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from seglog.errors import StorageError
from seglog.extras import require
from seglog.storage.base import Buffer

if TYPE_CHECKING:
    from obstore.store import ObjectStore as Obstore

MULTIPART_BYTES = 16 * 1024 * 1024
PARTS_AT_ONCE = 4
_ERRNO = {
    "FileNotFoundError": errno.ENOENT,
    "NotFoundError": errno.ENOENT,
    "PermissionDeniedError": errno.EACCES,
    "UnauthenticatedError": errno.EACCES,
}


class CloudStore:
    """Objects of one bucket and prefix."""

    def __init__(self, store: Obstore, url: str) -> None:
        self.url = url
        self._store = store

    @classmethod
    def at(cls, url: str) -> CloudStore:
        """Return the store of a URL; credentials and endpoint come from the environment, as for other tools.

        Raises MissingExtra without obstore.
        """
        require(f"an archive at {url} needs", "obstore", extra="archive")
        from obstore.store import from_url  # noqa: PLC0415 - an optional dependency

        endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL") or ""
        options: dict[str, Any] = {"timeout": timedelta(seconds=60), "connect_timeout": timedelta(seconds=5)}
        if endpoint.startswith("http://"):
            options["allow_http"] = True
        retries: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
        named: dict[str, Any] = {"endpoint": endpoint} if endpoint and url.startswith("s3") else {}
        with _errors(url, ""):
            made: Any = from_url  # its overloads do not allow options that are given only for some stores
            return cls(made(url, client_options=options, retry_config=retries, **named), url)

    def create(self, key: str, data: bytes) -> bool:
        """See ObjectStore.create."""
        from obstore.exceptions import AlreadyExistsError  # noqa: PLC0415 - `at` has loaded it

        with _errors(self.url, key):
            try:
                self._store.put(key, data, mode="create", use_multipart=False)
            except AlreadyExistsError:
                return False
        return True

    def put(self, key: str, parts: Iterable[Buffer], size: int) -> None:
        """See ObjectStore.put."""
        with _errors(self.url, key):
            if size < MULTIPART_BYTES:
                self._store.put(key, b"".join(parts), use_multipart=False)
            else:
                self._store.put(
                    key,
                    (bytes(part) for part in parts),
                    use_multipart=True,
                    chunk_size=MULTIPART_BYTES,
                    max_concurrency=PARTS_AT_ONCE,
                )

    def read(self, key: str, start: int = 0, stop: int | None = None) -> bytes:
        """See ObjectStore.read."""
        with _errors(self.url, key):
            if stop is None:
                found = bytes(self._store.get(key).bytes())
                return found[start:] if start else found
            return b"" if stop <= start else bytes(self._store.get_range(key, start=start, end=stop))

    def exists(self, key: str) -> bool:
        """See ObjectStore.exists."""
        try:
            with _errors(self.url, key):
                self._store.head(key)
        except StorageError as error:
            if error.errno == errno.ENOENT:
                return False
            raise
        return True

    def keys(self, prefix: str, after: str = "") -> Iterator[str]:
        """See ObjectStore.keys."""
        with _errors(self.url, prefix):
            for page in self._store.list(prefix.rstrip("/"), offset=after or None):
                yield from sorted(one["path"] for one in page)

    def delete(self, key: str) -> None:
        """See ObjectStore.delete."""
        with _errors(self.url, key):
            try:
                self._store.delete(key)
            except FileNotFoundError:
                return


@contextmanager
def _errors(url: str, key: str) -> Iterator[None]:
    """Turn obstore's errors into StorageError, with the key and the first line of the message."""
    from obstore.exceptions import BaseError  # noqa: PLC0415 - an optional dependency

    try:
        yield
    except (BaseError, OSError, ValueError, NotImplementedError) as error:
        kind = next((_ERRNO[one.__name__] for one in type(error).__mro__ if one.__name__ in _ERRNO), errno.EIO)
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise StorageError(kind, reason, f"{url.rstrip('/')}/{key}") from error
