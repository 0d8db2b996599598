"""The cleaner: looks after many logs by one thread, and tells what it does.

A round looks at every log (what retention no longer keeps goes, and what is due is found), then compacts those that are
due, the dirtiest first, each once. The thread begins a round when the interval has passed, or when a log's figures say
that time alone makes something due before: a quiet log rolls, a tombstone's time comes.

One compaction runs at a time: two would share the same disk, and the rate is for all of them together. So a log that
becomes due waits for the one under way. Expiry does not: whenever a compaction asks whether it is to end (with every
window it reads, or 20 times a second while it keeps to a rate), the other logs whose time has come are looked at. The
log that is being compacted is looked at after its own pass, as expiring its segments would end it in vain.

Which log, and when: `timing`, pure. What is done to one log, and what an error means: `care`. Nothing durable stands
here: what was compacted is known to the logs' manifests, so a new cleaner goes on where the last one ended.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Self

from seglog.clock import Clock, system_clock
from seglog.errors import InvalidArgument, InvalidType
from seglog.forks import Inheritable
from seglog.topic.cleaning.care import Care
from seglog.topic.cleaning.roster import Roster
from seglog.topic.cleaning.state import Event, LogState, words
from seglog.topic.cleaning.telling import Teller
from seglog.topic.cleaning.timing import MICROSECONDS, Retry, dirtiest, is_over
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from types import TracebackType

    from seglog.log.log import Log
    from seglog.topic.topic import Topic

    Logs = Mapping[str, Log]

OVERLAID = frozenset({"idle", "waiting", "retrying"})  # what a log does not go on with while all is paused


class Cleaner(Inheritable, Uncopied):
    """Retention and compaction of many logs that this process writes. A context manager; safe for threads.

    `start` has a thread do the work until `close`; without it `run_once` does one round in the calling thread.
    """

    def __init__(
        self,
        logs: Logs | Callable[[], Logs],
        *,
        interval: float = 15.0,
        bytes_per_second: float | None = None,
        clock: Clock = system_clock,
        retry_first: float = 1.0,
        retry_most: float = 300.0,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """Take logs, name -> log open for writing, or a call that returns such: asked often, as logs come and go.

        interval: seconds between two looks at a log at most. bytes_per_second: of reading and writing, for all
        compactions together; None: no limit. clock: as that of the logs. retry_first, retry_most: seconds to wait after
        a failure, doubled with each in a row from the one to the other. on_event: called with all that was done, by the
        thread that did it; it may use the cleaner but for `run_once`. InvalidArgument, InvalidType.
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
        self._changed = threading.Condition()  # guards the flags, and the thread waits by it
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
        """The rate of reading and writing of all compactions, None: no limit. A new one holds from the next on."""
        return self._bytes_per_second

    @bytes_per_second.setter
    def bytes_per_second(self, rate: float | None) -> None:
        if rate is not None:
            _check_positive("bytes_per_second", rate)
        self._bytes_per_second = rate

    # --- the thread -------------------------------------------------------------------------------------------------

    def start(self) -> Self:
        """Let a thread do the rounds. A second call does nothing; InvalidArgument once the cleaner is closed."""
        self._check_not_inherited("cleaner")
        with self._changed:
            self._check_open()
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="seglog-cleaner", daemon=True)
                self._thread.start()
        return self

    def close(self) -> None:
        """End at once; the logs stay open. A compaction under way stops, and its log is as it was.

        Returns once the thread has ended. A second call does nothing.
        """
        with self._changed:
            self._closed = True
            self._changed.notify_all()
            thread = self._thread
        if thread is not None and not self._tell.is_telling:
            thread.join()

    def wake(self) -> None:
        """Let the thread look at all logs now."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()

    def pause(self) -> None:
        """Begin nothing more until `resume`; a compaction under way stops, and its log is as it was."""
        with self._changed:
            self._paused = True

    def resume(self) -> None:
        """Go on after `pause`, and look at all logs now."""
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
            with suppress(InvalidArgument):  # closed in the moment between
                self.run_once()

    def _wait(self) -> bool:
        """Return True once it is time for a round, False when there will be none any more."""
        with self._changed:
            while not self._closed:
                now = self._clock()
                if not self._paused and (self._woken or is_over(*self._again, now)):
                    return True
                # Never longer than the interval, so that a clock that is put forward is noticed.
                left = min((self._again[1] - now) / MICROSECONDS, self._interval, threading.TIMEOUT_MAX)
                self._changed.wait(None if self._paused else left)
            return False

    # --- a round ----------------------------------------------------------------------------------------------------

    def run_once(self) -> tuple[Event, ...]:
        """Do one round in this thread and return what was done; waits for one that is under way.

        What fails is told and shown by `state`, never raised. Nothing is done while paused. InvalidArgument once closed
        and within on_event.
        """
        if self._tell.is_telling:
            raise InvalidArgument("on_event belongs to a round: it cannot ask for another one, `wake` can")
        self._check_not_inherited("cleaner")
        with self._round:
            self._check_open()
            self._tell.events = []
            self._woken = False
            self._look(lambda _care: True)
            tried: set[str] = set()
            while not self._stopping and (care := self._next(tried)) is not None:
                tried.add(care.name)
                self._compact(care)
            self._plan_look()
            now = self._clock()
            self._woken |= any(care.is_due_again(now) for care in self._roster.cares())
            return tuple(self._tell.events)

    def _next(self, tried: set[str]) -> Care | None:
        """Return the log to compact next: one that had its turn in this round waits for the next."""
        now = self._clock()
        due = {care.name: care.due(now) for care in self._roster.cares() if care.name not in tried}
        name = dirtiest({name: standing for name, standing in due.items() if standing is not None})
        return None if name is None else self._roster.get(name)

    def _compact(self, care: Care) -> None:
        self._plan_look(care)

        def abort() -> bool:
            self._look_beside(care)
            return self._stopping

        care.compact(abort=abort, bytes_per_second=self._bytes_per_second)

    def _look_beside(self, busy: Care) -> None:
        """Look at the other logs whose time has come. Two threads of a compaction may ask; one of them does it."""
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
        """Look at some of the logs that there are now."""
        self._meet()
        for care in self._roster.cares():
            if self._stopping:
                return
            if wanted(care):
                care.look()

    def _plan_look(self, busy: Care | None = None) -> None:
        """Set when to look again at a log other than `busy`."""
        now, interval = self._clock(), self._interval_us
        looks = (care.next_look(interval) for care in self._roster.cares() if care is not busy)
        self._again = (now, min([now + interval, *(at for at in looks if at is not None)]))

    def _meet(self) -> None:
        """Take in which logs there are; where the caller cannot tell, those known so far are looked after."""
        try:
            self._roster.meet()
        except Exception as error:  # noqa: BLE001 - the caller's code; it is told, and asked again at the next look
            text = f"it could not be told which logs there are: {type(error).__name__}: {error}"
            self._tell(Event(at=self._clock(), name="", what="failed", text=text))

    def _new(self, name: str, log: Log) -> Care:
        return Care(name, log, clock=self._clock, retry=self._retry, tell=self._tell)

    # --- what is known ----------------------------------------------------------------------------------------------

    def state(self) -> tuple[LogState, ...]:
        """Return where every log stands, in the order in which they are named; touches no log."""
        return tuple(self._shown(care) for care in self._roster.cares())

    def explain(self, name: str, offset: int) -> str:
        """Say why a record is still in a log (or is not), and what the cleaner is about to do there.

        InvalidArgument for a log that the cleaner does not know; else raises as Log.explain.
        """
        if self._roster.get(name) is None:
            self._roster.meet()
        care = self._roster.get(name)
        if care is None:
            raise InvalidArgument(f"the cleaner looks after no log {name!r}")
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
            raise InvalidArgument("the cleaner is closed; make a new one")


def _check_positive(name: str, number: float) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, float)):
        raise InvalidType(f"{name} must be a number, not {type(number).__name__}")
    if not 0 < number < float("inf"):
        raise InvalidArgument(f"{name} is {number}; it must be a number greater than 0")
