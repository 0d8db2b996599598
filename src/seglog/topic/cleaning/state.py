"""What a cleaner reports: the state of each log, and what was done. Plain values, for people and for a server."""

from __future__ import annotations

from dataclasses import dataclass, fields
from datetime import UTC, datetime
from typing import Any, Literal

from seglog.log.info import CompactionReport, CompressionReport
from seglog.topic.cleaning.timing import MICROSECONDS

Doing = Literal["idle", "waiting", "expiring", "compacting", "compressing", "retrying", "failed", "paused"]
What = Literal["expired", "compacted", "compressed", "stopped", "damaged", "failed", "refused", "forgotten"]

REASONS = {
    "dirty": "the share of bytes that were never compacted exceeds min_dirty_ratio",
    "lag": "records have waited for max_compaction_lag",
    "tombstones": "tombstones have reached their age",
    "compression": "sealed segments are not stored with the log's codec",
}


@dataclass(frozen=True, kw_only=True)
class LogState:
    """The state of one log in the cleaner. Times are us since the epoch, UTC.

    doing: idle (nothing is due); waiting (due, other logs come first); expiring; compacting; compressing; retrying
    (waits after a failure); failed (until it is opened again); paused.
    due, dirty_bytes, total_bytes, ratio, next_at, to_compress: as in Standing, at the last look (looked_at); due is
    "compression" if no compaction is due, and something is to be compressed. done_bytes, pass_bytes: progress of the
    running compaction or compression, 0 without one.
    failures: consecutive; error: of the last one; next_try_at: the next attempt. report, compacted_at: of the last
    compaction; damaged: the segments it had to skip. compression, compressed_at: of the last turn of compression.
    expired: segments deleted by retention since the cleaner knows the log.
    """

    name: str
    doing: Doing = "idle"
    due: str | None = None
    done_bytes: int = 0
    pass_bytes: int = 0
    dirty_bytes: int = 0
    total_bytes: int = 0
    ratio: float = 0.0
    next_at: int | None = None
    looked_at: int | None = None
    failures: int = 0
    error: str | None = None
    next_try_at: int | None = None
    report: CompactionReport | None = None
    compacted_at: int | None = None
    damaged: tuple[str, ...] = ()
    to_compress: int = 0
    compression: CompressionReport | None = None
    compressed_at: int | None = None
    expired: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return plain values."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            **values,
            "report": _plain(self.report),
            "compression": _plain(self.compression),
            "damaged": [*self.damaged],
        }


def _plain(report: CompactionReport | CompressionReport | None) -> dict[str, Any] | None:
    if report is None:
        return None
    values = {field.name: getattr(report, field.name) for field in fields(report)}
    return {**values, "damaged": [str(error) for error in report.damaged]}


@dataclass(frozen=True, kw_only=True)
class Event:
    """One action on a log, or its failure. at: us; text: a line for people; report, compression: of such a pass.

    name: the log, "" if it concerns the list of logs.
    what: expired, compacted, compressed; damaged: compacted or compressed except segments that do not verify; stopped:
    such a pass ended early, by the cleaner or because the log changed, which is not a failure; failed: retried later;
    refused: the log rejects writes and is not maintained any more; forgotten: it was closed.
    """

    at: int
    name: str
    what: What
    text: str
    report: CompactionReport | None = None
    compression: CompressionReport | None = None


def words(state: LogState) -> str:
    """Describe a log's state in one or two sentences."""
    error = state.error or "unknown reason"
    if state.looked_at is None and state.doing == "idle":
        return "The cleaner has not looked at the log yet."
    told = {
        "idle": "The cleaner has nothing to do here.",
        "waiting": f"A {_pass(state)} is due ({_reason(state)}); other logs come first.",
        "expiring": "The cleaner is checking retention now.",
        "compacting": f"A compaction is running ({_reason(state)}): {_share(state)}.",
        "compressing": f"A compression is running: {_share(state)}.",
        "retrying": f"After {_times(state.failures)} the cleaner waits until {_time(state.next_try_at)}: {error}.",
        "failed": f"The cleaner ignores this log until it is opened again: {error}.",
        "paused": "The cleaner is paused: nothing is compacted, compressed or expired until it is resumed.",
    }[state.doing]
    if state.doing in ("idle", "waiting") and state.next_at is not None:
        told += f" Something becomes due by time at {_time(state.next_at)}."
    return told


def _pass(state: LogState) -> str:
    return "compression" if state.due == "compression" else "compaction"


def _reason(state: LogState) -> str:
    return REASONS.get(state.due or "", "it was due")


def _share(state: LogState) -> str:
    return f"{state.done_bytes} of {state.pass_bytes} bytes done" if state.pass_bytes else "it has just started"


def _times(failures: int) -> str:
    return "a failure" if failures == 1 else f"{failures} consecutive failures"


def _time(moment: int | None) -> str:
    if moment is None:
        return "an unknown time"
    try:
        return datetime.fromtimestamp(moment / MICROSECONDS, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    except (OverflowError, ValueError):
        return "a time beyond the calendar"
