"""A server that follows another one: a thread keeps the copy up to date, and wakes waiting requests."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from seglog.errors import SeglogError
from seglog.replication import Mirror
from seglog.replication.log_mirror import Lag
from seglog.topic.layout.places import Partition

if TYPE_CHECKING:
    from seglog.server.runtime.waiting import Waiting


class Following:
    """The copy of a server. leader: its URL; failure: why copying has ended, None while it runs."""

    def __init__(
        self, root: str | os.PathLike[str], leader: str, token: str | None, say: Callable[[str], None]
    ) -> None:
        """Make the first round, so that there is something to serve. Raises the errors of Mirror and its `step`."""
        self.leader = leader
        self.failure: SeglogError | None = None
        self._say = say
        self._wake: Callable[[], object] = lambda: None
        self._thread = threading.Thread(target=self._run, name="seglog-mirror", daemon=True)
        self._mirror = Mirror(leader, root, token=token)
        try:
            self._mirror.step()
        except BaseException:
            self._mirror.close()
            raise

    def start(self, waiting: Waiting, loop: asyncio.AbstractEventLoop) -> None:
        """Go on in a thread. A second call does nothing."""
        if self._thread.ident is None:
            self._wake = partial(loop.call_soon_threadsafe, waiting.wake)
            self._thread.start()

    def _run(self) -> None:
        try:
            self._mirror.run(on_copied=self._copied)
        except SeglogError as error:
            self.failure = error
            self._say(f"copying from {self.leader} has ended: {error}")

    def _copied(self) -> None:
        try:
            self._wake()
        except RuntimeError:  # the event loop is closed: the server stops
            self._mirror.stop()

    @property
    def lags(self) -> dict[Partition, Lag]:
        """What each partition of the copy lacks."""
        return self._mirror.lags

    def close(self) -> None:
        """End the thread, and close the copy."""
        self._mirror.stop()
        if self._thread.ident is not None:
            self._thread.join()
        self._mirror.close()
