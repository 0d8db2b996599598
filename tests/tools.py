"""The programs outside the virtual environment that some tests run: how to find them, and how to install them.

`python -m tests.tools` (part of `make test`) installs what is missing: with the system's package manager if this user
may run it, and the browser otherwise with playwright's installer. It never fails. A test whose program is missing all
the same is skipped, and pytest reports these skips in one line at its end. With SEGLOG_REQUIRE_TOOLS set, as in CI,
such a test fails instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from typing import TYPE_CHECKING, NoReturn

import pytest

from seglog.spark import java

if TYPE_CHECKING:
    from collections.abc import Iterable

REQUIRED = "SEGLOG_REQUIRE_TOOLS"
PROGRAMS = {  # tool -> the names that its program may have, the first that is found counts
    "bash": ("bash",),
    "chromium": ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"),
    "curl": ("curl",),
    "kcat": ("kcat",),
    "linker": ("cc", "gcc", "clang", "ld", "ld.lld"),
    "maven": ("mvn",),
    "openssl": ("openssl",),
    "prlimit": ("prlimit",),
    "strace": ("strace",),
    "systemd-analyze": ("systemd-analyze",),
    "unshare": ("unshare",),
}
PACKAGES = {"linker": "binutils", "prlimit": "util-linux", "unshare": "util-linux"}  # not named like the tool
LINUX_ONLY = {"prlimit", "strace", "unshare"}
OPTIONAL = {"kcat", "maven", "systemd-analyze"}  # neither installed nor required
MANAGERS = {  # program of the package manager -> its commands; the packages follow the last one
    "apt-get": (
        ("apt-get", "update", "-qq", "-o", "Acquire::http::Timeout=30"),
        ("apt-get", "install", "-y", "-qq", "--no-install-recommends", "-o", "DPkg::Lock::Timeout=120"),
    ),
    "dnf": (("dnf", "install", "-y", "-q"),),
    "pacman": (("pacman", "-Sy", "--noconfirm", "--needed"),),
}
BROWSER = "chromium"
SECONDS = 600  # the longest that one command of an installation may take
_REASON = "needs {tool}: {why}"
_SKIPPED = re.compile(r"needs ([\w-]+): ")


def find(tool: str) -> str | None:
    """Return the path of the tool's program, None if it is not installed. `make` installs Java into the environment."""
    if tool == "java":
        home = java.system_java_home()
        return str(home / "bin" / "java") if home else str(java.packaged_java() or "") or None
    return next((path for name in PROGRAMS[tool] if (path := shutil.which(name))), None)


def require(*tools: str) -> None:
    """Skip the test that is being set up if one of the tools is not installed; fail it if tools are required."""
    for tool in tools:
        if find(tool) is None:
            (forbidden if tool in OPTIONAL else missing)(tool, "it is not installed")


def missing(tool: str, why: str) -> NoReturn:
    """Skip this test, or fail it if tools are required: the tool cannot be used, for this reason."""
    reason = _REASON.format(tool=tool, why=why)
    if os.environ.get(REQUIRED):
        pytest.fail(f"{reason} ({REQUIRED} is set)", pytrace=False)
    pytest.skip(reason)


def forbidden(tool: str, why: str) -> NoReturn:
    """Skip this test, also if tools are required: the tool is installed, but this machine does not let it work."""
    pytest.skip(_REASON.format(tool=tool, why=why))


def summary(reasons: Iterable[str]) -> str:
    """Return one line that counts the skipped tests by tool, "" if no test was skipped for want of a tool."""
    counts = Counter(found[1] for reason in reasons if (found := _SKIPPED.search(reason)))
    if not counts:
        return ""
    listed = ", ".join(f"{tool} ({count} test{'s' if count > 1 else ''})" for tool, count in sorted(counts.items()))
    return f"skipped because a tool is missing or not permitted here: {listed}; `make tools` tries to install them"


def install(tools: list[str]) -> None:
    """Install the tools with the first package manager that is found here and that this user may run."""
    names = sorted({PACKAGES.get(tool, tool) for tool in tools})
    manager = next((name for name in MANAGERS if shutil.which(name)), None)
    prefix = _as_root()
    if manager is None or prefix is None:
        return
    *before, last = MANAGERS[manager]
    for command in before:
        _run([*prefix, *command])
    if not _run([*prefix, *last, *names]):
        for name in names if len(names) > 1 else []:  # one that this system does not have must not stop the others
            _run([*prefix, *last, name])


def _as_root() -> list[str] | None:
    """Return what to put before a command so that it runs as root without asking; None if that is impossible."""
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if shutil.which("sudo") and _run(["sudo", "-n", "true"]) else None


def _run(command: list[str]) -> bool:
    """Run a command that asks nothing; return whether it succeeded, show what it printed if not."""
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            env=environment,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"{command[0]}: {error}", file=sys.stderr)
        return False
    if done.returncode:
        print(f"{' '.join(command)}: status {done.returncode}\n{(done.stderr or done.stdout)[-500:]}", file=sys.stderr)
    return done.returncode == 0


def main() -> None:
    """Install what is missing where possible, and report what is still missing."""
    here = [tool for tool in PROGRAMS if tool not in OPTIONAL and (sys.platform == "linux" or tool not in LINUX_ONLY)]
    if absent := [tool for tool in here if find(tool) is None]:
        print(f"installing for the tests: {', '.join(absent)}", flush=True)
        install(absent)
    absent = [tool for tool in here if find(tool) is None]
    if BROWSER in absent and _run([sys.executable, "-m", "playwright", "install", "--only-shell", "chromium"]):
        absent.remove(BROWSER)
    if absent:
        print(f"not available, tests that need them will be skipped: {', '.join(absent)}", flush=True)


if __name__ == "__main__":
    main()
