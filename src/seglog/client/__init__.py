"""Client of `seglog serve`, sync and async. Needs the extra `seglog[client]`.

    call, failures         one request and how its answer is read: values, no I/O
    calls, append_calls, group_calls     all requests of the server
    arrow, upload          bodies: Arrow streams, streamed values
    flows                  sequences of requests (retries, pages, following) as generators: no I/O
    wire                   bytes of HTTP/1.1
    sockets, async_sockets, origin, driver, async_driver     the I/O: the only code written twice
    client, async_client, topic, async_topic                 the public API
    producing, producer, async_producer                      single records, sent in few requests
    consuming, consumer, async_consumer                      consumer groups

This module only reports what to install if httpx is missing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.extras import require

if TYPE_CHECKING:
    from seglog.client.aio.client import AsyncClient
    from seglog.client.client import Client

__all__ = ["AsyncClient", "Client"]


def require_httpx() -> None:
    """Raise MissingExtra if httpx is not installed."""
    require("the client needs", "httpx", extra="client")


def __getattr__(name: str) -> object:
    """Import a client at its first use."""
    if name == "Client":
        require_httpx()
        from seglog.client.client import Client  # noqa: PLC0415 - see above

        return Client
    if name == "AsyncClient":
        require_httpx()
        from seglog.client.aio.client import AsyncClient  # noqa: PLC0415 - see above

        return AsyncClient
    raise AttributeError(f"module 'seglog.client' has no attribute {name!r}")
