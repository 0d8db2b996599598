"""Two threads for one pass: one makes the next step ready while the other takes the present one.

The kernels, pread and pwrite release the GIL, so that two cores share a pass.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TypeVar

T = TypeVar("T")


class Ahead:
    """Runs iterators one step ahead. A context manager; when it ends, nothing is under way any more."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seglog-compact")

    def __call__(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield what `steps` yields; the step behind is made meanwhile, so two of them must not share memory."""
        coming = self._pool.submit(next, steps, None)
        try:
            while (step := coming.result()) is not None:
                coming = self._pool.submit(next, steps, None)
                yield step
        finally:
            wait([coming])

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pool.shutdown()
