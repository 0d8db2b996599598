"""Views that reads of several pages go on with, so that all pages show the log as it was at the first one.

A page names the snapshot that the next one has to ask for (`log.history.Snapshot`). As long as its view is kept, a
compaction, expiry or truncate deletes none of its files. Views are kept for some seconds after their last use, while
the files that only they keep are not too large, and while the disk has space: retention wins when it fills. Without its
view a read goes on if its range has not changed, and otherwise gets SnapshotExpired.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument, SnapshotExpired
from seglog.log.history import Snapshot

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.log.view import View

NEW = "new"
MOST = 10_000  # ranges of clients that name no snapshot


@dataclass(slots=True)
class _Kept:
    """A view; used: when it was used last; present: returns the log's present view."""

    view: View
    used: float
    present: Callable[[], View]

    def bytes(self) -> int:
        """Bytes of the files that the log no longer names."""
        present = self.present().manifest
        if present.version == self.view.manifest.version:
            return 0
        live = {file for _, file, _ in present.segments.stores()}
        return sum(size for _, file, size in self.view.manifest.segments.stores() if file not in live)


class Snapshots:
    """The kept views of one server. Thread-safe."""

    def __init__(self, seconds: float, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        """seconds: after a view's last use; size: bytes of the files that only kept views keep."""
        self._seconds, self._size, self._clock = seconds, size, clock
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], _Kept] = OrderedDict()
        self._unnamed: OrderedDict[tuple[int, int, int], str] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def bytes(self) -> int:
        """Return the bytes of files that are kept for reads alone."""
        with self._guard:
            return sum(one.bytes() for one in self._kept.values())

    def view(self, log: Log, start: int, stop: int, token: str) -> View:
        """Return the view to read a range from.

        Args:
            log: The log.
            start: First offset that is left to read.
            stop: End of the read, as at its first page.
            token: What the page before named; "new" for the first page; "" if the client names none, which then goes on
                where a page of the same range ended.

        Raises:
            SnapshotExpired: If the range has changed, and its view is no longer kept.
            InvalidArgument: If it is not a token.
        """
        now = log.view()
        range_ = now.manifest.log_id, start, stop
        token = token or self._unnamed.get(range_, NEW)
        if token == NEW:
            return now
        try:
            snapshot = Snapshot.parse(token)
        except ValueError:
            raise InvalidArgument(
                f"Seglog-Snapshot is {token[:80]!r}; send what the page before named, or new"
            ) from None
        self.drop_old()
        with self._guard:
            kept = self._kept.get((now.manifest.log_id, snapshot.version))
        if kept is not None and snapshot.trace.log == f"{now.manifest.log_id:016x}":
            return kept.view
        if stop > now.next_offset or start < now.lowest_offset or not snapshot.holds(now._snapshot_of(start, stop)):
            self._unnamed.pop(range_, None)
            raise SnapshotExpired(start, stop, log.path)
        return now

    def keep(self, log: Log, view: View, start: int, stop: int) -> None:
        """Keep a view for the next page, of the range start..stop."""
        token = str(view._snapshot_of(start, stop))
        log_id, version = view.manifest.log_id, view.manifest.version
        with self._guard:
            if (log_id, version) not in self._kept:  # the log has changed: now older views may keep files
                self._drop_large()
            self._kept[log_id, version] = _Kept(view, self._clock(), log.view)
            self._kept.move_to_end((log_id, version))
            self._unnamed[log_id, start, stop] = token
            self._unnamed.move_to_end((log_id, start, stop))
            while len(self._unnamed) > MOST:
                self._unnamed.popitem(last=False)

    def _drop_large(self) -> None:
        size = 0
        for key, one in reversed(list(self._kept.items())):
            size += one.bytes()
            if size > self._size:
                del self._kept[key]

    def drop_old(self) -> None:
        """Drop the views that were not used for too long."""
        with self._guard:
            before = self._clock() - self._seconds
            while self._kept and next(iter(self._kept.values())).used < before:
                self._kept.popitem(last=False)

    def drop_all(self) -> None:
        """Drop all views: the disk is full."""
        with self._guard:
            self._kept.clear()
