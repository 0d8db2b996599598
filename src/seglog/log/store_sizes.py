"""The sizes of the stores that a manifest names: one system call each, with many segments by a kernel if it is loaded.

A kernel makes no object of each answer, which takes as long as the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from seglog.format import filename
from seglog.segment.loaded_kernels import loaded_kernel
from seglog.storage import LocalStorage, Storage, local_directory, sizes_of

FEW = 64


def store_sizes(storage: Storage, names: Sequence[str]) -> list[int | None]:
    """Return the size in bytes of each of these stores, in this order; None for one that is missing or no file."""
    directory = local_directory(storage)
    kernel = loaded_kernel("unchanged", "file_sizes")
    if directory is None or kernel is None or len(names) < FEW:
        return sizes_of(storage, names, ending="." + filename.STORE)
    sizes = _by_kernel(directory, names, kernel)
    unknown = [number for number, size in enumerate(sizes) if size < 0]  # or an error, which this raises:
    found: list[int | None] = [*sizes]
    for number, size in zip(unknown, directory.sizes_of([names[one] for one in unknown]), strict=True):
        found[number] = size
    return found


def _by_kernel(directory: LocalStorage, names: Sequence[str], kernel: Callable[..., Any]) -> list[int]:
    import numpy as np  # noqa: PLC0415 - loaded already, since the kernel is

    sizes = np.empty(len(names), np.int64)
    packed = np.frombuffer("\0".join([*names, ""]).encode(), np.uint8)
    with directory.opened() as descriptor:
        kernel(descriptor, packed, sizes)
    found: list[int] = sizes.tolist()
    return found
