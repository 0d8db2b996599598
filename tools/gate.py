"""Run what decides whether a change lands, and print the time and processor time of each step.

Needs Python alone, because it installs everything else: `python3 -m tools.gate`, which `.ci/run` calls. Every step is
a command that a developer runs, too. Two run at a time, for the tests wait for a disk or another process half of the
time. Exits with 1 if a step fails. A step that takes much longer than before is a warning, never a failure: the speed
of machines differs, so the yardstick is printed beside it.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

WALL_S, PROCESSOR_S = 1500, 1500
"""What all steps together may take."""
YARDSTICK = 10.5
"""GB/s of XXH64 on the machine on which the usual processor times below were measured."""
GROWTH = 1.25
"""How much more than usual a step may take before there is a warning."""
LINGER_S = 30
"""How long the processes that a step leaves behind may take to end."""
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
MEASURE = """
import time, xxhash
data, best = bytes(1 << 26), 9e9
for _ in range(5):
    begun = time.perf_counter()
    xxhash.xxh64_digest(data)
    best = min(best, time.perf_counter() - begun)
print(len(data) / best / 1e9)
"""


class Step(NamedTuple):
    """A command, and the seconds of processor time that it usually takes."""

    name: str
    command: tuple[str, ...]
    usual: float


class Took(NamedTuple):
    """What a step took, in seconds."""

    step: Step
    status: int
    wall: float
    processor: float


def make(target: str, usual: float) -> Step:
    """Return the step that makes a target."""
    return Step(target, ("make", "--no-print-directory", target), usual)


INSTALL = make("install", 80)
LANES = (
    (make("test", 2050),),
    (make("lint", 45), make("site", 20), make("package", 155), make("demo", 90)),
)


def main(arguments: list[str]) -> int:
    """Run the steps, print their table, and return the exit status; with arguments run that command alone."""
    if arguments:
        return with_descendants(arguments)
    begun = time.monotonic()
    took = [run(INSTALL)]
    if took[0].status == 0:
        before = yardstick()
        with ThreadPoolExecutor(len(LANES)) as pool:
            for lane in pool.map(lambda steps: [run(step) for step in steps], LANES):
                took += lane
        print(table(took, time.monotonic() - begun, (before, yardstick())), flush=True)
    return int(any(one.status for one in took))  # a status is negative if a signal ended the step


def run(step: Step) -> Took:
    """Run a step, print its output at its end, and return what it took together with all processes that it started."""
    begun = time.monotonic()
    with tempfile.TemporaryFile() as output:
        command = [sys.executable, "-m", "tools.gate", *step.command]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=output)  # noqa: S603 - of this file
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)  # or Popen would wait for it again
        output.seek(0)
        text = output.read().decode(errors="replace")
    took = Took(step, process.returncode, time.monotonic() - begun, usage.ru_utime + usage.ru_stime)
    print(f"--- {step.name}: status {took.status}\n{text}", flush=True)
    return took


def with_descendants(command: list[str]) -> int:
    """Run a command and wait for all processes that it has started, so that this process has taken what they took.

    A process whose parent ends first, as Spark's JVM, becomes a child of this one. Returns the command's status, or 1
    if one of the processes does not end.
    """
    prctl = getattr(ctypes.CDLL(None), "prctl", None)
    if prctl is not None:
        prctl(SUBREAPER, 1, 0, 0, 0)
    status = subprocess.run(command, check=False).returncode  # noqa: S603 - of this file
    until = time.monotonic() + LINGER_S
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG) == (0, 0):
                time.sleep(0.05)
        except ChildProcessError:  # none is left
            return status
    print(f"{' '.join(command)} has left processes that do not end", flush=True)
    return status or 1


def yardstick() -> float:
    """Return the speed of this machine: GB/s of XXH64 of 64 MiB, the best of five."""
    done = subprocess.run([".venv/bin/python", "-c", MEASURE], stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 - this file's
    return float(done.stdout)


def table(took: list[Took], wall: float, speeds: tuple[float, float]) -> str:
    """Return the steps as a table with the yardstick, and a warning for each that took much more than usual."""
    scale = YARDSTICK / max(speeds)
    processor = sum(one.processor for one in took)
    lines = [f"{'step':10}{'wall':>8}{'processor':>11}{'usual here':>12}"]
    lines += [
        f"{one.step.name:10}{one.wall:7.0f}s{one.processor:10.0f}s{one.step.usual * scale:11.0f}s"
        + ("" if one.status == 0 else f"  status {one.status}")
        for one in took
    ]
    lines.append(f"{'all':10}{wall:7.0f}s{processor:10.0f}s   of at most {WALL_S} s each")
    lines.append(f"yardstick: XXH64 {speeds[0]:.1f} GB/s before, {speeds[1]:.1f} GB/s after the steps")
    grown = [one.step.name for one in took if one.processor > one.step.usual * scale * GROWTH]
    lines += [f"warning: {name} took {GROWTH} times its usual processor time" for name in grown]
    if max(wall, processor) > WALL_S:
        lines.append(f"warning: the gate is to end within {WALL_S} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
