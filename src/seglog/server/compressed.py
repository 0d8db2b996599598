"""Whether an Arrow IPC stream has compressed buffers, from the metadata of its messages, without unpacking anything.

A compressed buffer declares its own uncompressed size, so a small body could demand any amount of memory: such streams
are refused unread. The metadata is a flatbuffer; the few steps through it follow the format's layout
(Message.fbs: header is field 2; RecordBatch: compression is field 3; DictionaryBatch: data is field 1). Pure.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

DICTIONARY_BATCH, RECORD_BATCH = 2, 3
HEADER_TYPE, HEADER = 1, 2
DATA = 1
COMPRESSION = 3


def is_compressed(source: Any) -> bool:
    """Read all messages of a pyarrow file; return whether one has compressed buffers. Raises ArrowInvalid, EOFError."""
    reader = pa.ipc.MessageReader.open_stream(source)
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return False
        if message.type in ("record batch", "dictionary batch", "dictionary") and _has_compression(
            bytes(message.metadata)
        ):
            return True


def _has_compression(metadata: bytes) -> bool:
    """Whether the header of a record batch or dictionary names a compression. Raises ValueError if it is damaged."""
    try:
        table = _follow(metadata, 0)
        kind_at = _field(metadata, table, HEADER_TYPE)
        header_at = _field(metadata, table, HEADER)
        if kind_at is None or header_at is None:
            return False
        batch = _follow(metadata, header_at)
        if metadata[kind_at] == DICTIONARY_BATCH:
            data_at = _field(metadata, batch, DATA)
            if data_at is None:
                return False
            batch = _follow(metadata, data_at)
        return _field(metadata, batch, COMPRESSION) is not None
    except (struct.error, IndexError) as error:
        raise ValueError(f"a message's metadata is damaged: {error}") from None


def _follow(data: bytes, position: int) -> int:
    """Return the target of the offset at `position`."""
    return position + int(struct.unpack_from("<I", data, position)[0])


def _field(data: bytes, table: int, number: int) -> int | None:
    """Return the position of a table's field, None if it is not set."""
    vtable = table - int(struct.unpack_from("<i", data, table)[0])
    if vtable < 0:
        raise ValueError("a message's metadata is damaged: a table points before its start")
    size = int(struct.unpack_from("<H", data, vtable)[0])
    entry = 4 + 2 * number
    if entry + 2 > size:
        return None
    offset = int(struct.unpack_from("<H", data, vtable + entry)[0])
    return table + offset if offset else None
