"""One warm process that forks others: what it has imported and compiled they need not, so that each costs milliseconds.

It opens no log of a disk and has one thread. `Zygote` is what its parent, a test, holds: a child's lines come through a
pipe, words to it go through another, and its errors, also those of native code, into a file that the parent reads when
the child ends before its time. A child has a session of its own, and dies with the zygote, which dies with the test: by
the kernel (PDEATHSIG) and at the end of its socket. Knows no ledger.
"""

from __future__ import annotations

import contextlib
import ctypes
import faulthandler
import importlib
import json
import os
import select
import signal
import sys
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Protocol, Self

from tests import forked

ROOT = Path(__file__).parents[3]
PATIENCE_SECONDS = 60
MESSAGE_BYTES = 65536
RAISED = 1
"""How a child ends after an error."""
_PDEATHSIG = 1


def die_with_parent() -> None:
    """Be killed when the parent goes."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PDEATHSIG, signal.SIGKILL)


def environment(**more: str) -> dict[str, str]:
    """Return what programs of this folder are started with: they find it, and no library of theirs makes threads."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}
    return {**kept, **forked.OF_ONE_THREAD, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


# --- in the child -----------------------------------------------------------------------------------------------------


class Say:
    """Writes lines of JSON to a pipe, each in one call: what is whole was said."""

    def __init__(self, descriptor: int, heard: int) -> None:
        self._descriptor = descriptor
        self.heard = heard

    def __call__(self, **line: Any) -> None:
        data = json.dumps(line).encode() + b"\n"
        while data:
            data = data[os.write(self._descriptor, data) :]

    def wait(self) -> str:
        """Wait for a word of the parent; "" at the end."""
        return os.read(self.heard, 64).decode()


class Program(Protocol):
    """A module of this folder that a child runs."""

    def run(self, say: Say, request: dict[str, Any]) -> None:
        """Do what it is for, until it is done or killed."""
        ...


def _run(request: dict[str, Any], descriptors: list[int]) -> None:
    """Run the program; end at once, with RAISED after an error."""
    out, heard, errors = descriptors
    code = RAISED
    try:
        os.dup2(errors, sys.stderr.fileno())
        faulthandler.enable()
        os.setsid()
        die_with_parent()
        program: Program = importlib.import_module(f"tests.crash.programs.{request['program']}")
        program.run(Say(out, heard), request)
        code = 0
    except BaseException:  # noqa: BLE001 - whatever it is, its parent must hear of it
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def _warm() -> None:
    from seglog.log.opening import open_log  # noqa: PLC0415 - a test that imports this module needs none of it
    from seglog.storage import MemoryStorage  # noqa: PLC0415 - as above
    from seglog.topic.broker import Broker  # noqa: F401, PLC0415 - loaded, so that children need not
    from seglog.topic.warm import warm_batches  # noqa: PLC0415 - as above
    from tests.crash.programs import broker_writer, log_reader, log_story, log_writer, tokens  # noqa: F401, PLC0415 - as above

    warm_batches()
    with open_log(MemoryStorage(), log_writer.config_of({"segment_bytes": 1024, "keys": 3})) as log:
        for first in range(0, 200, 20):
            log.append_batch(tokens.table_of(range(first, first + 20), 3))
        log.compact(roll=True)
        log.to_arrow()
        assert log.verify().ok


def main() -> None:
    """Fork for the parent, and run a program in each fork."""
    die_with_parent()
    _warm()
    tasks = Path("/proc/self/task")
    assert not tasks.exists() or len(list(tasks.iterdir())) == 1, "a zygote with threads must not fork"
    if (fork := forked.forks(int(sys.argv[1]))) is not None:
        _run(*fork)


# --- in the test ------------------------------------------------------------------------------------------------------


class Child:
    """A forked process as its parent sees it. It is ended at the latest with the zygote's `with`."""

    def __init__(self, zygote: Zygote, program: str, pid: int, lines: int, words: int, errors: IO[bytes]) -> None:
        self._zygote = zygote
        self._program = program
        self._lines = lines
        self._words = words
        self._errors = errors
        self._rest = b""
        self.pid = pid
        self.status: int | None = None

    def say(self, word: str) -> None:
        """Send it a word; AssertionError with its errors if it has ended."""
        try:
            os.write(self._words, word.encode())
        except BrokenPipeError:
            raise AssertionError(self.ending()) from None

    def ending(self) -> str:
        """Wait until it is gone; return how it ended, and its errors."""
        status = self.reap()
        self._errors.seek(0)
        return f"{self._program}, process {self.pid}, ended with {status}: {self._errors.read().decode() or 'no error'}"

    def lines(self) -> Iterator[dict[str, Any]]:
        """Yield its whole lines to the end; AssertionError for an error in it, or if it prints nothing."""
        while True:
            line, found, rest = self._rest.partition(b"\n")
            if found:
                self._rest = rest
                yield json.loads(line)
                continue
            ready, _, _ = select.select([self._lines], [], [], PATIENCE_SECONDS)
            assert ready, f"process {self.pid} has said nothing for {PATIENCE_SECONDS} s"
            data = os.read(self._lines, MESSAGE_BYTES)
            if not data:
                assert self.reap() != RAISED, self.ending()
                return
            self._rest += data

    def answer(self, word: str) -> dict[str, Any]:
        """Send a word and return the next line."""
        self.say(word)
        return self.line()

    def line(self) -> dict[str, Any]:
        """Return the next line; AssertionError with its errors if it has ended."""
        line = next(self.lines(), None)
        assert line is not None, self.ending()
        return line

    def kill(self) -> None:
        """Kill it as the kernel does, with all it has started."""
        with contextlib.suppress(ProcessLookupError):  # before its setsid there is no such group
            os.killpg(self.pid, signal.SIGKILL)
        os.kill(self.pid, signal.SIGKILL)  # not reaped yet, so no other process has this id

    def reap(self) -> int:
        """Wait until it is gone with all its locks; return how it ended, -9 for a kill."""
        if self.status is None:
            self.status = self._zygote.status_of(self.pid)
        return self.status

    def close(self) -> None:
        """End it if it runs, and close its pipes."""
        if self.status is None:
            self.kill()
            self.reap()
        os.close(self._lines)
        os.close(self._words)
        self._errors.close()


class Zygote(forked.Zygote):
    """Starts children. A context manager: all of them end with it."""

    def __init__(self) -> None:
        self._children: list[Child] = []
        super().__init__([sys.executable, "-m", "tests.crash.programs.zygote"], environment())

    def child(self, program: str, **request: Any) -> Child:
        """Start a program of this folder."""
        lines, out = os.pipe()
        heard, words = os.pipe()
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - the child's `close` ends it
        pid = self.fork({"program": program, **request}, out, heard, errors.fileno())
        os.close(out)
        os.close(heard)
        self._children.append(Child(self, program, pid, lines, words, errors))
        return self._children[-1]

    def forget(self, child: Child) -> None:
        """Let go of a child that is not needed any more."""
        self._children.remove(child)
        child.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            for child in self._children:
                child.close()
        finally:
            self.close()


if __name__ == "__main__":
    main()
