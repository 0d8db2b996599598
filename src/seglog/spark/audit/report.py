"""The report of an audit: figures of every log and findings, computed from the reports of the segments. Pure.

A gap between two segments, or before the first, is lost records unless compaction explains it: a log that compacts, or
whose segments have gaps themselves, removes whole segments.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from seglog.topic.audit.figures import LogKeys

if TYPE_CHECKING:
    from seglog.spark.audit.segments import SegmentReport


@dataclass(frozen=True, slots=True)
class Finding:
    """One problem. kind: lost, duplicated or corrupt.

    start, stop: the offsets (exclusive), None if it does not concern offsets; records: how many, as far as known; path,
    position: the file and the byte, if known.
    """

    kind: str
    topic: str
    partition: int
    start: int | None
    stop: int | None
    records: int
    path: str
    position: int | None
    detail: str


@dataclass(frozen=True, kw_only=True)
class LogAudit(LogKeys):
    """The figures of one log: those of its keys, of the readable records, and what the job adds to them.

    bytes: of its stores. lost, duplicated, corrupt: records (see Finding). backwards: records older than the one before
    them, in the log and in their key: counted, but not a problem, since writers choose timestamps.
    """

    segments: int
    bytes: int
    lost: int
    duplicated: int
    corrupt: int
    problems: int
    backwards: int
    backwards_by_key: int


@dataclass(frozen=True, kw_only=True)
class AuditReport:
    """The audit of all logs. duplicates: records with the identity of an earlier one; None if not requested."""

    logs: tuple[LogAudit, ...]
    duplicates: int | None

    def total(self, figure: str) -> int:
        """Return the sum of a figure of LogAudit over all logs."""
        return sum(getattr(log, figure) for log in self.logs)

    @property
    def ok(self) -> bool:
        """Whether nothing is lost, duplicated, damaged or undelivered."""
        wrong = ("lost", "duplicated", "corrupt", "problems", "undelivered_keys")
        return not self.duplicates and not any(self.total(figure) for figure in wrong)


@dataclass(frozen=True, slots=True)
class AuditedLog:
    """What the driver knows of a log before reading records. compacted: gaps between segments are explained."""

    topic: str
    partition: int
    path: str
    start: int
    next_offset: int
    compacted: bool
    trouble: str | None


def findings_of(log: AuditedLog, segments: Sequence[SegmentReport]) -> Iterator[Finding]:
    """Yield the problems of a log. segments: by base offset."""
    if log.trouble is not None:
        yield Finding("corrupt", log.topic, log.partition, None, None, 0, log.path, None, log.trouble)
    if not log.compacted:
        for start, stop in _gaps(log, segments):
            yield _run(log, "lost", start, stop, stop - start, "no segment holds these offsets")
    for earlier, later in pairwise(_filled(segments)):
        first, last = later.first_offset or 0, earlier.last_offset or 0
        if first <= last:
            detail = f"the segments with base {earlier.base} and {later.base} both hold these offsets"
            yield _run(log, "duplicated", first, last + 1, last + 1 - first, detail)
    for segment in segments:
        for start, stop, records in segment.lost:
            fewer = f"{records} records fewer than in the manifest"
            yield _run(log, "lost", start, stop, records, "no readable record" if records == stop - start else fewer)
        for problem in segment.problems:
            yield _damage(log, problem)


def _run(log: AuditedLog, kind: str, start: int, stop: int, records: int, detail: str) -> Finding:
    return Finding(kind, log.topic, log.partition, start, stop, records, log.path, None, detail)


def _damage(log: AuditedLog, problem: dict[str, Any]) -> Finding:
    offset, records = problem["offset"], problem["records"]
    stop = None if offset is None else offset + max(records, 1)
    detail = f"{problem['kind']}: {problem['detail']}"
    return Finding(
        "corrupt", log.topic, log.partition, offset, stop, records, problem["path"], problem["position"], detail
    )


def _filled(segments: Sequence[SegmentReport]) -> list[SegmentReport]:
    return [segment for segment in segments if segment.records]


def _gaps(log: AuditedLog, segments: Sequence[SegmentReport]) -> Iterator[tuple[int, int]]:
    """Yield the ranges between segments; a segment's own report covers those inside."""
    expected = log.start
    for segment in segments:
        if segment.base > expected:
            yield expected, segment.base
        expected = max(expected, segment.end)


def steps_back(segments: Sequence[SegmentReport]) -> int:
    """Return how many records of a log are older than the one before them."""
    between = sum((later.first_time or 0) < (earlier.last_time or 0) for earlier, later in pairwise(_filled(segments)))
    return between + sum(segment.backwards for segment in segments)
