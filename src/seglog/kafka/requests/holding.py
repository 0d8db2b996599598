"""The memory that a request holds as objects, with its answer: claimed before it is allocated."""

from __future__ import annotations

from seglog.errors import Busy
from seglog.kafka.wire.buffers import Malformed
from seglog.server.runtime.memory import Claim, Memory

FREE_BYTES = 64 * 1024
"""What a request may hold without a claim: nearly every request is smaller, and takes no time for one."""
MOST_BYTES, MOST_SHARE = 32 * 1024 * 1024, 4
"""What a request and its answer may hold in proportion to its fields, and which part of all answers (1/4)."""
COPIES = 2  # the values of a request, and those of its answer
ANSWERS = "answers"


class Costly(Malformed):
    """A request whose values would take more memory than one request may have."""


class Holding:
    """What one request holds. most: bytes that its values may take, with those of the answer to each."""

    def __init__(self, memory: Memory, seconds: float) -> None:
        """seconds: how long a request waits for memory."""
        self.most = min(MOST_BYTES, memory.share(ANSWERS) // MOST_SHARE)
        self.claim = Claim(memory, ANSWERS)
        self.size = 0
        self._seconds = seconds

    def take(self, size: int) -> None:
        """Hold `size` bytes more of a request's values, and as much for their answers; see `Take`.

        Raises:
            Costly: All values would take more than one request may have.
            Busy: The server does not have the memory now.
        """
        self.size += COPIES * size
        if self.size > self.most:
            raise Costly(
                f"a request would take more than {self.most} bytes of memory as values, with their answers; name less "
                "in one request"
            )
        if self.size > max(FREE_BYTES, self.claim.size):
            self.claim.resize(self.size)

    async def start_again(self) -> None:
        """Wait until there is memory for any request that is not too costly. Raises Busy if there is none in time."""
        self.size = 0
        if not await self.claim.wait(self.most, self._seconds):
            raise _no_memory(self.most)

    @property
    def claimed(self) -> int:
        """What is claimed for the request and its answer, unless it waits."""
        return self.size if self.size > FREE_BYTES else 0

    def settle(self) -> None:
        """Release what was claimed and is not needed."""
        self.claim.resize(min(self.claimed, self.claim.size))

    def reduce(self, part: int, whole: int) -> None:
        """Hold no more than a part of it: `part` of `whole` values are left."""
        if part < whole:
            self.size = self.size * part // whole
            self.settle()

    def release(self) -> None:
        """Hold nothing of the request any more: its values are gone."""
        self.size = 0
        self.close()

    async def room(self, more: int) -> None:
        """Hold `more` bytes for a part of the answer that is about to be made, in addition to what is held.

        Raises:
            Busy: The server has not had the memory in time.
        """
        self.size += more
        if self.size > FREE_BYTES and not await self.claim.grow(self.size, self._seconds):
            raise _no_memory(self.size)

    def close(self) -> None:
        """Release all of it."""
        self.claim.close()


def _no_memory(size: int) -> Busy:
    return Busy(f"the server has no {size} bytes of memory for a request and its answer")
