"""Request bodies, read completely before anything is done with them: small ones in memory, others in files.

So a slow sender blocks no other client, a body that ends early changes nothing, and the memory and disk space of all
bodies together are limited, each by one budget. The files have no names; they vanish with the process.
"""

from __future__ import annotations

import asyncio
import mmap
import os
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Any

import xxhash

from seglog.errors import Busy, InvalidArgument
from seglog.server.problems import HttpProblem
from seglog.server.runtime.memory import SHARES, Memory
from seglog.server.settings import Limits

Receive = Callable[[], Awaitable[Any]]

BODY_IN_MEMORY = 32 * 1024 * 1024
SHARE_IN_MEMORY = 4  # one body may use at most this part (1/4) of the memory for bodies
PIECE = 1024 * 1024
BODIES = "bodies"
HELD = 64 * 1024  # bytes buffered between two writes to a file


class TooSlow(HttpProblem):
    """A body that stopped arriving, or arrives too slowly."""

    def __init__(self, detail: str) -> None:
        super().__init__(408, detail)


class BodyTooLarge(HttpProblem):
    """A body larger than the server accepts; nothing was stored."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            413,
            f"the body is larger than {limit} bytes; send it in parts, or raise the server's --body-bytes "
            "(for a batch: --batch-bytes)",
        )
        self.limit = limit


class Body:
    """A completely received body. size: in bytes."""

    def __init__(self) -> None:
        self.size = 0
        self._memory = bytearray()
        self._file: IO[bytes] | None = None
        self._map: mmap.mmap | None = None

    @property
    def in_memory(self) -> bool:
        """Whether it is held in memory."""
        return self._file is None

    def data(self) -> bytes:
        """Return all of it; only for a body in memory."""
        return bytes(self._memory)

    def view(self) -> memoryview:
        """Return all of it without a copy: memory, or a map of the file. Valid until the body is closed."""
        if self._file is None:
            return memoryview(self._memory)
        if self._map is None:
            self._map = mmap.mmap(self._file.fileno(), 0, prot=mmap.PROT_READ)
        return memoryview(self._map)

    def pieces(self) -> Iterator[bytes]:
        """Yield it in pieces of up to 1 MiB."""
        for position in range(0, self.size, PIECE) if self.size else ():
            if self._file is None:
                yield bytes(self._memory[position : position + PIECE])
            else:
                yield os.pread(self._file.fileno(), PIECE, position)

    def digest(self) -> int:
        """Return the XXH64 of all of it."""
        state = xxhash.xxh64()
        for piece in self.pieces():
            state.update(piece)
        return state.intdigest()

    def spill(self, directory: Path) -> None:
        """Move it from memory to a file; blocks."""
        if self._file is None:
            self._file = tempfile.TemporaryFile(dir=directory)  # noqa: SIM115 - closed by `close`
        self._file.write(self._memory)
        self._file.flush()
        self._memory = bytearray()

    def close(self) -> None:
        """Release memory and file. Arrow data that still uses the map keeps it alive."""
        if self._file is not None:
            self._file.close()
        self._memory = bytearray()
        self._map = None


class Spool:
    """Receives bodies within the memory and disk budgets."""

    def __init__(self, directory: Path, limits: Limits, memory: Memory) -> None:
        """directory: for the files; they have no names, and nothing else there is touched."""
        self._directory = directory
        self._limits = limits
        self.memory = memory
        self.disk = 0

    @asynccontextmanager
    async def body(self, receive: Receive, declared: int | None, limit: int | None = None) -> AsyncIterator[Body]:
        """Receive a body; release it when the context ends.

        declared: its Content-Length, None if unknown. Raises BodyTooLarge, TooSlow, Busy, and InvalidArgument if the
        sender disconnects early.
        """
        limit = self._limits.body_bytes if limit is None else limit
        if declared is not None and declared > limit:
            raise BodyTooLarge(limit)
        intake = _Intake(self, limit)
        try:
            await intake.take(receive)
            yield intake.body
        finally:
            intake.close()

    def check_disk(self, size: int) -> None:
        """Raise Busy if the files may not grow by `size` bytes."""
        if self.disk + size > self._limits.spool_bytes:
            raise Busy(f"bodies being received use {self.disk} bytes of disk space; retry in a moment")

    @property
    def most_in_memory(self) -> int:
        """The most memory in bytes that one body may use."""
        return int(self.memory.size * SHARES[BODIES]) // SHARE_IN_MEMORY

    @property
    def directory(self) -> Path:
        """The directory of the files."""
        return self._directory

    @property
    def limits(self) -> Limits:
        """The limits in force."""
        return self._limits


class _Intake:
    """One body being received, and its part of the budgets."""

    def __init__(self, spool: Spool, limit: int) -> None:
        self.body = Body()
        self._spool = spool
        self._limit = limit
        self._held = bytearray()
        self._memory = 0
        self._disk = 0

    async def take(self, receive: Receive) -> None:
        begun = time.monotonic()
        more = True
        while more:
            message = await self._next(receive)
            if message["type"] == "http.disconnect":
                raise InvalidArgument(
                    f"the sender disconnected after {self.body.size} bytes of the body; nothing was stored"
                )
            more = message.get("more_body", False)
            chunk = message.get("body", b"")
            self.body.size += len(chunk)
            if self.body.size > self._limit:
                raise BodyTooLarge(self._limit)
            await self._keep(chunk)
            if more:
                self._check_rate(time.monotonic() - begun)
        if not self.body.in_memory:
            await self._write()

    async def _next(self, receive: Receive) -> Any:
        try:
            async with asyncio.timeout(self._spool.limits.idle_seconds):
                return await receive()
        except TimeoutError:
            raise TooSlow(
                f"no byte of the body arrived for {self._spool.limits.idle_seconds:g} s; nothing was stored"
            ) from None

    def _check_rate(self, seconds: float) -> None:
        limits = self._spool.limits
        if seconds > limits.idle_seconds and self.body.size < limits.body_rate * seconds:
            raise TooSlow(f"{self.body.size} bytes of the body in {seconds:.0f} s is too slow; nothing was stored")

    async def _keep(self, chunk: bytes) -> None:
        """Buffer a chunk in memory, or write the buffer to the file when it is large enough."""
        held = self.body._memory
        if self.body.in_memory and len(held) + len(chunk) <= BODY_IN_MEMORY and self._has_memory(len(chunk)):
            held += chunk
            self._memory += len(chunk)
            self._spool.memory.change(BODIES, len(chunk))
            return
        held += chunk
        if self.body.in_memory or len(held) >= HELD:
            await self._write()

    def _has_memory(self, size: int) -> bool:
        return self._spool.memory.has_room(BODIES, size) and self._memory + size <= self._spool.most_in_memory

    async def _write(self) -> None:
        length = len(self.body._memory)
        self._spool.check_disk(length)
        self._disk += length
        self._spool.disk += length
        await asyncio.to_thread(self.body.spill, self._spool.directory)
        self._spool.memory.change(BODIES, -self._memory)
        self._memory = 0

    def close(self) -> None:
        self._spool.memory.change(BODIES, -self._memory)
        self._spool.disk -= self._disk
        self.body.close()
