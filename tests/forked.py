"""Servers as real processes, each a fork of one process that has imported what a server imports.

Those imports take most of a second of a processor, and the tests start some hundred servers. A fork differs from a new
process only in what is imported before its program begins: it has its own environment, directory, output and arguments.
Tests that measure the start itself or the coverage of a server use a new process, and so do those of the command line.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PRELOADED = (
    "seglog.cli.commands.serve",
    "seglog.client",
    "seglog.kafka.listener",
    "seglog.server.app",
    "seglog.server.serving",
    "uvicorn.protocols.http.httptools_impl",
    "uvloop",
)
AT_IMPORT = ("SEGLOG", "PYTHON", "NUMBA")
"""Beginnings of the environment variables that a fork cannot change any more, because an import reads them."""
MEASURED = "COVERAGE_PROCESS_CONFIG"
"""Environment variable by which coverage measures the processes that a measured one starts."""
MEASURED_LATER = "MEASURED"
"""The same for a program that begins to measure by itself, once it has imported what it needs."""
LONGEST, MOST_FILES = 1 << 20, 3  # bytes and files of a request
OF_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Environment of a process that forks: a lock that another thread holds would stay locked in the fork."""


def start(command: Sequence[str], env: Mapping[str, str] | None = None) -> Process | subprocess.Popen[str]:
    """Start a program whose output and errors are one stream of text; forked if it is one of this Python's programs."""
    environment = dict(os.environ if env is None else env)
    forkable = hasattr(os, "pidfd_open") and command[0] == sys.executable  # as Linux has
    forkable = forkable and MEASURED not in environment and MEASURED_LATER not in environment
    if not forkable or at_import(environment) != servers().at_import:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    return servers().start(command[1:], environment)


def at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an import reads."""
    return {name: value for name, value in environment.items() if name.startswith(AT_IMPORT)}


class Process:
    """A forked program, with those methods of subprocess.Popen that the tests use."""

    def __init__(self, zygote: Zygote, pid: int, stdout: TextIO) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._zygote = zygote
        self._handle = os.pidfd_open(pid)

    def poll(self) -> int | None:
        """Return the status if the program has ended, negative if by a signal."""
        return self._ended_within(0)

    def wait(self, timeout: float | None = None) -> int:
        """Wait until the program has ended; return its status."""
        status = self._ended_within(timeout)
        if status is None:
            raise subprocess.TimeoutExpired([f"process {self.pid}"], timeout or 0)
        return status

    def communicate(self, timeout: float | None = None) -> tuple[str, None]:
        """Return what else the program says until its end."""
        said = self.stdout.read()
        self.stdout.close()
        self.wait(timeout)
        return said, None

    def send_signal(self, how: int) -> None:
        """Send the program a signal, unless it has ended."""
        if self.poll() is None:
            signal.pidfd_send_signal(self._handle, how)

    def terminate(self) -> None:
        """Ask the program to end."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """End the program."""
        self.send_signal(signal.SIGKILL)

    def _ended_within(self, seconds: float | None) -> int | None:
        if self.returncode is None and select.select([self._handle], [], [], seconds)[0]:
            self.returncode = self._zygote.status_of(self.pid)
            os.close(self._handle)
        return self.returncode


class Zygote:
    """A process that forks: its parent asks it to fork, and with what status a fork has ended.

    Its program calls `forks`. It ends by `close`, at the latest when this process ends.
    """

    def __init__(self, command: Sequence[str | Path], environment: Mapping[str, str]) -> None:
        """Start it; the number of its end of the socket becomes its last argument."""
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [*command, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
                env={**environment, **OF_ONE_THREAD},
            )
        atexit.register(self.close)

    def fork(self, request: Mapping[str, Any], *descriptors: int) -> int:
        """Fork; return the process. It has the request, and these files."""
        return self._ask(request, descriptors)

    def status_of(self, pid: int) -> int:
        """Wait until a fork has ended; return its status, negative if by a signal."""
        return os.waitstatus_to_exitcode(self._ask({"ended": pid}, ()))

    def _ask(self, request: Mapping[str, Any], descriptors: Sequence[int]) -> int:
        with self._turn:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            answer = self._socket.recv(32)
        assert answer, "the process that forks has ended"
        return int(answer)

    def close(self) -> None:
        """Let it end; its forks go on."""
        self._socket.close()
        self._process.wait()


class Servers(Zygote):
    """Has imported what servers import."""

    def __init__(self) -> None:
        self.at_import = at_import(os.environ)
        super().__init__([sys.executable, __file__], os.environ)

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a Python with these arguments."""
        reading, writing = os.pipe()
        request = {"arguments": list(arguments), "environment": dict(environment), "directory": str(Path.cwd())}
        try:
            pid = self.fork(request, writing)
        finally:
            os.close(writing)
        return Process(self, pid, os.fdopen(reading))


@cache
def servers() -> Servers:
    """Return the zygote of this process's servers."""
    return Servers()


# --- in the zygote, and in its forks


def forks(control: int) -> tuple[dict[str, Any], list[int]] | None:
    """Do what the parent asks for; return in each fork, with its request and files, and None in the zygote's end."""
    with socket.socket(fileno=control) as requests:
        while True:
            text, descriptors, _, _ = socket.recv_fds(requests, LONGEST, MOST_FILES)
            if not text:
                return None
            request: dict[str, Any] = json.loads(text)
            if "ended" in request:
                answer = os.waitpid(request["ended"], 0)[1]
            elif not (answer := os.fork()):
                return request, descriptors
            for descriptor in descriptors:
                os.close(descriptor)
            requests.send(b"%d" % answer)


def main() -> None:
    """Import what servers import, then run a program in each fork."""
    for name in PRELOADED:
        import_module(name)
    if (fork := forks(int(sys.argv[1]))) is not None:
        _run(*fork)


def _run(request: Mapping[str, Any], descriptors: list[int]) -> None:
    """Do what Python does with these arguments: `-m MODULE ...` or `-c PROGRAM ...`."""
    (output,) = descriptors
    for standard in (1, 2):
        os.dup2(output, standard)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    how, what, *rest = request["arguments"]
    sys.argv[:] = [how, *rest]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - what a test gives


if __name__ == "__main__":
    main()
