"""The bytes of one connection as they arrive, cut into requests, in memory that the server's budget has.

What arrives between two requests is read into memory that all connections share, and may hold several requests. Only
a request whose end has not come gets memory of its own, which doubles as more of it comes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from seglog.errors import Busy
from seglog.kafka.messages.core import PRODUCE
from seglog.kafka.requests.catalog import CATALOG
from seglog.kafka.wire.buffers import Malformed
from seglog.server.runtime.memory import Claim

if TYPE_CHECKING:
    from seglog.server.runtime.memory import Memory
    from seglog.server.settings import Limits

HEAD = struct.Struct(">ihh")  # length, number and version
LENGTH_BYTES = 4  # which the length does not count
HEAD_SPACE = 64 * 1024  # of a produce request, beside its records
SMALL_REQUEST_BYTES = 4 * 1024 * 1024
FIRST_BYTES = 64 * 1024  # memory for a request, until more of it has come; the most that is read at once
NOTHING = memoryview(b"")
HTTP = frozenset({b"GET ", b"HEAD", b"POST", b"PUT ", b"DELE", b"PATC", b"OPTI", b"CONN", b"TRAC", b"PRI "})
"""What begins a request of HTTP. As a length each is above 1 GB."""


class Unknown(Malformed):
    """A request that this server does not have."""


class TooLong(Malformed):
    """A request with more bytes than its kind may have."""


class OfHttp(Malformed):
    """The client sends HTTP."""


class Incoming:
    """The requests of a connection.

    Attributes:
        room: Bytes that the next request needs and the server does not have now; 0 if it has.
    """

    def __init__(self, limits: Limits, memory: Memory, shared: bytearray) -> None:
        """Take FIRST_BYTES that all connections of a loop share."""
        self._limits = limits
        self._claim = Claim(memory, "bodies")
        self._shared = shared
        self._come = NOTHING  # and not cut into requests yet
        self._buffer: bytearray | None = None  # of a request that has begun
        self._got = 0  # bytes of it
        self._size = 0  # of the whole of it, with its length
        self.room = 0

    @property
    def begun(self) -> int:
        """How many bytes of a request have come whose end has not."""
        return len(self._come) if self._buffer is None else self._got

    def space(self) -> memoryview:
        """Return where the next bytes go."""
        return memoryview(self._shared) if self._buffer is None else memoryview(self._buffer)[self._got :]

    def arrived(self, size: int) -> None:
        """Take bytes that have been written to `space`."""
        if self._buffer is not None:
            self._got += size
        else:
            self._come = memoryview(b"".join((self._come, memoryview(self._shared)[:size])))

    def take(self) -> memoryview | None:
        """Return the next request without its length, None if its end has not come. Raises Malformed."""
        if self._buffer is None:
            if len(self._come) < HEAD.size:
                return None
            size = self._size_of(self._come)
            if size <= len(self._come):
                request, self._come = self._come[LENGTH_BYTES:size], self._come[size:]
                return request
            self._begin(size)
        return self._taken()

    def has_whole(self, key: int) -> bool:
        """Whether all of the next request has come, and it is of a kind."""
        if self._buffer is not None or len(self._come) < HEAD.size:
            return False
        length, found, _ = HEAD.unpack_from(self._come)
        return bool(found == key and HEAD.size <= length <= len(self._come) - LENGTH_BYTES)

    def _size_of(self, data: memoryview) -> int:
        length, key, _ = HEAD.unpack_from(data)
        most = self._limits.batch_bytes + HEAD_SPACE if key == PRODUCE.key else SMALL_REQUEST_BYTES
        if key not in CATALOG or not HEAD.size <= length <= most:
            raise _refusal(data, most)
        return LENGTH_BYTES + int(length)

    def _begin(self, size: int) -> None:
        """Give a request memory of its own."""
        self._buffer, self._size, self._got = bytearray(min(size, FIRST_BYTES)), size, len(self._come)
        self._buffer[: self._got] = self._come
        self._come = NOTHING

    def _taken(self) -> memoryview | None:
        assert self._buffer is not None  # noqa: S101 - a request has begun
        if self._got == self._size:
            request, self._buffer = memoryview(self._buffer)[LENGTH_BYTES:], None
            return request
        if self._got == len(self._buffer):
            self._grow(min(2 * self._got, self._size))
        return None

    def _grow(self, room: int) -> None:
        try:
            self._claim.resize(room)
        except Busy:
            self.room = room
            return
        self._enlarge(room)

    async def wait_for_room(self) -> bool:
        """Wait until the server has `room`; return whether it had in time."""
        if not await self._claim.wait(self.room, self._limits.idle_seconds):
            return False
        if self._buffer is not None:  # it has not been dropped meanwhile
            self._enlarge(self.room)
        self.room = 0
        return True

    def _enlarge(self, room: int) -> None:
        assert self._buffer is not None  # noqa: S101 - a request has begun
        buffer = bytearray(room)  # the present one may still be lent to the transport
        buffer[: self._got] = memoryview(self._buffer)[: self._got]
        self._buffer = buffer

    def release(self) -> None:
        """Release the memory of the request that was taken last."""
        self._claim.close()

    def drop(self) -> None:
        """Drop what has come and was not taken."""
        self._buffer, self._come = None, NOTHING


def _refusal(data: memoryview, most: int) -> Malformed:
    """Return why a request is not read. most: how many bytes it may have."""
    length, key, _ = HEAD.unpack_from(data)
    if bytes(data[:LENGTH_BYTES]) in HTTP:
        return OfHttp("this looks like HTTP; the Kafka listener knows only Kafka's protocol, and HTTP is at --port")
    if key not in CATALOG:
        return Unknown(f"this server does not know the request {key}")
    name = CATALOG[key].api.name
    if length <= most:
        return Malformed(f"the {name} request has {length} bytes, less than its head")
    limit = f"{most} (--batch-bytes and 64 KiB)" if key == PRODUCE.key else str(most)
    return TooLong(f"the {name} request has {length} bytes, and may have {limit}")
