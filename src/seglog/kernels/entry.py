"""Compiled kernels as CPython functions, in one object file. Part of `aot`, the only module that writes them.

Each entry takes its arguments from CPython objects (METH_FASTCALL), releases the GIL, calls the kernel and converts its
result to an object. Arrays are passed by the buffer protocol, which reports element type, number of dimensions and C
order: an array of another kind raises TypeError; it is never misread.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import llvmlite.binding as llvm
import numba
import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as numba_types
from numba.core.registry import cpu_target
from numba.np.arrayobj import make_array, populate_array

from seglog.kernels.jit import OPTIONS
from seglog.kernels.lanes import FLAG
from seglog.kernels.native import symbol_of
from seglog.kernels.parameters import ArrayOf

BYTE, I32, I64 = ir.IntType(8), ir.IntType(32), ir.IntType(64)
POINTER = cgutils.voidptr_t
WORDS = I64.as_pointer()
# Py_buffer: buf, obj, len, itemsize, (readonly, ndim), format, shape, strides, suboffsets, internal
BUFFER = ir.LiteralStructType([POINTER, POINTER, I64, I64, I32, I32, POINTER, WORDS, WORDS, POINTER, POINTER])
BUF, NDIM, FORMAT, SHAPE = 0, 5, 6, 7
PYBUF_WRITABLE, PYBUF_FORMAT, PYBUF_ND = 1, 4, 8

FORMATS = {"bool": "?", "uint8": "B", "int32": "i", "int64": "lq", "uint64": "LQ"}
types: Any = numba_types  # mypy knows only half of its names
# symbols that a library may use
OUTSIDE = ("Py", "_Py", "llvm.", "memcpy", "memmove", "memset", "malloc", "free", "pread", "syscall")
ADDRESSES = "numba.dynamic.globals"
"""How the names of variables begin that hold an address of the compiling process."""


def numba_type(annotation: Any) -> Any:
    """Return the numba type of a parameter's annotation; see `parameters`."""
    if get_origin(annotation) is Annotated:
        (meaning,) = annotation.__metadata__
        if not isinstance(meaning, ArrayOf):
            return getattr(types, meaning)
        element = numba.from_dtype(np.dtype(meaning.element))
        return types.Array(element, meaning.dimensions, "C", readonly=not meaning.written)
    if get_origin(annotation) is tuple:
        return types.Tuple([numba_type(part) for part in get_args(annotation)])
    if annotation in (int, bool):
        return types.int64 if annotation is int else types.boolean
    fields = get_type_hints(annotation, include_extras=True).values()
    return types.NamedTuple([numba_type(field) for field in fields], annotation)


def signature_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the types of a kernel's parameters."""
    hints = get_type_hints(function, include_extras=True)
    names = function.__code__.co_varnames[: function.__code__.co_argcount]
    return tuple(numba_type(hints[name]) for name in names)


class Linked:
    """One LLVM module of all kernels and their entries."""

    def __init__(self) -> None:
        self._module = llvm.parse_assembly("")
        self._entries: set[str] = set()

    def add(self, function: Callable[..., Any]) -> None:
        """Compile a kernel and its entry."""
        compiled = numba.njit(no_cpython_wrapper=True, **OPTIONS)(function)
        kinds = signature_of(function)
        compiled.compile(kinds)
        result = compiled.overloads[kinds]
        self._link(result.library.get_llvm_str())
        self._link(str(_Entry(function, kinds, result).module))
        self._entries.add(symbol_of(function))

    def _link(self, text: str) -> None:
        part = llvm.parse_assembly(cgutils.normalize_ir_text(text))
        part.verify()
        self._module.link_in(part)

    def object_code(self, cpu: str, features: str) -> bytes:
        """Return the object file for a processor, without anything that no entry needs."""
        triple = llvm.get_process_triple()
        machine = llvm.Target.from_triple(triple).create_target_machine(
            cpu=cpu, features=features, opt=3, reloc="pic", codemodel="default"
        )
        module = self._module.clone()
        module.link_in(llvm.parse_assembly(f"@{FLAG} = constant i1 {int('+avx512dq' in features)}"))
        module.triple, module.data_layout = triple, str(machine.target_data)
        for name in [*module.functions, *module.global_variables]:
            if not name.is_declaration and name.name not in self._entries:
                name.linkage = "internal"
        passes = llvm.create_pass_builder(machine, llvm.create_pipeline_tuning_options(speed_level=2))
        passes.getModulePassManager().run(module, passes)
        outside = [one.name for one in module.functions if one.is_declaration]
        unknown = [name for name in outside if not name.startswith(OUTSIDE)]
        unknown += [one.name for one in module.global_variables if one.name.startswith(ADDRESSES)]
        if unknown:
            raise RuntimeError(f"the kernels need what no other process has: {', '.join(unknown)}")
        return bytes(machine.emit_object(module))


class _Entry:
    """The CPython function that calls one kernel."""

    def __init__(self, function: Callable[..., Any], kinds: tuple[Any, ...], result: Any) -> None:
        context = self._context = cpu_target.target_context
        self.module = context.create_module(symbol_of(function))
        called = context.declare_function(self.module, result.fndesc)
        kind = ir.FunctionType(POINTER, [POINTER, POINTER.as_pointer(), I64])
        entry = ir.Function(self.module, kind, symbol_of(function))
        builder = self._builder = ir.IRBuilder(entry.append_basic_block("entry"))
        self._python = context.get_python_api(builder)
        self._type_error = ir.GlobalVariable(self.module, POINTER, "PyExc_TypeError")
        self._buffers: list[Any] = []
        self._failed = entry.append_basic_block("failed")
        for _ in range(sum(map(_arrays_in, kinds))):
            self._buffers.append(cgutils.alloca_once_value(builder, ir.Constant(BUFFER, None)))
        self._unused = list(self._buffers)
        self._require(builder.icmp_signed("==", entry.args[2], I64(len(kinds))), f"takes {len(kinds)} arguments")
        cells = [builder.load(builder.gep(entry.args[1], [I64(one)])) for one in range(len(kinds))]
        values = [self._unboxed(kind, cell) for kind, cell in zip(kinds, cells, strict=True)]
        restype = result.signature.return_type
        state = self._python.save_thread()
        status, returned = context.call_conv.call_function(builder, called, restype, kinds, values)
        self._python.restore_thread(state)
        self._require(status.is_ok, f"{function.__name__} failed: this is a bug in seglog")
        self._release()
        builder.ret(self._python.from_native_return(restype, returned, None))
        builder.position_at_end(self._failed)
        self._release()
        builder.ret(cgutils.get_null_value(POINTER))

    def _call(self, name: str, result: Any, *arguments: Any) -> Any:
        kind = ir.FunctionType(result, [argument.type for argument in arguments])
        return self._builder.call(cgutils.get_or_insert_function(self.module, kind, name), arguments)

    def _go_on_if(self, good: Any) -> None:
        """Continue if `good`, else go to the failure exit; a Python error is set."""
        following = self._builder.append_basic_block("following")
        self._builder.cbranch(good, following, self._failed)
        self._builder.position_at_end(following)

    def _require(self, good: Any, message: str) -> None:
        with self._builder.if_then(self._builder.not_(good), likely=False):
            kind = self._builder.load(self._type_error)  # numba's own helper does not load the variable
            text = self._builder.bitcast(self._context.insert_const_string(self.module, message), POINTER)
            self._call("PyErr_SetString", ir.VoidType(), kind, text)
        self._go_on_if(good)

    def _release(self) -> None:
        """Release all buffers; one that was not requested yet is empty."""
        for buffer in self._buffers:
            self._call("PyBuffer_Release", ir.VoidType(), self._builder.bitcast(buffer, POINTER))

    def _unboxed(self, kind: Any, cell: Any) -> Any:
        if isinstance(kind, types.Array):
            return self._array(kind, cell)
        if isinstance(kind, types.BaseTuple):
            parts = []
            for one, part in enumerate(kind.types):
                item = self._call("PyTuple_GetItem", POINTER, cell, I64(one))
                self._go_on_if(cgutils.is_not_null(self._builder, item))
                parts.append(self._unboxed(part, item))
            return self._context.make_tuple(self._builder, kind, parts)
        native = self._python.to_native_value(kind, cell)
        self._go_on_if(self._builder.not_(native.is_error))
        return native.value

    def _array(self, kind: Any, cell: Any) -> Any:
        builder, buffer = self._builder, self._unused.pop()
        flags = PYBUF_ND | PYBUF_FORMAT | (PYBUF_WRITABLE if kind.mutable else 0)
        failed = self._call("PyObject_GetBuffer", I32, cell, builder.bitcast(buffer, POINTER), I32(flags))
        self._go_on_if(builder.icmp_signed("==", failed, I32(0)))

        def field(index: int) -> Any:
            return builder.load(cgutils.gep_inbounds(builder, buffer, 0, index))

        element = str(kind.dtype)
        letter = builder.load(builder.bitcast(field(FORMAT), BYTE.as_pointer()))
        fits = builder.icmp_signed("==", field(NDIM), I32(kind.ndim))
        fits = builder.and_(fits, self._any_of(letter, FORMATS[element]))
        self._require(fits, f"an argument must be a contiguous array of {element} with {kind.ndim} dimensions")
        sizes = [builder.load(builder.gep(field(SHAPE), [I64(one)])) for one in range(kind.ndim)]
        width = I64(np.dtype(element).itemsize)
        strides = [width]
        for size in reversed(sizes[1:]):
            strides.insert(0, builder.mul(strides[0], size))
        array = make_array(kind)(self._context, builder)
        data = builder.bitcast(field(BUF), array.data.type)
        populate_array(array, data, sizes, strides, width, meminfo=None)
        return array._getvalue()

    def _any_of(self, letter: Any, letters: str) -> Any:
        same = [self._builder.icmp_signed("==", letter, BYTE(ord(one))) for one in letters]
        for other in same[1:]:
            same[0] = self._builder.or_(same[0], other)
        return same[0]


def _arrays_in(kind: Any) -> int:
    if isinstance(kind, types.BaseTuple):
        return sum(map(_arrays_in, kind.types))
    return int(isinstance(kind, types.Array))
