"""One live segment as the manifest knows it, and its line there. No I/O."""

from __future__ import annotations

import builtins
import dataclasses
import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any, TypeVar

from seglog.format import filename
from seglog.format.blocks import CODECS

ANYTHING = 2**63 - 1  # as superseded_to: it is unknown what superseded

T = TypeVar("T")


def of_kind(kind: type[T], value: Any) -> T:
    """Return a value of exactly this type; TypeError for any other, because JSON's true equals 1."""
    if type(value) is not kind:
        raise TypeError(f"{value!r} instead of {kind.__name__}")
    return value


@dataclass(frozen=True, kw_only=True, slots=True)
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
        codec: Codec of the last pass that compressed the segment, "lz4" or "zstd"; None: no pass has read it.
        stored: Bytes of the file with blocks, of which `bytes` are the plain ones; None: the store is plain.
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
    codec: str | None = None
    stored: int | None = None
    horizons: tuple[tuple[int, int], ...] = ()
    _line: builtins.bytes = field(default=b"", init=False, repr=False, compare=False)

    @property
    def sealed(self) -> bool:
        """Whether the segment is sealed."""
        return self.sealed_at is not None

    @property
    def compressed(self) -> bool:
        """Whether the store has blocks."""
        return self.stored is not None

    @property
    def disk_bytes(self) -> int:
        """Bytes that the store takes on the disk; 0 while the segment is active."""
        return self.bytes or 0 if self.stored is None else self.stored

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of files that the segment may have."""
        return filename.KINDS[:-1] if self.stored is None else filename.KINDS

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

    @property
    def line(self) -> builtins.bytes:
        """The segment's line in the manifest, encoded once, or kept as it was read."""
        if not self._line:
            object.__setattr__(self, "_line", self._encoded())
        return self._line

    def _encoded(self) -> builtins.bytes:
        values = {name: value for name in FIELDS if (value := getattr(self, name)) not in (None, ())}
        values["salt"] = f"{self.salt:016x}"
        if self.digest is not None:
            values["digest"] = f"{self.digest:016x}"
        return json.dumps(values, separators=(",", ":")).encode() + b"\n"

    @classmethod
    def from_values(cls, values: dict[str, Any], line: builtins.bytes = b"") -> SegmentEntry:
        """Decode the values of one line; ValueError, KeyError, TypeError or AttributeError if they are invalid.

        line: the line, if it is known.
        """
        values["salt"] = int(values["salt"], 16)
        if "digest" in values:
            values["digest"] = int(values["digest"], 16)
        if "horizons" in values:
            values["horizons"] = tuple(map(tuple, values["horizons"]))
            for end, horizon in values["horizons"]:
                of_kind(int, end)
                of_kind(int, horizon)
        if values.get("codec", "zstd") not in CODECS:
            raise ValueError(f"compression {values['codec']!r}")
        wrong = _wrong_field(tuple(values), tuple(map(type, values.values())))
        if wrong is not None:
            raise TypeError(f"{wrong} is {values.get(wrong, 'missing')!r}")
        entry = cls(**values)
        object.__setattr__(entry, "_line", line)
        return entry


_FIELDS = [one for one in dataclasses.fields(SegmentEntry) if one.init]
FIELDS = tuple(one.name for one in _FIELDS)
"""The names of the fields, in the order of a line."""
_NEEDED = [one.name for one in _FIELDS if one.default is dataclasses.MISSING]
_KINDS: dict[str, tuple[type, ...]] = {
    one.name: (int, type(None)) if one.default is None else (int,) for one in _FIELDS
} | {"dense": (bool,), "codec": (str,), "decay": (float, int, type(None)), "horizons": (tuple,)}


@cache
def _wrong_field(names: tuple[str, ...], kinds: tuple[type, ...]) -> str | None:
    """Return the first field that does not exist, has a type that is always wrong, or is missing; else None.

    Cached: only few combinations of names and types occur.
    """
    for name, kind in zip(names, kinds, strict=True):
        if kind not in _KINDS.get(name, ()):
            return name
    return next((name for name in _NEEDED if name not in names), None)
