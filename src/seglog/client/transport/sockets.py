"""A fast transport: plain HTTP/1.1 to one server over pooled sockets.

httpx's own transport takes 0.35 ms per request, more than the server takes for an append; 30 us of that are its request
and response objects. This one serves http:// unless the program passes another; https:// uses httpx's. It raises
httpx's errors, so that both are handled alike. It knows bytes (wire), no particular requests.
"""

from __future__ import annotations

import os
import select
import socket
from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

import httpx

from seglog.client.requests.call import Answer
from seglog.client.transport.http1 import LAST_CHUNK, AnswerReader, Malformed, framed, request_head

if TYPE_CHECKING:
    from seglog.client.endpoint import Asked

RECEIVE_BYTES = 256 * 1024
SMALL_BYTES = 16 * 1024
KEPT = 64


class SocketTransport:
    """A thread-safe transport; each request uses its own connection, of which up to 64 are kept open."""

    def __init__(self, host: str, port: int) -> None:
        self._address = (host, port)
        self._idle: deque[_Connection] = deque()
        self._process = os.getpid()

    def exchange(self, asked: Asked) -> Answer:
        """Send a request and return its complete answer. Raises httpx's errors."""
        connection = self._taken() or self._connected(asked.timeout)
        try:
            answer = connection.exchange(asked)
        except BaseException:
            connection.close()
            raise
        if answer.keeps and len(self._idle) < KEPT:
            self._idle.append(connection)
        else:
            connection.close()
        return said(answer)

    def close(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> _Connection | None:
        """Return an idle connection that the server has not closed."""
        if self._process != os.getpid():  # a forked child: the connections belong to its parent
            self._idle, self._process = deque(), os.getpid()
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return None
            if connection.is_quiet():
                return connection
            connection.close()

    def _connected(self, timeout: float) -> _Connection:
        try:
            made = socket.create_connection(self._address, timeout)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection within {timeout} seconds") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Connection(made)


class _Connection:
    """A connection, used by one thread at a time."""

    def __init__(self, made: socket.socket) -> None:
        self._socket, self._timeout = made, made.gettimeout()
        self._poll = select.poll()
        self._poll.register(made, select.POLLIN)

    def is_quiet(self) -> bool:
        """Whether nothing has arrived, not even the end."""
        return not self._poll.poll(0)

    def close(self) -> None:
        self._socket.close()

    def exchange(self, asked: Asked) -> AnswerReader:
        """Send, and read the answer. Errors of the body's iterator propagate."""
        if asked.patience != self._timeout:
            self._socket.settimeout(asked.patience)
            self._timeout = asked.patience
        answer = AnswerReader(asked.method)
        try:
            unsent = self._send(asked)
            self._receive(answer, unsent)
        except Malformed as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return answer

    def _send(self, asked: Asked) -> OSError | None:
        """Send everything, or stop at a refusal: the server need not read a body that it rejects.

        Return the error if sending ended early: there may be an answer nevertheless.
        """
        head = request_head(asked.method.encode("ascii"), asked.target, asked.headers)
        for number, piece in enumerate(parts(head, asked.body, asked.chunked)):
            if number and not self.is_quiet():
                return OSError("the server answered before it received the whole body")
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


def said(answer: AnswerReader) -> Answer:
    """Return a complete answer in the form of flows."""
    headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in answer.headers}
    return Answer(answer.status, headers, answer.body)


def parts(head: bytes, body: Iterable[bytes], chunked: bool) -> Iterable[bytes]:
    """Yield what to send; a short body joins the head, so that both go in one packet."""
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
