"""The types that `point` returns: records in memory, converted to Python tuples. For numba: loaded only to compile."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple
from numba.extending import box, intrinsic, models, register_model

pread: Any = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.uint64, types.int64))
malloc: Any = types.ExternalFunction("malloc", types.int64(types.uint64))
free: Any = types.ExternalFunction("free", types.void(types.int64))
syscall: Any = types.ExternalFunction("syscall", types.int64(*[types.int64] * 6))

FIELDS = ("memory", "offset", "timestamp", "key", "key_size", "value", "value_size", "headers", "headers_size")
ROWS_FIELDS = ("rows", "count", "special", "memory")


class _Found(types.Type):
    """A record in malloc'ed memory, which boxing frees. memory 0: none. A size of -1: null."""


class _FoundRows(types.Type):
    """A table of `count` rows in malloc'ed memory, each the FIELDS of a record; boxing frees it.

    special: a number that is the last item of the list. memory: where the records are; boxing frees it as well.
    """


_FOUND = _Found("Found")
_FOUND_ROWS = _FoundRows("FoundRows")


@register_model(_Found)
class _FoundModel(models.StructModel):  # type: ignore[misc] # numba is untyped
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.int64) for name in FIELDS])


@register_model(_FoundRows)
class _FoundRowsModel(models.StructModel):  # type: ignore[misc] # as above
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.int64) for name in ROWS_FIELDS])


def _making(kind: Any, names: tuple[str, ...]) -> Any:
    """Make a function that makes a value of a type from its fields, a tuple in the order of `names`."""

    def typed(_typing: Any, _fields: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            made = cgutils.create_struct_proxy(kind)(context, builder)
            for name, field in zip(names, cgutils.unpack_tuple(builder, arguments[0], len(names)), strict=True):
                setattr(made, name, field)
            return made._getvalue()

        return kind(UniTuple(types.int64, len(names))), generate

    return typed


found, found_rows = intrinsic(_making(_FOUND, FIELDS)), intrinsic(_making(_FOUND_ROWS, ROWS_FIELDS))


@box(_Found)
def _as_tuple(kind: Any, value: Any, c: Any) -> Any:
    """Make the tuple that `read_point` returns, and free the memory."""
    found = cgutils.create_struct_proxy(kind)(c.context, c.builder, value=value)
    result = cgutils.alloca_once(c.builder, c.pyapi.pyobj)
    _boxed(c, {name: getattr(found, name) for name in FIELDS}, result)
    _call(c, "free", ir.VoidType(), [found.memory])
    return c.builder.load(result)


@box(_FoundRows)
def _as_list(kind: Any, value: Any, c: Any) -> Any:
    """Make the list that `read_points` returns, of a tuple or None for each row, and free the memory."""
    table, builder = cgutils.create_struct_proxy(kind)(c.context, c.builder, value=value), c.builder
    one, result = ir.IntType(64)(1), cgutils.alloca_once(builder, c.pyapi.pyobj)
    made = c.pyapi.list_new(builder.add(table.count, one))
    failed = cgutils.alloca_once_value(builder, cgutils.is_null(builder, made))
    rows = builder.inttoptr(table.rows, ir.IntType(64).as_pointer())
    with cgutils.for_range(builder, table.count) as loop:
        first = builder.mul(loop.index, ir.IntType(64)(len(FIELDS)))
        cells = {
            name: builder.load(builder.gep(rows, [builder.add(first, ir.IntType(64)(number))]))
            for number, name in enumerate(FIELDS)
        }
        with builder.if_then(builder.not_(builder.load(failed))):
            _boxed(c, cells, result)
            item = builder.load(result)
            builder.store(cgutils.is_null(builder, item), failed)
            c.pyapi.list_setitem(made, loop.index, item)  # takes the reference; null stays null
    for memory in (table.rows, table.memory):
        _call(c, "free", ir.VoidType(), [memory])
    with builder.if_then(builder.not_(builder.load(failed))):
        last = c.pyapi.long_from_longlong(table.special)
        builder.store(cgutils.is_null(builder, last), failed)
        c.pyapi.list_setitem(made, table.count, last)
    builder.store(made, result)
    with builder.if_then(builder.load(failed), likely=False):
        c.pyapi.decref(made)  # and what it holds; does nothing for null
        builder.store(cgutils.get_null_value(c.pyapi.pyobj), result)
    return builder.load(result)


def _boxed(c: Any, fields: dict[str, Any], result: Any) -> None:
    """Store the tuple of a record, or None without one, in `result`; null if memory ran out."""
    nothing = c.builder.icmp_signed("==", fields["memory"], ir.IntType(64)(0))
    with c.builder.if_else(nothing) as (without, otherwise):
        with without:
            c.builder.store(c.pyapi.make_none(), result)
        with otherwise:
            cells = [
                c.pyapi.long_from_longlong(fields["offset"]),
                c.pyapi.long_from_longlong(fields["timestamp"]),
                _bytes(c, fields["key"], fields["key_size"], c.pyapi.make_none),
                _bytes(c, fields["value"], fields["value_size"], c.pyapi.make_none),
                _bytes(c, fields["headers"], fields["headers_size"], lambda: c.pyapi.tuple_new(0)),
            ]
            _pack(c, cells, result)


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
