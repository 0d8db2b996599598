"""Decompress the records of a batch, by lz4's own library and pyarrow's codecs, up to a limit (ADR 0063)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
from lz4.frame import create_decompression_context, decompress_chunk

from seglog.kafka.records.faults import BadBatch, TooLarge

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
STREAMS = {GZIP: "gzip", ZSTD: "zstd"}
NAMES = {NONE: "none", SNAPPY: "snappy", LZ4: "lz4", **STREAMS}
XERIAL = b"\x82SNAPPY\x00"
XERIAL_HEAD_BYTES = 16
PIECE_BYTES, LEAST_PIECE_BYTES, PIECE_GROWTH = 1024 * 1024, 16 * 1024, 4


def decompressed(codec: int, data: memoryview, most: int) -> Any:
    """Return the records that `data` holds, as a buffer.

    Args:
        codec: One of the numbers in this module, as a batch's attributes have it.
        data: The compressed bytes.
        most: The most bytes to return.

    Raises:
        BadBatch: The data is damaged, or the codec is unknown.
        TooLarge: There are more than `most` bytes.
    """
    try:
        if codec == LZ4:
            return _joined(_lz4(data), most)
        if codec in STREAMS:
            return _joined(_stream(STREAMS[codec], data), most)
        if codec == SNAPPY:
            return _snappy(data, most)
    except (OSError, RuntimeError, pa.ArrowException) as error:  # RuntimeError: of lz4
        raise BadBatch(f"its {NAMES[codec]} data is damaged: {error}") from error
    raise BadBatch(f"there is no compression codec {codec}")


def _joined(pieces: Iterable[Any], most: int) -> Any:
    """Return the pieces as one buffer, often the only one."""
    found, length = list[Any](), 0
    for piece in pieces:
        found.append(piece)
        length += len(piece)
        if length > most:
            raise TooLarge(most)
    return found[0] if len(found) == 1 else b"".join(found)


def _piece_bytes(data: memoryview) -> int:
    """Return how much is decompressed at once, which is allocated before."""
    return min(max(PIECE_GROWTH * len(data), LEAST_PIECE_BYTES), PIECE_BYTES)


def _lz4(data: memoryview) -> Iterator[bytes]:
    frame, size, position, is_whole = create_decompression_context(), _piece_bytes(data), 0, False
    while not is_whole:
        if position == len(data):
            raise BadBatch("its lz4 data ends within a frame")
        piece, taken, is_whole = decompress_chunk(frame, data[position:], max_length=size)
        position += taken
        yield piece
    if position < len(data):
        raise BadBatch("its lz4 data goes on after its frame")


def _stream(name: str, data: memoryview) -> Iterator[pa.Buffer]:
    stream, size = pa.CompressedInputStream(pa.BufferReader(pa.py_buffer(data)), name), _piece_bytes(data)
    is_last = False
    while not is_last:
        piece = stream.read_buffer(size)
        is_last = piece.size < size
        yield piece


def _snappy(data: memoryview, most: int) -> Any:
    """Decompress one block, or the blocks of xerial's framing: each with its length in 4 bytes."""
    if bytes(data[: len(XERIAL)]) != XERIAL:
        return _snappy_block(data, most)
    sink, at = pa.BufferOutputStream(), XERIAL_HEAD_BYTES
    while at < len(data):
        size = int.from_bytes(data[at : at + 4], "big", signed=True)
        if not 0 < size <= len(data) - at - 4:
            raise BadBatch(f"a block of its snappy data at byte {at} exceeds the batch")
        sink.write(_snappy_block(data[at + 4 : at + 4 + size], most - sink.tell()))
        at += 4 + size
    return sink.getvalue()


def _snappy_block(data: memoryview, most: int) -> pa.Buffer:
    size = shift = 0
    for byte in bytes(data[:5]):
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > most:
        raise TooLarge(most)
    return pa.decompress(data, decompressed_size=size, codec="snappy")
