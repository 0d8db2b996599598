"""Sources of suites, fetched once into .bench/suites/ by the ordinary clients of their registries."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from benchmarks.peers.tools import CACHE

from tests.kafka.suites.sides import Missing, needed

PLACE = CACHE / "suites"
SECONDS = 1800.0


def run(command: Sequence[object], *, cwd: Path | None = None, env: Mapping[str, str] | None = None) -> str:
    """Run a program of a preparation; return what it prints.

    Raises:
        Missing: It is not installed, or failed.
    """
    words = [str(word) for word in command]
    needed(words[0])
    done = subprocess.run(
        words, cwd=cwd, env={**os.environ, **(env or {})}, capture_output=True, text=True, timeout=SECONDS, check=False
    )
    if done.returncode:
        raise Missing(f"{' '.join(words[:3])}: {(done.stderr or done.stdout).strip()[-800:]}")
    return done.stdout


def once(name: str, make: Callable[[Path], None]) -> Path:
    """Return .bench/suites/NAME, which `make` fills if it does not exist: complete, or not there."""
    target = PLACE / name
    if not target.is_dir():
        print(f"({name}: fetched and built in .bench/suites/, once)", flush=True)
        growing = PLACE / f"{name}.growing"
        shutil.rmtree(growing, ignore_errors=True)
        growing.mkdir(parents=True)
        make(growing)
        growing.rename(target)
    return target


def npm(package: str, directory: Path) -> Path:
    """Unpack a package of npm; return its directory."""
    run(["npm", "pack", "--silent", package], cwd=directory)
    [archive] = directory.glob("*.tgz")
    _unpack(archive, directory)
    return directory / "package"


def sdist(name: str, version: str, directory: Path) -> Path:
    """Unpack the source distribution of a Python package; return its directory."""
    run(
        [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:", f"{name}=={version}"],
        cwd=directory,
    )
    [archive] = directory.glob("*.tar.gz")
    _unpack(archive, directory)
    [found] = (one for one in directory.iterdir() if one.is_dir())
    return found


def go_module(module: str, version: str, directory: Path) -> Path:
    """Copy a module of Go, so that it can be changed and built; return its directory."""
    found = json.loads(run(["go", "mod", "download", "-json", f"{module}@{version}"], cwd=directory))
    target = directory / "source"
    shutil.copytree(found["Dir"], target)
    for path in (target, *target.rglob("*")):
        path.chmod(path.stat().st_mode | 0o200)
    return target


def _unpack(archive: Path, directory: Path) -> None:
    with tarfile.open(archive) as found:
        found.extractall(directory, filter="data")
