"""uvicorn's HTTP protocol with limits that it leaves to a proxy: connections, and the time and size of a request head.

Without these limits a client that never completes its head (slowloris) holds a connection forever; an endless header
fills the memory; a client that does not read its answer keeps it in memory; and one that continues its body after the
answer keeps the connection. `spool` limits bodies. Trailers are ignored: nothing after the body may change a request.

Requests of one connection are parsed one at a time. uvicorn's parser consumes all bytes it receives, so it receives
pieces that end with a head. Bytes after a request that is not answered yet wait unparsed, and the connection is not
read meanwhile. What takes longer to parse than a turn (a body in chunks of one byte) goes on in a later turn of the
event loop; see `turns`.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, cast
from weakref import ref

import httptools
from uvicorn.protocols.http.flow_control import HIGH_WATER_LIMIT, FlowControl
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from seglog.server.http.joined_writes import JoinedTransport
from seglog.server.http.turns import Turns
from seglog.server.problems import MEDIA_TYPE, PROTECTING, RETRY_SECONDS

if TYPE_CHECKING:
    from seglog.server.http.refusals import Refusals
    from seglog.server.runtime.memory import Memory
    from seglog.server.settings import Limits

HEAD_BYTES = 64 * 1024
PIECE_BYTES = 4096  # for the parser, unless they belong to a body of known length
HEADERS = 128  # of one request: as objects they take many times their bytes
HEAD_END = b"\r\n\r\n"
UPGRADING = (b"connection", b"upgrade", b"http2-settings")
REFUSED_SHARE, REFUSED_LEAST = 8, 16  # refused connections that may linger: 1/8 of those allowed, at least 16
LINGER_SECONDS = 2.0  # lets a peer that still sends read its answer; closing with unread bytes would discard it


class BoundedProtocol(HttpToolsProtocol):
    """One connection. `bounded` returns a subclass with the limits set."""

    most_connections = 1000
    head_seconds = 10.0
    idle_seconds = 20.0
    told: Callable[[int, str], None] | None = None  # called with status and text of every refusal
    memory: Memory | None = None  # the server's budget: unparsed bytes count there
    turns = Turns()  # of all connections of the server

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._unparsed = 0  # bytes since the parser last completed a head or a piece of a body
        self._is_made = self._in_head = self._in_request = self._refused = False
        self._has_turn = False  # to come: it waits in `turns`
        self._left = 0  # missing bytes of a body of known length
        self._pieces: list[bytes] = []  # of the body, from the data that is parsed now
        self._waiting, self._position = b"", 0  # received data, and the position of the first unparsed byte
        self._counted = 0  # how many of its bytes are counted in `memory`: none of less than a piece
        self._deadline: asyncio.TimerHandle | None = None  # for the head
        self._stalled: asyncio.TimerHandle | None = None  # since the peer last read some of an answer
        self._lingering: asyncio.TimerHandle | None = None  # since an answer was sent before the request ended

    # --- the connection -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        """Start the timer for the head; refuse the connection if there are too many."""
        super().connection_made(cast("asyncio.Transport", JoinedTransport(transport, self.loop, self.idle_seconds)))
        self.flow = _Flow(self.transport, self)
        self._is_made = True
        too_many = len(self.connections) - self.most_connections
        if too_many > max(self.most_connections // REFUSED_SHARE, REFUSED_LEAST):
            self._drop(f"{self.most_connections} connections are open already")
        elif too_many > 0:
            self._refuse(503, f"{self.most_connections} connections are open already; retry in a moment")
        else:
            self._expect_head()

    def connection_lost(self, exc: Exception | None) -> None:
        """Cancel the timers."""
        if not self._is_made:  # it ended with its TLS handshake
            return
        cast("JoinedTransport", self.transport).lost()
        for handle in (self._deadline, self._stalled, self._lingering):
            if handle is not None:
                handle.cancel()
        self._keep_waiting(b"", 0)
        self._unset_keepalive_if_required()  # uvicorn does it only without an error
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """Close the connection, soon even if the peer reads no further: asyncio alone would wait for it."""
        if self._is_made:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse one request; keep the bytes after it."""
        if self._refused or self.transport.is_closing():
            return
        self._unset_keepalive_if_required()
        if self._waiting:
            data = self._waiting[self._position :] + data
        if self._has_turn:  # later
            self._keep_waiting(data, 0)
        else:
            self._parse(data, 0, self.turns.until())

    def _parse(self, data: bytes, position: int, until: float) -> None:
        """Parse from `position` to the end of a request that needs an answer; refuse an endless head.

        until: the time to stop, after at least one piece, as `Turns` gives it. A body of known length does not wait:
        it is copied, not parsed.
        """
        while position < len(data) and not (self._is_busy or self._refused or self.transport.is_closing()):
            end = self._piece_end(data, position)
            self._unparsed += end - position
            again = self._parse_piece(data[position:end])
            data, position = (data, end) if again is None else (again + data[end:], 0)
            if self._unparsed > HEAD_BYTES:
                self._refuse(431, "the request head is larger than 64 KiB")
            if time.monotonic() >= until and not self._left:
                break
        if self._refused or self.transport.is_closing():
            self._keep_waiting(b"", 0)
            return
        self._keep_waiting(data, position)
        if self._waiting and not self._is_busy:
            self._wait_for_turn()
        if not self._waiting and (self.cycle is None or len(self.cycle.body) <= HIGH_WATER_LIMIT):
            self.flow.resume_reading()
        if self._is_answered and not self._in_request and not (self._deadline or self.timeout_keep_alive_task):
            self._expect_head()  # an incomplete request has arrived

    def _wait_for_turn(self) -> None:
        if not self._has_turn:
            self._has_turn = True
            self.turns.wait(self.loop, self._parse_on)

    def _parse_on(self, until: float) -> None:
        """Go on until then: it is this connection's turn."""
        self._has_turn = False
        if self._waiting and not (self._refused or self.transport.is_closing()):
            self._parse(self._waiting, self._position, until)

    @property
    def has_unparsed(self) -> bool:
        """Whether bytes have come that are not parsed yet: nothing more is read meanwhile."""
        return bool(self._waiting)

    @property
    def _is_busy(self) -> bool:
        """Whether a request is complete and not answered yet."""
        return not self._in_request and not self._is_answered

    def _piece_end(self, data: bytes, position: int) -> int:
        """Return the end of the next piece for the parser: the end of a body, of a head, or a few KiB on."""
        if self._left:
            return min(position + self._left, len(data))
        end = data.find(HEAD_END, position, position + PIECE_BYTES)
        return min(position + PIECE_BYTES, len(data)) if end < 0 else end + len(HEAD_END)

    def _keep_waiting(self, data: bytes, position: int) -> None:
        """Keep data from `position` on until the current request is answered; pause reading."""
        size = len(data) if position < len(data) else 0
        self._waiting, self._position = (data, position) if size else (b"", 0)
        counted = size if size > PIECE_BYTES else 0  # a small request that waits for its turn is not dropped
        if self.memory is not None and counted != self._counted:
            more, self._counted = counted - self._counted, counted
            fits = more < 0 or self.memory.has_room("pipelines", more)
            self.memory.change("pipelines", more)
            if not fits:
                self._refuse_waiting()
        if self._waiting:
            self.flow.pause_reading()

    def _refuse_waiting(self) -> None:
        """Refuse what waits to be parsed: the server has no memory for it."""
        if self._is_busy:
            self._drop("too many pipelined requests")
            return
        self._refuse(503, "too many requests wait to be parsed; retry in a moment")
        self._keep_waiting(b"", 0)
        self.flow.resume_reading()  # to the end of what the peer sends, or until `_linger` is over

    def _drop(self, text: str) -> None:
        """Close the connection without an answer: one is being written already."""
        self._refused = True
        if self.told is not None:
            self.told(503, text)
        self.transport.abort()

    def _parse_piece(self, data: bytes) -> bytes | None:
        """Parse. Return the replacement for a request that asks for a protocol upgrade, else None."""
        try:
            self.parser.feed_data(data)
            self._take_pieces()
        except httptools.HttpParserUpgrade as upgrade:
            return None if self._refused else self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self._refuse(400, "not a valid HTTP request")
        return None

    def _without_upgrade(self, rest: bytes) -> bytes:
        """Return the request without its upgrade header: the parser would skip the body."""
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % pair for pair in self.headers if pair[0] not in UPGRADING]
        if any(name == b"connection" and b"close" in value.lower() for name, value in self.headers):
            lines.append(b"connection: close")
        self.parser = httptools.HttpRequestParser(self)
        self._unparsed = 0
        return b"\r\n".join(lines) + HEAD_END + rest

    def pause_writing(self) -> None:
        """Start the timer in which the peer must read what is buffered."""
        super().pause_writing()
        if self._stalled is None:  # abort, not close: closing would wait for the peer
            self._stalled = self.loop.call_later(self.idle_seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """Stop the timer: the peer reads its answer."""
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None
        super().resume_writing()

    # --- the request --------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """Start the timer for the head."""
        super().on_message_begin()
        self._in_head = self._in_request = True
        if self._deadline is None:
            self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """Take a header; ignore trailers."""
        if self._in_head and len(self.headers) >= HEADERS:
            self._refuse(431, f"a request may have {HEADERS} headers")
        elif self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Note that the head is complete."""
        if self.parser.get_method() == b"CONNECT":
            self._refuse(405, "this server is not a proxy")
        elif self.parser.get_http_version() == "1.0" and any(name == b"transfer-encoding" for name, _ in self.headers):
            self._refuse(400, "HTTP/1.0 has no Transfer-Encoding; send Content-Length")  # RFC 9112, 6.1
        if self._refused or self.parser.should_upgrade():  # an upgrade request is parsed again without its header
            return
        self._unparsed, self._in_head = 0, False
        self._left = int(next((value for name, value in self.headers if name == b"content-length"), b"0"))
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Keep a piece of the body, which may be one byte: uvicorn copies all that it has for each."""
        self._pieces.append(body)

    def _take_pieces(self) -> None:
        """Hand over the pieces of the body that have arrived."""
        if self._pieces:
            body = b"".join(self._pieces)
            self._pieces.clear()
            self._unparsed, self._left = 0, max(self._left - len(body), 0)
            super().on_body(body)

    def on_message_complete(self) -> None:
        """Note that the request is complete."""
        if self._in_head:  # an upgrade request, which is parsed again
            return
        self._take_pieces()
        self._unparsed, self._left, self._in_request = 0, 0, False
        super().on_message_complete()
        if self._lingering is not None and not self._refused:
            self._lingering.cancel()
            self._lingering = None
            self._keep_alive()

    def on_response_complete(self) -> None:
        """Queue the next request of this connection, or let the peer finish a body that is no longer read.

        Pipelined requests wait for their turn: hundreds of connections that each sent thousands would else have one
        parsed and answered in every turn, before the first request of any other connection.
        """
        super().on_response_complete()
        if self._in_request and self._is_answered:
            self._linger()
        elif self._waiting and not self.transport.is_closing():
            self._unset_keepalive_if_required()
            self._wait_for_turn()

    @property
    def _is_answered(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _expect_head(self) -> None:
        self._deadline = self.loop.call_later(self.head_seconds, self._too_late)

    def _too_late(self) -> None:
        self._deadline = None
        self._refuse(408, "the request head did not arrive in time")

    def _keep_alive(self) -> None:
        self._unset_keepalive_if_required()
        self.timeout_keep_alive_task = self.loop.call_later(self.timeout_keep_alive, self.timeout_keep_alive_handler)

    def _linger(self) -> None:
        if self._lingering is None:
            self._lingering = self.loop.call_later(LINGER_SECONDS, self.transport.abort)

    def _refuse(self, status: int, text: str) -> None:
        """Answer, unless the request has an answer or one is under way, and stop reading."""
        if self._refused or self.transport.is_closing():
            return
        self._refused = True
        if self.told is not None:
            self.told(status, text)
        if self._lingering is not None:  # answered before its end
            return
        in_body = not self._is_answered and not self._in_head and not self.pipeline and not self.cycle.response_started
        if in_body:  # the reader of the body learns that the rest will not come
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        if in_body or self._is_answered:
            self.transport.write(_refusal(status, text))
            self._linger()
        else:
            self.transport.close()


class _Flow(FlowControl):
    """uvicorn's flow control, which reads nothing more while bytes wait to be parsed.

    It refers to the protocol weakly: a closed connection is freed at once, without a collection of garbage.
    """

    def __init__(self, transport: asyncio.Transport, protocol: BoundedProtocol) -> None:
        super().__init__(transport)
        self._protocol = ref(protocol)

    def resume_reading(self) -> None:
        """Read on, unless there is something to be parsed first."""
        protocol = self._protocol()
        if protocol is not None and not protocol.has_unparsed:
            super().resume_reading()


def _refusal(status: int, text: str) -> bytes:
    title = HTTPStatus(status).phrase
    problem = {"type": "about:blank", "title": title, "status": status, "detail": text, "error": "HttpProblem"}
    body = json.dumps({**problem, "retriable": status in (408, 503)}).encode()
    retry = f"retry-after: {RETRY_SECONDS}\r\n" if status == 503 else ""
    head = f"HTTP/1.1 {status} {title}\r\ncontent-type: {MEDIA_TYPE}\r\ncontent-length: {len(body)}\r\n{retry}"
    protecting = b"".join(b"%b: %b\r\n" % header for header in PROTECTING)
    return head.encode() + protecting + b"connection: close\r\n\r\n" + body


def bounded(limits: Limits, told: Refusals, memory: Memory) -> type[BoundedProtocol]:
    """Return the protocol with these limits; `told` is called for every refused connection."""
    bounds = {
        "told": told,
        "memory": memory,
        "turns": Turns(),
        "most_connections": limits.connections,
        "head_seconds": limits.head_seconds,
        "idle_seconds": limits.idle_seconds,
    }
    return type("Bounded", (BoundedProtocol,), bounds)
