"""One record of a file: read, verified and made objects of Python in one call, without the interpreter between.

The only kernel that reads a file itself. pread(2) copies into memory of the call's own: in a memory map a failing disk
would be the end of the process (SIGBUS). Numba has no way to return bytes, so what comes out is a type of our own,
which knows how it becomes a tuple.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils, types
from numba.core.types.containers import UniTuple
from numba.extending import box, intrinsic, models, register_model

from seglog.format.codec import HEAD_BYTES
from seglog.kernels.checksum import xxh64_at
from seglog.kernels.layout import CHECKED_FROM, FIXED_METADATA_BYTES, NULL, VALUE_BASE
from seglog.kernels.memory import inlined, kernel, load_i64, load_u32, load_u64

MOST_BYTES = 1024 * 1024  # of a record; memory for longer ones should not come and go with a call
BYTES_DATA = bytes.__basicsize__ - 1  # where the data of a bytes object begins: its last byte is the closing zero

_pread: Any = types.ExternalFunction("pread", types.int64(types.int32, types.int64, types.uint64, types.int64))
_malloc: Any = types.ExternalFunction("malloc", types.int64(types.uint64))
_free: Any = types.ExternalFunction("free", types.void(types.int64))

FIELDS = ("memory", "offset", "timestamp", "key", "key_size", "value", "value_size", "headers", "headers_size")


class _Found(types.Type):
    """A record in memory that malloc gave, which boxing gives back. memory 0: there is none. A size of -1: null."""


_FOUND = _Found("Found")
_NOTHING = (0,) * len(FIELDS)


@register_model(_Found)
class _FoundModel(models.StructModel):  # type: ignore[misc] # numba is untyped
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, [(name, types.int64) for name in FIELDS])


@intrinsic
def _found(_typing: Any, _fields: Any) -> Any:
    """Make it of its fields, a tuple."""

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        made = cgutils.create_struct_proxy(_FOUND)(context, builder)
        for name, field in zip(FIELDS, cgutils.unpack_tuple(builder, arguments[0], len(FIELDS)), strict=True):
            setattr(made, name, field)
        return made._getvalue()

    return _FOUND(UniTuple(types.int64, len(FIELDS))), generate


@box(_Found)
def _as_tuple(kind: Any, value: Any, c: Any) -> Any:
    """Make the tuple that `read_point` returns, and give the memory back."""
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
    """Make bytes of memory; `otherwise` makes what stands for a size of -1."""
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
    """Make a tuple of the cells; null where one of them is: there was no memory for it, and MemoryError is set."""
    c.builder.store(cgutils.get_null_value(c.pyapi.pyobj), result)
    made = c.builder.not_(cgutils.is_null(c.builder, cells[0]))
    for cell in cells[1:]:
        made = c.builder.and_(made, c.builder.not_(cgutils.is_null(c.builder, cell)))
    with c.builder.if_then(made):
        c.builder.store(c.pyapi.tuple_pack(cells), result)
    for cell in cells:
        c.pyapi.decref(cell)  # of null, nothing


def _call(c: Any, name: str, result: Any, arguments: list[Any]) -> Any:
    kind = ir.FunctionType(result, [argument.type for argument in arguments])
    return c.builder.call(cgutils.get_or_insert_function(c.builder.module, kind, name), arguments)


@inlined
def _length(size: int) -> int:
    """Return how many bytes a field of this size takes: none where it is null."""
    return 0 if size == NULL else size


@inlined
def _is_valid(record: int, length: int, relative: int, salt: int) -> Any:
    metadata_len, value_len = load_u32(record + 8), _length(load_u32(record + 12))
    value = record + VALUE_BASE + metadata_len
    if value + value_len != record + length or metadata_len < FIXED_METADATA_BYTES + _length(load_u32(record + 20)):
        return False
    seed = np.uint64(salt) ^ xxh64_at(value, value_len, np.uint64(0))
    checksum = xxh64_at(record + CHECKED_FROM, VALUE_BASE - CHECKED_FROM + metadata_len, seed)
    return load_u64(record) == checksum and load_u32(record + 16) == relative


@inlined
def _found_in(record: int, offset: int) -> Any:
    key_size, value_size = load_u32(record + 20), load_u32(record + 12)
    key = record + HEAD_BYTES
    headers, value = key + _length(key_size), record + VALUE_BASE + load_u32(record + 8)
    fields = (
        record,
        offset,
        load_i64(record + 24),
        key,
        -1 if key_size == NULL else key_size,
        value,
        -1 if value_size == NULL else value_size,
        headers,
        value - headers if value > headers else -1,
    )
    return _found(fields)


@kernel
def read_point(descriptor: int, entries: int, number: int, size: int, offset: int, relative: int, salt: int) -> Any:
    """Return (offset, timestamp, key, value, packed headers or ()) of a record; None where it is not as it must be.

    descriptor: of the store, of which `size` bytes may be read. entries: the id of a bytes object of dense entries, of
    which the record's is this number: the caller holds on to it, and has compared the number with its length. salt: the
    store's, as a signed number. None also for a record of more than MOST_BYTES, and for one that could not be read.
    """
    entry = entries + BYTES_DATA + 16 * number
    length, position = load_u32(entry + 8), load_u32(entry + 12)
    record = 0
    if HEAD_BYTES <= length <= MOST_BYTES and position + length <= size:
        record = _malloc(np.uint64(length))
    if record == 0:
        return _found(_NOTHING)
    came = _pread(np.int32(descriptor), record, np.uint64(length), position)
    if came == length and _is_valid(record, length, relative, salt):
        return _found_in(record, offset)
    _free(record)
    return _found(_NOTHING)


def load() -> None:
    """Have `read_point` compiled, or taken from the cache. Not while this module is imported: the cache imports it."""
    entry = bytes(16)  # held here meanwhile, as by every caller
    read_point(-1, id(entry), 0, 0, 0, 0, 0)
