"""A commit: one state of an archive, as JSON with a check. Pure.

{"format": 1, "number": 42, "term": 3, "owner": "<writer's token>", "written": <us>, "kind": "broker",
 "topics": {"orders": "<topic.json>"},
 "logs": {"orders/0": {"log_id": "...", "segments": "<key>", "check": "<XXH64>", "next_offset": 9,
                       "tail_id": "...", "tail": [["<key>", 0, 4096, "<XXH64>"]]}},
 "pending": {}}
{"check": "<XXH64 of the line before>"}
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from xxhash import xxh64_hexdigest

from seglog.errors import CorruptLog, FormatVersionError, InvalidArgument
from seglog.format.foreign import UNREADABLE
from seglog.topic.layout.names import checked_directory_name
from seglog.topic.layout.root import OFFSETS, PRODUCERS

VERSION = 1
OWN = (OFFSETS, PRODUCERS)  # logs of a broker beside its topics


class Piece(NamedTuple):
    """Bytes start..stop of an active segment's store. check: XXH64 of them, as 16 hex digits."""

    key: str
    start: int
    stop: int
    check: str


@dataclass(frozen=True, kw_only=True)
class ArchivedLog:
    """A log in a commit.

    Attributes:
        log_id: Id of the log.
        segments: Key of its list of segments.
        check: XXH64 of that object.
        tail: Pieces of the active segment, without gaps.
        tail_id: Names the content of these pieces: it changes when the bytes before their end do.
        next_offset: One after the last archived record.
    """

    log_id: int
    segments: str
    check: str
    tail: tuple[Piece, ...]
    tail_id: str
    next_offset: int


@dataclass(frozen=True, kw_only=True)
class Commit:
    """One state of an archive.

    Attributes:
        number: Commits are numbered from 1 without gaps.
        term: Grows with each change of the writer.
        owner: Random token of the writer.
        written: Time in us, by the writer's clock.
        kind: "log", "topic" or "broker".
        topics: topic.json of each topic by directory, "" for a topic that is not in a directory of topics.
        logs: Logs by directory, "" for a standalone log.
        pending: What an unfinished round has uploaded of each log, for the next one; no reader sees it.
    """

    number: int
    term: int
    owner: str
    written: int
    kind: str
    topics: dict[str, str] = field(default_factory=dict)
    logs: dict[str, ArchivedLog] = field(default_factory=dict)
    pending: dict[str, ArchivedLog] = field(default_factory=dict)

    def encode(self) -> bytes:
        """Return the object's bytes."""
        line = json.dumps(
            {
                "format": VERSION,
                "number": self.number,
                "term": self.term,
                "owner": self.owner,
                "written": self.written,
                "kind": self.kind,
                "topics": self.topics,
                "logs": {name: _log_values(log) for name, log in self.logs.items()},
                "pending": {name: _log_values(log) for name, log in self.pending.items()},
            },
            separators=(",", ":"),
        ).encode()
        return b'%s\n{"check":"%s"}\n' % (line, xxh64_hexdigest(line).encode())


def _log_values(log: ArchivedLog) -> dict[str, Any]:
    return {
        "log_id": f"{log.log_id:016x}",
        "segments": log.segments,
        "check": log.check,
        "next_offset": log.next_offset,
        "tail_id": log.tail_id,
        "tail": log.tail,
    }


def decode(data: bytes, path: str) -> Commit:
    """Decode a commit.

    Raises:
        CorruptLog: If it is damaged.
        FormatVersionError: If a newer version wrote it.
        InvalidArgument: If it names a topic or log that is no directory inside the archived one.
    """
    line, _, rest = data.partition(b"\n")
    if rest != b'{"check":"%s"}\n' % xxh64_hexdigest(line).encode():
        raise CorruptLog(f"{path}: the commit is damaged or cut short; nothing was changed")
    try:
        values = json.loads(line)
        if values["format"] > VERSION:
            raise FormatVersionError(
                f"{path}: archive format version {values['format']}; this seglog reads version {VERSION}. Install a "
                "newer seglog; nothing was changed"
            )
        found = Commit(
            number=values["number"],
            term=values["term"],
            owner=values["owner"],
            written=values["written"],
            kind=values["kind"],
            topics=values["topics"],
            logs={name: _log(log) for name, log in values["logs"].items()},
            pending={name: _log(log) for name, log in values["pending"].items()},
        )
    except FormatVersionError:
        raise
    except UNREADABLE as error:
        raise FormatVersionError(
            f"{path}: the commit contains what this version of seglog does not know ({error}); install a newer seglog"
        ) from error
    _check_names(found, path)
    return found


def _check_names(found: Commit, path: str) -> None:
    """Raise InvalidArgument for a name of a topic or log that must not become a path."""
    for name in found.topics:
        if name:
            checked_directory_name(name, path)
    for name in (*found.logs, *found.pending):
        topic, _, partition = name.rpartition("/")
        if topic:
            checked_directory_name(topic, path)
        if name not in ("", *OWN) and not (partition.isascii() and partition.isdecimal()):
            raise InvalidArgument(f"{path} names a log {name!r}, which is none of a topic; nothing was changed")


def _log(values: dict[str, Any]) -> ArchivedLog:
    return ArchivedLog(
        log_id=int(values["log_id"], 16),
        segments=values["segments"],
        check=values["check"],
        tail=tuple(Piece(*piece) for piece in values["tail"]),
        tail_id=values["tail_id"],
        next_offset=values["next_offset"],
    )
