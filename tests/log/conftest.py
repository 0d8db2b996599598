"""Shared by the tests of a log: both storages, a clock that stands still, directories as bytes, processes."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import seglog
from seglog.testing.internals import state_of
from tests import waiting
from tests.waiting import HANG_SECONDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@pytest.fixture(params=["local", "memory"])
def place(request: Any, tmp_path: Path) -> Any:
    """Where a log may be made: a path, or memory."""
    return tmp_path / "orders" if request.param == "local" else seglog.MemoryStorage()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Where a log may be made on the file system."""
    return tmp_path / "orders"


@pytest.fixture
def contents() -> Callable[[Path], dict[str, bytes | None]]:
    """Return the contents of a directory: name -> bytes of every file, None for a directory."""

    def look(directory: Path) -> dict[str, bytes | None]:
        found = sorted(directory.rglob("*"))
        return {str(one.relative_to(directory)): one.read_bytes() if one.is_file() else None for one in found}

    return look


@pytest.fixture
def until() -> Callable[[Callable[[], Any]], None]:
    """Return once a condition holds; fail where it never does."""

    return waiting.until


@pytest.fixture
def is_held() -> Callable[[Any], bool]:
    """Whether another thread is in the middle of a change of a log that is open for writing."""

    def held(log: Any) -> bool:
        if not state_of(log).mutex.acquire(blocking=False):
            return True
        state_of(log).mutex.release()
        return False

    return held


@pytest.fixture
def together() -> Callable[..., None]:
    """Run calls on a thread each, all at once; raise the first error any of them met."""

    def run(*calls: Callable[[], Any]) -> None:
        errors: list[BaseException] = []

        def one(call: Callable[[], Any]) -> None:
            try:
                call()
            except BaseException as error:  # noqa: BLE001 - handed to the test below
                errors.append(error)

        threads = [threading.Thread(target=one, args=(call,), daemon=True) for call in calls]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(HANG_SECONDS)
        assert not any(thread.is_alive() for thread in threads), "a thread hangs"
        if errors:
            raise errors[0]

    return run


class WatchedFile:
    """A file whose writes and syncs can be counted, held up or refused."""

    def __init__(self, file: Any, watched: Watched) -> None:
        self._file = file
        self._watched = watched

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)

    def datasync(self) -> None:
        self._watched.on_sync(self._file.path)
        self._file.datasync()

    def pwrite(self, data: bytes, position: int) -> None:
        self._watched.on_write(self._file.path)
        self._file.pwrite(data, position)


class Watched:
    """A storage that calls `on_sync` before every sync and `on_write` before every write, with the file's path."""

    def __init__(self, storage: Any) -> None:
        self._storage = storage
        self.on_sync: Callable[[str], None] = lambda path: None
        self.on_write: Callable[[str], None] = lambda path: None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    def open(self, name: str, *, writable: bool = False) -> WatchedFile:
        return WatchedFile(self._storage.open(name, writable=writable), self)

    def create(self, name: str, *, replace: bool = False) -> WatchedFile:
        return WatchedFile(self._storage.create(name, replace=replace), self)


@pytest.fixture
def watched(tmp_path: Path) -> Watched:
    return Watched(seglog.LocalStorage(tmp_path / "orders"))


PROCESS = """
import sys, seglog
from itertools import islice
log = seglog.open(sys.argv[1], mode=sys.argv[2], expose=sys.argv[3])
kept = {}
print("ready", flush=True)
for line in sys.stdin:
    try:
        answer = repr(eval(line))
    except Exception as error:
        answer = f"{type(error).__name__}: {error}"
    print(answer.replace(chr(10), " "), flush=True)
"""


class Process:
    """Another process that has the log open as `log`; a call evaluates an expression there and returns its repr."""

    def __init__(self, path: Path, mode: str, expose: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", PROCESS, str(path), mode, expose],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.pid = self._process.pid
        assert self._answer() == "ready"

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().rstrip("\n")

    def __call__(self, expression: str) -> str:
        assert self._process.stdin is not None
        self._process.stdin.write(expression + "\n")
        self._process.stdin.flush()
        return self._answer()

    def kill(self) -> None:
        """kill -9, and wait until it is gone."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture
def process() -> Iterator[Callable[..., Process]]:
    """Start another process at a log; it is gone when the test ends."""
    started: list[Process] = []

    def start(path: Path, mode: str = "r", expose: str = "appended") -> Process:
        started.append(Process(path, mode, expose))
        return started[-1]

    yield start
    for one in started:
        one.kill()


@pytest.fixture
def script(tmp_path: Path) -> Callable[..., str]:
    """Run a program text in a new interpreter and return what it printed; fails where it fails."""

    # not measured: a signal within coverage's own lock leaves that held
    unmeasured = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_PROCESS")}

    def run(text: str, *arguments: object, **environment: str) -> str:
        done = subprocess.run(
            [sys.executable, "-c", text, *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=HANG_SECONDS,
            check=False,
            env={**unmeasured, **environment},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run
