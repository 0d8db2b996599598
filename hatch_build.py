"""The build backend, hatchling with a hook: kernels compiled ahead of time, or a dependency on numba without a linker.

Only the wheel itself has its dependencies, as it depends on numba if compiling fails: so the backend offers no metadata
without building it, which hatchling would.

SEGLOG_PURE=1 builds a wheel without compiled code for any platform; an editable installation compiles nothing, since
its kernels may change.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from hatchling.build import (
    build_editable,
    build_sdist,
    build_wheel,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)
from hatchling.builders.hooks.plugin.interface import BuildHookInterface

__all__ = [
    "build_editable",
    "build_sdist",
    "build_wheel",
    "get_requires_for_build_editable",
    "get_requires_for_build_sdist",
    "get_requires_for_build_wheel",
]

NUMBA = "numba>=0.61,<0.69"  # as the extra `jit`; aot uses names that numba may change
TO_BUILD = [NUMBA, "numpy>=2.0", "xxhash>=3.4"]
PACKAGED = "seglog/kernels/compiled"


class CompiledKernels(BuildHookInterface):  # type: ignore[misc] # hatchling ships no types
    """Adds the compiled kernels to a wheel, or the dependency on numba."""

    def dependencies(self) -> list[str]:
        """Return what building needs beside hatchling; asked before `initialize`."""
        return TO_BUILD if self._may_compile() else []

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Compile, and tag the wheel for this platform; an editable or pure wheel depends on numba."""
        libraries = self._compile() if version != "editable" and self._may_compile() else []
        if libraries:
            build_data["force_include"].update({str(path): f"{PACKAGED}/{path.name}" for path in libraries})
            build_data["pure_python"], build_data["tag"] = False, f"py3-none-{_platform_tag()}"
        else:
            build_data.setdefault("dependencies", []).append(NUMBA)

    def _may_compile(self) -> bool:
        linker = any(map(shutil.which, ("cc", "gcc", "clang", "ld", "ld.lld")))
        return sys.platform == "linux" and linker and not os.environ.get("SEGLOG_PURE")

    def _compile(self) -> list[Path]:
        """Return the libraries; none if compiling fails, which `pip install -v` and `seglog --version` show."""
        source = Path(self.root) / "src"
        # the packages that building needs: pip hands them over in PYTHONPATH, other tools in an environment
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(source), *filter(None, sys.path)])}
        directory = self._directory(source / PACKAGED)
        command = [sys.executable, "-m", "seglog.kernels.aot", "--all", str(directory)]
        done = subprocess.run(command, env=environment, check=False)  # noqa: S603 - this Python
        libraries = sorted(directory.glob("*.so")) if done.returncode == 0 else []
        if not libraries:
            self.app.display_warning("the kernels could not be compiled: this wheel needs numba to run")
        return libraries

    def _directory(self, packaged: Path) -> Path:
        """Return where the libraries are kept for the next build, or another directory if the sources are read-only."""
        present = packaged if packaged.exists() else packaged.parent
        if os.access(present, os.W_OK):
            return packaged
        self._scratch = tempfile.TemporaryDirectory(prefix="seglog-kernels-")  # removed when the build ends
        return Path(self._scratch.name)


def _platform_tag() -> str:
    """Return the platform: the libraries need no version of the C library, only names that all versions have."""
    machine = platform.machine()
    return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
