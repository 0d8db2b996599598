"""The range: a real `seglog serve`, attackers as processes of their own, and what is measured from outside.

Resident memory is read from /proc every 20 ms. A prober, again a process, asks `/ready` on one connection about 50
times a second, appends a record now and then, and reports how long each answer took. A second prober does the same with
a server that is not attacked.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.attack.clients import ATTACKS, Attack
from tests.attack.place import MIB
from tests.attack.probe import CONNECTED
from tests.tls import certify
from tests.waiting import until

NICE = 19  # attackers stand for other machines: they must take no processor time that the server could use
AFTER = 1.0  # seconds that are measured before an attack begins and after it has ended


@dataclass
class Measured:
    """What one attack came to. Memory in bytes, times in seconds; statuses of the prober's appends, by status.

    failed: exceptions of the prober, by name.
    """

    memory: int = 0
    at_rest: int = 0
    asked: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    p50: float = 0.0
    p99: float = 0.0
    bystander_p99: float = 0.0
    slowest: float = 0.0
    append_p50: float = 0.0
    append_p99: float = 0.0
    appends: dict[str, int] = field(default_factory=dict)
    said: str = ""

    def __str__(self) -> str:
        appended, failed = _counts(self.appends), _counts(self.failed) or 0
        return (
            f"RSS {self.memory / MIB:.0f} MiB (at rest {self.at_rest / MIB:.0f}), /ready p50 {self.p50 * 1000:.1f}, "
            f"p99 {self.p99 * 1000:.0f} ms (of a server that is not attacked {self.bystander_p99 * 1000:.0f}), "
            f"slowest {self.slowest * 1000:.0f} ms of {self.asked}, failed {failed}; "
            f"appends {appended}, p50 {self.append_p50 * 1000:.0f}, p99 {self.append_p99 * 1000:.0f} ms"
        )


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name}: {count}" for name, count in sorted(counts.items()))


class Range:
    """A server under attack."""

    def __init__(self, directory: Path, attack: Attack) -> None:
        self.directory = directory
        tls = _certificate(directory) if attack.tls else []
        self.tls = attack.tls
        command = [sys.executable, "-m", "seglog", "serve", str(directory / "root"), "--port", "0"]
        if attack.files is not None:
            command = ["prlimit", f"--nofile={attack.files}:{attack.files}", *command]
        self.process = subprocess.Popen(
            [*command, *tls, *attack.options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said: list[str] = []
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line)
            if found := re.search(r"listening on https?://.*:(\d+)", line):
                self.port = int(found[1])
                break
        else:
            raise AssertionError("the server ended: " + "".join(self.said))
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.said.extend(self.process.stdout)

    def memory(self) -> int:
        """Return the bytes that are resident now."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def stop(self) -> str:
        self.process.terminate()
        self.process.wait(60)
        self._reader.join(10)
        self.process.stdout.close()  # type: ignore[union-attr] # it is a pipe
        return "".join(self.said)

    def measure(self, names: Sequence[str], seconds: float) -> Measured:
        """Let the named attackers at it for so many seconds, and measure."""
        found = Measured(at_rest=self.memory())
        with (
            _prober(self.port, seconds, tls=self.tls) as prober,
            self._bystander() as port,
            _prober(port, seconds, tls=False) as other,
        ):
            attackers = [
                subprocess.Popen([sys.executable, "-m", "tests.attack", "attack", name, str(self.port), str(seconds)])
                for name in names
            ]
            try:
                while prober.poll() is None:
                    found.memory = max(found.memory, self.memory())
                    time.sleep(0.02)
            finally:
                for one in attackers:
                    one.kill()
                    one.wait()
            return replace(found, **_reported(prober), bystander_p99=_reported(other)["p99"])

    @contextmanager
    def _bystander(self) -> Iterator[int]:
        port_file = self.directory / "bystander.port"
        with _process("bystander", str(port_file)) as process:
            until(lambda: port_file.exists() or process.poll() is not None)
            yield int(port_file.read_text())
        port_file.unlink()


@contextmanager
def _prober(port: int, seconds: float, *, tls: bool) -> Iterator[subprocess.Popen[str]]:
    """Give a prober whose first request was answered: later connections may be rejected."""
    with _process("probe", str(port), str(seconds + AFTER), "tls" if tls else "plain") as prober:
        assert prober.stdout is not None
        assert prober.stdout.readline().strip() == CONNECTED
        yield prober


def _reported(prober: subprocess.Popen[str]) -> dict[str, Any]:
    assert prober.stdout is not None
    return dict(json.loads(prober.stdout.read()))


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-m", "tests.attack", *arguments], stdout=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()  # type: ignore[union-attr] # it is a pipe


@contextmanager
def a_range(directory: Path, attack: Attack) -> Iterator[Range]:
    """Give a server, and end it."""
    place = Range(directory, attack)
    try:
        yield place
    finally:
        with suppress(ProcessLookupError):
            place.process.kill()
        place.process.wait()


def run(directory: Path, name: str, seconds: float) -> Measured:
    """Start a server, attack it, and return what was measured, with what the server said."""
    with a_range(directory, ATTACKS[name]) as place:
        found = place.measure([name], seconds)
        found.said = place.stop()
    return found


def _certificate(directory: Path) -> list[str]:
    certificate, key = certify(directory)
    return ["--tls-cert", certificate, "--tls-key", key]


def be_another_machine() -> None:
    """Let the server have the processor first."""
    os.nice(NICE)
