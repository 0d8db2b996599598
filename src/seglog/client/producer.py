"""The producer of `Client`: a thread that sends what `send` left in the queue. What it sends is in `producing`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Self

from seglog.client.flows import Retries
from seglog.client.producing import Deliverer, Entry, Outbox, Outcome, Tally, checked_linger, ended, entry
from seglog.errors import LogClosed, SeglogError
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from types import TracebackType

    from seglog.client.driver import Driver
    from seglog.client.facts import Ack
    from seglog.record import Header


class Producer(Uncopied):
    """Appends single records in the background, many with one request. Get it from `Client.producer`; safe for threads.

    Records of one key keep the order in which they were sent. Each is stored once, however often a request has to be
    tried. A context manager: leaving it waits until everything is sent, and raises if something could not be.
    """

    def __init__(
        self,
        topic: str,
        driver: Driver,
        once: Callable[[], str],
        *,
        batch_bytes: int,
        batch_records: int,
        linger: float,
        queue_bytes: int,
        delivery_timeout: float,
        ack: Ack,
    ) -> None:
        """batch_bytes, batch_records: of one request at most. linger: seconds that a record waits for company.

        queue_bytes: of records that wait; `send` blocks beyond. delivery_timeout: seconds for which a request is tried.
        """
        self._driver, self._once, self._linger = driver, once, checked_linger(linger)
        self._outbox = Outbox(batch_bytes=batch_bytes, batch_records=batch_records, queue_bytes=queue_bytes)
        self._deliverer = Deliverer(topic, ack=ack, retries=Retries(None, delivery_timeout))
        self._changed = threading.Condition()
        self._tally = Tally()
        self._hurry = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def send(
        self,
        value: bytes | None,
        *,
        key: bytes | None = None,
        timestamp: int | None = None,
        headers: Iterable[Header] = (),
        partition: int | None = None,
    ) -> Future[tuple[int, int]]:
        """Let a record be appended, and return at once what will be its (partition, offset), or the error.

        Waits while the queue is full. LogClosed after `close`; what a local append raises for a bad argument.
        """
        self._check_process()
        future: Future[tuple[int, int]] = Future()
        one = entry(value, key=key, timestamp=timestamp, headers=headers, partition=partition, future=future)
        size = one.size
        with self._changed:
            while not self._closed and not self._outbox.has_room(size):
                self._changed.wait()
            if self._closed:
                raise LogClosed("the producer is closed; make another one")
            self._outbox.put(one, size, time.monotonic())
            self._tally.sent += 1
            if len(self._outbox) == 1 or self._outbox.is_full:
                self._wake()
        return future

    def flush(self) -> None:
        """Wait until everything that was sent is stored or has failed; raise the first failure since the last flush."""
        self._check_process()
        with self._changed:
            self._hurry = goal = self._tally.sent
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._tally.done >= goal)
            self._tally.raise_failure()

    def close(self) -> None:
        """Send what waits, as `flush`, and take no more. Closing twice is harmless; a forked child closes nothing."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._tally.raise_failure()

    def _check_process(self) -> None:
        """Refuse a forked child: it has neither the thread nor the right to send what the parent sends."""
        if self._process != os.getpid():
            raise LogClosed("the producer was inherited through fork; make another one here")

    def _wake(self) -> None:
        """Let the thread, which begins with the first record, look. The lock is held."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seglog-producer", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while batch := self._next_batch():
            wanted = [one for one in batch if one.future.set_running_or_notify_cancel()]
            try:
                outcomes = self._driver.run(self._deliverer.deliver(wanted, self._once())) if wanted else []
            except Exception as error:  # noqa: BLE001 - whatever it is: those who wait are told, and the next ones sent
                outcomes = [ended(error)] * len(wanted)
            self._settle(wanted, outcomes, len(batch))

    def _next_batch(self) -> list[Entry]:
        """Wait for a batch: full, or old enough, or wanted now. Empty: the producer is closed and all is sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._outbox or self._closed)
            while self._outbox and not (self._outbox.is_full or self._hurry > self._tally.done or self._closed):
                left = self._outbox.oldest + self._linger - time.monotonic()
                if left <= 0:
                    break
                self._changed.wait(left)
            batch = self._outbox.take()
            self._changed.notify_all()
            return batch

    def _settle(self, batch: list[Entry], outcomes: list[Outcome], taken: int) -> None:
        for one, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, SeglogError):
                one.future.set_exception(outcome)
            else:
                one.future.set_result(outcome)
        with self._changed:
            self._tally.settle(outcomes)
            self._tally.done += taken - len(batch)  # those that were cancelled
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
