"""The answer of a source as bytes, for HTTP: a header of JSON, then the encoded records. Pure.

length of the header u32, little-endian | header | records of each part, end to end
"""

from __future__ import annotations

import json
import struct
from typing import Any

from seglog.config import LogConfig
from seglog.errors import ServerError
from seglog.format.foreign import UNREADABLE
from seglog.log.copied import EncodedRecords
from seglog.replication.lineage import Lineage
from seglog.replication.source import Fetched

MEDIA_TYPE = "application/vnd.seglog.copy"
_LENGTH = struct.Struct("<I")
_PLAIN = ("base_offset", "dense", "first", "until", "path", "position")


def encode(fetched: Fetched, *, pinned: bool) -> bytes:
    """Return the bytes of an answer. pinned: whether the copy has a pin."""
    header = {
        "lineage": fetched.lineage.to_json(),
        "config": fetched.config.to_json(),
        "published": fetched.published,
        "complete": fetched.complete,
        "compacted": fetched.compacted,
        "records_left": fetched.records_left,
        "bytes_left": fetched.bytes_left,
        "before": [[offset, f"{digest:016x}"] for offset, digest in fetched.before.items()],
        "pinned": pinned,
        "parts": [
            {
                **{name: getattr(part, name) for name in _PLAIN},
                "path": part.path.rpartition("/")[2],
                "salt": f"{part.salt:016x}",
                "bytes": len(part.data),
            }
            for part in fetched.records
        ],
    }
    text = json.dumps(header).encode()
    return b"".join([_LENGTH.pack(len(text)), text, *(bytes(part.data) for part in fetched.records)])


def decode(body: bytes, url: str) -> tuple[Fetched, bool]:
    """Return an answer, and whether the copy has a pin. Raises ServerError if it is none."""
    try:
        (length,) = _LENGTH.unpack_from(body)
        header = json.loads(body[_LENGTH.size : _LENGTH.size + length])
        fetched = Fetched(
            Lineage.from_json(header["lineage"]),
            LogConfig.from_json(header["config"]),
            {str(query): int(batch) for query, batch in header["published"].items()},
            _parts(header["parts"], memoryview(body)[_LENGTH.size + length :], url),
            bool(header["complete"]),
            bool(header["compacted"]),
            int(header["records_left"]),
            int(header["bytes_left"]),
            {int(offset): int(digest, 16) for offset, digest in header.get("before", ())},
        )
        return fetched, bool(header["pinned"])
    except (*UNREADABLE, struct.error) as error:
        raise ServerError(f"{url}: the answer is not one of seglog's ({error}); check the URL", status=200) from error


def _parts(described: list[dict[str, Any]], data: memoryview, url: str) -> list[EncodedRecords]:
    parts, start = [], 0
    for values in described:
        size = int(values["bytes"])
        if not 0 <= size <= len(data) - start:
            raise ValueError("it is cut short")
        plain = {name: values[name] for name in _PLAIN}
        plain["path"] = f"{url}/{plain['path']}"
        parts.append(EncodedRecords(**plain, salt=int(values["salt"], 16), data=data[start : start + size]))
        start += size
    return parts
