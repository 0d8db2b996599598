"""The manifest: the live segments and the config, as readable text. No I/O.

JSON lines: the header; one segment a line, ordered by base offset, the active one last; at the end
`{"check": "<XXH64 of all before it>"}`. That is a base; what may follow it in the MANIFEST of a log is in
`manifest_changes`. Lines that were read are decoded when they are needed (`segment_lines`).
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Any

from xxhash import xxh64_intdigest

from seglog.config import LogConfig
from seglog.errors import CorruptLog, FormatVersionError
from seglog.format.cuts import Cuts
from seglog.format.foreign import UNREADABLE
from seglog.format.segment_entry import ANYTHING, SegmentEntry, of_kind
from seglog.format.segment_list import Segments

__all__ = ["ANYTHING", "LEADER", "Manifest", "Retired", "Role", "SegmentEntry", "Segments", "decode"]

PLAIN_VERSION, ROLE_VERSION, VERSION = 1, 2, 3
"""A manifest alone has PLAIN_VERSION; that of a log with a role ROLE_VERSION, because earlier versions would ignore the
role, and write the log. One that changes may follow has VERSION.
"""
CHECK_BYTES = 29
"""Length of `{"check":"<16 digits>"}` and a newline."""
CHECK_LINE = b'{"check":"'


@dataclass(frozen=True, kw_only=True)
class Retired:
    """Files that left the log with manifest `version`; unlinked once no reader holds an older one."""

    version: int
    retired_at: int
    names: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Role:
    """Whether a log is a leader, which takes appends, or a copy, which only a mirror writes (docs/adr/0031).

    Attributes:
        term: Number of promotions in the log's history.
        copy: Id of the copy, which names its pin; "": the log is a leader.
        fenced: The highest term known of another leader: a leader with a lower term accepts no changes.
    """

    term: int = 0
    copy: str = ""
    fenced: int = 0

    @property
    def accepts(self) -> bool:
        """Whether the log accepts appends."""
        return not self.copy and self.fenced <= self.term

    @classmethod
    def from_json(cls, values: dict[str, Any]) -> Role:
        """Read the field; a leader if there is none. TypeError or KeyError if it is invalid."""
        return cls(
            term=of_kind(int, values["term"]),
            copy=of_kind(str, values["copy"]),
            fenced=of_kind(int, values["fenced"]),
        )


LEADER = Role()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """One state of a log's structure.

    Attributes:
        log_id: Id of the log, u64.
        version: Increases by one with each install.
        epoch: Increases by one with each cut.
        next_file: Number of the next file.
        start: Lowest offset.
        config: Config of the log.
        segments: Live segments, the active one last.
        retired: Files to unlink.
        published: Last published batch of each query.
        rebuilt: It was rebuilt from the stores, and an operator has not accepted it yet.
        cuts: Where the log was cut.
        boot: Identifier of the system's run in which it was installed; "" if unknown.
        home: Topic id and number of the partition that the log was created as; None for a log without a topic.
        backup: A backup installed it, and no writer has opened the log since.
        role: Leader or copy, and of which term.
    """

    log_id: int
    version: int
    epoch: int
    next_file: int
    start: int
    config: LogConfig
    segments: Segments
    retired: tuple[Retired, ...] = ()
    published: dict[str, int] = field(default_factory=dict)
    rebuilt: bool = False
    cuts: Cuts = field(default_factory=Cuts)
    boot: str = ""
    home: tuple[str, int] | None = None
    backup: bool = False
    role: Role = LEADER

    def __post_init__(self) -> None:
        object.__setattr__(self, "segments", Segments.of(self.segments))

    @classmethod
    def from_header(cls, header: dict[str, Any], segments: Segments) -> Manifest:
        """Return the manifest of a decoded header; one of UNREADABLE if a value is invalid."""
        return cls(
            log_id=int(header["log_id"], 16),
            version=of_kind(int, header["version"]),
            epoch=of_kind(int, header["epoch"]),
            next_file=of_kind(int, header["next_file"]),
            start=of_kind(int, header["start"]),
            config=LogConfig.from_json(header["config"]),
            segments=segments,
            retired=tuple(
                Retired(
                    version=of_kind(int, r["version"]),
                    retired_at=of_kind(int, r["retired_at"]),
                    names=tuple(of_kind(str, name) for name in r["names"]),
                )
                for r in header["retired"]
            ),
            published={query: of_kind(int, batch) for query, batch in header["published"].items()},
            rebuilt=of_kind(bool, header["rebuilt"]),
            cuts=Cuts.from_json(header, of_kind(int, header["epoch"])),
            boot=of_kind(str, header.get("boot", "")),
            home=_home(header.get("home")),
            backup=of_kind(bool, header.get("backup", False)),
            role=Role.from_json(header["role"]) if "role" in header else LEADER,
        )

    def after_cut(self, offset: int) -> dict[str, Any]:
        """Return the fields that change when the records from `offset` on may be replaced."""
        return {"epoch": self.epoch + 1, "cuts": self.cuts.with_cut(self.epoch + 1, offset)}

    @property
    def active(self) -> SegmentEntry:
        """The segment that appends go to."""
        return self.segments[-1]

    def encode(self, *, open_ended: bool = False) -> bytes:
        """Return the manifest's bytes. open_ended: changes may follow, which earlier versions do not read."""
        header = {"format": VERSION if open_ended else self._plain_format(), **self.header()}
        body = json.dumps(header).encode() + b"\n" + b"".join(self.segments.texts())
        return body + b'{"check":"%016x"}\n' % xxh64_intdigest(body)

    def _plain_format(self) -> int:
        return PLAIN_VERSION if self.role == LEADER else ROLE_VERSION

    def header(self) -> dict[str, Any]:
        """Return everything but the segments, as JSON values."""
        return {
            "version": self.version,
            "log_id": f"{self.log_id:016x}",
            "epoch": self.epoch,
            "next_file": self.next_file,
            "start": self.start,
            "config": self.config.to_json(),
            "retired": [dataclasses.asdict(retired) for retired in self.retired],
            "published": self.published,
            "rebuilt": self.rebuilt,
            **self.cuts.to_json(),
            "boot": self.boot,
            **({"backup": True} if self.backup else {}),
            **({} if self.role == LEADER else {"role": dataclasses.asdict(self.role)}),
            **({} if self.home is None else {"home": list(self.home)}),
            "segments": len(self.segments),
        }


def _sound_end(data: bytes) -> int | None:
    """Return where the check begins; None if it does not hold."""
    end = data.rfind(b"\n", 0, -1) + 1
    return end if data[end:] == CHECK_LINE + b'%016x"}\n' % xxh64_intdigest(memoryview(data)[:end]) else None


def _check_version(data: bytes, path: str) -> None:
    """Raise FormatVersionError for a newer version, whatever its check; but not if only the version is damaged."""
    try:
        version = json.loads(data[: _header_end(data)])["format"]
    except UNREADABLE:
        return  # not readable at all: damage, which the check detects
    if not isinstance(version, int) or version <= VERSION:
        return
    written, known = b'"format": %a' % version, (PLAIN_VERSION, ROLE_VERSION, VERSION)
    ours = (data.replace(written, b'"format": %d' % one, 1) for one in known)
    if all(_sound_end(one) is None for one in ours):
        raise FormatVersionError(
            f"{path}: manifest format version {version}; this seglog reads versions up to {VERSION}. "
            "Install a newer seglog; nothing was changed"
        )


def _home(value: Any) -> tuple[str, int] | None:
    if value is None:
        return None
    topic, number = value
    return of_kind(str, topic), of_kind(int, number)


def _header_end(data: bytes) -> int:
    return data.find(b"\n") + 1 or len(data)


def decode(data: bytes, path: str, like: Manifest | None = None) -> Manifest:
    """Decode a base, without changes. CorruptLog if it is damaged, FormatVersionError if a newer version wrote it.

    like: an earlier state of the same log, whose entries are reused as far as the first lines are the same.
    """
    _check_version(data, path)
    end = _sound_end(data)
    if end is None:
        raise CorruptLog(f"{path}: the manifest is damaged or cut short")
    try:
        start = min(_header_end(data), end)
        header = json.loads(data[:start])
        if start == end:
            raise ValueError("it names no segment")
        segments = Segments.read(data, start, end, Segments() if like is None else like.segments)
        return Manifest.from_header(header, segments)
    except UNREADABLE as error:
        raise newer_content(path, error) from error


def newer_content(path: str, error: Exception) -> FormatVersionError:
    """Return the error for values that cannot be used though the check is valid: another version wrote them."""
    return FormatVersionError(
        f"{path}: the manifest contains what this version of seglog does not know ({error}). "
        "Install a newer seglog; nothing was changed"
    )
