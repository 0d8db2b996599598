"""The transport of `sockets` for asyncio: plain HTTP/1.1 to one server, complete answers, httpx's errors."""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator
from contextlib import asynccontextmanager

import httpx

from seglog.client.endpoint import MOST, MOST_WAITING, Asked
from seglog.client.requests.call import Answer
from seglog.client.transport.http1 import LAST_CHUNK, AnswerReader, Malformed, framed, request_head
from seglog.client.transport.sockets import KEPT, RECEIVE_BYTES, SMALL_BYTES, said


class AsyncSocketTransport:
    """A transport for any number of tasks of one event loop. Each request uses its own connection, up to MOST.

    Long polls, which the server may hold back, use separate connections, up to MOST_WAITING, so that idle followers
    never delay an append. A request for which no connection becomes free in time raises httpx.PoolTimeout. The
    transport belongs to the event loop that used it first.
    """

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port = host, port
        self._idle: deque[_Connection] = deque()
        self._room = asyncio.Semaphore(MOST)
        self._waiting_room = asyncio.Semaphore(MOST_WAITING)

    async def exchange(self, asked: Asked) -> Answer:
        """Send a request and return its complete answer. Raises httpx's errors."""
        async with self._held(self._waiting_room if asked.may_wait else self._room, asked.timeout):
            connection = self._taken() or await self._connected(asked.timeout)
            try:
                answer = await connection.exchange(asked)
            except BaseException:
                connection.close()
                raise
            if answer.keeps and len(self._idle) < KEPT:
                self._idle.append(connection)
            else:
                connection.close()
        return said(answer)

    @asynccontextmanager
    async def _held(self, room: asyncio.Semaphore, timeout: float) -> AsyncIterator[None]:
        """Hold a connection slot; wait up to `timeout` seconds for one."""
        try:
            async with asyncio.timeout(timeout if room.locked() else None):
                await room.acquire()
        except TimeoutError as error:
            raise httpx.PoolTimeout(f"none became free within {timeout} seconds") from error
        try:
            yield
        finally:
            room.release()

    async def aclose(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    def _taken(self) -> _Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.is_quiet():
                return connection
            connection.close()
        return None

    async def _connected(self, timeout: float) -> _Connection:
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
    """A connection, used by one task at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    def is_quiet(self) -> bool:
        """Whether the connection is still open, as far as the event loop knows."""
        return not self._reader.at_eof() and not self._writer.is_closing()

    def close(self) -> None:
        self._writer.transport.abort()

    async def exchange(self, asked: Asked) -> AnswerReader:
        """Send, and read the answer. Errors of the body's iterator propagate."""
        answer = AnswerReader(asked.method)
        try:
            unsent = await self._send(asked)
            await self._receive(answer, unsent, asked.patience)
        except Malformed as error:
            raise httpx.RemoteProtocolError(str(error)) from error
        return answer

    async def _send(self, asked: Asked) -> OSError | None:
        """Send everything; return the error if the server refuses early or the connection ends."""
        head = request_head(asked.method.encode("ascii"), asked.target, asked.headers)
        async for piece in parts(head, asked.body, asked.chunked):
            if self._reader.at_eof() or self._writer.is_closing():
                return OSError("the server closed the connection before it received the whole body")
            try:
                self._writer.write(piece)
                async with asyncio.timeout(asked.timeout):
                    await self._writer.drain()
            except OSError as error:  # includes TimeoutError
                return error
        return None

    async def _receive(self, answer: AnswerReader, unsent: OSError | None, timeout: float) -> None:
        try:
            async with asyncio.timeout(timeout) as deadline:
                while data := await self._reader.read(RECEIVE_BYTES):
                    if answer.feed(data):
                        break
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
    """Yield what to send; a short body joins the head, so that both go in one packet."""
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
