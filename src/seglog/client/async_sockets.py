"""The transport of `sockets` for asyncio. As there: plain HTTP/1.1 to one server, answers whole, httpx's errors."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from typing import TYPE_CHECKING, Any

import httpx

from seglog.client.sockets import KEPT, RECEIVE_BYTES, SMALL_BYTES
from seglog.client.wire import LAST_CHUNK, AnswerReader, Malformed, framed, request_head

if TYPE_CHECKING:
    from collections.abc import AsyncIterable, AsyncIterator

MOST = 100


class AsyncSocketTransport(httpx.AsyncBaseTransport):
    """Any number of tasks may send at a time; up to 100 connections are open, the other tasks wait for one.

    It belongs to the event loop in which it was used first.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._idle: deque[_Connection] = deque()
        self._room = asyncio.Semaphore(MOST)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request and return its answer, whole. Raises httpx's errors."""
        timeout: dict[str, Any] = request.extensions.get("timeout", {})
        async with self._room:
            connection = self._taken() or await self._connected(timeout.get("connect"))
            try:
                answer = await connection.exchange(request, timeout)
            except BaseException:
                connection.close()
                raise
            if answer.keeps and len(self._idle) < KEPT:
                self._idle.append(connection)
            else:
                connection.close()
        return httpx.Response(answer.status, headers=answer.headers, stream=httpx.ByteStream(answer.body))

    async def aclose(self) -> None:
        """Let go of the kept connections."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()
        return None

    async def _connected(self, timeout: float | None) -> _Connection:
        try:
            async with asyncio.timeout(timeout):
                reader, writer = await asyncio.open_connection(self._host, self._port, limit=RECEIVE_BYTES)
        except TimeoutError as error:
            raise httpx.ConnectTimeout(f"no connection within {timeout} seconds") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return _Connection(reader, writer)


class _Connection:
    """One connection, used by one task at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def is_quiet(self) -> bool:
        """Whether the server has not ended the connection, as far as the event loop has heard."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def exchange(self, request: httpx.Request, timeout: dict[str, Any]) -> AnswerReader:
        """Send, and read the answer. What the body's own iterator raises comes through."""
        answer = AnswerReader(request.method)
        try:
            unsent = await self._send(request, timeout.get("write"))
            await self._receive(answer, unsent, timeout.get("read"))
        except Malformed as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return answer

    async def _send(self, request: httpx.Request, timeout: float | None) -> OSError | None:
        """Send all, or until a refusal comes or the connection ends: then the error is returned."""
        target = request.extensions.get("target") or request.url.raw_path
        head = request_head(request.method.encode("ascii"), target, request.headers.raw)
        chunked = "transfer-encoding" in request.headers
        body = parts(head, request.stream, chunked)  # type: ignore[arg-type] # an async request's is an async one
        async for piece in body:
            if self._reader.at_eof() or self._writer.is_closing():
                return OSError("the server ended the connection before it had the whole body")
            try:
                self._writer.write(piece)
                async with asyncio.timeout(timeout):
                    await self._writer.drain()
            except OSError as error:  # of which TimeoutError is one
                return error
        return None

    async def _receive(self, answer: AnswerReader, unsent: OSError | None, timeout: float | None) -> None:
        try:
            async with asyncio.timeout(timeout) as deadline:
                while data := await self._reader.read(RECEIVE_BYTES):
                    if answer.feed(data):
                        break
                    if timeout is not None:
                        deadline.reschedule(asyncio.get_running_loop().time() + timeout)
                else:
                    answer.end()
        except TimeoutError as error:
            raise httpx.ReadTimeout("no answer in time") from error
        except OSError as error:
            raise httpx.ReadError(str(unsent or error)) from error
        if unsent is not None:
            answer.keeps = False


async def parts(head: bytes, body: AsyncIterable[bytes], chunked: bool) -> AsyncIterator[bytes]:
    """Yield what to send: a short body together with the head, so that both go in one packet."""
    async for piece in body:
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
