"""Loads, stores and copies at an address, in LLVM, for numba: loaded only where the kernels are compiled."""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from seglog.kernels.jit import inlined, kernel

__all__ = ["inlined", "kernel"]


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
    """Call memcpy(target, source, length)."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, i64, bit = ir.IntType(8).as_pointer(), ir.IntType(64), ir.IntType(1)
        memcpy = builder.module.declare_intrinsic("llvm.memcpy", [byte, byte, i64])
        target, source = (builder.inttoptr(argument, byte) for argument in arguments[:2])
        builder.call(memcpy, [target, source, arguments[2], bit(0)])
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


@intrinsic
def prefetch(_typing: Any, _address: Any) -> Any:
    """Prefetch the cache line at an address; an unmapped address does no harm."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        byte, i32 = ir.IntType(8).as_pointer(), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [byte, i32, i32, i32])
        ask = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        read, keep, data = i32(0), i32(3), i32(1)
        builder.call(ask, [builder.inttoptr(arguments[0], byte), read, keep, data])
        return context.get_dummy_value()

    return types.void(types.int64), generate


def _array_at(element: Any) -> Any:
    """Make a function that returns memory at an address as an array: loops over arrays become vector code."""
    kind, width = types.Array(element, 1, "C"), element.bitwidth // 8

    def typed(_typing: Any, _address: Any, _count: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            array, size = make_array(kind)(context, builder), context.get_constant(types.intp, width)
            data = builder.inttoptr(arguments[0], array.data.type)
            populate_array(array, data, [arguments[1]], [size], size, meminfo=None)
            return array._getvalue()

        return kind(types.int64, types.int64), generate

    return typed


int32s_at, int64s_at = intrinsic(_array_at(types.int32)), intrinsic(_array_at(types.int64))


def _copy(size: int) -> Any:
    """Make a copy of `size` bytes, a power of two: one load and one store if the processor has such words."""

    def typed(_typing: Any, _target: Any, _source: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            block = ir.VectorType(ir.IntType(8), size).as_pointer()
            target, source = (builder.inttoptr(argument, block) for argument in arguments)
            builder.store(builder.load(source, align=1), target, align=1)
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return typed


copy_32, copy_16, copy_8, copy_4 = (intrinsic(_copy(size)) for size in (32, 16, 8, 4))


def local_array(element: Any, *shape: int) -> Any:
    """Make a function without parameters that returns an uninitialized array on the stack of the calling kernel.

    So a kernel allocates nothing: code compiled ahead of time has none of numba's memory management.
    """
    kind = types.Array(numba.from_dtype(np.dtype(element)), len(shape), "C")
    width = np.dtype(element).itemsize

    @intrinsic
    def make(_typing: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, _arguments: Any) -> Any:
            bits = ir.ArrayType(ir.IntType(64), -(-width * int(np.prod(shape)) // 8))
            word = context.get_constant
            sizes = [word(types.intp, size) for size in shape]
            strides = [word(types.intp, width * int(np.prod(shape[one + 1 :]))) for one in range(len(shape))]
            array = make_array(kind)(context, builder)
            data = builder.bitcast(cgutils.alloca_once(builder, bits), array.data.type)
            populate_array(array, data, sizes, strides, word(types.intp, width), meminfo=None)
            return array._getvalue()

        return kind(), generate

    return make
