"""Snapshots of a state machine: the state after the records before an offset, in one file.

    {"format":1,"machine":"Bank","version":"","partition":0,"offset":42,...,"bytes":17,"body":"<XXH64 of the state>"}
    {"check":"<XXH64 of the line before>"}
    <the state, as the machine encodes it>

The header names the history of the log that the state comes from (log id, epoch; see log/history.py), and the last
record that was applied. Pure: bytes to values; opens nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass, fields
from typing import Any, NamedTuple

from xxhash import xxh64, xxh64_intdigest

from seglog.config import MAX_OFFSET
from seglog.errors import FormatVersionError
from seglog.format.foreign import UNREADABLE
from seglog.record import Record

VERSION = 1
SUFFIX = ".snapshot"
UNFINISHED = ".unfinished"

_NAME = re.compile(r"(0|[1-9][0-9]*)-([0-9]{20})\.snapshot")
_HEX = re.compile(r"[0-9a-f]{16}")
_CHECK_BYTES = len(b'{"check":"0123456789abcdef"}\n')


class Last(NamedTuple):
    """The last record that a state includes. check: of all but its headers, which a reader may not have asked for."""

    offset: int
    check: str

    @classmethod
    def of(cls, record: Record) -> Last:
        """Return offset and checksum of a record."""
        digest = xxh64(b"%d %d" % (record.offset, record.timestamp))
        for part in (record.key, record.value):
            digest.update(b"-" if part is None else b"+%d " % len(part))
            digest.update(part or b"")
        return cls(record.offset, digest.hexdigest())


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotHeader:
    """Where a state comes from.

    machine, version: the machine, as `seglog.machines.machine.Identity` names it. partition: 0 for a log without a
    topic. offset: of the next record to apply. log, epoch, file: the trace of that offset. last: offset of the last
    applied record, None before the first; last_check: of that record, see `Last`. written: time (us).
    """

    machine: str
    version: str
    partition: int
    offset: int
    log: str
    epoch: int
    file: int | None
    last: int | None
    last_check: str
    written: int

    @property
    def last_record(self) -> Last | None:
        """The last applied record."""
        return None if self.last is None else Last(self.last, self.last_check)

    @property
    def name(self) -> str:
        """The name of the file."""
        return snapshot_file(self.partition, self.offset)


class DamagedSnapshot(ValueError):
    """A snapshot whose bytes are not those that were written."""


def snapshot_file(partition: int, offset: int) -> str:
    """Return `<partition>-<offset, 20 digits>.snapshot`."""
    return f"{partition}-{offset:020d}{SUFFIX}"


def parse_snapshot_file(name: str) -> tuple[int, int] | None:
    """Return partition and offset of a snapshot's name; None for any other name."""
    match = _NAME.fullmatch(name)
    if match is None or int(match[2]) > MAX_OFFSET:
        return None
    return int(match[1]), int(match[2])


def encode_header(header: SnapshotHeader, body: bytes) -> bytes:
    """Return the bytes before a body."""
    values = {"format": VERSION, **asdict(header), "bytes": len(body), "body": f"{xxh64_intdigest(body):016x}"}
    line = json.dumps(values, separators=(",", ":")).encode() + b"\n"
    return line + _check_line(line)


def _check_line(line: bytes) -> bytes:
    return b'{"check":"%016x"}\n' % xxh64_intdigest(line)


def decode(data: bytes) -> tuple[SnapshotHeader, bytes]:
    """Return header and body of a file. Raises DamagedSnapshot, or FormatVersionError for a newer format."""
    end = data.find(b"\n") + 1
    line, body_at = data[:end], end + _CHECK_BYTES
    if not end or data[end:body_at] != _check_line(line):
        raise DamagedSnapshot("its header is damaged")
    try:
        values = json.loads(line)
        version, size, check = values.pop("format"), values.pop("bytes"), values.pop("body")
    except UNREADABLE as error:
        raise DamagedSnapshot("its header is not that of a snapshot") from error
    if type(version) is int and version > VERSION:
        raise FormatVersionError(f"a snapshot has format {version}; this version of seglog reads up to {VERSION}")
    header, body = _header(values), data[body_at:]
    if len(body) != size or f"{xxh64_intdigest(body):016x}" != check:
        raise DamagedSnapshot(f"its state is damaged: {len(body)} bytes, of {size}")
    return header, body


def _header(values: dict[str, Any]) -> SnapshotHeader:
    kinds: dict[str, tuple[type, ...]] = {
        "file": (int, type(None)),
        "last": (int, type(None)),
        **dict.fromkeys(("machine", "version", "log", "last_check"), (str,)),
    }
    names = {field.name for field in fields(SnapshotHeader)}
    if not values.keys() >= names:
        raise DamagedSnapshot("its header lacks fields")
    known = {name: values[name] for name in names}
    if any(type(value) not in kinds.get(name, (int,)) for name, value in known.items()):
        raise DamagedSnapshot("its header has fields of a wrong type")
    if not _HEX.fullmatch(known["log"]):
        raise DamagedSnapshot("its header names no log")
    return SnapshotHeader(**known)
