"""Which log has its turn, when to look again, how long to wait after a failure: pure functions of figures and times.

Times are us by whatever clock the caller has. One that was put back makes nothing wait: a moment lies in an interval
only if it does not lie before its begin. Knows neither logs nor threads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.keyed.schedule import Standing

MICROSECONDS = 1_000_000
MOST_DOUBLINGS = 62  # beyond it any wait has reached its limit


@dataclass(frozen=True, kw_only=True)
class Retry:
    """How long to wait before the next attempt: `first` seconds, doubled with each failure in a row up to `most`."""

    first: float
    most: float

    def wait(self, failures: int) -> int:
        """Return the wait (us) after so many failures in a row."""
        doublings = min(failures - 1, MOST_DOUBLINGS)
        return round(min(self.first * float(2**doublings), self.most) * MICROSECONDS)


@dataclass(frozen=True, kw_only=True)
class Trouble:
    """Failures in a row of one kind of work. since: when (us) the last was; wait: us from then; error: what it said."""

    failures: int
    since: int
    wait: int
    error: str

    @classmethod
    def after(cls, before: Trouble | None, error: str, now: int, retry: Retry) -> Trouble:
        """Return the trouble that one more failure makes of it."""
        failures = 1 if before is None else before.failures + 1
        return cls(failures=failures, since=now, wait=retry.wait(failures), error=error)

    @property
    def until(self) -> int:
        """When (us) the next attempt may be made."""
        return self.since + self.wait

    def waits(self, now: int) -> bool:
        """Whether it is too early for the next attempt."""
        return self.since <= now < self.until


def next_look(looked_at: int, interval: int, moments: Iterable[int | None]) -> int:
    """Return when (us) to look again at a log that was looked at before: after the interval, or at an earlier moment.

    Moments that had come by then were seen to; that nothing came of them changes with time alone only later.
    """
    return min([looked_at + interval, *(moment for moment in moments if moment is not None and moment > looked_at)])


def is_over(since: int, until: int, now: int) -> bool:
    """Whether an interval is over."""
    return not since <= now < until


def dirtiest(standings: Mapping[str, Standing]) -> str | None:
    """Return the name of the log to compact next: of those that are due the one with the greatest dirty ratio.

    A maximum lag and tombstones make a log due whatever its ratio; as each has one turn in a round, it waits for the
    others once at most. None where none is due.
    """
    due = [(-standing.ratio, name) for name, standing in standings.items() if standing.due is not None]
    return min(due)[1] if due else None
