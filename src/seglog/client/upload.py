"""A streamed body, never held completely: chunks of an iterable, or a file from its position. No HTTP."""

from __future__ import annotations

import os
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from functools import partial
from typing import Any

from seglog.errors import InvalidType, StreamOverflow
from seglog.record import checked_bytes, checked_offset

PIECE_BYTES = 256 * 1024

Chunks = Iterable[bytes] | AsyncIterable[bytes]


class Upload:
    """The chunks of a body. again: whether they can be read a second time, for a retry.

    length: bytes in total, if known. limit: StreamOverflow is raised beyond it.
    """

    def __init__(self, pieces: Callable[[], Chunks], *, again: bool, length: int | None, limit: int | None) -> None:
        self._pieces = pieces
        self.again = again
        self.length = length
        self._limit = limit

    def __iter__(self) -> Iterator[bytes]:
        pieces = self._pieces()
        if isinstance(pieces, AsyncIterable):
            raise InvalidType("an asynchronous source of bytes needs seglog.AsyncClient")
        taken = 0
        for piece in pieces:
            taken = self._counted(taken, piece)
            yield piece

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = self._pieces()
        taken = 0
        if isinstance(pieces, AsyncIterable):
            async for piece in pieces:
                taken = self._counted(taken, piece)
                yield piece
            return
        for piece in pieces:
            taken = self._counted(taken, piece)
            yield piece

    def _counted(self, taken: int, piece: bytes) -> int:
        taken += len(checked_bytes(piece, "a chunk of the stream"))
        if self._limit is not None and taken > self._limit:
            raise StreamOverflow(self._limit)
        return taken


def upload(source: Any, *, limit: int | None = None) -> Upload:
    """Return the body for a source: a binary file, or an iterable (for AsyncClient also asynchronous) of bytes.

    A file is read from its position. A seekable file, a list and a tuple can be sent again after a lost connection, any
    other source only once. Raises InvalidType for anything else.
    """
    limit = None if limit is None else checked_offset(limit, "limit")
    if hasattr(source, "read"):
        return _of_file(source, limit)
    if isinstance(source, (bytes, bytearray, memoryview, str)) or not isinstance(source, (Iterable, AsyncIterable)):
        raise InvalidType(f"append_stream takes a binary file or an iterable of bytes, not {type(source).__name__}")
    return Upload(lambda: source, again=isinstance(source, (list, tuple)), length=None, limit=limit)


def _of_file(file: Any, limit: int | None) -> Upload:
    if not (hasattr(file, "seekable") and file.seekable()):
        return Upload(lambda: _read(file), again=False, length=None, limit=limit)
    start = file.tell()
    length = file.seek(0, os.SEEK_END) - start
    file.seek(start)

    def pieces() -> Iterable[bytes]:
        file.seek(start)
        return _read(file)

    return Upload(pieces, again=True, length=length, limit=limit)


def _read(file: Any) -> Iterator[bytes]:
    return iter(partial(file.read, PIECE_BYTES), b"")
