"""TLS connections, counted and limited in time before their handshake is complete.

asyncio hands over a TLS connection only after its handshake, so clients that never start one could hold any number of
descriptors. Here a connection is accepted as plain TCP, counted, and then upgraded to TLS.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable, Sized
from typing import Any, Protocol, cast

from seglog.server.runtime.at_once import begin


class Bounded(Protocol):
    """The bounds of a connection, as its protocol has them.

    connections: all that are open, of most_connections. head_seconds: for the handshake. told: called with status and
    text of a refusal.
    """

    loop: asyncio.AbstractEventLoop
    most_connections: int
    head_seconds: float
    told: Callable[[int, str], None] | None

    @property
    def connections(self) -> Sized:
        """The open connections, this one among them once it is made."""
        ...

    def connection_made(self, transport: Any) -> None:
        """Begin, with the connection that TLS protects."""
        ...


class Handshakes:
    """The connections of one listener with incomplete handshakes."""

    def __init__(self, context: ssl.SSLContext, protocol: Callable[..., Any]) -> None:
        """protocol: returns the protocol for a new connection, which is `Bounded`."""
        self.context = context
        self._protocol = protocol
        self.pending: set[_Handshake] = set()

    def __call__(self, *args: Any, **options: Any) -> _Handshake:
        """Return the protocol for a new connection; called as uvicorn creates its protocols."""
        return _Handshake(self, self._protocol(*args, **options))

    def abort(self) -> None:
        """End all of them."""
        for one in [*self.pending]:
            one.abort()


class _Handshake(asyncio.Protocol):
    """One connection with an incomplete handshake."""

    def __init__(self, all_of_them: Handshakes, protocol: Bounded) -> None:
        self._all = all_of_them
        self._protocol = protocol
        self._transport: asyncio.Transport | None = None
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the handshake; close the connection if there are too many: an answer would need the handshake."""
        self._transport = cast("asyncio.Transport", transport)
        most = self._protocol.most_connections
        if len(self._protocol.connections) + len(self._all.pending) >= most:
            self._told(503, f"{most} connections are open already")
            self._transport.abort()
            return
        self._all.pending.add(self)
        shaking = self._protocol.loop.start_tls(
            self._transport,
            cast("asyncio.BaseProtocol", self._protocol),
            self._all.context,
            server_side=True,
            ssl_handshake_timeout=2 * self._protocol.head_seconds,  # later than ours, which counts and logs it
        )
        # Start it in this call, not as a task: data received before the start would be lost.
        rest = begin(shaking)
        assert rest is not None  # noqa: S101 - a handshake waits for the client
        self._task = self._protocol.loop.create_task(self._shake(rest))

    def connection_lost(self, _exc: Exception | None) -> None:
        """End; called if the connection breaks before the handshake starts."""
        self._all.pending.discard(self)

    def abort(self) -> None:
        """End the connection."""
        if self._transport is not None:
            self._transport.abort()
        if self._task is not None:
            self._task.cancel()

    async def _shake(self, shaking: Awaitable[asyncio.Transport | None]) -> None:
        assert self._transport is not None  # noqa: S101 - set by connection_made, which started this
        try:
            async with asyncio.timeout(self._protocol.head_seconds):
                transport = await shaking
        except TimeoutError:
            self._told(408, "the TLS handshake did not complete in time")
            self._transport.abort()
        except (OSError, ssl.SSLError):
            self._transport.abort()
        else:
            if transport is not None and transport.get_extra_info("cipher"):
                self._protocol.connection_made(transport)
            else:  # the peer has ended the connection, which is no error for uvloop
                self._transport.abort()
        finally:
            self._all.pending.discard(self)

    @property
    def _told(self) -> Callable[[int, str], None]:
        return self._protocol.told or (lambda _status, _text: None)
