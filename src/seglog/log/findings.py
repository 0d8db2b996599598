"""What a verification tells: problems, the gaps they leave, and the report of both. Plain values: looks at nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Problem:
    """One damage. kind: manifest, missing (a store), foreign (another file in its place), short, header, record, other
    log (stores of another log are in the directory), figures (the manifest's figures do not fit the records), index (a
    lookup; derived, costs no data) or refused (the system does not let it be read: whether it is damaged is not known).
    offset, position: where, if it is about records; records: how many are unreadable from there on, as far as can be
    told.
    """

    kind: str
    path: str
    detail: str
    offset: int | None = None
    position: int | None = None
    records: int = 0


@dataclass(frozen=True, kw_only=True)
class Gap:
    """Offsets first .. stop - 1 of a store: no record among them can be read. stop None: nobody knows how many."""

    path: str
    first: int
    stop: int | None

    def __str__(self) -> str:
        if self.stop is None:
            return f"offsets from {self.first} on"
        return f"offset {self.first}" if self.stop == self.first + 1 else f"offsets {self.first} to {self.stop - 1}"


@dataclass(frozen=True, kw_only=True)
class VerifyReport:
    """What a verification found: problems in order of place, readable records, bytes read, segments, and the gaps that
    the problems leave. Offsets that compaction or an earlier repair took are no gap.

    tail_bytes: bytes behind the last whole record of the active store: an append under way, or one that a crash cut off
    and the next opening will set aside. They were never acknowledged and are no problem.
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
