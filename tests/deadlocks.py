"""Work that may hang, with an end."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.waiting import HANG_SECONDS, source_of

if TYPE_CHECKING:
    from collections.abc import Callable


def in_time(work: Callable[[], None]) -> None:
    """Run in a thread, so that a deadlock fails the test."""
    errors: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:  # noqa: BLE001 - raised below
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(HANG_SECONDS)
    assert not thread.is_alive(), f"it hangs: {source_of(work)}"
    for error in errors:
        raise error
