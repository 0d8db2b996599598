"""A compressed store: a file header whose flags say "blocks", then blocks, end to end. See docs/format.md. No I/O.

The blocks hold the bytes of the plain store, cut at multiples of the block size wherever records begin:

 0 check      u64  XXH64(bytes 8 .. 24 + stored_len, seed = salt)
 8 number     u32  0, 1, 2 ...: of the plain positions number * size .. (number + 1) * size
12 stored_len u32  bytes after the head
16 plain_len  u32  bytes before compression: size, less in the last block; block 0 has 64 less, the file header's
20 codec      u8   0: as it is, 1: LZ4 block, 2: zstd frame
21 size       u8   log2 of the block size, 6 .. 20; the same in all blocks of a store
22 flags      u16  bit 0: the last block of the store; an unknown bit or codec: FormatVersionError

The check covers what is stored, so a store can be verified without a codec. Memory is never allocated by a size from
the file: a block is at most 1 MiB before and after compression.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Literal, NamedTuple

from xxhash import xxh64_intdigest

from seglog.errors import FormatVersionError, MissingExtra
from seglog.format.store import HEADER_BYTES

if TYPE_CHECKING:
    import pyarrow as pa

Codec = Literal["lz4", "zstd"]
CODECS: dict[str, int] = {"lz4": 1, "zstd": 2}
"""The codecs of a block by their names in a manifest; codec 0 is a block that is stored as it is."""

HEAD_BYTES = 24
SIZE_LOG = 16
"""The block size that is written: 64 KiB."""

MOST_BYTES = 1 << 20
"""The maximum size of a block, before and after compression, without its head."""

_HEAD = struct.Struct("<QIIIBBH")
_CHECKED = struct.Struct("<IIIBBH")
_CHECK = struct.Struct("<Q")
_SIZE_LOGS = range(6, 21)
_LAST = 1
_ZSTD_LEVEL = 1
_SAVED_LEAST = 8  # a block that does not become an eighth smaller is stored as it is
_PLAUSIBLE = re.compile(rb"(?s)(?=..[\x00-\x10]\x00.[\x06-\x14]..)")  # plain_len up to the flags


class BlockHead(NamedTuple):
    """The head of one block, whose fields agree with each other; the check was not compared."""

    check: int
    number: int
    stored_len: int
    plain_len: int
    codec: int
    size_log: int
    flags: int

    @property
    def is_last(self) -> bool:
        """Whether the store ends with this block."""
        return bool(self.flags & _LAST)

    @property
    def length(self) -> int:
        """Bytes of the block with its head."""
        return HEAD_BYTES + self.stored_len

    @property
    def plain_end(self) -> int:
        """Position in the plain store after the block."""
        return plain_start(self.number, self.size_log) + self.plain_len


def plain_start(number: int, size_log: int) -> int:
    """Return the position in the plain store of a block's first byte; block 0 begins after the file header."""
    return number << size_log if number else HEADER_BYTES


def plain_limit(number: int, size_log: int) -> int:
    """Return the bytes before compression of a block that is not the last one."""
    return ((number + 1) << size_log) - plain_start(number, size_log)


def encode_block(plain: bytes, number: int, *, last: bool, codec: Codec, salt: int, size_log: int = SIZE_LOG) -> bytes:
    """Return a block with its head.

    Args:
        plain: The bytes before compression: `plain_limit` of them, from 1 on in the last block.
        number: Number of the block in its store.
        last: Whether it is the last one.
        codec: Codec to use. A block that does not become an eighth smaller is stored as it is.
        salt: Salt of the store.
        size_log: log2 of the block size, 6 to 20.

    Raises:
        MissingExtra: If this build of pyarrow lacks the codec.
    """
    packed = _codec(CODECS[codec]).compress(plain, asbytes=True)
    smaller = len(plain) - len(packed) >= len(plain) / _SAVED_LEAST
    stored, kind = (packed, CODECS[codec]) if smaller else (bytes(plain), 0)
    body = _CHECKED.pack(number, len(stored), len(plain), kind, size_log, _LAST if last else 0) + stored
    return _CHECK.pack(xxh64_intdigest(body, salt)) + body


def read_head(data: bytes, start: int = 0) -> BlockHead | None:
    """Return the head at `start`; None if it is cut short, or no head has these lengths."""
    if len(data) - start < HEAD_BYTES:
        return None
    head = BlockHead._make(_HEAD.unpack_from(data, start))
    if head.size_log not in _SIZE_LOGS or head.number >= 1 << 32 - head.size_log:
        return None
    most = plain_limit(head.number, head.size_log)
    fits = 0 < head.plain_len <= most and head.stored_len <= head.plain_len
    return head if fits and (head.plain_len == most or head.is_last) else None


def sound_head(block: bytes, *, salt: int, path: str) -> BlockHead | None:
    """Return the head of a whole block; None if a byte of the block is damaged.

    Raises:
        FormatVersionError: If a newer version of seglog wrote the block.
    """
    head = read_head(block)
    if head is None or len(block) != head.length:
        return None
    if head.check != xxh64_intdigest(memoryview(block)[_CHECK.size :], salt):
        return None
    if head.flags & ~_LAST or head.codec not in (0, *CODECS.values()):
        raise FormatVersionError(
            f"{path}: block {head.number} has codec {head.codec}, flags {head.flags:#x}, which this seglog does not "
            "know. Install a newer seglog; nothing was changed"
        )
    return head


def decode_block(block: bytes, *, salt: int, path: str) -> tuple[BlockHead, bytes] | None:
    """Return the head of a whole block, and its bytes before compression; None if the block is damaged.

    Raises:
        FormatVersionError: If a newer version of seglog wrote the block.
        MissingExtra: If this build of pyarrow lacks the block's codec.
    """
    head = sound_head(block, salt=salt, path=path)
    if head is None:
        return None
    plain = block[HEAD_BYTES:] if head.codec == 0 else _decompressed(memoryview(block)[HEAD_BYTES:], head)
    return (head, plain) if plain is not None and len(plain) == head.plain_len else None


def _decompressed(stored: memoryview, head: BlockHead) -> bytes | None:
    """Return the content; None if it is longer than the head has it, or no content of this codec.

    A shorter zstd frame is None, too; pyarrow does not notice a shorter LZ4 block. Neither has a valid check unless it
    was forged, and the checksums of the records apply to what it returns.
    """
    import pyarrow as pa  # noqa: PLC0415 - a process that reads no compressed store does not load it

    try:
        plain: bytes = _codec(head.codec).decompress(stored, decompressed_size=head.plain_len, asbytes=True)
    except (pa.ArrowException, OSError):
        return None
    return plain


def _codec(number: int) -> pa.Codec:
    """Return a codec of pyarrow. A new one for each block: it is not documented to be safe for threads."""
    import pyarrow as pa  # noqa: PLC0415 - as above

    try:
        return pa.Codec("lz4_raw") if number == CODECS["lz4"] else pa.Codec("zstd", compression_level=_ZSTD_LEVEL)
    except pa.ArrowNotImplementedError as error:
        raise MissingExtra(
            f"this build of pyarrow has no codec {'lz4' if number == CODECS['lz4'] else 'zstd'}, which the log uses; "
            "install pyarrow from a wheel"
        ) from error


def possible_heads(data: bytes) -> Iterator[tuple[int, BlockHead]]:
    """Yield (position, head) wherever a head may begin: what remains to be compared is the check of the block."""
    for match in _PLAUSIBLE.finditer(data):
        start = match.start() - (_HEAD.size - 8)
        head = read_head(data, start) if start >= 0 else None
        if head is not None:
            yield start, head
