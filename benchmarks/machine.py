"""The machine and the software of a run: facts for interpreting a ratio. Measures nothing."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from collections.abc import Iterable
from importlib import metadata
from pathlib import Path

HERE = Path(__file__).parent
LIBRARIES = ("numba", "numpy", "pyarrow", "pyspark", "xxhash")

Facts = dict[str, str | int]


def machine() -> Facts:
    """Return processor, cores, memory (GiB), kernel, Python, and the relevant libraries."""
    return {
        "cpu": _processor(),
        "cores": os.cpu_count() or 1,
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "kernel": f"{platform.system()} {_number(platform.release())}",
        "python": platform.python_version(),
        **versions(LIBRARIES),
    }


def versions(packages: Iterable[str]) -> dict[str, str]:
    """Return the versions of those Python packages that are installed."""
    found = {}
    for name in packages:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def commit() -> str:
    """Return the measured commit, followed by "+" if sources differ from it; "" outside of git."""
    try:
        name = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", "src", "benchmarks")
    except (OSError, subprocess.CalledProcessError):
        return ""
    return name + ("+" if changed else "")


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=HERE.parent, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _processor() -> str:
    """Return the processor's name from Linux, on other systems from Python."""
    try:
        found = re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return found[1] if found else platform.processor() or platform.machine()


def _number(release: str) -> str:
    found = re.match(r"[\d.]+", release)
    return found[0] if found else release
