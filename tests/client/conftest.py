"""What the tests of the client share: one server for all that leave it as it was, and clients of it."""

from __future__ import annotations

import asyncio
import itertools
from typing import TYPE_CHECKING, Any

import httpx
import pytest

import seglog
from seglog.topic.groups import position
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterator

PATIENT = 1000  # retries: a server that starts again on a busy machine is given any time
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
def beats_often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let consumers tell their groups ten times a second that they are there, however long their sessions are."""
    monkeypatch.setattr(position, "MAX_BEAT_SECONDS", 0.1)


@pytest.fixture
def run() -> Callable[[Coroutine[Any, Any, None]], None]:
    """Run a story in an event loop, for a minute at most."""
    return lambda story: asyncio.run(asyncio.wait_for(story, HANG_SECONDS))
