"""Write a value that comes in chunks into a store, hashing it on the way, without holding all of it."""

from __future__ import annotations

from collections.abc import Iterable

from xxhash import xxh64

from seglog.errors import StreamOverflow
from seglog.record import checked_bytes
from seglog.storage import File

STREAM_BUFFER = 256 * 1024


def write_value(store: File, chunks: Iterable[bytes], position: int, limit: int) -> tuple[int, int]:
    """Write the value's chunks from `position` on, small ones together; return its length and hash.

    limit: maximum bytes. Raises StreamOverflow if there are more, InvalidType for a chunk that is not bytes.
    """
    hasher, length, waiting = xxh64(), 0, bytearray()
    for chunk in chunks:
        chunk = checked_bytes(chunk, "a chunk of the stream")
        length += len(chunk)
        if length > limit:
            raise StreamOverflow(max(limit, 0))
        hasher.update(chunk)
        waiting += chunk
        if len(waiting) >= STREAM_BUFFER:
            store.pwrite(waiting, position)
            position += len(waiting)
            waiting = bytearray()
    if waiting:
        store.pwrite(waiting, position)
    return length, hasher.intdigest()
