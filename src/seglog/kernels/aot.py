"""Compile the kernels ahead of time: `python -m seglog.kernels.aot` writes the libraries that `native` loads.

Needs numba and a linker. numba translates the kernels once, for any processor and without optimizing, in a process of
its own because it takes both from the environment; LLVM then optimizes them for each level of processor. A library
depends only on CPython and the C library, and only on symbols that all their versions have, so one library serves every
version of Python.
"""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any

from seglog.errors import MissingExtra
from seglog.kernels.native import DIRECTORY, levels, path_of
from seglog.kernels.sources import HERE, source_hash

FEATURES = {"x86-64": "", "x86-64-v3": "", "x86-64-v4": "+avx512dq,+avx512vl"}
"""The levels of x86-64, and what `lanes` must know that each has."""
FOR_ANY = {"NUMBA_CPU_NAME": "generic", "NUMBA_CPU_FEATURES": "", "NUMBA_OPT": "0", "SEGLOG_KERNELS": "jit"}
LINKERS = (("cc", "-nostdlib"), ("gcc", "-nostdlib"), ("clang", "-nostdlib"), ("ld",), ("ld.lld",))


def main(arguments: list[str]) -> None:
    """Write the library for this processor into the package; with --all, those for every processor of this kind."""
    parser = argparse.ArgumentParser(prog="python -m seglog.kernels.aot", description=main.__doc__)
    parser.add_argument("--all", action="store_true", help="for every processor of this kind, as in a wheel")
    parser.add_argument("directory", nargs="?", type=Path, default=DIRECTORY, help="default: that of the package")
    options = parser.parse_args(arguments)
    try:
        compile_levels(levels_of_machine() if options.all else levels()[:1], options.directory)
    except MissingExtra as error:
        print(f"seglog: {error}; numba will compile the kernels at their first use", file=sys.stderr)


def levels_of_machine() -> list[str]:
    """Return the levels for which a wheel for this kind of machine has libraries."""
    machine = platform.machine().lower()
    return list(FEATURES) if machine in ("x86_64", "amd64") else [machine]


def compile_levels(wanted: list[str], directory: Path) -> list[Path]:
    """Compile the libraries for these levels; return their paths.

    Keeps libraries that exist already, and removes those of other sources. Raises MissingExtra if there is no linker,
    RuntimeError with the compiler's output if compiling fails.
    """
    _linker()
    directory.mkdir(parents=True, exist_ok=True)
    for old in directory.glob("*.so"):
        if not old.name.startswith(source_hash()):
            old.unlink(missing_ok=True)
    paths = {level: path_of(level, directory) for level in wanted}
    lacking = [level for level, path in paths.items() if not path.exists()]
    if lacking:
        _run(lacking, directory)
    return list(paths.values())


def _run(lacking: list[str], directory: Path) -> None:
    search = os.pathsep.join([str(HERE.parent.parent), *filter(None, sys.path)])  # numba is where this process has it
    program = "import sys; from seglog.kernels.aot import compile_here; compile_here(sys.argv[1], sys.argv[2:])"
    command = [sys.executable, "-c", program, str(directory), *lacking]
    environment = {**os.environ, **FOR_ANY, "PYTHONPATH": search}
    done = subprocess.run(command, env=environment, stderr=subprocess.PIPE, text=True, check=False)  # noqa: S603 - this Python
    if done.returncode:
        raise RuntimeError(f"compiling the kernels failed:\n{done.stderr}")


def compile_here(directory: str, wanted: list[str]) -> None:
    """Compile the libraries for these levels in this process, whose environment is FOR_ANY."""
    from seglog.kernels import jit  # noqa: PLC0415 - needs numba, which only this function uses
    from seglog.kernels.entry import Linked  # noqa: PLC0415 - as above
    from seglog.kernels.memory import KERNELS  # noqa: PLC0415 - as above

    jit.compile_everything()
    for module in iter_modules([str(HERE)]):
        if module.name != "aot":
            import_module(f"seglog.kernels.{module.name}")
    linked = Linked()
    for function in KERNELS:
        linked.add(function)
    for level in wanted:
        _write(linked.object_code(level if level in FEATURES else "generic", FEATURES.get(level, "")), level, directory)


def _write(code: bytes, level: str, directory: str) -> None:
    with tempfile.TemporaryDirectory(dir=directory) as scratch:
        part = Path(scratch) / "kernels.o"
        part.write_bytes(code)
        library = Path(scratch) / "kernels.so"
        options: Any = ["-shared", "-o", str(library), str(part)]
        subprocess.run([*_linker(), *options], check=True)  # noqa: S603 - as above
        library.chmod(0o755)
        library.rename(path_of(level, Path(directory)))  # atomic: no process loads an incomplete file


def _linker() -> list[str]:
    for name, *options in LINKERS:
        path = shutil.which(name)
        if path:
            return [path, *options]
    raise MissingExtra(
        f"compiling the kernels ahead of time needs a linker: one of {', '.join(one[0] for one in LINKERS)}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
