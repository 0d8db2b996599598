"""Memory by address, and the `kernel` decorator: the basis of all kernels.

An address is a plain int64 (numba converts int64 + uint64 to a float). Loads and stores are little-endian and need no
alignment, so XXH64 runs at memory speed over a record that starts anywhere. Nothing here checks bounds: the caller
proves every range that it touches, and keeps the memory alive.

The kernels are functions of a compiled library (`native`). If there is none for this processor, numba compiles them at
their first call (`machine`, `jit`); with a library neither numba nor LLVM is loaded.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeVar

import numpy as np

from seglog.kernels import native

if sys.byteorder != "little":
    raise ImportError("the compiled kernels of seglog need a little-endian machine: the format is little-endian")

F = TypeVar("F", bound=Callable[..., Any])

LIBRARY = native.find()


class _Compiled:
    """Replaces a name of `machine` if a library has the compiled kernels: nothing of it is ever called."""

    def __getattr__(self, _name: str) -> Any:
        return self

    def __call__(self, *_arguments: Any) -> Any:
        return self


def compiling(module: str) -> Any:
    """Return a module of this package that needs numba, if kernels are compiled in this process."""
    return _Compiled() if LIBRARY else import_module(f"seglog.kernels.{module}")


machine = compiling("machine")
KERNELS: list[Any] = []  # their Python functions, for `aot` to compile


def kernel(function: F) -> F:
    """Make a compiled function that runs without the GIL; its annotations are its types, see `parameters`.

    A kernel returns plain tuples: numba makes a named tuple by calling its class, and crashes if a signal interrupts
    that call.
    """
    KERNELS.append(function)
    return LIBRARY.function(function) if LIBRARY else machine.kernel(function)  # type: ignore[no-any-return] # untyped


def inlined(function: F) -> F:
    """Compile `function` into each kernel that calls it: for code that runs once or more per record."""
    return function if LIBRARY else machine.inlined(function)


load_u64, load_i64, load_u32 = machine.load_u64, machine.load_i64, machine.load_u32
load_u16, load_u8 = machine.load_u16, machine.load_u8
store_u64, store_i64, store_u32 = machine.store_u64, machine.store_i64, machine.store_u32
store_u16, store_u8 = machine.store_u16, machine.store_u8
copy_bytes, prefetch = machine.copy_bytes, machine.prefetch
copy_32, copy_16, copy_8, copy_4 = machine.copy_32, machine.copy_16, machine.copy_8, machine.copy_4
int32s_at, int64s_at, local_array = machine.int32s_at, machine.int64s_at, machine.local_array


@inlined
def address_of(array: Any) -> int:
    """Return the address of a contiguous array's data."""
    return np.int64(array.ctypes.data)  # type: ignore[return-value] # the same type for numba


@inlined
def copy_short(target: int, source: int, length: int) -> None:
    """Copy `length` bytes inline, for keys and small values, where a call costs more than the copy.

    The two must not overlap: a remainder is copied as a block that ends at the last byte.
    """
    if length > 256:
        copy_bytes(target, source, length)
    elif length >= 32:
        for at in range(0, length - 32, 32):
            copy_32(target + at, source + at)
        copy_32(target + length - 32, source + length - 32)
    elif length >= 16:
        copy_16(target, source)
        copy_16(target + length - 16, source + length - 16)
    elif length >= 8:
        copy_8(target, source)
        copy_8(target + length - 8, source + length - 8)
    elif length >= 4:
        copy_4(target, source)
        copy_4(target + length - 4, source + length - 4)
    else:
        for at in range(length):
            store_u8(target + at, load_u8(source + at))
