"""The manifest: the live segments and the config, as readable text that is replaced as a whole. No I/O.

JSON lines: the header; one segment a line, ordered by base offset, the active one last; at the end
`{"check": "<XXH64 of all before it>"}`. Encoded lines are kept, single and in blocks, so that an install with 10,000
segments costs milliseconds. Reading a manifest again decodes only the lines that are new.
"""

from __future__ import annotations

import builtins
import dataclasses
import json
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property
from itertools import accumulate, compress, count
from operator import is_not
from typing import Any, TypeVar

from xxhash import xxh64, xxh64_intdigest

from seglog.config import LogConfig
from seglog.errors import CorruptLog, FormatVersionError
from seglog.format import filename
from seglog.format.cuts import Cuts
from seglog.format.foreign import UNREADABLE

VERSION = 2
PLAIN_VERSION = 1
"""What a plain leader has. Any other role has VERSION, because earlier versions would ignore it, and write the log."""
BLOCK_SEGMENTS = 256  # number of segments whose lines are kept joined
ANYTHING = 2**63 - 1  # as superseded_to: it is unknown what superseded


@dataclass(frozen=True, kw_only=True)
class SegmentEntry:
    """One live segment. The fields after `created` are None while the segment is active.

    Attributes:
        base_offset: First offset.
        file: File number.
        salt: Identity of the store, u64.
        created: Time of creation in us.
        dense: Whether the offsets have no gaps.
        next_offset: First offset after the segment.
        bytes: Valid size of the store; after a truncate the file may be longer.
        records: Number of records.
        tombstones: Number of tombstones.
        min_timestamp: Lowest timestamp in us.
        max_timestamp: Highest timestamp in us.
        sealed_at: Time of sealing in us, by the log's clock.
        digest: XXH64 over the entries of the segment's dense index, u64.
        cleaned_to: No record here is superseded by a record before this offset. None: never compacted.
        superseded_to: What superseded records removed from here is before this offset; None: same as cleaned_to. A pass
            that skips a damaged segment compares with records after it, but cleans only up to it.
        decay: Share of the segment's records that die per record appended to the log, as observed by compactions; None:
            not observed.
        horizons: Runs (end offset, time in us), ordered by offset: from that time on the tombstones of a run may be
            removed. Those after the last run have no time yet.
    """

    base_offset: int
    file: int
    salt: int
    created: int
    dense: bool = True
    next_offset: int | None = None
    bytes: int | None = None
    records: int | None = None
    tombstones: int | None = None
    min_timestamp: int | None = None
    max_timestamp: int | None = None
    sealed_at: int | None = None
    digest: int | None = None
    cleaned_to: int | None = None
    superseded_to: int | None = None
    decay: float | None = None
    horizons: tuple[tuple[int, int], ...] = ()

    @property
    def sealed(self) -> bool:
        """Whether the segment is sealed."""
        return self.sealed_at is not None

    @property
    def taken_for(self) -> int:
        """Records here were superseded only by records before this offset: 0 if none was, ANYTHING if unknown."""
        if self.dense:
            return 0
        known = self.cleaned_to if self.superseded_to is None else self.superseded_to
        return ANYTHING if known is None else known

    def name(self, kind: str = filename.STORE) -> str:
        """Return the name of one of the segment's files."""
        return filename.segment_file(self.base_offset, self.file, kind)

    @cached_property
    def line(self) -> builtins.bytes:
        """The segment's line in the manifest, encoded once, or kept as it was read."""
        values = {name: value for name in _KINDS if (value := self.__dict__[name]) not in (None, ())}
        values["salt"] = f"{self.salt:016x}"
        if self.digest is not None:
            values["digest"] = f"{self.digest:016x}"
        return json.dumps(values, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_values(cls, values: dict[str, Any]) -> SegmentEntry:
        """Decode the values of one line; ValueError, KeyError, TypeError or AttributeError if they are invalid."""
        values["salt"] = int(values["salt"], 16)
        if "digest" in values:
            values["digest"] = int(values["digest"], 16)
        if "horizons" in values:
            values["horizons"] = tuple(map(tuple, values["horizons"]))
            for end, horizon in values["horizons"]:
                _of_kind(int, end)
                _of_kind(int, horizon)
        wrong = _wrong_field(tuple(values), tuple(map(type, values.values())))
        if wrong is not None:
            raise TypeError(f"{wrong} is {values.get(wrong, 'missing')!r}")
        entry = object.__new__(
            cls
        )  # instead of __init__, which sets a frozen dataclass field by field and takes three times as long
        entry.__dict__.update(_DEFAULTS)
        entry.__dict__.update(values)
        return entry


_DEFAULTS = {
    one.name: one.default for one in dataclasses.fields(SegmentEntry) if one.default is not dataclasses.MISSING
}
_KINDS: dict[str, tuple[type, ...]] = {
    one.name: (int, type(None)) if one.default is None else (int,) for one in dataclasses.fields(SegmentEntry)
} | {"dense": (bool,), "decay": (float, int, type(None)), "horizons": (tuple,)}


@cache
def _wrong_field(names: tuple[str, ...], kinds: tuple[type, ...]) -> str | None:
    """Return the first field that does not exist, has a type that is always wrong, or is missing; else None.

    Cached: only few combinations of names and types occur.
    """
    for name, kind in zip(names, kinds, strict=True):
        if kind not in _KINDS.get(name, ()):
            return name
    return next((name for name in _KINDS if name not in names and name not in _DEFAULTS), None)


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
            term=_of_kind(int, values["term"]),
            copy=_of_kind(str, values["copy"]),
            fenced=_of_kind(int, values["fenced"]),
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
    segments: tuple[SegmentEntry, ...]
    retired: tuple[Retired, ...] = ()
    published: dict[str, int] = field(default_factory=dict)
    rebuilt: bool = False
    cuts: Cuts = field(default_factory=Cuts)
    boot: str = ""
    home: tuple[str, int] | None = None
    backup: bool = False
    role: Role = LEADER

    def after_cut(self, offset: int) -> dict[str, Any]:
        """Return the fields that change when the records from `offset` on may be replaced."""
        return {"epoch": self.epoch + 1, "cuts": self.cuts.with_cut(self.epoch + 1, offset)}

    @cached_property
    def bases(self) -> list[int]:
        """The base offsets, sorted, for bisection."""
        return [segment.base_offset for segment in self.segments]

    @cached_property
    def records_before(self) -> list[int]:
        """For each segment, including the active one, the number of records before it."""
        return [0, *accumulate(segment.records or 0 for segment in self.segments[:-1])]

    @property
    def active(self) -> SegmentEntry:
        """The segment that appends go to."""
        return self.segments[-1]

    @cached_property
    def blocks(self) -> list[bytes]:
        """The lines of every BLOCK_SEGMENTS segments, joined, without an incomplete block at the end."""
        return self._blocks_behind([])

    def take_blocks(self, earlier: Manifest) -> None:
        """Reuse the blocks of an earlier state if they have the same segments: joining them is the main cost."""
        apart = compress(count(), map(is_not, self.segments, earlier.segments))
        same = next(apart, min(len(self.segments), len(earlier.segments)))
        self.__dict__["blocks"] = self._blocks_behind(earlier.blocks[: same // BLOCK_SEGMENTS])

    def _blocks_behind(self, blocks: list[bytes]) -> list[bytes]:
        starts = range(len(blocks) * BLOCK_SEGMENTS, len(self.segments) - BLOCK_SEGMENTS + 1, BLOCK_SEGMENTS)
        return blocks + [_joined(self.segments[start : start + BLOCK_SEGMENTS]) for start in starts]

    def encode(self) -> bytes:
        """Return the manifest's bytes."""
        return b"".join(self.encoded_parts())

    def encoded_parts(self) -> list[bytes]:
        """Return the manifest's bytes in parts: one if there are few segments, else with blocks between the ends."""
        first = json.dumps(self._header()).encode() + b"\n"
        rest = _joined(self.segments[len(self.blocks) * BLOCK_SEGMENTS :])
        check = xxh64(first)
        for part in (*self.blocks, rest):
            check.update(part)
        last = rest + b'{"check":"%016x"}\n' % check.intdigest()
        return [first, *self.blocks, last] if self.blocks else [first + last]

    def _header(self) -> dict[str, Any]:
        return {
            "format": PLAIN_VERSION if self.role == LEADER else VERSION,
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


def _joined(segments: Iterable[SegmentEntry]) -> bytes:
    return b"".join([segment.line for segment in segments])


def _body_if_sound(data: bytes) -> bytes | None:
    """Return what precedes the check; None if the check fails."""
    end = data.rfind(b"\n", 0, -1) + 1
    body = data[:end]
    return body if data[end:] == b'{"check":"%016x"}\n' % xxh64_intdigest(body) else None


def _check_version(data: bytes, path: str) -> None:
    """Raise FormatVersionError for a newer version, whatever its check; but not if only the version is damaged."""
    try:
        version = json.loads(data.partition(b"\n")[0])["format"]
    except UNREADABLE:
        return  # not readable at all: damage, which the check detects
    if not isinstance(version, int) or version <= VERSION:
        return
    ours = (data.replace(b'"format": %a' % version, b'"format": %d' % known, 1) for known in (PLAIN_VERSION, VERSION))
    if all(_body_if_sound(one) is None for one in ours):
        raise FormatVersionError(
            f"{path}: manifest format version {version}; this seglog reads versions up to {VERSION}. "
            "Install a newer seglog; nothing was changed"
        )


T = TypeVar("T")


def _of_kind(kind: type[T], value: Any) -> T:
    """Return a value of exactly this type; TypeError for any other, because JSON's true equals 1."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} instead of {kind.__name__}")
    return value


def _home(value: Any) -> tuple[str, int] | None:
    if value is None:
        return None
    topic, number = value
    return _of_kind(str, topic), _of_kind(int, number)


def _entries(body: bytes, like: Manifest | None) -> tuple[SegmentEntry, ...]:
    """Decode the segments' lines, reusing entries with equal lines. Errors as in `SegmentEntry.from_values`."""
    old = () if like is None else like.segments
    first, kept = _kept(body, old)
    left = body[sum(len(entry.line) for entry in kept) :] if kept else body
    lines = left.splitlines(keepends=True)
    known = {entry.line: entry for entry in old[first + len(kept) :]}
    fresh = [line for line in lines if line not in known]
    for line, values in zip(fresh, json.loads(b"[%s]" % b",".join(fresh)), strict=True):
        known[line] = entry = SegmentEntry.from_values(values)
        entry.__dict__["line"] = line
    return kept + tuple([known[line] for line in lines])


def _kept(body: bytes, old: tuple[SegmentEntry, ...]) -> tuple[int, tuple[SegmentEntry, ...]]:
    """Return the sealed entries that `body` begins with, and where they begin in an earlier state; none if it differs.

    That is so after rolls, publishes and expiries. Comparing all lines as one takes a fraction of the time of a
    dictionary of lines.
    """
    line = body[: body.find(b"\n") + 1]
    first = next((number for number, entry in enumerate(old) if entry.line == line), None)
    kept = () if first is None else old[first:-1]
    return (first or 0, kept) if body.startswith(_joined(kept)) else (0, ())


def decode(data: bytes, path: str, like: Manifest | None = None) -> Manifest:
    """Decode a manifest. CorruptLog if it is damaged, FormatVersionError if a newer version wrote it.

    like: an earlier state of the same log; entries with equal lines are reused, which is 8 times as fast.
    """
    _check_version(data, path)
    body = _body_if_sound(data)
    if body is None:
        raise CorruptLog(f"{path}: the manifest is damaged or cut short")
    try:
        first, _, lines = body.partition(b"\n")
        header = json.loads(first)
        if not lines:
            raise ValueError("it names no segment")
        return Manifest(
            log_id=int(header["log_id"], 16),
            version=_of_kind(int, header["version"]),
            epoch=_of_kind(int, header["epoch"]),
            next_file=_of_kind(int, header["next_file"]),
            start=_of_kind(int, header["start"]),
            config=LogConfig.from_json(header["config"]),
            segments=_entries(lines, like),
            retired=tuple(
                Retired(
                    version=_of_kind(int, r["version"]),
                    retired_at=_of_kind(int, r["retired_at"]),
                    names=tuple(_of_kind(str, name) for name in r["names"]),
                )
                for r in header["retired"]
            ),
            published={query: _of_kind(int, batch) for query, batch in header["published"].items()},
            rebuilt=_of_kind(bool, header["rebuilt"]),
            cuts=Cuts.from_json(header, _of_kind(int, header["epoch"])),
            boot=_of_kind(str, header.get("boot", "")),
            home=_home(header.get("home")),
            backup=_of_kind(bool, header.get("backup", False)),
            role=Role.from_json(header["role"]) if "role" in header else LEADER,
        )
    except UNREADABLE as error:
        # the check is valid, so another version wrote this intentionally
        raise FormatVersionError(
            f"{path}: the manifest contains what this version of seglog does not know ({error}). "
            "Install a newer seglog; nothing was changed"
        ) from error
