"""The memory that a server holds for its callers: one budget, of which each kind of use has at most a share.

Kinds: bodies (of requests, on their way in), decoding (batches made into records), answers and tails (on their way
out), pipelines (requests that came before the last one was answered). A share keeps one kind from starving the others.
Whatever is larger than its share is admitted alone: while nothing else of its kind is held.

Event loop only. Counts what is announced; measures nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from time import monotonic
from types import MappingProxyType

from seglog.errors import Busy

SHORT_SECONDS = 2.0  # for which a refusal counts
SHARES = MappingProxyType({"bodies": 1 / 2, "decoding": 1 / 2, "answers": 1 / 2, "tails": 1 / 4, "pipelines": 1 / 8})


class Memory:
    """The budget: `size` bytes, of which `held[kind]` are in use."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = dict.fromkeys(SHARES, 0)
        self._waiting: deque[tuple[str, int, asyncio.Future[None]]] = deque()
        self._refused_at: dict[str, float] = {}

    def has_room(self, kind: str, size: int) -> bool:
        """Whether `size` more bytes of this kind may be held."""
        held = self.held[kind]
        if not held:
            return size <= self.size - sum(self.held.values()) or size > self.size * SHARES[kind]
        return held + size <= self.size * SHARES[kind] and sum(self.held.values()) + size <= self.size

    def refused(self, kind: str, size: int) -> None:
        """Note that a request for `size` bytes more was refused for lack of room."""
        self._refused_at.update(dict.fromkeys(self._lacked(kind, size), monotonic()))

    def is_short(self, kind: str) -> bool:
        """Whether requests wait for room that this kind takes, or were refused it just now."""
        refused = monotonic() - self._refused_at.get(kind, -SHORT_SECONDS) < SHORT_SECONDS
        return refused or any(kind in self._lacked(waits, size) for waits, size, _ in self._waiting)

    def _lacked(self, kind: str, size: int) -> Collection[str]:
        """Return the kinds that keep so many bytes of this kind out: all of them where its own share has room."""
        return SHARES if self.held[kind] + size <= self.size * SHARES[kind] else (kind,)

    def change(self, kind: str, size: int) -> None:
        """Count so many bytes more, or less; a caller that may be refused asks `has_room` before."""
        self.held[kind] += size
        if size < 0:
            self._admit()

    async def room(self, kind: str, size: int, seconds: float | None = None) -> bool:
        """Wait until there is room, first come first served, and hold it; False if there is none for so long."""
        if not any(waits == kind for waits, _, _ in self._waiting) and self.has_room(kind, size):
            self.change(kind, size)
            return True
        entry = (kind, size, asyncio.get_running_loop().create_future())
        self._waiting.append(entry)
        try:
            async with asyncio.timeout(seconds):
                await entry[2]
        except BaseException as error:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif entry[2].done() and not entry[2].cancelled():  # admitted in the same moment
                self.change(kind, -size)
            self._admit()
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def _admit(self) -> None:
        """Admit those who wait, each kind in its order."""
        passed: set[str] = set()
        for entry in [*self._waiting]:
            kind, size, future = entry
            if kind in passed:
                continue
            if future.done() or not self.has_room(kind, size):
                passed.add(kind)
                continue
            self._waiting.remove(entry)
            self.held[kind] += size
            future.set_result(None)


class Claim:
    """What one request holds of one kind; closed when the request is over."""

    def __init__(self, memory: Memory, kind: str) -> None:
        self._memory = memory
        self._kind = kind
        self.size = 0

    @property
    def is_wanted(self) -> bool:
        """Whether memory is held here that other requests need."""
        return self.size > 0 and self._memory.is_short(self._kind)

    def resize(self, size: int) -> None:
        """Hold `size` bytes from now on, more or less than before; Busy where there is no room for more."""
        more = size - self.size
        if more > 0 and not self._fits(size, more):
            held = self._memory.held[self._kind]
            self._memory.refused(self._kind, more)
            raise Busy(f"{self._kind} of {held} bytes are under way already; try again in a moment")
        self._memory.change(self._kind, more)
        self.size = size

    def _fits(self, size: int, more: int) -> bool:
        alone = self._memory.held[self._kind] == self.size
        return (alone and size > self._memory.size * SHARES[self._kind]) or self._memory.has_room(self._kind, more)

    async def wait(self, size: int, seconds: float | None = None) -> bool:
        """Release what is held, then wait for room for `size` bytes and hold them; False if there is none in time."""
        self.close()
        if not await self._memory.room(self._kind, size, seconds):
            return False
        self.size = size
        return True

    def close(self) -> None:
        """Release all of it."""
        if self.size:
            self._memory.change(self._kind, -self.size)
            self.size = 0
