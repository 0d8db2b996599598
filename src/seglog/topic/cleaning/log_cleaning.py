"""The maintenance of one log: looking, compacting, compressing, and what is remembered of them.

Decides what an error means: closed, unusable until it is opened again, retried later, or not a failure at all. Knows
neither threads nor other logs. One thread at a time does the work; any thread may read the state.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Literal

from seglog.clock import Clock
from seglog.compaction.schedule import Standing
from seglog.errors import CompactionAborted, LogClosed, LogPoisoned, LogReadOnly, SeglogError
from seglog.log.info import CompactionReport, CompressionReport
from seglog.log.log import Log
from seglog.topic.cleaning.state import Event, LogState, What
from seglog.topic.cleaning.timing import Retry, Trouble, is_over, next_look

Work = Literal["expiry", "compaction", "compression"]

TURN_BYTES = 1024**3  # that one turn compresses, or a larger segment: compactions, and other logs, come in between


class Care:
    """A maintained log. state: what is known of it; closed: it must be forgotten."""

    def __init__(self, name: str, log: Log, *, clock: Clock, retry: Retry, tell: Callable[[Event], None]) -> None:
        self.name = name
        self.log = log
        self.closed = False
        self.state = LogState(name=name)
        self._clock = clock
        self._retry = retry
        self._tell = tell
        self._refused = False
        self._moved_on: set[Work] = set()
        self._standing: Standing | None = None
        self._troubles: dict[Work, Trouble] = {}
        self._guard = threading.Lock()

    @property
    def _able(self) -> bool:
        return not self.closed and not self._refused

    # --- when -------------------------------------------------------------------------------------------------------

    def due(self, now: int) -> Standing | None:
        """Return the log's standing if a compaction is due and need not wait after a failure, else None."""
        standing = self._ready("compaction", now)
        return None if standing is None or standing.due is None else standing

    def to_compress(self, now: int) -> int:
        """Return the bytes that wait for compression; 0 also if it waits after a failure."""
        standing = self._ready("compression", now)
        return 0 if standing is None else standing.to_compress

    def _ready(self, work: Work, now: int) -> Standing | None:
        """Return the log's standing if this work need not wait after a failure, else None."""
        trouble = self._troubles.get(work)
        waits = trouble is not None and trouble.waits(now)
        return None if waits or not self._able else self._standing

    def is_due_again(self, now: int) -> bool:
        """Whether the last pass of a kind changed something and the next one is already due.

        One that was stopped, or changed nothing, is not repeated immediately: it might end the same way forever.
        """
        due: dict[Work, bool] = {"compaction": self.due(now) is not None, "compression": self.to_compress(now) > 0}
        return any(due[work] for work in self._moved_on)

    def next_look(self, interval: int) -> int | None:
        """Return when (us) to look again; 0: it was never looked at; None: no further look is needed."""
        if not self._able:
            return None
        if self.state.looked_at is None:
            return 0
        moments = [self.state.next_at, *(trouble.until for trouble in self._troubles.values())]
        return next_look(self.state.looked_at, interval, moments)

    def wants_look(self, now: int, interval: int) -> bool:
        """Whether it is time to look again."""
        at = self.next_look(interval)
        return at is not None and is_over(self.state.looked_at or 0, at, now)

    # --- what is done -----------------------------------------------------------------------------------------------

    def look(self) -> None:
        """Delete what retention no longer keeps, and update the log's standing."""
        if not self._able:
            return
        now, trouble = self._clock(), self._troubles.get("expiry")
        self._note(doing="expiring")
        if trouble is None or not trouble.waits(now):
            with self._attempt("expiry"):
                self._expired(self.log.expire())
        if self._able:
            with self._attempt("expiry"):
                self._stand()
        self._rest(looked_at=now)

    def _stand(self) -> None:
        self._standing = self.log.standing()
        if not self._standing.to_compress:
            self._troubles.pop("compression", None)  # what failed is deleted, or need not be compressed any more

    def compact(self, *, abort: Callable[[], bool], bytes_per_second: float | None) -> None:
        """Compact the log and look at it again."""
        self._note(doing="compacting")
        self._moved_on.discard("compaction")
        with self._attempt("compaction"):
            report = self.log.compact(
                generational=True, progress=self._progress, abort=abort, bytes_per_second=bytes_per_second
            )
            self._stand()
            self._compacted(report)
        self.look()

    def compress(self, *, abort: Callable[[], bool], bytes_per_second: float | None) -> None:
        """Compress sealed segments for one turn, and look at the log again."""
        self._note(doing="compressing")
        self._moved_on.discard("compression")
        with self._attempt("compression"):
            report = self.log.compress(
                max_bytes=TURN_BYTES, progress=self._progress, abort=abort, bytes_per_second=bytes_per_second
            )
            self._stand()
            self._compressed(report)
        self.look()

    def _progress(self, done: int, total: int) -> None:
        self._note(done_bytes=done, pass_bytes=total)

    @contextmanager
    def _attempt(self, work: Work) -> Iterator[None]:
        """Handle the errors of one kind of work: the other logs are maintained whatever happens to this one."""
        try:
            yield
        except LogClosed:
            self.closed = True
            self._say("forgotten", "closed; no longer maintained")
        except (LogPoisoned, LogReadOnly) as error:
            self._refused = True
            self._note(error=str(error))
            self._say("refused", f"ignored until it is opened again: {error}")
        except CompactionAborted as error:
            self._say("stopped", f"{error}; it is tried again in the next round")
        except Exception as error:  # noqa: BLE001 - see above; it is reported, shown and retried
            self._failed(work, str(error) if isinstance(error, SeglogError) else f"{type(error).__name__}: {error}")

    # --- what came of it --------------------------------------------------------------------------------------------

    def _expired(self, count: int) -> None:
        self._troubles.pop("expiry", None)
        if count:
            self._note(expired=self.state.expired + count)
            self._say("expired", f"retention deleted {count} {'segment' if count == 1 else 'segments'}")

    def _compacted(self, report: CompactionReport) -> None:
        damaged = tuple(str(error) for error in report.damaged)
        self._note(report=report, compacted_at=self._clock(), damaged=damaged)
        text = (
            f"compacted: removed {report.superseded} superseded, {report.tombstones} tombstones, {report.unkeyed} "
            f"without key; {report.bytes_before} to {report.bytes_after} bytes, {report.segments_before} to "
            f"{report.segments_after} segments"
        )
        if not damaged:
            self._troubles.pop("compaction", None)
            if report.rewritten:
                self._moved_on.add("compaction")
            self._say("compacted", text, report=report)
            return
        # What is damaged stays due, and every pass would end the same way: wait as after a failure.
        left = _skipped(damaged)
        self._trouble("compaction", left)
        self._say("damaged", f"{text}; {left}", report=report)

    def _compressed(self, report: CompressionReport) -> None:
        damaged = tuple(str(error) for error in report.damaged)
        self._note(compression=report, compressed_at=self._clock())
        text = (
            f"compressed: stored {report.rewritten} of {report.segments} segments again; {report.bytes_before} to "
            f"{report.bytes_after} bytes"
        )
        if report.segments > len(damaged):  # the others are stored, and further ones may be due
            self._moved_on.add("compression")
        if not damaged:
            self._troubles.pop("compression", None)
            self._say("compressed", text, compression=report)
            return
        left = _skipped(damaged)
        if "compression" not in self._moved_on:
            self._trouble("compression", left)
        self._say("damaged", f"{text}; {left}", compression=report)

    def _failed(self, work: Work, error: str) -> None:
        trouble = self._trouble(work, error)
        seconds = trouble.wait / 1_000_000
        self._say("failed", f"the {work} failed ({trouble.failures} in a row), next try in {seconds:g} s: {error}")

    def _trouble(self, work: Work, error: str) -> Trouble:
        found = self._troubles[work] = Trouble.after(self._troubles.get(work), error, self._clock(), self._retry)
        return found

    def _say(
        self,
        what: What,
        text: str,
        *,
        report: CompactionReport | None = None,
        compression: CompressionReport | None = None,
    ) -> None:
        """Report an event after the state shows it."""
        self._rest()
        at = self._clock()
        self._tell(Event(at=at, name=self.name, what=what, text=text, report=report, compression=compression))

    # --- state ------------------------------------------------------------------------------------------------------

    def _rest(self, **changes: object) -> None:
        """Note the log's standing after work."""
        standing, trouble = self._standing, max(self._troubles.values(), key=lambda one: one.until, default=None)
        due = None if standing is None else standing.due or ("compression" if standing.to_compress else None)
        if standing is not None:
            named = ("dirty_bytes", "total_bytes", "ratio", "next_at", "to_compress")
            changes |= {name: getattr(standing, name) for name in named} | {"due": due}
        if not self._refused:
            changes |= {
                "failures": 0 if trouble is None else trouble.failures,
                "error": None if trouble is None else trouble.error,
                "next_try_at": None if trouble is None else trouble.until,
            }
        calm = "retrying" if trouble is not None else "idle" if due is None else "waiting"
        self._note(doing="failed" if self._refused else calm, done_bytes=0, pass_bytes=0, **changes)

    def _note(self, **changes: object) -> None:
        with self._guard:
            self.state = replace(self.state, **changes)  # type: ignore[arg-type] # fields of LogState, named above


def _skipped(damaged: tuple[str, ...]) -> str:
    """Name the segments that a pass left as they were: how many, and the damage of the first."""
    return f"{len(damaged)} damaged {'segment was' if len(damaged) == 1 else 'segments were'} skipped: {damaged[0]}"
