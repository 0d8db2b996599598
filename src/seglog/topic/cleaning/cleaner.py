"""The cleaner: maintains many logs with one thread, and reports what it does.

A round looks at every log (deletes what retention no longer keeps, finds what is due), then compacts the due logs, the
dirtiest first, each once, then compresses sealed segments of the logs with a codec, the log with most bytes to
compress first, each for one turn (`log_cleaning.TURN_BYTES`). The thread starts a round when the interval has passed,
or earlier if a log's figures say that time alone makes something due: a quiet log rolls, a tombstone reaches its age;
and at once while turns of compression are left.

One pass runs at a time: two would share the same disk, and the rate applies to all of them. So a log that becomes due
waits for the running one; a compaction comes before the next turn of compression, which would only be undone by it.
Expiry does not wait: whenever a pass checks whether to stop (with every window it reads, or 20 times a second while it
limits its rate), the cleaner looks at the other logs whose time has come. The log at work is looked at after its own
pass, as expiring its segments would make a compaction useless.

`timing` (pure) decides which log is next and when; `log_cleaning` handles one log and its errors. Nothing durable is
kept here: the logs' manifests record what was compacted and compressed, so a new cleaner continues where the last one
ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seglog.clock import Clock, system_clock
from seglog.errors import InvalidArgument, InvalidType
from seglog.forks import Inheritable
from seglog.log.log import Log
from seglog.topic.cleaning.log_cleaning import Care, Work
from seglog.topic.cleaning.reporting import Teller
from seglog.topic.cleaning.roster import Roster
from seglog.topic.cleaning.state import Event, LogState, words
from seglog.topic.cleaning.timing import MICROSECONDS, Retry, dirtiest, is_over, largest
from seglog.topic.topic import Topic
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    Logs = Mapping[str, Log]

INTERVAL_SECONDS = 15.0
OVERLAID = frozenset({"idle", "waiting", "retrying"})  # shown as paused while everything is paused


class Cleaner(Inheritable, Uncopied):
    """Retention, compaction and compression of many logs that this process writes. A context manager, thread-safe.

    `start` runs a thread until `close`; without it `run_once` does one round in the calling thread.
    """

    def __init__(
        self,
        logs: Logs | Callable[[], Logs],
        *,
        interval: float = INTERVAL_SECONDS,
        bytes_per_second: float | None = None,
        clock: Clock = system_clock,
        retry_first: float = 1.0,
        retry_most: float = 300.0,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """Take the logs to maintain.

        Args:
            logs: name -> log open for writing, or a function that returns such a mapping; called often, as logs may
                change.
            interval: The most seconds between two looks at a log.
            bytes_per_second: For reading and writing of all compactions and compressions together; None: no limit.
            clock: The clock of the logs.
            retry_first, retry_most: Seconds to wait after a failure, doubled with each consecutive one.
            on_event: Called with every event, by the thread that caused it; it may use the cleaner except `run_once`.

        Raises:
            InvalidArgument, InvalidType: an argument is invalid.
        """
        for name, seconds in {"interval": interval, "retry_first": retry_first, "retry_most": retry_most}.items():
            _check_positive(name, seconds)
        self.bytes_per_second = bytes_per_second
        self._tell = Teller(on_event)
        self._roster = Roster(logs, self._new)
        self._interval = float(interval)
        self._clock = clock
        self._retry = Retry(first=float(retry_first), most=float(max(retry_first, retry_most)))
        self._again = (0, 0)  # (when the next look was set, when it is to be), us
        self._closed = False
        self._paused = False
        self._enter_child()
        self._watch_forks()

    def _enter_child(self) -> None:
        self._changed = threading.Condition()  # guards the flags; the thread waits on it
        self._woken = False
        self._thread: threading.Thread | None = None
        self._round = threading.Lock()
        self._looking = threading.Lock()

    @classmethod
    def of_topic(cls, topic: Topic, **options: Any) -> Self:
        """Return a cleaner of a topic's partitions, named "<topic>/<partition>"; options as for Cleaner."""
        return cls({f"{topic.name}/{number}": topic.partition(number) for number in range(topic.partitions)}, **options)

    @property
    def bytes_per_second(self) -> float | None:
        """The rate of reading and writing of all passes, None: no limit. A new value applies from the next on."""
        return self._bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, rate: float | None) -> None:
        if rate is not None:
            _check_positive("bytes_per_second", rate)
        self._bytes_per_second = rate

    # --- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Start a thread that runs the rounds. A second call does nothing.

        Raises:
            InvalidArgument: the cleaner is closed.
        """
        self._check_not_inherited("cleaner")
        with self._changed:
            self._check_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="seglog-cleaner", daemon=True)
                self._thread.start()
        return self

    def close(self) -> None:
        """Stop immediately; the logs stay open. A running pass ends: a compaction leaves its log unchanged, a
        compression the segments that it has not finished.

        Returns when the thread has ended. A second call does nothing.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and not self._tell.is_telling:
            thread.join()

    def wake(self) -> None:
        """Make the thread look at all logs now."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Start nothing more until `resume`; a running compaction or compression stops as in `close`."""
        with self._changed:
            self._paused = True

    def resume(self) -> None:
        """Continue after `pause`, and look at all logs now."""
        with self._changed:
            self._paused = False
        self.wake()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _run(self) -> None:
        while self._wait():
            with suppress(InvalidArgument):  # closed in between
                self.run_once()

    def _wait(self) -> bool:
        """Return True when a round is due, False when the cleaner stops."""
        with self._changed:
            while not self._closed:
                now = self._clock()
                if not self._paused and (self._woken or is_over(*self._again, now)):
                    return True
                # Never longer than the interval, so that a clock set forward is noticed.
                left = min((self._again[1] - now) / MICROSECONDS, self._interval, threading.TIMEOUT_MAX)
                self._changed.wait(None if self._paused else left)
            return False

    # --- a round ----------------------------------------------------------------------------------------------------

    def run_once(self) -> tuple[Event, ...]:
        """Do one round in this thread and return its events; waits for a running round. Does nothing while paused.

        Failures are reported in the events and in `state`, never raised.

        Raises:
            InvalidArgument: the cleaner is closed, or the call comes from on_event.
        """
        if self._tell.is_telling:
            raise InvalidArgument("on_event runs inside a round, so it cannot call run_once; use wake()")
        self._check_not_inherited("cleaner")
        with self._round:
            self._check_open()
            self._tell.events = []
            self._woken = False
            self._look(lambda _care: True)
            done: set[tuple[Work, str]] = set()
            while not self._stopping and (turn := self._next(done)) is not None:
                done.add(turn)
                self._do(*turn)
            self._plan_look()
            now = self._clock()
            self._woken |= any(care.is_due_again(now) for care in self._roster.cares())
            return tuple(self._tell.events)

    def _next(self, done: set[tuple[Work, str]]) -> tuple[Work, str] | None:
        """Return what to do next, and with which log; what was done in this round waits for the next."""
        now, cares = self._clock(), self._roster.cares()
        due = {care.name: care.due(now) for care in cares if ("compaction", care.name) not in done}
        dirty = dirtiest({name: standing for name, standing in due.items() if standing is not None})
        if dirty is not None:
            return "compaction", dirty
        large = largest({care.name: care.to_compress(now) for care in cares if ("compression", care.name) not in done})
        return None if large is None else ("compression", large)

    def _do(self, work: Work, name: str) -> None:
        care = self._roster.get(name)
        if care is None:  # closed just now
            return
        self._plan_look(care)

        def abort() -> bool:
            self._look_beside(care)
            return self._stopping

        do = care.compact if work == "compaction" else care.compress
        do(abort=abort, bytes_per_second=self._bytes_per_second)

    def _look_beside(self, busy: Care) -> None:
        """Look at the other logs whose time has come; of two threads of a pass one does it."""
        if not (self._woken or is_over(*self._again, self._clock())) or not self._looking.acquire(blocking=False):
            return
        try:
            woken, self._woken = self._woken, False
            now, interval = self._clock(), self._interval_us
            self._look(lambda care: care is not busy and (woken or care.wants_look(now, interval)))
            self._plan_look(busy)
        finally:
            self._looking.release()

    def _look(self, wanted: Callable[[Care], bool]) -> None:
        """Look at some of the present logs."""
        self._meet()
        for care in self._roster.cares():
            if self._stopping:
                return
            if wanted(care):
                care.look()

    def _plan_look(self, busy: Care | None = None) -> None:
        """Set the time of the next look at a log other than `busy`."""
        now, interval = self._clock(), self._interval_us
        looks = (care.next_look(interval) for care in self._roster.cares() if care is not busy)
        self._again = (now, min([now + interval, *(at for at in looks if at is not None)]))

    def _meet(self) -> None:
        """Update the list of logs; if the caller's function fails, keep the known ones."""
        try:
            self._roster.meet()
        except Exception as error:  # noqa: BLE001 - the caller's code; reported, and called again at the next look
            text = f"the list of logs could not be read: {type(error).__name__}: {error}"
            self._tell(Event(at=self._clock(), name="", what="failed", text=text))

    def _new(self, name: str, log: Log) -> Care:
        return Care(name, log, clock=self._clock, retry=self._retry, tell=self._tell)

    # --- what is known ----------------------------------------------------------------------------------------------

    def state(self) -> tuple[LogState, ...]:
        """Return the state of every log, in the order in which they are named; touches no log."""
        return tuple(self._shown(care) for care in self._roster.cares())

    def explain(self, name: str, offset: int) -> str:
        """Explain why a record is still in a log (or is not), and what the cleaner will do there.

        Args:
            name: The log's name.
            offset: The record's offset.

        Raises:
            InvalidArgument: the cleaner does not know the log.
            OffsetOutOfRange: as Log.explain.
        """
        if self._roster.get(name) is None:
            self._roster.meet()
        care = self._roster.get(name)
        if care is None:
            raise InvalidArgument(f"the cleaner maintains no log {name!r}; see state()")
        return f"{care.log.explain(offset).text} {words(self._shown(care))}"

    def _shown(self, care: Care) -> LogState:
        state = care.state
        return replace(state, doing="paused") if self._paused and state.doing in OVERLAID else state

    @property
    def _stopping(self) -> bool:
        return self._closed or self._paused

    @property
    def _interval_us(self) -> int:
        return round(self._interval * MICROSECONDS)

    def _check_open(self) -> None:
        if self._closed:
            raise InvalidArgument("the cleaner is closed; create a new one")


def _check_positive(name: str, number: float) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise InvalidType(f"{name} must be a number, not {type(number).__name__}")
    if not 0 < number < float("inf"):
        raise InvalidArgument(f"{name} is {number}; it must be a number greater than 0")
