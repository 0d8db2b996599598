"""Pure functions of figures and times: which log is next, when to look again, how long to wait after a failure.

Times are us of the caller's clock. A clock set back delays nothing: a moment is in an interval only if it is not before
its start. Knows neither logs nor threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.compaction.schedule import Standing

MICROSECONDS = 1_000_000
MOST_DOUBLINGS = 62  # beyond this every wait has reached its limit


@dataclass(frozen=True, kw_only=True)
class Retry:
    """The wait before the next attempt: `first` seconds, doubled with each consecutive failure up to `most`."""

    first: float
    most: float

    def wait(self, failures: int) -> int:
        """Return the wait (us) after `failures` consecutive failures."""
        doublings = min(failures - 1, MOST_DOUBLINGS)
        return round(min(self.first * float(2**doublings), self.most) * MICROSECONDS)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Consecutive failures of one kind of work. since: when (us) the last was; wait: us from then; error: its text."""

    failures: int
    since: int
    wait: int
    error: str

    @classmethod
    def after(cls, before: Trouble | None, error: str, now: int, retry: Retry) -> Trouble:
        """Return the trouble after one more failure."""
        failures = 1 if before is None else before.failures + 1
        return cls(failures=failures, since=now, wait=retry.wait(failures), error=error)

    @property
    def until(self) -> int:
        """When (us) the next attempt is allowed."""
        return self.since + self.wait

    def waits(self, now: int) -> bool:
        """Whether it is too early for the next attempt."""
        return self.since <= now < self.until


def next_look(looked_at: int, interval: int, moments: Iterable[int | None]) -> int:
    """Return when (us) to look again at a log: after the interval, or at an earlier moment.

    Moments before the last look were handled then.
    """
    return min([looked_at + interval, *(moment for moment in moments if moment is not None and moment > looked_at)])


def is_over(since: int, until: int, now: int) -> bool:
    """Whether an interval is over."""
    return not since <= now < until


def dirtiest(standings: Mapping[str, Standing]) -> str | None:
    """Return the name of the log to compact next: the due one with the greatest dirty ratio, None if none is due.

    A maximum lag and tombstones make a log due whatever its ratio; as each log gets one turn per round, it waits at
    most one round.
    """
    due = [(-standing.ratio, name) for name, standing in standings.items() if standing.due is not None]
    return min(due)[1] if due else None


def largest(to_compress: Mapping[str, int]) -> str | None:
    """Return the name of the log to compress next: the one with most bytes that wait for it, None if none does."""
    due = [(-size, name) for name, size in to_compress.items() if size]
    return min(due)[1] if due else None
