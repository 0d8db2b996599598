"""Drives flows with threads: sends their requests and waits. Knows no particular request."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any, TypeVar

import httpx

from seglog.client.endpoint import Origin, Verify, limits, tls
from seglog.client.requests.call import Answer, Call, Emit, Flow, Pause, Step, advance
from seglog.client.transport.sockets import SocketTransport
from seglog.errors import LogClosed, SeglogError
from seglog.record import checked_kind

T = TypeVar("T")
Outcome = Answer | SeglogError | None


class Driver:
    """Sends the calls of flows to one server. Thread-safe."""

    def __init__(self, origin: Origin, *, verify: Verify, transport: httpx.BaseTransport | None) -> None:
        """transport: any of httpx's; None: `sockets` for http, httpx's own for https."""
        if transport is not None:
            checked_kind(transport, httpx.BaseTransport, "transport")
        self._origin = origin
        self._closed = threading.Event()
        self._whole_url = transport is not None
        self._transport: SocketTransport | httpx.BaseTransport
        if transport is None and origin.url.scheme == "http":
            self._transport = SocketTransport(origin.url.host, origin.port)
        else:
            self._transport = transport or httpx.HTTPTransport(verify=tls(verify), limits=limits(may_wait=False))
        self._waiting: SocketTransport | httpx.BaseTransport = self._transport
        if transport is None and origin.url.scheme == "https":  # idle followers must not occupy all connections
            self._waiting = httpx.HTTPTransport(verify=tls(verify), limits=limits(may_wait=True))

    @property
    def term(self) -> str | None:
        """The highest term that is known; see Client.term."""
        return self._origin.term

    def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end and return its result."""
        outcome: Outcome = None
        try:
            while True:
                outcome = self._do(advance(flow, outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    def iterate(self, flow: Flow[Any]) -> Iterator[Any]:
        """Yield what a flow emits, on demand."""
        outcome: Outcome = None
        while True:
            try:
                step = advance(flow, outcome)
            except StopIteration:
                return
            if isinstance(step, Emit):
                yield step.item
            outcome = self._do(step)

    def close(self) -> None:
        """Close all connections; a thread that waits to retry, or starts another call, gets LogClosed."""
        self._closed.set()
        self._transport.close()
        if self._waiting is not self._transport:
            self._waiting.close()

    def _do(self, step: Step) -> Outcome:
        if isinstance(step, Call):
            try:
                return self._exchange(step)
            except SeglogError as error:
                return error
        if isinstance(step, Pause) and self._closed.wait(step.seconds):
            return closed()
        return None

    def _exchange(self, call: Call[Any]) -> Answer:
        if self._closed.is_set():
            raise closed()
        try:
            transport = self._waiting if call.wait > 0 else self._transport
            if isinstance(transport, SocketTransport):
                return self._origin.learned(transport.exchange(self._origin.asked(call)))
            request = self._origin.request(call, whole_url=self._whole_url)
            response = transport.handle_request(request)
            return self._origin.learned(Answer(response.status_code, response.headers, response.read()))
        except httpx.TransportError as error:
            raise self._origin.failed(error) from error


def closed() -> LogClosed:
    """Return the error of a closed client."""
    return LogClosed("the client is closed; create another one")
