"""One TCP connection: takes one request at a time and sends its response.

While a request is answered, nothing more is read. So a client holds at most one request and one response, in order, as
Kafka itself does, and the bytes that came with the request. A Produce whose records only wait to be durable is an
exception: it holds no memory any more, and the next request is taken, so that the batches of one producer share a sync
(ADR 0059). The next request is answered after it; another than a Produce does not begin before. A request that stops
arriving, and a response that is not read, end the connection.

A Produce begins at once, and most need no task (ADR 0060): what it does before it first waits must not need one.

If the client goes away, what it waits for is cancelled, but not a Produce: what has arrived is appended, and what the
server knows of producers includes it. The connection counts until then. What follows a batch that is refused with
acks=0 is dropped with the connection, as in Kafka.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from functools import partial
from itertools import count
from typing import TYPE_CHECKING, Any, cast

from seglog.clock import system_clock
from seglog.errors import SeglogError
from seglog.kafka.dispatch import answer
from seglog.kafka.incoming import Incoming
from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.requests.call import Call, Parts, Sender
from seglog.kafka.requests.read_ahead import forget_ahead
from seglog.kafka.settings import IDLE_CONNECTION_SECONDS
from seglog.kafka.wire.buffers import Malformed, pieces_of
from seglog.server.rights.access import ANYBODY
from seglog.server.runtime.at_once import begin
from seglog.server.runtime.memory import PIECE, STALL_SECONDS
from seglog.server.runtime.unread import unread_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from seglog.server.runtime.repeated_warnings import RepeatedWarnings
    from seglog.server.settings import Limits

LOG = logging.getLogger("seglog.kafka")
AT_ONCE = 8  # requests that are taken one after another before other connections have their turn
MOST_WAITING = 16  # requests that wait to be durable; clients send 5 by default before one is answered
_NUMBERS = count(1)


def _refused(warnings: RepeatedWarnings, status: int, text: str) -> None:
    warnings(status, f"a connection was refused: {text}")


class _Work:
    """What a connection does for one request. task: which does it, once it has had to wait; appends: a Produce."""

    __slots__ = ("appends", "task")

    def __init__(self, *, appends: bool) -> None:
        self.task: asyncio.Task[None] | None = None
        self.appends = appends


class Connection(asyncio.BufferedProtocol):
    """A connection; `connections` contains all that are open. Its bounds are `server.http.handshakes.Bounded`."""

    def __init__(
        self, parts: Parts, connections: set[Connection], shared: bytearray, warnings: RepeatedWarnings
    ) -> None:
        """Take memory and warnings that all connections share; see Incoming."""
        self._parts = parts
        self._limits: Limits = parts.services.settings.limits
        self.connections = connections
        self.most_connections, self.head_seconds = self._limits.connections, self._limits.head_seconds
        self.told: Callable[[int, str], None] | None = partial(_refused, warnings)
        self._warnings = warnings
        self._incoming = Incoming(self._limits, parts.services.memory, shared)
        self.loop = asyncio.get_running_loop()
        self._now: _Work | None = None  # what ends before another request is taken
        self._waiting: deque[_Work] = deque()  # each a Produce, in the order of their answers
        self._is_made = self._is_lost = self._is_paused = self._is_queued = False
        self._ends = False  # nothing more is read
        self._turn = AT_ONCE
        self._moved_at = self._began_at = self.loop.time()
        self._timer: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None
        self._sending: Call | None = None
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
            _refused(self._warnings, 503, f"{self.most_connections} connections are open already")
            self._transport.abort()
            return
        self.connections.add(self)
        if transport.get_extra_info("ssl_object") is not None:
            self._transport.set_write_buffer_limits(PIECE)
        self._watch()
        self._go_on()  # with TLS, bytes may have come before

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's contract
        """Release everything, after each Produce that has come."""
        if not self._is_made:  # its TLS handshake has failed
            return
        self._is_lost = True
        for handle in (self._timer, self._stalled):
            if handle is not None:
                handle.cancel()
        self._writable.set()
        if self._now is not None and not self._now.appends and self._now.task is not None:
            self._now.task.cancel()
            self._now = None
        self._go_on()

    @property
    def _is_busy(self) -> bool:
        return self._now is not None or bool(self._waiting) or self._is_queued

    @property
    def _is_over(self) -> bool:
        return self._ends or self._is_lost or self._transport.is_closing()

    def _end(self) -> None:
        """Drop what is not answered any more, and close the connection when nothing is under way."""
        self._incoming.drop()
        if self._now is None:
            self._incoming.release()
        if self._is_busy:
            return
        if self._is_lost:
            self.connections.discard(self)
            forget_ahead(self.sender)
        else:
            self._transport.close()

    def _watch(self) -> None:
        """Close a connection whose request does not go on, or that has been idle for long; look again later."""
        now, seconds, begun = self.loop.time(), self._limits.idle_seconds, self._incoming.begun
        if self._ends and not self._is_busy:
            if now - self._moved_at >= seconds:
                self._drop("it does not read its response")
                return
        elif self._now is None and begun and not self._ends:
            slow = begun < (now - self._began_at - seconds) * self._limits.body_rate
            if now - self._moved_at >= seconds or slow:
                self._refuse("a request does not arrive")
        elif not self._is_busy and now - self._moved_at >= IDLE_CONNECTION_SECONDS:
            self.close()
        self._timer = self.loop.call_later(seconds / 2, self._watch)

    def _drop(self, why: str) -> None:
        self._warn(why, why)
        self._transport.abort()

    def _refuse(self, why: str, kind: object = None) -> None:
        """Close the connection because of a request, after the answers to those before it. kind: of the warning."""
        self._warn(kind or why, why)
        self.close()

    def _warn(self, kind: object, why: str) -> None:
        self._warnings(kind, f"the connection from {self.sender.host} was closed: {why}")

    # --- reading --------------------------------------------------------------------------------------------------

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - asyncio's contract
        """Return where the next bytes go."""
        return self._incoming.space()

    def buffer_updated(self, nbytes: int) -> None:
        """Answer the requests that are complete."""
        self._moved_at = self.loop.time()
        if not self._incoming.begun:
            self._began_at = self._moved_at
        self._incoming.arrived(nbytes)
        if self._is_made:
            self._go_on()

    def eof_received(self) -> bool:
        """Close the connection, after the responses that are under way unless it has TLS, which cannot wait."""
        if not self._is_made:
            return False
        self._ends = True
        self._go_on()
        return self._is_busy and self._transport.get_extra_info("ssl_object") is None

    def _go_on(self) -> None:
        """Take the requests that have come, one after another, and read on when none is left.

        When nothing more is read, each Produce that has come is still appended.
        """
        while self._now is None:
            if not self._turn:
                self._queue()
                return
            if self._is_over and not self._incoming.has_whole(PRODUCE.key):
                self._end()
                return
            try:
                request = self._incoming.take()
            except Malformed as error:
                self._refuse(str(error), type(error))
                return
            if request is not None:
                self._turn -= 1
                self._answer(request)
            elif self._incoming.room:
                self._run(_Work(appends=False), self._wait_for_room())
            else:
                self._read(True)
                return

    def _queue(self) -> None:
        """Let other connections have their turn."""
        self._read(False)
        if not self._is_queued:
            self._is_queued = True
            self.loop.call_soon(self._take_turn)

    def _take_turn(self) -> None:
        self._is_queued, self._turn = False, AT_ONCE
        self._go_on()

    def _read(self, wanted: bool) -> None:
        """Read from the socket, or leave in it what comes."""
        if self._is_paused is wanted:
            self._is_paused = not wanted
            self._began_at = self.loop.time()
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    async def _wait_for_room(self) -> None:
        if not await self._incoming.wait_for_room():
            self._refuse("the server has no memory for its request")
            return
        self._moved_at = self.loop.time()

    # --- answering ------------------------------------------------------------------------------------------------

    def _answer(self, request: memoryview) -> None:
        self._began_at = self.loop.time()  # of what has followed it
        work = _Work(appends=int.from_bytes(request[:2], "big") == PRODUCE.key)
        answering = self._answered(work, request)
        del request  # a Produce releases the memory of its request before its end
        self._run(work, answering)

    def _run(self, work: _Work, doing: Coroutine[Any, Any, None]) -> None:
        """Do something before another request is taken."""
        self._now = work
        rest: Coroutine[Any, Any, None] | None = doing
        if work.appends:
            try:
                rest = begin(doing)
            except BaseException as error:
                self._ended(work, error)
                if not isinstance(error, Exception | asyncio.CancelledError):
                    raise
                return
        if rest is None:
            self._ended(work, None)
            return
        work.task = self.loop.create_task(rest)
        work.task.add_done_callback(partial(self._done, work))
        if self._now is work:
            self._read(False)

    def _done(self, work: _Work, task: asyncio.Task[None]) -> None:
        if task.cancelled():
            self._ended(work, asyncio.CancelledError())
        else:
            self._ended(work, task.exception())
        self._turn = AT_ONCE
        self._go_on()

    def _ended(self, work: _Work, error: BaseException | None) -> None:
        if work is self._now:
            self._now = None
        elif work in self._waiting:
            self._waiting.remove(work)
        if error is not None:
            if not isinstance(error, asyncio.CancelledError):
                LOG.error("a request of %s failed", self.sender.host, exc_info=error)
            self._incoming.drop()
            self._transport.abort()

    def _take_next(self, work: _Work) -> None:
        """Take the next request while one waits, unless many do."""
        if work is not self._now or self._ends or len(self._waiting) >= MOST_WAITING:
            return
        self._waiting.append(work)
        self._now = None
        self._incoming.release()
        if work.task is not None:  # else the caller of `_run` goes on
            self._queue()

    def _free(self, work: _Work) -> None:
        """Release the memory that a request came in, unless it has been: another one is taken already."""
        if work is self._now:
            self._incoming.release()

    async def _answered(self, work: _Work, request: memoryview) -> None:
        """Answer a request, after the one before."""
        before = self._waiting[-1].task if self._waiting else None
        if before is not None and not work.appends:
            await asyncio.wait([before])
        try:
            free = partial(self._free, work)
            asked = answer(self._parts, self.sender, request, partial(self._take_next, work), free)
            del request
            call, parts = await asked
        except SeglogError as error:
            why = str(error) if isinstance(error, Malformed) else f"a request failed: {error}"
            self._refuse(why, type(error))
            return
        finally:
            self._free(work)
        try:
            if before is not None and not before.done():
                await asyncio.wait([before])
            if parts and not (self._is_lost or self._transport.is_closing()):
                self._sending = call
                await self._send(parts)
                del parts
                if call is not None and call.sent is not None:
                    sent, call.sent = call.sent, None
                    sent()
                await self._writable.wait()
        finally:
            self._sending = None
            if call is not None:
                call.held.close()
        self._moved_at = self.loop.time()

    async def _send(self, parts: list[Any]) -> None:
        """Write a response: at once, or in pieces with TLS, whose transport does not tell what it has encrypted."""
        if self._transport.get_extra_info("ssl_object") is None:
            self._transport.writelines(parts)
            return
        for piece in pieces_of(parts, PIECE):
            await self._writable.wait()
            if self._is_lost or self._transport.is_closing():
                return
            self._transport.writelines(piece)

    def pause_writing(self) -> None:
        """Wait until the client has read more of its response, but not for long."""
        self._writable.clear()
        self._look_again(self.loop.time())

    def _look_again(self, read_at: float) -> None:
        seconds = min(STALL_SECONDS, self._limits.idle_seconds)
        self._stalled = self.loop.call_later(seconds, self._look, unread_bytes(self._transport), read_at)

    def _look(self, unread: int, read_at: float) -> None:
        """Drop a client that does not read. unread: bytes when it was last looked; read_at: when it last read any."""
        now, read = self.loop.time(), unread - unread_bytes(self._transport)
        if read < PIECE and self._sending is not None and self._sending.is_wanted:
            self._parts.services.metrics.dropped()
            self._drop("it does not read its response, and others need the memory")
        elif read <= 0 and now - read_at >= self._limits.idle_seconds:
            self._drop("it does not read its response")
        else:
            self._look_again(now if read > 0 else read_at)

    def resume_writing(self) -> None:
        """Go on."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        self._writable.set()

    def close(self) -> None:
        """Close the connection, after the responses that are under way; what else has come is dropped."""
        self._ends = True
        if self._is_made:
            self._read(False)
            self._end()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()
