"""The producer of `Client`: a thread that sends what `send` queued. See `producing`."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from seglog.client.producing import Deliverer, Entry, Outbox, Outcome, Tally, checked_linger, ended, entry
from seglog.client.retrying import Retries
from seglog.errors import LogClosed, SeglogError
from seglog.record import Header, Timestamp, checked_timestamp
from seglog.serializers import Serializers
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    from seglog.client.driver import Driver
from seglog.client.requests.topic_calls import Acknowledgement


class Producer(Uncopied):
    """Appends single records in the background, many per request. Get it from `Client.producer`; thread-safe.

    Records of one key keep their order. Each is stored once, however often a request is retried. A context manager:
    leaving it waits until everything is sent, and raises if a record failed.
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
        ack: Acknowledgement,
        serializers: Serializers | None = None,
    ) -> None:
        """Start a producer.

        Args:
            batch_bytes, batch_records: The most of one request.
            linger: Seconds that a record waits for others to join its batch.
            queue_bytes: The most bytes of queued records; `send` blocks beyond.
            delivery_timeout: Seconds for which a request is retried.
            ack: As the arguments ack, copies and wait of RemoteTopic.append.
            serializers: For the keys and values of `send`; None: bytes.
        """
        self._driver, self._once, self._linger = driver, once, checked_linger(linger)
        self._outbox = Outbox(batch_bytes=batch_bytes, batch_records=batch_records, queue_bytes=queue_bytes)
        self._deliverer = Deliverer(topic, ack=ack, retries=Retries(None, delivery_timeout))
        self._changed = threading.Condition()
        self._tally = Tally()
        self._hurry = 0
        self._topic, self._serializers = topic, serializers
        self._closed = False
        self._thread: threading.Thread | None = None
        self._process = os.getpid()

    def send(
        self,
        value: Any,
        *,
        key: Any = None,
        timestamp: Timestamp | None = None,
        force_timestamp: bool = False,
        headers: Iterable[Header] = (),
        partition: int | None = None,
    ) -> Future[tuple[int, int]]:
        """Queue a record; return a future of its (partition, offset) at once. Blocks while the queue is full.

        Args:
            value, key, timestamp, force_timestamp, headers, partition: As in RemoteTopic.append.

        Raises:
            LogClosed: the producer is closed.
            InvalidArgument, InvalidType: as a local append.
            SerializationError: a serializer refused the key or value; nothing is queued.
        """
        self._check_process()
        future: Future[tuple[int, int]] = Future()
        if self._serializers is not None:
            key, value = self._serializers.serialized(self._topic, key, value, partition)
        moment = None if timestamp is None else checked_timestamp(timestamp, force_timestamp=force_timestamp)
        one = entry(value, key=key, timestamp=moment, headers=headers, partition=partition, future=future)
        size = one.size
        with self._changed:
            while not self._closed and not self._outbox.has_room(size):
                self._changed.wait()
            if self._closed:
                raise LogClosed("the producer is closed; create another one")
            self._outbox.put(one, size, time.monotonic())
            self._tally.sent += 1
            if len(self._outbox) == 1 or self._outbox.is_full:
                self._wake()
        return future

    def flush(self) -> None:
        """Wait until every queued record is stored or has failed; raise the first failure since the last flush."""
        self._check_process()
        with self._changed:
            self._hurry = goal = self._tally.sent
            self._changed.notify_all()
            self._changed.wait_for(lambda: self._tally.done >= goal)
            self._tally.raise_failure()

    def close(self) -> None:
        """Send what is queued, like `flush`, and accept no more. A second call and a forked child do nothing."""
        if self._process != os.getpid():
            return
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()
        self._tally.raise_failure()

    def _check_process(self) -> None:
        """Raise in a forked child: its parent owns the queue and the thread."""
        if self._process != os.getpid():
            raise LogClosed("the producer was inherited through fork; create another one here")

    def _wake(self) -> None:
        """Wake the thread, or start it for the first record. The lock is held."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="seglog-producer", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _run(self) -> None:
        while batch := self._next_batch():
            wanted = [one for one in batch if one.future.set_running_or_notify_cancel()]
            try:
                outcomes = self._driver.run(self._deliverer.deliver(wanted, self._once())) if wanted else []
            except Exception as error:  # noqa: BLE001 - goes to the records' futures
                outcomes = [ended(error)] * len(wanted)
            self._settle(wanted, outcomes, len(batch))

    def _next_batch(self) -> list[Entry]:
        """Wait for a batch: full, old enough, or flushed. Empty: the producer is closed and everything is sent."""
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
            self._tally.done += taken - len(batch)  # the cancelled ones
            self._changed.notify_all()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
