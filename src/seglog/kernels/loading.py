"""Loading numba, and compiled code by it, where no signal interrupts it.

Python raises KeyboardInterrupt in the main thread. In the middle of numba's import or of its compiler it leaves numba
unusable, or its lock held, for as long as the process lives: a notebook, say. So another thread does these.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def beyond_interrupts(call: Callable[[], T]) -> T:
    """Return what `call` returns, or raise its error; it is made by a thread that no signal reaches.

    Whoever is interrupted here leaves it to be finished there; the process does not end before.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def make() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised by whoever waits
            errors.append(error)

    thread = threading.Thread(target=make, name="seglog-load")
    try:
        thread.start()
    except RuntimeError:  # the process is about to end, and starts no thread any more
        return call()
    thread.join()
    for error in errors:
        raise error
    return results[0]
