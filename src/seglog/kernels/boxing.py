"""The type that `point` returns: a record in memory, converted to a Python tuple. For numba: loaded only to compile."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple
from numba.extending import box, intrinsic, models, register_model

pread: Any = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.uint64, types.int64))
malloc: Any = types.ExternalFunction("malloc", types.int64(types.uint64))
free: Any = types.ExternalFunction("free", types.void(types.int64))

FIELDS = ("memory", "offset", "timestamp", "key", "key_size", "value", "value_size", "headers", "headers_size")


class _Found(types.Type):
    """A record in malloc'ed memory, which boxing frees. memory 0: none. A size of -1: null."""


_FOUND = _Found("Found")


@register_model(_Found)
class _FoundModel(models.StructModel):  # type: ignore[misc] # numba is untyped
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.int64) for name in FIELDS])


@intrinsic
def found(_typing: Any, _fields: Any) -> Any:
    """Make a Found from its fields, a tuple in the order of FIELDS."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        made = cgutils.create_struct_proxy(_FOUND)(context, builder)
        for name, field in zip(FIELDS, cgutils.unpack_tuple(builder, arguments[0], len(FIELDS)), strict=True):
            setattr(made, name, field)
        return made._getvalue()

    return _FOUND(UniTuple(types.int64, len(FIELDS))), generate


@box(_Found)
def _as_tuple(kind: Any, value: Any, c: Any) -> Any:
    """Make the tuple that `read_point` returns, and free the memory."""
    found = cgutils.create_struct_proxy(kind)(c.context, c.builder, value=value)
    result = cgutils.alloca_once(c.builder, c.pyapi.pyobj)
    nothing = c.builder.icmp_signed("==", found.memory, ir.IntType(64)(0))
    with c.builder.if_else(nothing) as (without, otherwise):
        with without:
            c.builder.store(c.pyapi.make_none(), result)
        with otherwise:
            cells = [
                c.pyapi.long_from_longlong(found.offset),
                c.pyapi.long_from_longlong(found.timestamp),
                _bytes(c, found.key, found.key_size, c.pyapi.make_none),
                _bytes(c, found.value, found.value_size, c.pyapi.make_none),
                _bytes(c, found.headers, found.headers_size, lambda: c.pyapi.tuple_new(0)),
            ]
            _call(c, "free", ir.VoidType(), [found.memory])
            _pack(c, cells, result)
    return c.builder.load(result)


def _bytes(c: Any, address: Any, size: Any, otherwise: Any) -> Any:
    """Make a bytes object from memory; `otherwise` makes the value for a size of -1."""
    result = cgutils.alloca_once(c.builder, c.pyapi.pyobj)
    is_null = c.builder.icmp_signed("<", size, ir.IntType(64)(0))
    with c.builder.if_else(is_null) as (null, there):
        with null:
            c.builder.store(otherwise(), result)
        with there:
            data = c.builder.inttoptr(address, c.pyapi.cstring)
            c.builder.store(_call(c, "PyBytes_FromStringAndSize", c.pyapi.pyobj, [data, size]), result)
    return c.builder.load(result)


def _pack(c: Any, cells: list[Any], result: Any) -> None:
    """Make a tuple of the cells; null if a cell is null: memory ran out, and MemoryError is set."""
    c.builder.store(cgutils.get_null_value(c.pyapi.pyobj), result)
    made = c.builder.not_(cgutils.is_null(c.builder, cells[0]))
    for cell in cells[1:]:
        made = c.builder.and_(made, c.builder.not_(cgutils.is_null(c.builder, cell)))
    with c.builder.if_then(made):
        c.builder.store(c.pyapi.tuple_pack(cells), result)
    for cell in cells:
        c.pyapi.decref(cell)  # does nothing for null


def _call(c: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return c.builder.call(cgutils.get_or_insert_function(c.builder.module, kind, name), arguments)
