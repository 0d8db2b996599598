"""Reads with a change of the log at any system call that they make. See tests/snapshots.py for the rule."""

from __future__ import annotations

import itertools
from contextlib import ExitStack, contextmanager, suppress
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pytest

import seglog
from seglog.testing.system import FaultySystem
from tests.snapshots import CHANGES, State, filled

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from contextlib import AbstractContextManager
    from multiprocessing.connection import Connection

PROOF = "reads beside changes"
FEW = 2
"""How many moments the gate tries for each reader and change."""
APART = 3
"""The proof tries every third system call."""


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
    ) -> None:
        """goes_on: whether the read is repeated after the change, from where it was."""
        self._root, self._read, self._change, self._setting, self._goes_on = root, read, change, setting, goes_on
        self._numbers = itertools.count()

    def calls(self) -> int:
        """Return how many system calls a read makes that nothing disturbs."""
        return self.run(0)[2]

    def run(self, at: int) -> tuple[History, State | None, int]:
        """Return the log's history, what was read (None: it expired), and how many calls the read made."""
        place = self._next_place()
        with self._made(place) as log:
            history = History(log)
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

    def _outcome(self, place: Path) -> State | None:
        try:
            return self._read(place / "log", place)
        except (seglog.SnapshotExpired, seglog.LogReplaced):
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
        return self._pipe.recv()

    def change(self, name: str) -> None:
        """Make a change, and return when it is made."""
        self._ask("change", name)

    def states(self) -> list[State]:
        """Return what the log has held."""
        found: list[State] = self._ask("states")
        return found


def serve_writer(pipe: Connection) -> None:
    """Write logs in this process as the other end of a pipe asks for it, until it closes."""
    with suppress(EOFError), ExitStack() as logs:
        while True:
            order, *of = pipe.recv()
            if order == "fill":
                logs.close()
                history = History(logs.enter_context(filled(Path(of[0]))))
            elif order == "change":
                CHANGES[of[0]](history)
            pipe.send(history.states() if order == "states" else None)


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

    def __init__(self, root: Path, read: Callable[[Path, Path], State], change: str, pipe: Connection) -> None:
        super().__init__(root, read, lambda log: log.change(change))
        self._pipe = pipe

    def run(self, at: int) -> tuple[Any, State | None, int]:
        """See Trials.run."""
        place = self._next_place()
        log = Elsewhere(self._pipe, place)
        with Beside(place / "log", at, lambda: self._change(log)) as system:
            found = self._outcome(place)
        return log, found, system.made
