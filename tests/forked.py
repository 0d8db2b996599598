"""Servers as real processes, each a fork of one process that has imported what a server imports.

Those imports take most of a second of a processor, and the tests start some hundred servers. A fork differs from a new
process only in what is imported before its program begins: it has its own environment, directory, output and arguments.
Tests that measure the start itself or the coverage of a server use a new process, and so do those of the command line.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from functools import cache
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
MEASURED = ("MEASURED", "COVERAGE_PROCESS_CONFIG")
"""Environment variables of a program whose coverage is measured from its start on."""
LONGEST = 1 << 20  # bytes of a request to start a program


def start(command: Sequence[str], env: Mapping[str, str] | None = None) -> Process | subprocess.Popen[str]:
    """Start a program whose output and errors are one stream of text; forked if it is one of this Python's programs."""
    environment = dict(os.environ if env is None else env)
    forkable = command[0] == sys.executable and not any(name in environment for name in MEASURED)
    if not forkable or at_import(environment) != nursery().at_import:
        return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment)
    return nursery().start(command[1:], environment)


def at_import(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that an import reads."""
    return {name: value for name, value in environment.items() if name.startswith(AT_IMPORT)}


class Process:
    """A forked program, with those methods of subprocess.Popen that the tests use."""

    def __init__(self, source: Nursery, pid: int, stdout: TextIO) -> None:
        self.pid = pid
        self.stdout = stdout
        self.returncode: int | None = None
        self._nursery = source
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
            self.returncode = self._nursery.status_of(self.pid)
            os.close(self._handle)
        return self.returncode


class Nursery:
    """The process that forks, and what it is asked: to start a program, and with what status one has ended."""

    def __init__(self) -> None:
        self.at_import = at_import(os.environ)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, __file__, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdout=subprocess.DEVNULL,
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},  # a process of one thread can be forked
            )
        atexit.register(self.close)

    def close(self) -> None:
        """Let the nursery end; what it has started goes on."""
        self._socket.close()
        self._process.wait()

    def start(self, arguments: Sequence[str], environment: Mapping[str, str]) -> Process:
        """Start a Python with these arguments."""
        reading, writing = os.pipe()
        request = {"arguments": list(arguments), "environment": dict(environment), "directory": str(Path.cwd())}
        try:
            pid = self._ask(request, [writing])
        finally:
            os.close(writing)
        return Process(self, pid, os.fdopen(reading))

    def status_of(self, pid: int) -> int:
        """Return the status of a program that has ended."""
        return os.waitstatus_to_exitcode(self._ask({"ended": pid}, []))

    def _ask(self, request: Mapping[str, Any], descriptors: list[int]) -> int:
        with self._turn:
            socket.send_fds(self._socket, [json.dumps(request).encode()], descriptors)
            return int(self._socket.recv(32))


@cache
def nursery() -> Nursery:
    """Return this process's nursery; it ends with this process."""
    return Nursery()


def main() -> None:
    """Import what servers import; then answer requests, and in each fork run a program."""
    import importlib  # noqa: PLC0415 - of the nursery alone

    for name in PRELOADED:
        importlib.import_module(name)
    with socket.socket(fileno=int(sys.argv[1])) as requests:
        request = _answer(requests)
    if request is not None:
        _run(request["arguments"])


def _answer(requests: socket.socket) -> dict[str, Any] | None:
    """Answer requests; return the one to carry out in a fork, and None once nobody can ask any more."""
    while True:
        text, descriptors, _, _ = socket.recv_fds(requests, LONGEST, 1)
        if not text:
            return None
        request: dict[str, Any] = json.loads(text)
        if "ended" in request:
            requests.send(b"%d" % os.waitpid(request["ended"], 0)[1])
            continue
        pid = os.fork()
        if pid == 0:
            for standard in (1, 2):
                os.dup2(descriptors[0], standard)
            os.close(descriptors[0])
            os.environ.clear()
            os.environ.update(request["environment"])
            os.chdir(request["directory"])
            return request
        os.close(descriptors[0])
        requests.send(b"%d" % pid)


def _run(arguments: list[str]) -> None:
    """Do what Python does with these arguments: `-m MODULE ...` or `-c PROGRAM ...`."""
    import runpy  # noqa: PLC0415 - of the nursery alone

    how, what, *rest = arguments
    sys.argv[:] = [how, *rest]
    if how == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})  # noqa: S102 - what a test gives


if __name__ == "__main__":
    main()
