"""Several threads for one pass: calls are made before their results are requested.

The kernels, pread and pwrite release the GIL, so two cores can share a pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar

from seglog.parallel.calls import THREADS, Calls

T = TypeVar("T")

ROOMS = THREADS + 4  # memory areas for results: one in use, the others filled ahead


class Ahead:
    """Makes calls ahead. A context manager; when it ends, no call is running.

    Several calls are submitted at a time, because waking a thread costs more than a small step.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="seglog-compact")
        self._under_way = Calls(self._pool)
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seglog-sync")

    def each(self, calls: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Yield the results of the calls in their order; several calls run at a time. An error comes in its place.

        A thread that takes a result that is not ready makes calls instead of waiting. Every ROOMS-th call may use the
        same memory: fewer results than that are pending or running, including the one yielded last.
        """
        more, under_way = iter(calls), self._under_way
        try:
            while True:
                if len(under_way) < ROOMS // 2:
                    for call in islice(more, ROOMS - 1 - len(under_way)):
                        under_way.launch(call)
                if not under_way:
                    return
                yield under_way.take()
        finally:
            under_way.finish()

    def steps(self, steps: Iterator[T]) -> Iterator[T]:
        """Yield what `steps` yields, made one at a time and several ahead, as in `each`. A step of None would end it.

        Dependent steps cannot be shared: a thread that waits for one makes calls of `each` meanwhile.
        """
        made, one_at_a_time, coming = SimpleQueue[T | BaseException | None](), threading.Lock(), 0
        batches: list[Future[None]] = []

        def make(count: int) -> None:
            with one_at_a_time:
                try:
                    for _ in range(count):
                        made.put(next(steps, None))
                except BaseException as error:  # noqa: BLE001 - raised when the result is taken
                    made.put(error)

        try:
            while True:
                if coming <= ROOMS // 2:
                    batches = [*batches[-1:], self._pool.submit(make, ROOMS - 1 - coming)]
                    coming = ROOMS - 1
                while made.empty() and self._under_way.work():
                    pass
                step = made.get()
                if isinstance(step, BaseException):
                    raise step
                if step is None:
                    return
                coming -= 1
                yield step
        finally:
            wait([batch for batch in batches if not batch.cancel()])

    def aside(self, call: Callable[[], None]) -> Future[None]:
        """Submit a call that mostly waits for the disk."""
        return self._aside.submit(call)

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pool.shutdown()
        self._aside.shutdown()
