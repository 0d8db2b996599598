"""A network between two processes that a test can cut: its connections end, or nothing passes for a while."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress


class CuttingProxy:
    """Passes bytes to a port of this machine; `target` may change.

    `cut` ends all connections in the middle of whatever they carry; while `blocked` is set, new ones end at once.
    """

    def __init__(self, port: int) -> None:
        self.target = port
        self.blocked = threading.Event()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._pairs: set[socket.socket] = set()
        self.cuts = 0
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                if self.blocked.is_set():
                    raise OSError("the network is cut")
                server = socket.create_connection(("127.0.0.1", self.target))
            except OSError:
                client.close()
                continue
            self._pairs |= {client, server}
            for one, other in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(one, other), daemon=True).start()

    def _pass(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                other.sendall(data)
        except OSError:
            pass
        finally:
            for end in (one, other):
                self._pairs.discard(end)
                with suppress(OSError):
                    end.shutdown(socket.SHUT_RDWR)
                end.close()

    def cut(self) -> None:
        """End all connections."""
        self.cuts += 1
        for end in list(self._pairs):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                end.close()

    def close(self) -> None:
        self._listener.close()
        self.cut()
