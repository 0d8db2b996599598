"""Kernels that numba compiles at their first call, if there is no compiled library for this processor.

The code is cached in a writable directory: that of this package, the user's cache, or one in the system's temporary
directory that no other user can write to. An entry is valid for the sources of all kernels together, because they call
each other across modules, and for the processor for which it was compiled.
"""

from __future__ import annotations

import hashlib
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any, TypeVar

import numba
from numba.core.caching import FunctionCache, _CacheLocator

from seglog.kernels.loading import beyond_interrupts
from seglog.kernels.sources import HERE, source_hash

F = TypeVar("F", bound=Callable[..., Any])
OPTIONS = {"nogil": True, "error_model": "numpy", "_nrt": False, "no_cfunc_wrapper": True}
_uses_cache = True
PATIENCE_S = 1.0  # if compiling takes longer in one process, that is reported


def kernel(function: F) -> F:
    """Compile `function` at its first call, to run without the GIL."""
    compiled = _cached(numba.njit(**OPTIONS)(function))
    load = compiled._compile_for_args  # called at the first call, to compile the function or load it from the cache
    compiled._compile_for_args = lambda *arguments: _reported(partial(load, *arguments))
    return compiled  # type: ignore[no-any-return] # numba is untyped


def inlined(function: F) -> F:
    """Compile `function` into each kernel that calls it; Python cannot call it."""
    return _cached(numba.njit(forceinline=True, no_cpython_wrapper=True, **OPTIONS)(function))  # type: ignore[no-any-return] # as above


def compile_everything() -> None:
    """Disable the cache, before any kernel is imported: `aot` needs the output of LLVM."""
    global _uses_cache  # noqa: PLW0603 - one setting per process
    _uses_cache = False


def _cached(compiled: Any) -> Any:
    if _uses_cache and cache_directory() is not None:
        compiled._cache = _Cache(compiled.py_func)
    return compiled


@cache
def cache_directory() -> Path | None:
    """Return the directory for compiled code; None if no directory is writable, and every process has to compile."""
    return next((path for path in _candidates() if _is_usable(path)), None)


def _candidates() -> Iterator[Path]:
    given = os.environ.get("SEGLOG_CACHE_DIR")
    if given:
        yield Path(given)
    yield HERE / "__pycache__"
    home = os.environ.get("XDG_CACHE_HOME") or (os.environ.get("HOME") and f"{os.environ['HOME']}/.cache")
    if home:
        yield Path(home) / "seglog"
    with suppress(FileNotFoundError):  # no directory for temporary files
        yield Path(tempfile.gettempdir()) / f"seglog-kernels-{os.getuid()}"


def _is_usable(path: Path) -> bool:
    """Whether only this user can write files there: code that is loaded from there is executed."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = path.lstat()
        if not stat.S_ISDIR(status.st_mode):
            return False
        in_package = path.parent == HERE  # as safe as the sources beside it
        if not in_package and (status.st_uid != os.getuid() or status.st_mode & 0o022):
            return False
        tempfile.TemporaryFile(dir=path).close()
    except OSError:
        return False
    return True


def _stamp_of(file: str) -> str:
    """Return the hash of the sources, extended by that of `file` for a kernel that a test defines."""
    path = Path(file)
    if path.parent == HERE or not path.exists():
        return source_hash()
    return source_hash() + hashlib.sha256(path.read_bytes()).hexdigest()


class _Locator(_CacheLocator):  # type: ignore[misc] # numba is untyped
    """The cache location of one function, and the sources for which it is valid."""

    def __init__(self, function: Any) -> None:
        self._py_file = function.__code__.co_filename
        self._line = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return str(cache_directory())

    def get_source_stamp(self) -> str:
        return _stamp_of(self._py_file)

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, py_func: Any, _py_file: str) -> _Locator:
        return cls(py_func)


class _Implementation(FunctionCache._impl_class):  # type: ignore[misc] # as above
    _locator_classes = [_Locator]  # noqa: RUF012 # numba's name


class _Cache(FunctionCache):  # type: ignore[misc] # as above
    _impl_class = _Implementation

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Load a compiled function; None if it must be compiled."""
        global _compiles  # noqa: PLW0603 - one setting per process
        found = super().load_overload(sig, target_context)
        _compiles = _compiles or found is None
        return found


_lock = threading.Lock()
_waited_s = 0.0
_is_reported = False
_compiles = cache_directory() is None  # also becomes True when the cache lacks a function


def _reported(load: Callable[[], Any]) -> Any:
    """Run `load` where no signal interrupts it; report once if the process waits long for the compiler."""
    global _waited_s  # noqa: PLW0603 - one counter per process
    timer = threading.Timer(max(PATIENCE_S - _waited_s, 0.0), _report)
    timer.daemon = True
    timer.start()
    start = time.monotonic()
    try:
        return beyond_interrupts(load)
    finally:
        timer.cancel()
        _waited_s += time.monotonic() - start


def _report() -> None:
    global _is_reported  # noqa: PLW0603 - one setting per process
    with _lock:
        if _is_reported or not _compiles:
            return
        _is_reported = True
    where = cache_directory()
    kept = f"the code is cached in {where}" if where else "set SEGLOG_CACHE_DIR to a writable directory to cache it"
    print(f"seglog: compiling the kernels for this processor, up to 30 s; {kept}", file=sys.stderr)
