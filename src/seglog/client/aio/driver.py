"""Drives flows in an event loop: the async counterpart of `driver`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any, TypeVar

import httpx

from seglog.client.driver import Outcome, closed
from seglog.client.endpoint import Origin, Verify, limits, tls
from seglog.client.requests.call import Answer, Call, Emit, Flow, Pause, Step, advance
from seglog.client.transport.async_sockets import AsyncSocketTransport
from seglog.errors import SeglogError
from seglog.record import checked_kind

T = TypeVar("T")


class AsyncDriver:
    """Sends the calls of flows to one server, for any number of tasks of one event loop."""

    def __init__(self, origin: Origin, *, verify: Verify, transport: httpx.AsyncBaseTransport | None) -> None:
        """transport: any of httpx's; None: `async_sockets` for http, httpx's own for https."""
        if transport is not None:
            checked_kind(transport, httpx.AsyncBaseTransport, "transport")
        self._origin = origin
        self._closed = asyncio.Event()
        self._whole_url = transport is not None
        self._transport: AsyncSocketTransport | httpx.AsyncBaseTransport
        if transport is None and origin.url.scheme == "http":
            self._transport = AsyncSocketTransport(origin.url.host, origin.port)
        else:
            self._transport = transport or httpx.AsyncHTTPTransport(verify=tls(verify), limits=limits(may_wait=False))
        self._waiting: AsyncSocketTransport | httpx.AsyncBaseTransport = self._transport
        if transport is None and origin.url.scheme == "https":  # idle followers must not occupy all connections
            self._waiting = httpx.AsyncHTTPTransport(verify=tls(verify), limits=limits(may_wait=True))

    @property
    def term(self) -> str | None:
        """The highest term that is known; see Client.term."""
        return self._origin.term

    async def run(self, flow: Flow[T]) -> T:
        """Drive a flow to its end and return its result."""
        outcome: Outcome = None
        try:
            while True:
                outcome = await self._do(advance(flow, outcome))
        except StopIteration as end:
            result: T = end.value
            return result

    async def iterate(self, flow: Flow[Any]) -> AsyncIterator[Any]:
        """Yield what a flow emits, on demand."""
        outcome: Outcome = None
        while True:
            try:
                step = advance(flow, outcome)
            except StopIteration:
                return
            if isinstance(step, Emit):
                yield step.item
            outcome = await self._do(step)

    async def close(self) -> None:
        """Close all connections; a task that waits to retry, or starts another call, gets LogClosed."""
        self._closed.set()
        await self._transport.aclose()
        if self._waiting is not self._transport:
            await self._waiting.aclose()

    async def _do(self, step: Step) -> Outcome:
        if isinstance(step, Call):
            try:
                return await self._exchange(step)
            except SeglogError as error:
                return error
        if isinstance(step, Pause) and await self._closes_within(step.seconds):
            return closed()
        return None

    async def _closes_within(self, seconds: float) -> bool:
        try:
            await asyncio.wait_for(self._closed.wait(), seconds)
        except TimeoutError:
            return False
        return True

    async def _exchange(self, call: Call[Any]) -> Answer:
        if self._closed.is_set():
            raise closed()
        try:
            transport = self._waiting if call.wait > 0 else self._transport
            if isinstance(transport, AsyncSocketTransport):
                return self._origin.learned(await transport.exchange(self._origin.asked(call)))
            request = self._origin.request(call, whole_url=self._whole_url)
            response = await transport.handle_async_request(request)
            return self._origin.learned(Answer(response.status_code, response.headers, await response.aread()))
        except httpx.TransportError as error:
            raise self._origin.failed(error) from error
