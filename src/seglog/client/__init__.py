"""Client of `seglog serve`, sync and async. Needs the extra `seglog[client]`.

    call, failures         one request and how its answer is read: values, no I/O
    calls, append_calls, group_calls     every request that the server takes
    arrow, upload          bodies: Arrow streams, values that are sent as they come
    flows                  several requests in a row (retries, pages, following) as generators: no I/O either
    wire                   bytes of HTTP/1.1
    sockets, async_sockets, origin, driver, async_driver     what really sends: all that is written for each kind
    client, async_client, topic, async_topic                 what a program holds
    producing, producer, async_producer                      many single records become few requests
    consuming, consumer, async_consumer                      groups

This module only says what to install where httpx is missing.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

from seglog.errors import MissingExtra

if TYPE_CHECKING:
    from seglog.client.async_client import AsyncClient
    from seglog.client.client import Client

__all__ = ["AsyncClient", "Client"]


def require_httpx() -> None:
    """Raise MissingExtra, which says what to install, unless httpx is there."""
    if find_spec("httpx") is None:
        raise MissingExtra("the client needs httpx: pip install 'seglog[client]'")


def __getattr__(name: str) -> object:
    """Load a client when it is first asked for."""
    if name == "Client":
        require_httpx()
        from seglog.client.client import Client  # noqa: PLC0415 - see above

        return Client
    if name == "AsyncClient":
        require_httpx()
        from seglog.client.async_client import AsyncClient  # noqa: PLC0415 - see above

        return AsyncClient
    raise AttributeError(f"module 'seglog.client' has no attribute {name!r}")
