"""The wheel's build hook: kernels compiled ahead of time, or a dependency on numba where there is no linker.

SEGLOG_PURE=1 builds a wheel without compiled code for any platform; an editable installation compiles nothing, since
its kernels may change.
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

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
        command = [sys.executable, "-m", "seglog.kernels.aot", "--all"]
        done = subprocess.run(command, env=environment, check=False)  # noqa: S603 - this Python
        libraries = sorted((source / PACKAGED).glob("*.so")) if done.returncode == 0 else []
        if not libraries:
            self.app.display_warning("the kernels could not be compiled: this wheel needs numba to run")
        return libraries


def _platform_tag() -> str:
    """Return the platform: the libraries need no version of the C library, only names that all versions have."""
    machine = platform.machine()
    return f"manylinux_2_17_{machine}.manylinux2014_{machine}.musllinux_1_1_{machine}"
