"""A transport for httpx that is as quick as the socket: plain HTTP/1.1 to one server, over connections that are kept.

httpx's own transport takes 0.35 ms a request, more than the server takes for an append. This one is used for http://
unless the program gives another; https:// goes through httpx's. It knows bytes (wire) and no requests of ours.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import httpx

from seglog.client.wire import LAST_CHUNK, AnswerReader, Malformed, framed, request_head

if TYPE_CHECKING:
    from collections.abc import Iterable

RECEIVE_BYTES = 256 * 1024
SMALL_BYTES = 16 * 1024
KEPT = 64


class SocketTransport(httpx.BaseTransport):
    """Any number of threads may send at a time; each takes a connection of its own, up to 64 of which are kept."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: deque[_Connection] = deque()
        self._process = os.getpid()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer, whole. Raises httpx's errors."""
        timeout: dict[str, Any] = request.extensions.get("timeout", {})
        connection = self._taken() or self._connected(timeout.get("connect"))
        try:
            answer = connection.exchange(request, timeout.get("read"))
        except BaseException:
            connection.close()
            raise
        if answer.keeps and len(self._idle) < KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return httpx.Response(answer.status, headers=answer.headers, stream=httpx.ByteStream(answer.body))

    def close(self) -> None:
        """Let go of the kept connections."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> _Connection | None:
        """Return a kept connection that the server has not ended meanwhile."""
        if self._process != os.getpid():  # a forked child: those are its parent's
            self._idle, self._process = deque(), os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_quiet():
                return connection
            connection.close()

    def _connected(self, timeout: float | None) -> _Connection:
        try:
            made = socket.create_connection(self._address, timeout)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection within {timeout} seconds") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Connection(made)


class _Connection:
    """One connection, used by one thread at a time."""

    def __init__(self, made: socket.socket) -> None:
        self._socket, self._timeout = made, made.gettimeout()
        self._poll = select.poll()
        self._poll.register(made, select.POLLIN)

    def is_quiet(self) -> bool:
        """Whether nothing has come, not even the end."""
        return not self._poll.poll(0)

    def close(self) -> None:
        self._socket.close()

    def exchange(self, request: httpx.Request, timeout: float | None) -> AnswerReader:
        """Send, and read the answer. What the body's own iterator raises comes through."""
        if timeout != self._timeout:
            self._socket.settimeout(timeout)
            self._timeout = timeout
        answer = AnswerReader(request.method)
        try:
            unsent = self._send(request)
            self._receive(answer, unsent)
        except Malformed as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return answer

    def _send(self, request: httpx.Request) -> OSError | None:
        """Send all, or until a refusal comes: the server need not take in a body that it does not want.

        Returns the error where sending ended early: the answer may be there all the same.
        """
        target = request.extensions.get("target") or request.url.raw_path
        head = request_head(request.method.encode("ascii"), target, request.headers.raw)
        chunked = "transfer-encoding" in request.headers
        for number, piece in enumerate(parts(head, request.stream, chunked)):  # type: ignore[arg-type] # it is a sync one
            if number and not self.is_quiet():
                return OSError("the server answered before it had the whole body")
            try:
                self._socket.sendall(piece)
            except OSError as error:
                return error
        return None

    def _receive(self, answer: AnswerReader, unsent: OSError | None) -> None:
        try:
            while True:
                data = self._socket.recv(RECEIVE_BYTES)
                if not data:
                    answer.end()
                    return
                if answer.feed(data):
                    break
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error
        except OSError as error:
            raise httpx.ReadError(str(unsent or error)) from error
        if unsent is not None:
            answer.keeps = False


def parts(head: bytes, body: Iterable[bytes], chunked: bool) -> Iterable[bytes]:
    """Yield what to send: a short body together with the head, so that both go in one packet."""
    for piece in body:
        piece = framed(piece) if chunked and piece else piece
        if head and len(piece) <= SMALL_BYTES:
            piece, head = head + piece, b""
        elif head:
            yield head
            head = b""
        if piece:
            yield piece
    if head or chunked:
        yield head + (LAST_CHUNK if chunked else b"")
