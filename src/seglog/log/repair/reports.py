"""Results of a verification: problems, the gaps that they leave, and the report of both. Plain values."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One damage.

    Attributes:
        kind: "manifest"; "missing" (a store); "foreign" (another file in place of a store); "short"; "header"
            (damaged, or of a plain store in place of a compressed one, or the reverse); "block" (of a compressed
            store); "record"; "other log" (the directory holds stores of another log); "figures" (the manifest's
            figures do not match the records); "index" (a lookup: derived, no data is lost); or "refused" (the system
            cannot read it, so whether it is damaged is unknown).
        path: The file or directory.
        detail: Description as text.
        offset: Offset of the first record concerned.
        position: Its position in bytes.
        records: Number of records that cannot be read from there on, as far as known.
    """

    kind: str
    path: str
    detail: str
    offset: int | None = None
    position: int | None = None
    records: int = 0


@dataclass(frozen=True, kw_only=True)
class Gap:
    """A range of offsets, first to stop - 1, in a store without any readable record. stop None: the end is unknown."""

    path: str
    first: int
    stop: int | None

    def __str__(self) -> str:
        if self.stop is None:
            return f"offsets from {self.first} on"
        return f"offset {self.first}" if self.stop == self.first + 1 else f"offsets {self.first} to {self.stop - 1}"


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """The result of a verification.

    Attributes:
        problems: Problems in order of place.
        records: Number of readable records.
        bytes: Number of bytes read.
        segments: Number of segments.
        tail_bytes: Bytes after the last whole record of the active store, from an append in progress or one that a
            crash cut off; the next opening sets them aside. They were never acknowledged and are no problem.
        unreadable: Gaps that the problems leave. Offsets that compaction or an earlier repair removed are no gap.
    """

    problems: tuple[Problem, ...]
    records: int
    bytes: int
    segments: int
    tail_bytes: int
    unreadable: tuple[Gap, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems
