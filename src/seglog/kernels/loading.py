"""Load numba, and compile code with it, where no signal interrupts.

Python raises KeyboardInterrupt in the main thread. During numba's import or compilation that would leave numba
unusable, or its lock held, until the process ends, for example in a notebook. So another thread does this work.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def beyond_interrupts(call: Callable[[], T]) -> T:
    """Return the result of `call`, or raise its error; a thread that receives no signals makes the call.

    If the caller is interrupted, the thread still finishes the call; the process does not exit before.
    """
    if threading.current_thread() is not threading.main_thread():
        return call()
    results: list[T] = []
    errors: list[BaseException] = []

    def make() -> None:
        try:
            results.append(call())
        except BaseException as error:  # noqa: BLE001 - raised in the waiting thread
            errors.append(error)

    thread = threading.Thread(target=make, name="seglog-load")
    try:
        thread.start()
    except RuntimeError:  # the process is about to exit and cannot start threads
        return call()
    thread.join()
    for error in errors:
        raise error
    return results[0]
