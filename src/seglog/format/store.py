r"""The store's file header, 64 bytes. See docs/format.md. No I/O.

0 magic      8 B  "SEGLOG\r\n"            24 log_id   u64
8 version    u16  1                       32 created  i64  us since the epoch, UTC
10 header_len u16  64                      40 span     u64  offsets covered; 0: up to the next segment's base
12 flags      u32  bit 0: blocks           48 reserved u64
16 salt       u64  the file's identity     56 check    u64  XXH64(bytes 0..56)

With "blocks" the store is compressed, see `seglog.format.blocks`. An unknown flag: FormatVersionError.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from xxhash import xxh64_intdigest

from seglog.errors import FormatVersionError

MAGIC = b"SEGLOG\r\n"
VERSION = 1
HEADER_BYTES = 64
BLOCKS_FLAG = 1
KNOWN_FLAGS = BLOCKS_FLAG

_HEADER = struct.Struct("<8sHHIQQqQQ")
_CHECK = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class StoreHeader:
    """The first 64 bytes of a store: the identity of the file and of its log. blocks: whether it is compressed."""

    salt: int
    log_id: int
    created: int
    span: int = 0
    blocks: bool = False

    def encode(self) -> bytes:
        """Return the 64 bytes."""
        flags = BLOCKS_FLAG if self.blocks else 0
        body = _HEADER.pack(MAGIC, VERSION, HEADER_BYTES, flags, self.salt, self.log_id, self.created, self.span, 0)
        return body + _CHECK.pack(xxh64_intdigest(body))


def decode_header(data: bytes, path: str) -> StoreHeader | None:
    """Return the header in `data`; None if it is damaged. FormatVersionError if a newer version wrote it."""
    if len(data) < HEADER_BYTES:
        return None
    magic, version, header_len, flags, salt, log_id, created, span, _reserved = _HEADER.unpack_from(data)
    (check,) = _CHECK.unpack_from(data, _HEADER.size)
    if magic != MAGIC or check != xxh64_intdigest(data[: _HEADER.size]):
        return None
    if version > VERSION or header_len != HEADER_BYTES or flags & ~KNOWN_FLAGS:
        raise FormatVersionError(
            f"{path}: store format version {version}, flags {flags:#x}; this seglog reads version {VERSION}. "
            "Install a newer seglog; nothing was changed"
        )
    return StoreHeader(salt, log_id, created, span, bool(flags & BLOCKS_FLAG))
