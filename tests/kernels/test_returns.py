"""What the kernels return is made without a call of Python: a signal that interrupts such a call ends the process."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pyarrow as pa
from numba.core.dispatcher import Dispatcher
from numba.core.types import BaseTuple

import seglog
from seglog import kernels
from seglog.kernels.scan import scan_store


def compiled() -> dict[str, list[Any]]:
    """Return what every kernel that was called returns, by its name."""
    modules = [
        importlib.import_module(f"seglog.kernels.{info.name}") for info in pkgutil.iter_modules(kernels.__path__)
    ]
    found = [one for module in modules for one in vars(module).values() if isinstance(one, Dispatcher)]
    return {one.py_func.__name__: [each.signature.return_type for each in one.overloads.values()] for one in found}


def is_plain(kind: Any) -> bool:
    """Whether no part of a type is a named tuple."""
    return not hasattr(kind, "instance_class") and (not isinstance(kind, BaseTuple) or all(map(is_plain, kind.types)))


def test_no_kernel_that_python_calls_returns_a_named_tuple() -> None:
    config = seglog.LogConfig(buffer_bytes=20_000, retention=seglog.Retention(compact=True))
    with seglog.open(seglog.MemoryStorage(), config) as log:
        log.append_batch(pa.table({"key": [b"k"] * 300, "value": [b"v"] * 300}))
        for _ in range(300):
            log.append(b"v", key=b"k")
        assert log.compact(roll=True).records_after == 1
        assert log.to_arrow().num_rows == 1
    scan_store(b"", salt=1, relative=0, position=0, end=0, dense=True, interval=64)
    returned = compiled()
    assert {"encode", "decode", "scan", "copy_survivors", "read_keys"} <= {
        name for name, kinds in returned.items() if kinds
    }
    assert [name for name, kinds in returned.items() if not all(map(is_plain, kinds))] == []
