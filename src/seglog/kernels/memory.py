"""Memory by address: the few words of machine code everything else here is written in.

An address is a plain int64 (numba makes a float of int64 + uint64). Loads and stores are little-endian and need no
alignment, so that XXH64 runs at memory speed over a record that starts anywhere. Nothing here checks a bound: the
caller proves every range it touches, and keeps the memory alive.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import numba
import numpy as np
from llvmlite import ir
from numba.core import types
from numba.extending import intrinsic

from seglog.kernels.loading import beyond_interrupts

if sys.byteorder != "little":
    raise ImportError("the compiled kernels of seglog need a little-endian machine: the format is little-endian")

F = TypeVar("F", bound=Callable[..., Any])


def kernel(function: F) -> F:
    """Compile `function` at its first call, without the GIL; cached on disk where a place can be written.

    A kernel returns plain tuples: numba makes a named one by calling its class, and crashes where a signal interrupts
    that call.
    """
    return _compiled(function, {"nogil": True, "error_model": "numpy"})


def inlined(function: F) -> F:
    """Compile `function` into each kernel that calls it: for what runs once or more a record."""
    return _compiled(function, {"nogil": True, "error_model": "numpy", "forceinline": True})


def _compiled(function: F, options: dict[str, Any]) -> F:
    try:
        compiled: Any = numba.njit(cache=True, **options)(function)
    except RuntimeError:  # no directory to cache in: a read-only installation without a home
        compiled = numba.njit(**options)(function)
    load = compiled._compile_for_args  # what its first call calls, to compile it or load it from the cache
    compiled._compile_for_args = lambda *arguments: beyond_interrupts(partial(load, *arguments))
    return compiled  # type: ignore[no-any-return] # numba is untyped


def _pointer(builder: Any, address: Any, bits: int) -> Any:
    return builder.inttoptr(address, ir.IntType(bits).as_pointer())


def _load(bits: int, result: Any) -> Any:
    def typed(_typing: Any, _address: Any) -> Any:
        def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word = builder.load(_pointer(builder, arguments[0], bits), align=1)
            return word if bits == 64 else builder.zext(word, ir.IntType(64))

        return result(types.int64), generate

    return typed


def _store(bits: int, operand: Any) -> Any:
    def typed(_typing: Any, _address: Any, _word: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            value = arguments[1] if bits == 64 else builder.trunc(arguments[1], ir.IntType(bits))
            builder.store(value, _pointer(builder, arguments[0], bits), align=1)
            return context.get_dummy_value()

        return types.void(types.int64, operand), generate

    return typed


load_u64 = intrinsic(_load(64, types.uint64))
load_i64 = intrinsic(_load(64, types.int64))
load_u32 = intrinsic(_load(32, types.int64))
load_u16 = intrinsic(_load(16, types.int64))
load_u8 = intrinsic(_load(8, types.int64))
store_u64 = intrinsic(_store(64, types.uint64))
store_i64 = intrinsic(_store(64, types.int64))
store_u32 = intrinsic(_store(32, types.int64))
store_u16 = intrinsic(_store(16, types.int64))
store_u8 = intrinsic(_store(8, types.int64))


@intrinsic
def copy_bytes(_typing: Any, _target: Any, _source: Any, _length: Any) -> Any:
    """memcpy(target, source, length)."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, i64, bit = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(1)
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, i64])
        target, source = (builder.inttoptr(argument, byte) for argument in arguments[:2])
        builder.call(memcpy, [target, source, arguments[2], bit(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(_typing: Any, _address: Any) -> Any:
    """Ask for the cache line at an address; one that is not mapped does no harm."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = i32(0), i32(3), i32(1)
        builder.call(ask, [builder.inttoptr(arguments[0], byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


@intrinsic
def pointer_to(_typing: Any, _address: Any) -> Any:
    """Return what numba.carray() makes an array of: loops over arrays, other than over addresses, become vectors."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return _pointer(builder, arguments[0], 8)

    return types.voidptr(types.int64), generate


@inlined
def address_of(array: Any) -> int:
    """Return where the data of a contiguous array starts."""
    return np.int64(array.ctypes.data)  # type: ignore[return-value] # numba makes no difference between the two


def _copy(size: int) -> Any:
    """Make a copy of `size` bytes, a power of two: one load and one store where the processor has such words."""

    def typed(_typing: Any, _target: Any, _source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            block = ir.VectorType(ir.IntType(8), size).as_pointer()
            target, source = (builder.inttoptr(argument, block) for argument in arguments)
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return typed


copy_32, copy_16, copy_8, copy_4 = (intrinsic(_copy(size)) for size in (32, 16, 8, 4))


@inlined
def copy_short(target: int, source: int, length: int) -> None:
    """Copy `length` bytes; in line, for the lengths of keys and small values, where a call costs more than the copy.

    The two must not overlap: what is no whole number of blocks is copied up to its end once more.
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
