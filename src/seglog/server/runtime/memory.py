"""The memory that a server holds for its callers: one budget, with a maximum share for each kind of use.

Kinds: bodies (being received), decoding (batches converted to records), answers and tails (being sent), pipelines
(requests received before the previous one was answered), waits (requests for many partitions, until records come). The
shares keep one kind from starving the others. A request for more than its share is admitted alone: while nothing of its
kind is held but what it holds itself.

Event loop only. Counts what callers announce; measures nothing.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from time import monotonic
from types import MappingProxyType

from seglog.errors import Busy

PIECE = 64 * 1024
STALL_SECONDS = 2.0  # in which a client reads a piece of its answer, or loses it if others need the memory
SHORT_SECONDS = 2.0  # how long a refusal counts as a shortage
SHARES = MappingProxyType(
    {"bodies": 1 / 2, "decoding": 1 / 2, "answers": 1 / 2, "tails": 1 / 4, "pipelines": 1 / 8, "waits": 1 / 8}
)

_Waits = tuple[str, int, int, "asyncio.Future[bool]"]
"""Kind and size of a request that waits, what it holds already, and whether it is admitted."""


class Memory:
    """The budget: `size` bytes, of which `held[kind]` are in use."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.held = dict.fromkeys(SHARES, 0)
        self._waiting: deque[_Waits] = deque()
        self._refused_at: dict[str, float] = {}

    def has_room(self, kind: str, size: int, own: int = 0) -> bool:
        """Whether `size` more bytes of this kind fit. own: what the request holds of the kind already."""
        held, most = self.held[kind], self.size * SHARES[kind]
        if held == own and own + size > most:
            return True
        return held + size <= most and sum(self.held.values()) + size <= self.size

    def share(self, kind: str) -> int:
        """Return the most bytes that all requests may hold of a kind."""
        return int(self.size * SHARES[kind])

    def refused(self, kind: str, size: int) -> None:
        """Note that a request for `size` more bytes was refused."""
        self._refused_at.update(dict.fromkeys(self._lacked(kind, size), monotonic()))

    def is_short(self, kind: str) -> bool:
        """Whether requests wait for memory that this kind uses, or were refused it just now."""
        refused = monotonic() - self._refused_at.get(kind, -SHORT_SECONDS) < SHORT_SECONDS
        return refused or any(kind in self._lacked(waits, size) for waits, size, _, _ in self._waiting)

    def _lacked(self, kind: str, size: int) -> Collection[str]:
        """Return the kinds that prevent `size` more bytes of this kind: all of them if its own share has room."""
        return SHARES if self.held[kind] + size <= self.size * SHARES[kind] else (kind,)

    def change(self, kind: str, size: int) -> None:
        """Count `size` more bytes, or fewer if negative; a caller that can be refused asks `has_room` first."""
        self.held[kind] += size
        if size < 0:
            self._admit()

    async def room(self, kind: str, size: int, seconds: float | None = None, own: int = 0) -> bool:
        """Wait until `size` more bytes fit, and hold them; False after `seconds`.

        First come first served, but one that holds bytes of the kind already (`own`) waits for no other that waits:
        that may wait for these bytes.
        """
        if (own or not any(waits == kind for waits, *_ in self._waiting)) and self.has_room(kind, size, own):
            self.change(kind, size)
            return True
        loop = asyncio.get_running_loop()
        entry = (kind, size, own, loop.create_future())
        self._waiting.append(entry)
        timer = None if seconds is None else loop.call_later(seconds, self._give_up, entry)
        try:
            admitted: bool = await entry[3]
        except BaseException:
            if entry in self._waiting:
                self._waiting.remove(entry)
            elif entry[3].done() and not entry[3].cancelled() and entry[3].result():  # admitted at the same moment
                self.change(kind, -size)
            self._admit()
            raise
        finally:
            if timer is not None:
                timer.cancel()
        return admitted

    def _give_up(self, entry: _Waits) -> None:
        """Let a request wait no longer."""
        if not entry[3].done():
            self._waiting.remove(entry)
            self.refused(*entry[:2])
            entry[3].set_result(False)
            self._admit()

    def _admit(self) -> None:
        """Admit waiting requests, each kind in order; see `room`."""
        passed: set[str] = set()
        for entry in [*self._waiting]:
            kind, size, own, future = entry
            if kind in passed and not own:
                continue
            if future.done() or not self.has_room(kind, size, own):
                passed.add(kind)
                continue
            self._waiting.remove(entry)
            self.held[kind] += size
            future.set_result(True)


class Claim:
    """What one request holds of one kind; closed with the request."""

    def __init__(self, memory: Memory, kind: str) -> None:
        self._memory = memory
        self._kind = kind
        self.size = 0

    @property
    def is_wanted(self) -> bool:
        """Whether it holds memory that other requests need."""
        return self.size > 0 and self._memory.is_short(self._kind)

    def resize(self, size: int) -> None:
        """Hold `size` bytes from now on. Raises Busy if more do not fit."""
        more = size - self.size
        if more > 0 and not self._memory.has_room(self._kind, more, self.size):
            held = self._memory.held[self._kind]
            self._memory.refused(self._kind, more)
            raise Busy(f"{self._kind} hold {held} bytes already; retry in a moment")
        self._memory.change(self._kind, more)
        self.size = size

    async def wait(self, size: int, seconds: float | None = None) -> bool:
        """Release what is held, then wait until `size` bytes fit and hold them; False after `seconds`."""
        self.close()
        if not await self._memory.room(self._kind, size, seconds):
            return False
        self.size = size
        return True

    async def grow(self, size: int, seconds: float | None = None) -> bool:
        """Hold `size` bytes, and until they fit what is held already; False after `seconds`.

        Two that wait for each other both fail; so `wait` is better where nothing is lost.
        """
        try:
            self.resize(size)
        except Busy:
            if not await self._memory.room(self._kind, size - self.size, seconds, self.size):
                return False
            self.size = size
        return True

    def close(self) -> None:
        """Release all of it."""
        if self.size:
            self._memory.change(self._kind, -self.size)
            self.size = 0
