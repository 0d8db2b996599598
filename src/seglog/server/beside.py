"""Other protocols beside HTTP, on the same broker and in the same event loop.

The server knows only this contract; the command line chooses what runs beside it.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol

from seglog.errors import ConfigError

if TYPE_CHECKING:
    from ssl import SSLContext

    from seglog.server.services import Services


class Beside(Protocol):
    """A listener that is started and stopped with the server."""

    def bind(self) -> None:
        """Take the address, before anything is opened. Raises ConfigError if it cannot be used."""
        ...

    def listen(self) -> str:
        """Let clients connect, who wait until `start`; return what to show to the operator.

        Raises ConfigError if another listener has the address.
        """
        ...

    async def start(self, services: Services, tls: SSLContext | None) -> None:
        """Accept connections. tls: the server's certificate, if it has one."""
        ...

    async def stop(self, seconds: float) -> None:
        """Accept no more requests and finish the running ones, at the latest in `seconds`."""
        ...

    def close(self) -> None:
        """Release the address; called also if `start` was not."""
        ...


def bound(host: str, port: int, option: str) -> socket.socket:
    """Return a socket that has an address. option: for the error. Raises ConfigError if the address cannot be used."""
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise _unusable(host, port, option, error) from error
    return listener


def listen(listener: socket.socket, backlog: int, option: str) -> None:
    """Let clients connect to a bound socket. option: for the error. Raises ConfigError if another one listens there.

    Two sockets can have one address until one of them listens.
    """
    try:
        listener.listen(backlog)
    except OSError as error:
        host, port = listener.getsockname()[:2]
        raise _unusable(host, port, option, error) from error


def _unusable(host: str, port: int, option: str, error: OSError) -> ConfigError:
    return ConfigError(f"cannot listen on {host} port {port}: {error.strerror or error}; choose another {option}")
