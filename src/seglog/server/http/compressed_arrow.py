"""Whether an Arrow IPC stream could take more memory than its bytes, by its messages' metadata; nothing is unpacked.

A compressed buffer declares its own size. A dictionary that grows (a delta) is copied as a whole for each
batch after it. A message, and a field of the schema, takes hundreds of bytes as an object, whatever it brings. Such
streams are refused before they are read. The metadata is a flatbuffer; the few steps through it follow the format's own
layout (Message.fbs: header is field 2; RecordBatch: compression is field 3; DictionaryBatch: data is field 1, isDelta
field 2). Pure.
"""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa

DICTIONARY_BATCH, RECORD_BATCH = 2, 3
HEADER_TYPE, HEADER = 1, 2
DATA, IS_DELTA = 1, 2
COMPRESSION = 3
MESSAGES = 20_000  # of a stream: batches and dictionaries
METADATA_BYTES = 256 * 1024  # of a message


def waste_of(source: Any) -> str | None:
    """Read all messages from a pyarrow file and return why the stream is not taken, None where nothing is wrong.

    ArrowInvalid, EOFError, ValueError where it is damaged.
    """
    reader = pa.ipc.MessageReader.open_stream(source)
    for _ in range(MESSAGES):
        try:
            message = reader.read_next_message()
        except StopIteration:
            return None
        if message.metadata.size > METADATA_BYTES:
            return f"has a message with {message.metadata.size} bytes of metadata; it may have {METADATA_BYTES}"
        if message.type in ("record batch", "dictionary batch", "dictionary"):
            found = _waste_in(bytes(message.metadata))
            if found is not None:
                return found
    return f"has more than {MESSAGES} batches; write larger ones"


def _waste_in(metadata: bytes) -> str | None:
    """Return what is wrong with a record batch or a dictionary by its message's metadata; ValueError where damaged."""
    try:
        table = _follow(metadata, 0)
        kind_at = _field(metadata, table, HEADER_TYPE)
        header_at = _field(metadata, table, HEADER)
        if kind_at is None or header_at is None:
            return None
        batch = _follow(metadata, header_at)
        if metadata[kind_at] == DICTIONARY_BATCH:
            data_at, delta_at = _field(metadata, batch, DATA), _field(metadata, batch, IS_DELTA)
            if delta_at is not None and metadata[delta_at]:
                return "has dictionaries that grow (deltas); write each dictionary whole, or plain columns"
            if data_at is None:
                return None
            batch = _follow(metadata, data_at)
        if _field(metadata, batch, COMPRESSION) is not None:
            return "has compressed buffers; write it without compression"
        return None
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
