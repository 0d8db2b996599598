"""Several threads for one pass: calls are made ahead of whoever takes their results.

The kernels, pread and pwrite release the GIL, so that two cores share a pass.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from itertools import islice
from queue import SimpleQueue
from typing import TypeVar

from seglog.segment.calls import THREADS, Calls

T = TypeVar("T")

ROOMS = THREADS + 4  # places for results: one in use, the others made ahead


class Ahead:
    """Makes calls ahead. A context manager; when it ends, nothing is under way any more.

    Calls are handed out several at a time: a thread that sleeps costs more to wake than a small step takes.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(max_workers=THREADS, thread_name_prefix="seglog-compact")
        self._under_way = Calls(self._pool)
        self._aside = ThreadPoolExecutor(max_workers=1, thread_name_prefix="seglog-sync")

    def each(self, calls: Iterable[Callable[[], T]]) -> Iterator[T]:
        """Yield what the calls return, in their order; several are made at a time. An error comes in its place.

        Whoever takes a result that is not there yet makes calls instead of waiting. One call in ROOMS may use the same
        memory: fewer results are there or under way at a time, the one that was yielded last among them.
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
        """Yield what `steps` yields, made one at a time, several ahead; as for `each`. None would end it.

        Steps that need each other are nobody else's work: whoever waits for one makes calls of `each` meanwhile.
        """
        made, one_at_a_time, coming = SimpleQueue[T | BaseException | None](), threading.Lock(), 0
        batches: list[Future[None]] = []

        def make(count: int) -> None:
            with one_at_a_time:
                try:
                    for _ in range(count):
                        made.put(next(steps, None))
                except BaseException as error:  # noqa: BLE001 - raised when it is taken
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
        """Have a call made that only waits, for a medium."""
        return self._aside.submit(call)

    def __enter__(self) -> Ahead:
        return self

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._pool.shutdown()
        self._aside.shutdown()
