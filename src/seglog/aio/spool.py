"""Take the chunks of a value, from an async source or not, before anything of it is appended."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Iterable
from typing import Any

from seglog.errors import InvalidType, StreamOverflow
from seglog.record import checked_bytes, checked_offset

SPOOL_BYTES = 1024 * 1024


async def spool_chunks(
    chunks: AsyncIterable[bytes] | Iterable[bytes], spool: Any, limit: int | None, store_limit: int
) -> int:
    """Write the chunks to a file, rewind it, and return their length in bytes.

    Raises:
        StreamOverflow: If they exceed `limit`, or without one `store_limit`.
        InvalidType: If they are no iterable of bytes.
    """
    most = store_limit if limit is None else checked_offset(limit, "limit")
    length = 0
    async for chunk in _as_async(chunks):
        length += len(checked_bytes(chunk, "a chunk of the stream"))
        if length > most:
            raise StreamOverflow(most)
        spool.write(chunk)
    spool.seek(0)
    return length


async def _as_async(chunks: AsyncIterable[bytes] | Iterable[bytes]) -> AsyncIterator[bytes]:
    if isinstance(chunks, AsyncIterable):
        async for chunk in chunks:
            yield chunk
    elif isinstance(chunks, Iterable):
        for chunk in chunks:
            yield chunk
    else:
        raise InvalidType(f"append_stream takes an iterable of bytes, not {type(chunks).__name__}")
