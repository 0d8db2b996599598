"""A server that follows another one: a thread keeps the copy up to date, and wakes waiting requests."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal

from seglog.errors import Busy, ConfigError, ConnectionFailed, SeglogError
from seglog.log.opening import storage_at
from seglog.replication import Mirror
from seglog.replication.log_mirror import Lag
from seglog.storage import Storage
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    from seglog.server.runtime.waiting import Waiting


RETRIES = 2  # of a request; after that a round is repeated
FIRST_RETRY_SECONDS, LONGEST_RETRY_SECONDS = 0.1, 5.0
UNREACHABLE = (ConnectionFailed, Busy)


class Following:
    """The copy of a server. It begins, and goes on, without its leader being reachable.

    leader: its URL; failure: why copying has ended, None while it runs.
    """

    def __init__(
        self, root: str | os.PathLike[str] | Storage, leader: str, token: str | None, say: Callable[[str], None]
    ) -> None:
        """Make the first round, if the leader answers. Raises the errors of Mirror and its `step`."""
        self.leader = leader
        self.failure: SeglogError | None = None
        self._root, self._token = root, token
        self._say = say
        self._wake: Callable[[], object] = lambda: None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="seglog-mirror", daemon=True)
        self._mirror: Mirror | None = None
        self._problem: SeglogError | None = None
        try:
            self._open()
        except UNREACHABLE as error:
            storage_at(root).make([])  # so that there is something to serve
            self._note(error)

    def _open(self) -> None:
        """Open the copy. The source must be a whole server."""
        mirror = Mirror(self.leader, self._root, token=self._token, retries=RETRIES)
        try:
            if not mirror.is_server:
                raise ConfigError(f"a server follows a whole server, and {self.leader} names a topic; omit the path")
            self._first_round(mirror)
        except BaseException:
            mirror.close()
            raise
        self._mirror, self._problem = mirror, None

    def _first_round(self, mirror: Mirror) -> None:
        """Copy for the first time. Damage of one of several partitions does not hold up the others."""
        try:
            mirror.step()
        except SeglogError as error:
            if not mirror._may_rest(error):
                raise
            for place, failure in mirror.failures.items():
                self._damaged(place, failure)

    def start(self, waiting: Waiting, loop: asyncio.AbstractEventLoop) -> None:
        """Go on in a thread. A second call does nothing."""
        if self._thread.ident is None:
            self._wake = partial(loop.call_soon_threadsafe, waiting.wake)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._connect()
            if self._mirror is not None:
                self._mirror.run(stop=self._stopping, on_copied=self._copied, on_failure=self._damaged)
        except SeglogError as error:
            self.failure = error
            self._say(f"copying from {self.leader} has ended: {error}")

    def _connect(self) -> None:
        """Try to open the copy until it succeeds, or the server stops."""
        pause = FIRST_RETRY_SECONDS
        while self._mirror is None and not self._stopping.wait(pause):
            pause = min(2 * pause, LONGEST_RETRY_SECONDS)
            try:
                self._open()
                self._say(f"{self.leader} answers: copying begins")
                self._copied()
            except UNREACHABLE as error:
                self._note(error)

    def _note(self, error: SeglogError) -> None:
        if self._problem is None:
            self._say(f"{self.leader} cannot be reached yet, and is tried again: {error}")
        self._problem = error

    def _damaged(self, place: Partition, error: SeglogError) -> None:
        self._say(f"{place[0]}/{place[1]} is not copied on: {error}")

    def _copied(self) -> None:
        try:
            self._wake()
        except RuntimeError:  # the event loop is closed: the server stops
            self._stopping.set()

    @property
    def state(self) -> Literal["connecting", "copying", "stopped"]:
        """What the copy does. connecting: the leader cannot be reached at present."""
        if self.failure is not None:
            return "stopped"
        return "copying" if self.problem is None else "connecting"

    @property
    def problem(self) -> SeglogError | None:
        """Why the leader cannot be reached, or why copying has ended; None while it works."""
        known = self._problem if self._mirror is None else self._mirror.problem
        return self.failure or known

    @property
    def damaged(self) -> dict[Partition, SeglogError]:
        """The partitions that are not copied on, because a record of the leader is damaged."""
        return {} if self._mirror is None else self._mirror.failures

    @property
    def lags(self) -> dict[Partition, Lag]:
        """What each partition of the copy lacks."""
        return {} if self._mirror is None else self._mirror.lags

    def close(self) -> None:
        """End the thread, and close the copy."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join()
        if self._mirror is not None:
            self._mirror.close()
