"""`Mirror`: keeps a copy of a log, a topic, or a directory of topics, by path or from a server."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import replace
from types import TracebackType
from typing import TYPE_CHECKING, Self

from seglog.clock import Clock, checked_clock, system_clock
from seglog.errors import CopyStopped, SeglogError
from seglog.log.log import Log
from seglog.log.opening import storage_at
from seglog.replication.broker_mirror import LOOK_SECONDS, BrokerMirror
from seglog.replication.log_mirror import Lag, LogMirror
from seglog.replication.places import LocalPlace
from seglog.replication.rest import Rest
from seglog.replication.topic_mirror import TopicMirror
from seglog.storage import Storage
from seglog.topic.cleaning import Cleaner
from seglog.topic.layout.locations import is_location
from seglog.topic.layout.places import Partition
from seglog.topic.layout.root import OFFSETS
from seglog.uncopied import Uncopied

if TYPE_CHECKING:
    import ssl

    from seglog.replication.places import SourcePlace

POLL_SECONDS = 0.005
MOST_NAME = 200
WAIT_SECONDS = 0.5
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.05, 5.0


class Mirror(Uncopied):
    """Keeps a copy of a log, a topic, or a directory of topics up to date. A context manager; not safe for threads.

    The copy has the records of its source at the same offsets, the same ids and epochs, topic descriptions, settings
    and committed group offsets, so that consumers can continue in it. It can only be read (mode "r"), until `seglog
    promote` makes it a leader. Each copy compacts and expires on its own. A process may be killed at any moment; the
    next Mirror continues.

    problem: the error that `run` is retrying, such as ConnectionFailed; None while it copies.
    """

    def __init__(
        self,
        source: str | os.PathLike[str] | Storage,
        target: str | os.PathLike[str] | Storage,
        *,
        restart: bool = False,
        pin: bool = True,
        token: str | None = None,
        verify: bool | str | ssl.SSLContext = True,
        retries: int = 8,
        clock: Clock = system_clock,
    ) -> None:
        """Check that the target can follow the source; nothing is copied yet.

        Args:
            source: A path, a Storage, or the URL of a server (http://host:3000, or with a path: http://host/prefix/),
                of one of its topics (http://host:3000/orders) or partitions (http://host:3000/orders/0).
            target: A path or a Storage: missing, empty, or an earlier copy.
            restart: If the copy cannot continue, delete what it holds and does not share with its source.
            pin: Store the copy's position at the source, so that compaction keeps tombstones that it has not read.
                Without it, a copy that is away longer than delete_retention misses deletions.
            token: A bearer token, if the server requires one.
            verify: How to check an https certificate: False, a CA file, or an ssl.SSLContext.
            retries: How often a request to a server is retried, with growing pauses.
            clock: Microseconds since the epoch; default: the system's clock.

        Raises:
            CopyDiverged: If the target has another history than the source, or records that the source does not have.
            CopyExpired: If the source has deleted records that the copy needs next.
            LogNotFound: If there is nothing at the source.
            LogLocked: If another process writes the target.
        """
        checked_clock(clock)
        self._stop = threading.Event()
        self._rest = Rest()
        self.problem: SeglogError | None = None
        self._apart_since: float | None = None
        with ExitStack() as resources:
            self._source = _place_at(source, token, verify, retries, clock)
            resources.callback(self._source.close)
            storage = storage_at(target)
            name = f"{socket.gethostname()}:{storage.path}"[-MOST_NAME:]
            kept = {"restart": restart, "pin": pin, "name": name, "clock": clock}
            self._broker: BrokerMirror | None = None
            self._topic: TopicMirror | None = None
            self._looked_at = float("-inf")
            self._logs: dict[Partition, LogMirror] = {}
            if self._source.kind == "broker":
                self._broker = BrokerMirror(self._source, storage, **kept)  # type: ignore[arg-type] # as above
                resources.callback(self._broker.close)
            elif self._source.kind == "topic":
                known = self._source.topics()[""]
                assert known is not None  # noqa: S101 - a standalone topic that cannot be read raises
                self._topic = TopicMirror(self._source, "", known, storage, **kept)  # type: ignore[arg-type] # as above
                resources.callback(self._topic.close)
                self._follow_topic()
            else:
                log = self._source.log("", 0)
                resources.callback(log.close)
                mirror = LogMirror(log, storage, **kept)  # type: ignore[arg-type] # as above
                resources.callback(mirror.close)
                self._logs = {("", 0): mirror}
            self._resources = resources.pop_all()

    @property
    def is_server(self) -> bool:
        """Whether the source is a directory of topics, or a whole server."""
        return self._broker is not None

    def _present(self) -> dict[Partition, LogMirror]:
        return self._logs if self._broker is None else self._broker.logs

    # --- what is known --------------------------------------------------------------------------------------------

    @property
    def lags(self) -> dict[Partition, Lag]:
        """What each partition lacked at the end of its last round: (topic, partition) -> Lag; ("", 0): a single log."""
        lags = {place: log.lag for place, log in self._present().items()}
        since = self._apart_since
        if since is None:
            return lags
        apart = time.monotonic() - since  # nothing is known of the source since then
        return {place: replace(lag, seconds=max(lag.seconds, apart)) for place, lag in lags.items()}

    @property
    def lag(self) -> Lag:
        """What the copy lacked at the end of the last round: all records and bytes, and the longest time."""
        lags = self.lags.values()
        return Lag(
            sum(lag.records for lag in lags),
            sum(lag.bytes for lag in lags),
            max((lag.seconds for lag in lags), default=0.0),
        )

    # --- copying --------------------------------------------------------------------------------------------------

    def step(self) -> int:
        """Make one round, make it durable, and return the bytes that were copied; 0: there was nothing new.

        All other logs are copied before an error of one is raised.

        Raises:
            CopyDiverged: If a copy cannot follow its source.
            CopyExpired: If the source has deleted records that a copy needs next.
            CorruptRecord: If a record of the source is damaged; the records before it are copied.
            ConnectionFailed: If the server cannot be reached.
        """
        self._rest.end()
        return self._round()

    def _round(self) -> int:
        if self._broker is not None:
            return self._broker.step(self._rest)
        copied, failed = 0, []
        try:
            self._follow_topic()
        except SeglogError as error:
            failed.append(error)
        for place, log in self._logs.items():
            try:
                copied += self._rest.step(place, log)
            except SeglogError as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return copied

    def catch_up(self) -> int:
        """Make rounds until there is nothing new, and return the bytes that were copied.

        All other logs are complete before an error of one is raised; errors as `step`.
        """
        self._rest.end()
        copied = 0
        while True:
            try:
                size = self._round()
            except SeglogError as error:
                if not self._may_rest(error):
                    raise
                continue
            copied += size
            if not size:
                break
        if self.failures:
            raise next(iter(self.failures.values()))
        return copied

    def _follow_topic(self) -> None:
        """Follow the partitions and policies of a single topic."""
        if self._topic is None or time.monotonic() - self._looked_at < LOOK_SECONDS:
            return
        known = self._source.topics()[""]
        assert known is not None  # noqa: S101 - a standalone topic that cannot be read raises
        self._topic.follow(known)
        self._logs = {(known.name, number): log for number, log in self._topic.logs.items()}
        self._looked_at = time.monotonic()

    @property
    def failures(self) -> dict[Partition, SeglogError]:
        """The partitions that cannot be copied on, because a record of the source is damaged, with the errors."""
        return dict(self._rest.failures)

    def run(
        self,
        *,
        stop: threading.Event | None = None,
        on_copied: Callable[[], None] | None = None,
        on_failure: Callable[[Partition, SeglogError], None] | None = None,
    ) -> None:
        """Copy, expire and compact until `stop` is set, or another thread or a signal handler calls `stop()`.

        Errors that may pass (`retriable`) are retried with growing pauses. If a partition of several is damaged at the
        source, the others are copied on, and it is tried again every few seconds. Other errors are raised.

        Args:
            stop: Ends the run when it is set.
            on_copied: Called after each round that copied something.
            on_failure: Called when a partition is found damaged.
        """
        stop, pause = stop or self._stop, FIRST_RETRY_SECONDS
        with closing(Cleaner(self._copies).start()):
            while not stop.is_set():
                known = self.failures
                try:
                    copied = self._round()
                except SeglogError as error:
                    if self._may_rest(error):
                        self._report(known, on_failure)
                        continue
                    if isinstance(error, CopyStopped) or not error.retriable:
                        raise
                    self.problem, self._apart_since = error, self._apart_since or time.monotonic()
                    stop.wait(pause)
                    pause = min(2 * pause, LONGEST_RETRY_SECONDS)
                    continue
                pause, self.problem, self._apart_since = FIRST_RETRY_SECONDS, None, None
                if copied and on_copied is not None:
                    on_copied()
                elif not copied:
                    self._wait(stop)

    def _may_rest(self, error: SeglogError) -> bool:
        """Whether this is the damage of one of several partitions: the others can be copied on."""
        return len(self._present()) > 1 and any(error is one for one in self._rest.failures.values())

    def _report(
        self, known: dict[Partition, SeglogError], on_failure: Callable[[Partition, SeglogError], None] | None
    ) -> None:
        for place, error in self.failures.items():
            if place not in known and on_failure is not None:
                on_failure(place, error)

    def _copies(self) -> dict[str, Log]:
        return {f"{topic}/{number}" if topic else "log": one.log for (topic, number), one in self._present().items()}

    def stop(self) -> None:
        """Let `run` return after its present round. Any thread may call this."""
        self._stop.set()

    def _wait(self, stop: threading.Event) -> None:
        positions = {place: log.position for place, log in self._present().items() if place[0] != OFFSETS}
        for place in self._rest.failures:
            positions.pop(place, None)
        try:
            self._source.wait(positions, WAIT_SECONDS)
        except SeglogError as error:
            if not error.retriable:
                raise
        stop.wait(POLL_SECONDS if positions else WAIT_SECONDS)

    def close(self) -> None:
        """Store the positions at the source, and close the copy. A second call does nothing."""
        self._stop.set()
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _place_at(
    source: str | os.PathLike[str] | Storage,
    token: str | None,
    verify: bool | str | ssl.SSLContext,
    retries: int,
    clock: Clock,
) -> SourcePlace:
    if is_location(source):
        from seglog.replication.remote import RemotePlace  # noqa: PLC0415 - a copy by path needs no client

        return RemotePlace(source, token=token, verify=verify, retries=retries)
    return LocalPlace(source, clock=clock)
