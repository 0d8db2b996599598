"""Reads with a change of the log at any system call that they make. See tests/snapshots.py for the rule."""

from __future__ import annotations

import itertools
import re
import signal
import sys
import traceback
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from socket import socketpair
from subprocess import PIPE, Popen
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import seglog
from seglog.testing.system import FaultySystem
from tests.snapshots import CHANGES, State, filled
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from multiprocessing.connection import Connection

PROOF = "reads beside changes"
FEW = 2
"""How many moments the gate tries for each reader and change."""
APART = 3
"""The proof tries every third system call."""
STOPPED = b"."
"""What a command sends when it has reached the moment of the change, and what it waits for then."""
WHY = re.compile("begin the read again|was truncated|is out of range")


class Beside(FaultySystem):
    """Makes a change at one of the system calls for files below a directory."""

    def __init__(self, root: Path, at: int, change: Callable[[], object]) -> None:
        super().__init__(root)
        self.made = 0
        self._at, self._change, self._changes = at, change, False

    def _meet(self, operation: str, path: str) -> float:
        if self._changes:
            return 1.0
        self.made += 1
        if self.made == self._at:
            self._changes = True
            self._change()
            self._changes = False
        return 1.0


class Setting(NamedTuple):
    """Below which directory the calls of a reader count, and what is done at one of them."""

    where: Path
    change: Callable[[], object]


class History:
    """A log that a change is made to: what it held before, and after each call of the change."""

    def __init__(self, log: seglog.Log) -> None:
        self._log = log
        self.moments = [list(log.scan())]

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._log, name)
        return self._noted(found) if callable(found) else found

    def _noted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def noted(*arguments: Any, **options: Any) -> Any:
            result = call(*arguments, **options)
            if not self._log.closed:
                self.moments.append(list(self._log.scan()))
            return result

        return noted

    def states(self) -> list[State]:
        """Return what the log held at each of these moments."""
        return [[(record.offset, record.key) for record in held] for held in self.moments]

    def lookups(self) -> list[State]:
        """Return the newest record of each of the keys, where it has a value, at each of these moments."""
        latest = [{record.key: record for record in held if record.key != b"last"} for held in self.moments]
        return [newest(one for one in held.values() if one.value is not None) for held in latest]


def rows(table: Any) -> State:
    return list(zip(table["offset"].to_pylist(), table["key"].cast(pa.binary()).to_pylist(), strict=True))


def rows_of(records: Any) -> State:
    return [(record.offset, record.key) for record in records]


def newest(records: Any) -> State:
    return sorted((record.offset, record.key) for record in records if record is not None)


def newest_of(found: State) -> State:
    return sorted({key: (offset, key) for offset, key in found}.values())


# --- the matrix -------------------------------------------------------------------------------------------------------

FULL = pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.proof)], ids=["few", "all"])


def moments(calls: int, *, full: bool) -> list[int]:
    """Return at which calls of a read the change happens."""
    assert calls > FEW, "the read made no calls"
    return list(range(1, calls + 1, APART)) if full else [calls * (part + 1) // (FEW + 1) for part in range(FEW)]


@contextmanager
def log_alone(place: Path, log: Any, change: Callable[[Any], object]) -> Iterator[Setting]:
    yield Setting(place / "log", lambda: change(log))


def first_in_gate(names: Iterable[str]) -> list[Any]:
    """Return parameters of which only the first one is tried in the gate."""
    first, *others = names
    return [first, *(pytest.param(one, marks=pytest.mark.proof) for one in others)]


SOME = first_in_gate(sorted(CHANGES, key="superseded and compacted".__ne__))


class Trials:
    """Reads of one kind beside one change, each on a log of its own."""

    def __init__(
        self,
        root: Path,
        read: Callable[[Path, Path], State],
        change: Callable[[Any], object],
        *,
        setting: Callable[..., AbstractContextManager[Setting]] = log_alone,
        goes_on: bool = False,
        told: tuple[type[Exception], ...] = (),
    ) -> None:
        """goes_on: whether the read is repeated after the change, from where it was. told: further errors by which it
        may end.
        """
        self._root, self._read, self._change, self._setting, self._goes_on = root, read, change, setting, goes_on
        self._told = (seglog.SnapshotExpired, seglog.LogReplaced, *told)
        self._numbers = itertools.count()

    def calls(self) -> int:
        """Return how many system calls a read makes that nothing disturbs."""
        return self.run(0)[2]

    def run(self, at: int) -> tuple[History, State | None, int]:
        """Return the log's history, what was read (None: it expired), and how many calls the read made."""
        place = self._next_place()
        with self._made(place) as log:
            history = self._history_of(log)
            with self._setting(place, history, self._change) as (where, change), Beside(where, at, change) as system:
                found = self._outcome(place)
            if self._goes_on:
                history.sync()
                found = self._outcome(place)
        return history, found, system.made

    def _next_place(self) -> Path:
        place = self._root / str(next(self._numbers))
        place.mkdir()
        return place

    def _made(self, place: Path) -> AbstractContextManager[seglog.Log]:
        """Make the log of a trial, in the directory `log` there."""
        return filled(place / "log")

    def _history_of(self, log: Any) -> Any:
        return History(log)

    def _outcome(self, place: Path) -> State | None:
        try:
            return self._read(place / "log", place)
        except self._told:
            return None
        except pa.ArrowInvalid as error:  # a stream of Arrow's C interface can only tell the text
            assert "SnapshotExpired" in str(error)
            return None


def prove(trials: Trials, is_right: Callable[[History, State], bool], *, full: bool) -> dict[str, int]:
    """Make the change at each moment of a read, which is right or expires; return the counts."""
    steps, expired = moments(trials.calls(), full=full), 0
    for at in steps:
        history, found, _ = trials.run(at)
        assert found is None or is_right(history, found), f"a change at call {at}"
        expired += found is None
    assert expired < len(steps) or not full, "every read has expired"
    return {"interleavings": len(steps), "expired": expired, "violations": 0}


class Elsewhere:
    """A log in another process, with what a `History` of it tells, and changes that are made there on request."""

    closed = False

    def __init__(self, pipe: Connection, place: Path) -> None:
        self._pipe = pipe
        self._ask("fill", str(place / "log"))

    def _ask(self, *order: str) -> Any:
        self._pipe.send(order)
        answer = self._pipe.recv()
        if isinstance(answer, Exception):
            raise answer
        return answer

    def change(self, name: str) -> None:
        """Make a change, and return when it is made."""
        self._ask("change", name)

    def sync(self) -> None:
        """See `Log.sync`."""
        self._ask("sync")

    def states(self) -> list[State]:
        """See `History.states`."""
        found: list[State] = self._ask("states")
        return found

    def lookups(self) -> list[State]:
        """See `History.lookups`."""
        found: list[State] = self._ask("lookups")
        return found


def serve_writer(pipe: Connection) -> None:
    """Write logs in this process as the other end of a pipe asks for it, until it closes. Errors are answers."""
    with suppress(EOFError), ExitStack() as logs:
        while True:
            order, *of = pipe.recv()
            answer = None
            try:
                if order == "fill":
                    logs.close()
                    history = History(logs.enter_context(filled(Path(of[0]))))
                elif order == "change":
                    CHANGES[of[0]](history)
                else:
                    answer = getattr(history, order)()
            except Exception as error:  # noqa: BLE001 - the test raises it
                error.add_note("in the process that writes: " + traceback.format_exc())
                answer = error
            pipe.send(answer)


@contextmanager
def another_process() -> Iterator[Connection]:
    """Start a process that writes; yield what to ask it by."""
    ours, theirs = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=serve_writer, args=(theirs,))
    process.start()
    theirs.close()
    with ours:
        yield ours
    process.join()


class BesideProcess(Trials):
    """Reads of a log that another process writes, which makes the change."""

    def __init__(
        self, root: Path, read: Callable[[Path, Path], State], change: str, pipe: Connection, **options: Any
    ) -> None:
        super().__init__(root, read, lambda log: log.change(change), **options)
        self._pipe = pipe

    @contextmanager
    def _made(self, place: Path) -> Iterator[Any]:
        yield Elsewhere(self._pipe, place)

    def _history_of(self, log: Any) -> Any:
        return log


class BesideCommand(Trials):
    """Commands of seglog without an end, each in a process of its own, beside a change by this one."""

    def __init__(self, root: Path, words: Sequence[str], change: Callable[[Any], object]) -> None:
        """words: of the command; {log} is the log's path. It prints offset and key of each record on a line."""
        super().__init__(root, lambda _path, _scratch: [], change)
        self._words = words

    def run(self, at: int) -> tuple[History, State | None, int]:
        """See Trials.run."""
        place = self._next_place() / "log"
        ours, theirs = socketpair()
        with filled(place) as log, ours, theirs:
            history = History(log)
            words = [word.format(log=place) for word in self._words]
            with Popen(
                [sys.executable, "-m", "tests.beside_program", str(place), str(at), str(theirs.fileno()), *words],
                pass_fds=[theirs.fileno()],
                stdout=PIPE,
                stderr=PIPE,
                text=True,
            ) as process:
                try:
                    theirs.close()
                    ours.settimeout(HANG_SECONDS)
                    if at:
                        assert ours.recv(1) == STOPPED, self._error_of(process)
                        self._change(history)
                        ours.sendall(STOPPED)
                    found = self._printed(process, history.states()[-1][-1])
                    made = ours.recv(20)
                finally:
                    process.kill()
        return history, found, int(made)

    def _printed(self, process: Popen[str], last: tuple[int, bytes | None]) -> State | None:
        """Return what a command prints up to a record, None if it ends with an error that says why."""
        assert process.stdout is not None
        found: State = []
        while not found or found[-1] != last:
            line = process.stdout.readline()
            if not line:
                error = self._error_of(process)
                assert WHY.search(error), error
                return None
            offset, key = line.split()
            found.append((int(offset), key.encode()))
        process.send_signal(signal.SIGINT)
        return found

    @staticmethod
    def _error_of(process: Popen[str]) -> str:
        assert process.stderr is not None
        return process.stderr.read()
