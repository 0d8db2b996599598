"""TLS in tests: a certificate that signs itself, and a client that decides which messages go out together."""

from __future__ import annotations

import ssl
import subprocess
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable
    from pathlib import Path

OPENSSL = "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
NAMES = ["-addext", "subjectAltName=IP:127.0.0.1"]


def certify(directory: Path) -> tuple[str, str]:
    """Make a certificate of 127.0.0.1, by openssl; return its file and that of its key."""
    certificate, key = str(directory / "cert.pem"), str(directory / "key.pem")
    command = [*OPENSSL.split(), *NAMES, "-out", certificate, "-keyout", key]
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def server_context(certificate: tuple[str, str]) -> ssl.SSLContext:
    """Return the context of a server with this certificate and key."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


class TlsPeer:
    """A client on a socket: sends the end of its handshake with its first data, and reads only in `receive`."""

    def __init__(self, wire: socket.socket, trusted: str) -> None:
        """Make the handshake, but for its last message. trusted: the file of the server's certificate."""
        self._wire = wire
        self._come, self._gone = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=trusted)
        self._tls = context.wrap_bio(self._come, self._gone, server_hostname=wire.getpeername()[0])
        self._patiently(self._tls.do_handshake)

    def send(self, data: bytes = b"", *, ends: bool = False) -> None:
        """Send data, and with it the end of the connection if `ends`."""
        if data:
            self._tls.write(data)
        if ends:
            with suppress(ssl.SSLWantReadError):
                self._tls.unwrap()
        self._wire.sendall(self._gone.read())

    def receive(self) -> bytes:
        """Return what has come, at least a byte."""
        received: bytes = self._patiently(lambda: self._tls.read(65536))
        return received

    def _patiently(self, step: Callable[[], Any]) -> Any:
        while True:
            with suppress(ssl.SSLWantReadError):
                return step()
            self._wire.sendall(self._gone.read())
            received = self._wire.recv(65536)
            assert received, "the server has closed the connection"
            self._come.write(received)
