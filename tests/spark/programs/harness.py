"""What the programs here share: topics, a Spark driver in a session of its own, and ways to end it."""

from __future__ import annotations

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import seglog
from seglog.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HERE = Path(__file__).parent
PATIENCE = 600.0  # seconds; what takes longer than this on any machine hangs
POLL = 0.03  # seconds between two looks at a condition
SMALL = seglog.LogConfig(segment_bytes=8192)


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Return as soon as a condition holds; AssertionError, which says what was waited for, after `PATIENCE`."""
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for: {what}"
        time.sleep(POLL)


class Session:
    """A program in a session of its own, so that whatever it starts (Java, Python workers) can be found and ended.

    Its standard output is read line by line; a program that watches its input ends with the process that started it.
    """

    def __init__(self, program: list[str], environment: dict[str, str] | None = None) -> None:
        self.process = subprocess.Popen(
            program,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        self._lines: queue.Queue[str] = queue.Queue()
        assert self.process.stdout is not None
        threading.Thread(target=self._read, args=(self.process.stdout,), daemon=True).start()

    def _read(self, output: TextIO) -> None:
        for line in output:
            self._lines.put(line.strip())

    def lines(self) -> list[str]:
        """Return what it has printed since the last call."""
        found = []
        while not self._lines.empty():
            found.append(self._lines.get())
        return found

    def ended(self) -> bool:
        """Tell whether the program itself has ended."""
        return self.process.poll() is not None

    def members(self) -> dict[int, str]:
        """Return process id -> command of all that is alive in the session."""
        found = {}
        for entry in Path("/proc").iterdir():
            try:
                if entry.name.isdecimal() and os.getsid(int(entry.name)) == self.process.pid:
                    state = (entry / "stat").read_text().rpartition(")")[2].split()[0]
                    if state != "Z":
                        found[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except (ProcessLookupError, FileNotFoundError):
                continue
        return found

    def kill(self, *processes: int) -> None:
        """kill -9 of some of its processes; without any, of all."""
        for process in processes or self.members():
            try:
                os.kill(process, signal.SIGKILL)
            except ProcessLookupError:
                continue

    def kill_all(self) -> None:
        """kill -9 until nobody is left."""
        while self.members():
            self.kill()
        self.process.wait()

    def wait_until_gone(self) -> None:
        """Wait until all of it has ended by itself."""
        wait_until(lambda: self.ended() and not self.members(), "the end of a Spark")


@contextmanager
def session(program: list[str], environment: dict[str, str] | None = None) -> Iterator[Session]:
    """Run a program; whatever happens, none of its processes outlives the block."""
    running = Session(program, environment)
    try:
        yield running
    finally:
        running.kill_all()


@contextmanager
def driver(name: str, *arguments: str | Path, control: Path | None = None) -> Iterator[Session]:
    """Run one of the Spark programs beside this module; control: what `faults` is to do, see there."""
    environment = {}
    if control is not None:
        paths = [str(HERE / "faults"), os.environ.get("PYTHONPATH", "")]
        environment = {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "SEGLOG_TEST_CONTROL": str(control)}
    with session([sys.executable, str(HERE / name), *map(str, arguments)], environment) as running:
        yield running


def end_with_parent() -> None:
    """In a driver: end everything of this session once the process that started it is gone."""

    def watch() -> None:
        sys.stdin.read()
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, daemon=True).start()


def end_cleanly() -> None:
    """Let `terminate` end this process as an exception does: what it has started is ended, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))


def say(**values: object) -> None:
    """Print one line of JSON, at once."""
    sys.stdout.write(json.dumps(values) + "\n")
    sys.stdout.flush()


# --- what must be true of a topic that a sink has written to ------------------------------------------------------


def stored(path: Path) -> list[list[seglog.Record]]:
    """Return the records of each partition."""
    with Topic.open(path, mode="r") as topic:
        return [list(topic.partition(number).scan()) for number in range(topic.partitions)]


def count(path: Path) -> int:
    """Return how many records a topic has."""
    with Topic.open(path, mode="r") as topic:
        return sum(topic.partition(number).next_offset for number in range(topic.partitions))


def left_over(path: Path) -> list[str]:
    """Return what is staged, set aside, or committed and not finished, in a topic."""
    stages = [stage for staging in path.glob("*/staging") for batch in staging.iterdir() for stage in batch.iterdir()]
    return [str(found.relative_to(path)) for found in [*stages, *path.glob("*/quarantine/*"), *path.glob("txn/*")]]


def check_sound(path: Path) -> None:
    """AssertionError unless every byte is sound and opening for writing finds nothing to mend."""
    with Topic.open(path) as topic:
        for number in range(topic.partitions):
            log = topic.partition(number)
            assert log.verify().ok, f"partition {number} is damaged"
            assert not log.recovery.damaged, log.recovery.events
    assert left_over(path) == [], left_over(path)
