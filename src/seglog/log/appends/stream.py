"""Append one record whose value comes in chunks, without holding all of it in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, NamedTuple

from seglog.config import MAX_OFFSET
from seglog.errors import InvalidArgument, InvalidType, KeyRequired, StreamOverflow
from seglog.format.codec import encode_headers, record_length
from seglog.record import (
    Header,
    Headers,
    Timestamp,
    checked_headers,
    checked_key,
    checked_offset,
    checked_timestamp,
)

if TYPE_CHECKING:
    from seglog.clock import Clock
    from seglog.log.live_segments import LiveSegments
    from seglog.log.writer_state import WriterState


class Stream(NamedTuple):
    """A record to append: the checked parameters of `Log.append_stream`."""

    chunks: Iterable[bytes]
    key: bytes | None
    timestamp: int
    headers: Headers
    limit: int | None
    length: int | None

    @property
    def head_bytes(self) -> int:
        """Size of everything but the value."""
        return record_length(self.key, encode_headers(self.headers), None)


def checked_stream(
    chunks: Iterable[bytes],
    key: bytes | None,
    timestamp: Timestamp | None,
    force_timestamp: bool,
    headers: Iterable[Header],
    limit: int | None,
    length: int | None,
    needs_key: bool,
    clock: Clock,
) -> Stream:
    """Return the record to append. Raises the error of an invalid argument."""
    if isinstance(chunks, (bytes, str, bytearray, memoryview)) or not isinstance(chunks, Iterable):
        raise InvalidType("append_stream requires an iterable of bytes; for a single value use append")
    key = checked_key(key)
    if key is None and needs_key:
        raise KeyRequired
    timestamp = clock() if timestamp is None else checked_timestamp(timestamp, force_timestamp=force_timestamp)
    pairs = checked_headers(headers)
    limit, length = _checked_bytes_of(limit, "limit"), _checked_bytes_of(length, "length")
    if length is not None and limit is not None and length > limit:
        raise StreamOverflow(limit)
    return Stream(chunks, key, timestamp, pairs, limit, length)


def append_stream(state: WriterState, stream: Stream) -> int:
    """Append the record and return its offset. Called within a change."""
    live = state.live
    _make_room(live, stream.head_bytes, stream.length)
    offset = live.active.next_offset
    try:
        live.active.append_stream(
            _until_closed(state, stream.chunks, stream.length),
            stream.timestamp,
            stream.key,
            stream.headers,
            record_limit=live.config.store_limit - live.active.size,
            value_limit=stream.limit if stream.length is None else stream.length,
        )
    except StreamOverflow as error:
        if stream.length is not None:
            raise _other_length(stream.length) from error
        raise
    live.note_append()
    return offset


def _make_room(live: LiveSegments, head: int, length: int | None) -> None:
    """Roll if a record with a value of `length` bytes does not fit. head: size of everything but the value."""
    live.check_size(head)
    live.note_epoch()
    if live.active.next_offset >= MAX_OFFSET:
        live.refuse_offset(live.active.next_offset)
    if length is not None:
        live.make_room(head + length)
    elif live.active.size >= live.segment_bytes or live.age_is_due():
        live.roll()
    if live.active.size + head > live.config.store_limit:
        live.roll()


def _until_closed(state: WriterState, chunks: Iterable[bytes], length: int | None) -> Iterator[bytes]:
    """Yield the chunks. Raise, so that nothing is stored, if this thread closes the log meanwhile, or if the chunks
    are shorter than `length`.
    """
    passed = 0
    for chunk in chunks:
        state.refuse_closing()
        yield chunk
        passed += len(chunk)
    state.refuse_closing()
    if length is not None and passed != length:
        raise _other_length(length)


def _checked_bytes_of(value: int | None, what: str) -> int | None:
    """Return a number of bytes, or None. Raises InvalidType or InvalidArgument."""
    if value is not None and checked_offset(value, what) < 0:
        raise InvalidArgument(f"{what} is {value}; it must be a number of bytes, 0 or more")
    return value


def _other_length(length: int) -> InvalidArgument:
    return InvalidArgument(f"the chunks of the stream do not have the given length of {length} bytes")
