"""What the tests of the client share: one server for all that leave it as it was, and clients of it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import seglog

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

DEADLINE_SECONDS = 60
_numbers = itertools.count()


@pytest.fixture(params=["sockets", "httpx"])
def client(url: str, request: pytest.FixtureRequest) -> Iterator[seglog.Client]:
    """A client, over its own sockets and over httpx's."""
    transport = httpx.HTTPTransport() if request.param == "httpx" else None
    with seglog.Client(url, transport=transport) as client:
        yield client


@pytest.fixture
def name() -> str:
    """A name that no other test has."""
    return f"client-{next(_numbers)}"


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a story in an event loop, for a minute at most."""
    return lambda story: asyncio.run(asyncio.wait_for(story, DEADLINE_SECONDS))
