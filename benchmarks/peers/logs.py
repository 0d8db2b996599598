"""Logs that other languages have as libraries, each called by a program of benchmarks/ that is built once.

hashicorp's raft-wal (Go), tikv's raft-engine (Rust), Chronicle Queue (Java), and, as the least that a durable append
can cost, pwrite with fdatasync in C. Each program prints the seconds of its own calls, without those of its start.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks.peers.tools import BENCHMARKS, CACHE, jars, made, skip

RAFT_WAL, RAFT_ENGINE, CHRONICLE, RAW = "raft-wal", "raft-engine", "Chronicle Queue", "pwrite + fdatasync in C"
RAW_WAYS = {RAW: "grow", "the same, file allocated": "allocate", "the same, file zeroed": "zeros", "O_DSYNC": "dsync"}
JAVA_OPENS = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-exports=jdk.unsupported/sun.misc=ALL-UNNAMED",
    "--add-exports=jdk.compiler/com.sun.tools.javac.file=ALL-UNNAMED",
    "--add-opens=jdk.compiler/com.sun.tools.javac=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED",
    "--add-opens=java.base/java.io=ALL-UNNAMED",
    "--add-opens=java.base/java.util=ALL-UNNAMED",
    "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)
"""What Chronicle Queue asks for on Java 11 and later."""


class Ran(NamedTuple):
    """What a program printed. seconds: of all calls; each: of every call, if a call has one record."""

    seconds: float
    each: tuple[float, ...]


class Program:
    """A peer's program: its calls with records of one size."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._command = [*command]

    def append(self, place: Path, value_bytes: int, records: int, *more: object) -> Ran:
        """Append records to a new log at a place, and leave it there. more: what else the program asks for."""
        return self._run("append", place, value_bytes, records, *more)

    def get(self, place: Path, value_bytes: int, records: int) -> Ran:
        """Read records at random from the log that `append` left."""
        return self._run("get", place, value_bytes, records)

    def read(self, place: Path, value_bytes: int, records: int) -> Ran:
        """Read records in order from the log that `append` left."""
        return self._run("read", place, value_bytes, records)

    def _run(self, *arguments: object) -> Ran:
        done = subprocess.run([*self._command, *map(str, arguments)], check=True, capture_output=True, text=True)
        printed = json.loads(done.stdout)
        return Ran(printed["seconds"], tuple(printed.get("each", ())))


class RawProgram(Program):
    """pwrite and fdatasync, which knows no other call. how: see rawsync.c."""

    def __init__(self, name: str, command: Sequence[str], how: str) -> None:
        super().__init__(name, command)
        self._how = how

    def append(self, place: Path, value_bytes: int, records: int, *_more: object) -> Ran:
        """Append records of `value_bytes` in all."""
        return self._run(place, value_bytes, records, self._how)


def raft_wal() -> Program | None:
    """Return the program that calls raft-wal; None, with a word, where it cannot be built."""
    return _built(RAFT_WAL, "go", lambda go, target: [go, "build", "-o", str(target), "."], "raftwal", {})


def raft_engine() -> Program | None:
    """Return the program that calls raft-engine; None, with a word, where it cannot be built."""
    directory = CACHE / "raftengine"
    command = ["build", "--release", "--quiet"]
    return _built(
        RAFT_ENGINE,
        "cargo",
        lambda cargo, _: [cargo, *command],
        "raftengine",
        {"CARGO_TARGET_DIR": str(directory)},
        directory / "release" / "raftengine-peer",
    )


def raw_syncs() -> list[RawProgram]:
    """Return pwrite with fdatasync in C, in all ways; none, with a word, where there is no compiler."""
    found = _built(RAW, "cc", lambda cc, target: [cc, "-O2", "-o", str(target), "rawsync.c"], "rawsync", {})
    return [] if found is None else [RawProgram(name, found._command, how) for name, how in RAW_WAYS.items()]


def chronicle() -> Program | None:
    """Return Chronicle Queue, as Java runs it from its source; None, with a word, where it cannot be had."""
    if (java := shutil.which("java")) is None or shutil.which("javac") is None:
        skip(CHRONICLE, "there is no JDK")
        return None
    if (found := jars("chronicle", "chronicle/pom.xml")) is None:
        return None
    command = [java, *JAVA_OPENS, "-Dchronicle.analytics.disable=true", "-cp", f"{found}/*"]
    return Program(CHRONICLE, [*command, str(BENCHMARKS / "chronicle" / "Append.java")])


def _built(
    name: str,
    compiler: str,
    command: Callable[[str, Path], list[str]],
    folder: str,
    environment: dict[str, str],
    target: Path | None = None,
) -> Program | None:
    """Build the program of a folder of benchmarks/, if its sources are newer than what was built before."""
    found, target = shutil.which(compiler), target or CACHE / "bin" / f"{folder}-peer"
    if found is None:
        skip(name, f"{compiler} is not installed")
        return None
    sources = [path for path in (BENCHMARKS / folder).rglob("*") if path.is_file()]
    if target.exists() and all(path.stat().st_mtime < target.stat().st_mtime for path in sources):
        return Program(name, [str(target)])
    target.parent.mkdir(parents=True, exist_ok=True)
    if not made(name, command(found, target), {**os.environ, **environment}, BENCHMARKS / folder):
        return None
    os.utime(target)  # a compiler that had nothing to do keeps the old time
    return Program(name, [str(target)])
