"""Stop a command that runs until SIGINT or SIGTERM."""

from __future__ import annotations

import _thread
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def on_signals(stop: Callable[[], object]) -> Iterator[None]:
    """Call ``stop`` for each SIGINT and SIGTERM, in a thread: the thread that a signal interrupts may hold a lock.

    ``_thread`` starts it without a lock of Python's own, which ``threading.Thread.start`` takes.
    """
    signals = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(one, lambda *_: _thread.start_new_thread(stop, ())) for one in signals]
    try:
        yield
    finally:
        for one, handler in zip(signals, before, strict=True):
            signal.signal(one, handler)
