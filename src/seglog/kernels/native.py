"""Kernels compiled ahead of time: one shared library for each level of processor, chosen at import.

A library's name contains the hash of its sources and its level of processor; `aot` writes it. It needs neither numba
nor LLVM. Its functions are CPython functions: no Python code runs between a call and the kernel.
"""

from __future__ import annotations

import ctypes
import os
import platform
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from seglog.errors import MissingExtra
from seglog.kernels.sources import HERE, source_hash

DIRECTORY = HERE / "compiled"
METH_FASTCALL = 0x80

# The flags that Linux lists for a processor of each level (x86-64 psABI); "abm" means lzcnt.
V3 = frozenset(["avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave"])
V4 = V3 | frozenset(["avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"])


class _Method(ctypes.Structure):
    """PyMethodDef."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_METHODS: list[_Method] = []
"""CPython keeps the addresses of these, so they stay alive as long as the process."""


class Library:
    """A loaded library of kernels, for one level of processor."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.level = path.stem.partition(".")[2]
        self._library = ctypes.PyDLL(str(path))
        self._make = ctypes.pythonapi["PyCFunction_NewEx"]  # [] returns a private function, whose types are set here
        self._make.restype, self._make.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]

    def function(self, of: Callable[..., Any]) -> Any:
        """Return the compiled form of a function of this package."""
        address = ctypes.cast(self._library[symbol_of(of)], ctypes.c_void_p).value
        method = _Method(of.__name__.encode(), address, METH_FASTCALL, (of.__doc__ or "").encode())
        _METHODS.append(method)
        return self._make(ctypes.addressof(method), None, None)


def symbol_of(function: Callable[..., Any]) -> str:
    """Return the name of a kernel in a library."""
    return f"seglog_{function.__module__.rpartition('.')[2]}_{function.__name__}"


def path_of(level: str, directory: Path = DIRECTORY) -> Path:
    """Return the path of the library for a level of processor."""
    return directory / f"{source_hash()}.{level}.so"


def levels() -> list[str]:
    """Return the levels of this processor, the best first."""
    machine = platform.machine().lower()
    if machine not in ("x86_64", "amd64"):
        return [machine]
    flags = _flags()
    return [*["x86-64-v4"] * (flags >= V4), *["x86-64-v3"] * (flags >= V3), "x86-64"]


def _flags() -> set[str]:
    """Return the flags that Linux lists for the first processor; none on other systems."""
    try:
        with Path("/proc/cpuinfo").open(encoding="ascii", errors="replace") as lines:
            return next((set(line.split()) for line in lines if line.startswith("flags")), set())
    except OSError:
        return set()


@cache
def are_packaged() -> bool:
    """Whether this installation has compiled kernels, for any processor and version."""
    return any(DIRECTORY.glob("*.so"))


def find() -> Library | None:
    """Load the best library for this processor; None if there is none, so that numba compiles the kernels.

    The environment variable SEGLOG_KERNELS may request "jit" (numba) or "native" (MissingExtra if there is none).
    """
    wanted = os.environ.get("SEGLOG_KERNELS", "")
    failures = []
    for level in levels() if wanted != "jit" else []:
        path = path_of(level)
        try:
            if path.exists():
                return Library(path)
        except OSError as error:  # for example a file system mounted noexec
            failures.append(str(error))
    if wanted == "native":
        raise MissingExtra(f"no compiled kernels for this processor in {DIRECTORY}: {failures or 'no library there'}")
    return None
