"""An attribute that is computed when it is first asked for: once, and the same object for every thread."""

from __future__ import annotations

import threading

from seglog.format.once import once
from tests.waiting import HANG_SECONDS


class Asked:
    def __init__(self, together: threading.Barrier | None = None) -> None:
        self.together = together
        self.computed = 0

    @once
    def value(self) -> object:
        """Return a new object."""
        self.computed += 1
        if self.together is not None:
            self.together.wait(HANG_SECONDS)
        return object()


def test_it_is_computed_when_it_is_asked_for_and_kept() -> None:
    asked = Asked()
    assert asked.computed == 0
    assert asked.value is asked.value
    assert asked.computed == 1


def test_threads_that_compute_it_at_once_all_get_the_object_that_is_kept() -> None:
    asked, found = Asked(threading.Barrier(2)), list[object]()
    threads = [threading.Thread(target=lambda: found.append(asked.value)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert asked.computed == 2
    assert found == [asked.value, asked.value]
