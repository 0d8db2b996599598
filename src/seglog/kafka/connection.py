"""One TCP connection: reads one request at a time, into memory that the server's budget has, and sends its response.

While a request is answered, nothing more is read. So a client holds at most one request and one response, in order, as
Kafka itself does. A Produce whose records only wait to be durable is an exception: it holds no memory any more, and the
next request is read, so that the batches of one producer share a sync (ADR 0059). The next request is answered after
it; another than a Produce does not begin before. A request that stops arriving, and a response that is not read, end
the connection.

If the client goes away, what it waits for is cancelled, but not a Produce: what has arrived is appended, and what the
server knows of producers includes it. The connection counts until then.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import deque
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from seglog.clock import system_clock
from seglog.errors import Busy, SeglogError
from seglog.kafka.dispatch import answer
from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.requests.call import Parts, Sender
from seglog.kafka.requests.catalog import CATALOG
from seglog.kafka.requests.read_ahead import forget_ahead
from seglog.kafka.settings import IDLE_CONNECTION_SECONDS
from seglog.kafka.wire.buffers import Malformed
from seglog.server.rights.access import ANYBODY
from seglog.server.runtime.memory import Claim

if TYPE_CHECKING:
    from collections.abc import Callable

    from seglog.server.settings import Limits

LOG = logging.getLogger("seglog.kafka")
REQUEST_HEAD = struct.Struct(">ihh")  # length, number and version
HEAD_BYTES = REQUEST_HEAD.size
HEAD_SPACE = 64 * 1024  # of a produce request, beside its records
SMALL_REQUEST_BYTES = 4 * 1024 * 1024
FIRST_BYTES = 64 * 1024  # memory for a request, until more of it has come
MOST_WAITING = 16  # requests that wait to be durable; clients send 5 by default before one is answered
_NUMBERS = count(1)


def _warn(_status: int, text: str) -> None:
    LOG.warning("a connection was refused: %s", text)


class Connection(asyncio.BufferedProtocol):
    """A connection; `connections` contains all that are open. Its bounds are `server.http.handshakes.Bounded`."""

    def __init__(self, parts: Parts, connections: set[Connection]) -> None:
        self._parts = parts
        self._limits: Limits = parts.services.settings.limits
        self.connections = connections
        self.most_connections, self.head_seconds = self._limits.connections, self._limits.head_seconds
        self.told: Callable[[int, str], None] | None = _warn
        self._claim = Claim(parts.services.memory, "bodies")
        self.loop = asyncio.get_running_loop()
        self._buffer = bytearray(HEAD_BYTES)
        self._got = 0
        self._size = 0  # of the whole request with its length; 0: its head has not come
        self._task: asyncio.Task[None] | None = None  # what ends before more is read
        self._appends = False  # whether the task answers a Produce
        self._waiting: deque[asyncio.Task[None]] = deque()  # each a Produce, in the order of their answers
        self._is_made = self._is_lost = False
        self._ends = False
        self._moved_at = self._began_at = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._writable = asyncio.Event()
        self._writable.set()

    # --- the connection -------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Count the connection; close it if there are too many."""
        self._transport, self._is_made = cast("asyncio.Transport", transport), True
        near, far = transport.get_extra_info("sockname"), transport.get_extra_info("peername")
        caller = None if self._parts.services.access.asks else ANYBODY
        now = system_clock()
        self.sender = Sender((near[0], near[1]), far[0] if far else "", caller, connected_at=now, used_at=now)
        self.sender.number, self.sender.port = next(_NUMBERS), far[1] if far else 0
        if len(self.connections) >= self.most_connections:
            _warn(503, f"{self.most_connections} connections are open already")
            self._transport.abort()
            return
        self.connections.add(self)
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's contract
        """Release everything, with a Produce after its end."""
        if not self._is_made:  # its TLS handshake has failed
            return
        self._is_lost = True
        for handle in (self._timer, self._stalled):
            if handle is not None:
                handle.cancel()
        self._writable.set()
        if self._task is not None and not self._appends:
            self._task.cancel()
            self._task = None
        if self._task is None:
            self._expect_request()
        self._release()

    @property
    def _is_busy(self) -> bool:
        return self._task is not None or bool(self._waiting)

    def _release(self) -> None:
        if self._is_busy:
            return
        self.connections.discard(self)
        forget_ahead(self.sender)
        self._claim.close()

    def _watch(self) -> None:
        """Close a connection whose request does not go on, or that has been idle for long; look again later."""
        now, seconds = self.loop.time(), self._limits.idle_seconds
        if self._task is None and self._got and not self._ends:
            slow = self._got < (now - self._began_at - seconds) * self._limits.body_rate
            if now - self._moved_at >= seconds or slow:
                self._refuse("a request does not arrive")
                return
        elif not self._is_busy and now - self._moved_at >= IDLE_CONNECTION_SECONDS:
            self._transport.close()
            return
        self._timer = self.loop.call_later(seconds / 2, self._watch)

    def _drop(self, why: str) -> None:
        LOG.warning("the connection from %s was closed: %s", self.sender.host, why)
        self._transport.abort()

    def _refuse(self, why: str) -> None:
        """Close the connection because of a request, after the answers to those before it."""
        if self._waiting:
            LOG.warning("the connection from %s will be closed: %s", self.sender.host, why)
            self.close()
        else:
            self._drop(why)

    # --- reading --------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's contract
        """Return where the next bytes go: the head first, then the rest of the request."""
        return memoryview(self._buffer)[self._got : self._size or HEAD_BYTES]

    def buffer_updated(self, nbytes: int) -> None:
        """Go on with a request, which is answered when it is complete."""
        self._moved_at = self.loop.time()
        if not self._got:
            self._began_at = self._moved_at
        self._got += nbytes
        if self._transport.is_closing():
            return
        if not self._size and self._got == HEAD_BYTES:
            self._begin()
        if self._size and self._got == self._size:
            self._appends = int.from_bytes(self._buffer[4:6], "big") == PRODUCE.key
            self._run(self._answer())
        elif self._size and self._got == len(self._buffer):
            self._grow()

    def eof_received(self) -> bool:
        """Close the connection, after the responses that are under way unless it has TLS, which cannot wait."""
        if not self._is_made:
            return False
        self.close()
        return self._is_busy and self._transport.get_extra_info("ssl_object") is None

    def _begin(self) -> None:
        """Check the head of a request."""
        length, key = (
            int.from_bytes(self._buffer[at : at + size], "big", signed=True) for at, size in ((0, 4), (4, 2))
        )
        most = self._limits.batch_bytes + HEAD_SPACE if key == PRODUCE.key else SMALL_REQUEST_BYTES
        if key not in CATALOG or not HEAD_BYTES <= length <= most:
            self._refuse(f"request {key} of {length} bytes is unknown or has more than {most}")
            return
        self._size = 4 + length

    def _grow(self) -> None:
        """Double the memory of a request, at most to its size, if the server's budget has it; else wait for it."""
        room = min(max(2 * self._got, FIRST_BYTES), self._size)
        if room <= FIRST_BYTES:
            self._enlarge(room)
            return
        try:
            self._claim.resize(room)
        except Busy:
            self._run(self._wait_for_room(room))
            return
        self._enlarge(room)

    def _enlarge(self, room: int) -> None:
        buffer = bytearray(room)
        buffer[: self._got] = memoryview(self._buffer)[: self._got]
        self._buffer = buffer

    async def _wait_for_room(self, room: int) -> None:
        if not await self._claim.wait(room, self._limits.idle_seconds):
            self._refuse("the server has no memory for its request")
            return
        self._enlarge(room)
        self._moved_at = self.loop.time()

    # --- answering ------------------------------------------------------------------------------------------------

    def _run(self, work: Any) -> None:
        """Do something before reading on."""
        self._transport.pause_reading()
        self._task = self.loop.create_task(work)
        self._task.add_done_callback(self._done)

    def _done(self, task: asyncio.Task[None]) -> None:
        is_read_on = task in self._waiting
        if is_read_on:
            self._waiting.remove(task)
        elif task is self._task:
            self._task, self._appends = None, False
        if self._is_lost:
            self._release()
        if task.cancelled():
            self._transport.abort()
        elif (error := task.exception()) is not None:
            LOG.error("a request of %s failed", self.sender.host, exc_info=error)
            self._transport.abort()
        elif self._ends:
            if not self._is_busy:
                self._transport.close()
        elif not is_read_on and not self._transport.is_closing():
            self._transport.resume_reading()

    def _read_on(self) -> None:
        """Read the next request while the one that is answered waits, unless many do."""
        if self._task is None or self._ends or len(self._waiting) >= MOST_WAITING:
            return
        self._waiting.append(self._task)
        self._task, self._appends = None, False
        self._expect_request()
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _expect_request(self) -> None:
        self._buffer, self._got, self._size = bytearray(HEAD_BYTES), 0, 0
        self._claim.close()

    async def _answer(self) -> None:
        """Answer the request that has been read, after the one before."""
        task, before = self._task, self._waiting[-1] if self._waiting else None
        if before is not None and not self._appends:
            await asyncio.wait([before])
        try:
            call, parts = await answer(
                self._parts, self.sender, memoryview(self._buffer)[4 : self._size], self._read_on
            )
        except SeglogError as error:
            self._refuse(str(error) if isinstance(error, Malformed) else f"a request failed: {error}")
            return
        finally:
            if task is self._task:  # no other request is read yet
                self._expect_request()
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            if parts and not (self._is_lost or self._transport.is_closing()):
                self._transport.writelines(parts)
                del parts
                if call is not None and call.sent is not None:
                    call.sent()
                await self._writable.wait()
        finally:
            if call is not None:
                call.held.close()
        self._moved_at = self.loop.time()

    def pause_writing(self) -> None:
        """Wait until the client has read more of its response, but not for long."""
        self._writable.clear()
        self._stalled = self.loop.call_later(self._limits.idle_seconds, self._drop, "it does not read its response")

    def resume_writing(self) -> None:
        """Go on."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._writable.set()

    def close(self) -> None:
        """Close the connection, after the responses that are under way. A second call does nothing."""
        if self._ends:
            return
        self._ends = True
        if not self._is_busy:
            self._transport.close()
        elif self._task is None:
            self._transport.pause_reading()
            self._expect_request()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()
