"""Ports that stay a server's own while it is down: whoever asks for any port may get it otherwise, by chance."""

from __future__ import annotations

import socket
import sys
import weakref


def kept_port(owner: object) -> int:
    """Return a port of 127.0.0.1 that, as long as the owner lives, only programs get which name it.

    Linux lets a server bind an address which another socket is bound to and does not listen at, if both allow it, and
    gives the port to nobody who asks for any. Elsewhere the port is 0: the server chooses one.
    """
    if sys.platform != "linux":
        return 0
    keeper = socket.socket()
    weakref.finalize(owner, keeper.close)
    keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    keeper.bind(("127.0.0.1", 0))
    return int(keeper.getsockname()[1])
