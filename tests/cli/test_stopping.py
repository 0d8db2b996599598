from __future__ import annotations

import os
import signal
import threading

import pytest

from seglog.cli.stopping import on_signals
from tests.waiting import HANG_SECONDS


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_stops_a_command_that_holds_the_lock_which_stopping_needs(number: signal.Signals) -> None:
    lock, stopped, before = threading.Lock(), threading.Event(), signal.getsignal(number)

    def stop() -> None:
        assert lock.acquire(timeout=HANG_SECONDS), "nobody releases the lock"
        lock.release()
        stopped.set()

    with on_signals(stop):
        with lock:
            os.kill(os.getpid(), number)
        assert stopped.wait(HANG_SECONDS), "the signal did not call it"
    assert signal.getsignal(number) == before
