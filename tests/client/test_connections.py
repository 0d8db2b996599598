"""A client's connections: idle followers never delay an append, and a request that gets none says so."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import seglog
from seglog.client import driver
from seglog.client.aio.driver import AsyncDriver
from seglog.client.endpoint import Origin
from seglog.client.transport import async_sockets
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

FOLLOWERS = 6


def test_an_append_does_not_wait_for_idle_followers(
    url: str, name: str, run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_sockets, "MOST", FOLLOWERS - 2)
    polls: list[object] = []
    go_on = asyncio.Event()
    real = async_sockets._Connection.exchange

    async def counted(connection: Any, asked: Any) -> Any:
        if asked.target == b"/fetch":
            polls.append(connection)
            await go_on.wait()  # as if the server had nothing for it
        return await real(connection, asked)

    monkeypatch.setattr(async_sockets._Connection, "exchange", counted)

    async def story() -> None:
        async with seglog.AsyncClient(url) as client:
            topic = await client.create_topic(name)
            waiting = [asyncio.create_task(anext(aiter(topic.follow(0, 0)))) for _ in range(FOLLOWERS)]
            async with asyncio.timeout(HANG_SECONDS):
                while len(polls) < FOLLOWERS:  # until every follower waits for the server
                    await asyncio.sleep(0.01)
                await topic.append(b"first")
                go_on.set()
                assert [record.value for record in await asyncio.gather(*waiting)] == [b"first"] * FOLLOWERS

    run(story())


def test_a_request_that_gets_no_connection_in_time_says_so(
    url: str, name: str, run: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(async_sockets, "MOST", 1)

    async def story() -> None:
        async with seglog.AsyncClient(url) as maker:
            await maker.create_topic(name)
        hold, started = asyncio.Event(), asyncio.Event()

        async def slow() -> AsyncIterator[bytes]:
            yield b"a"
            started.set()
            await hold.wait()

        async with seglog.AsyncClient(url, timeout=HANG_SECONDS) as client:
            upload = asyncio.create_task(client.topic(name).append_stream(slow()))
            await started.wait()
            with monkeypatch.context() as impatient:
                impatient.setattr(client._driver._origin, "timeout", 0.2)
                with pytest.raises(seglog.Busy, match=r"all connections of this client to http://.* are in use"):
                    await client.topic(name).append(b"b")
            hold.set()
            await upload
            assert (await client.topic(name).append(b"c"))[1] == 1

    run(story())


def test_over_https_long_polls_have_connections_of_their_own() -> None:
    origin = Origin("https://127.0.0.1:1", token=None, timeout=1.0)
    made = driver.Driver(origin, verify=False, transport=None)
    awaited = AsyncDriver(origin, verify=False, transport=None)
    for own, waiting in ((made._transport, made._waiting), (awaited._transport, awaited._waiting)):
        assert own is not waiting
        assert isinstance(waiting, (httpx.HTTPTransport, httpx.AsyncHTTPTransport))
