"""Views that reads of several pages go on with, so that all pages show the log as it was at the first one.

A page names the snapshot that the next one has to ask for (`log.history.Snapshot`). As long as its view is kept, a
compaction, expiry or truncate deletes none of its files. Views are kept for some seconds after their last use, ten
times as long in total, while the files that logs no longer name are not too large, and while the disk has space:
retention wins when it fills. Without its view a read goes on if its range has not changed, and otherwise gets
SnapshotExpired.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import InvalidArgument, SeglogError, SnapshotExpired
from seglog.format import filename
from seglog.log.history import Snapshot

if TYPE_CHECKING:
    from seglog.log.log import Log
    from seglog.log.view import View

NEW = "new"
SEVERAL = ""  # instead of a token: reads of different snapshots ended there
MOST = 10_000  # ranges of clients that name no snapshot
LONGEST = 10  # times the seconds after a view's last use: the longest time that a read can keep it
LOOK_SECONDS = 1.0  # between two looks at what is on the disk


class Range(NamedTuple):
    """What a page is read from: a view, and the end of the whole range in it."""

    view: View
    end: int


@dataclass(slots=True)
class _Kept:
    """A view of a log. since, used: when it was kept first, and used last."""

    log: Log
    view: View
    since: float
    used: float


class Snapshots:
    """The kept views of one server. Thread-safe."""

    def __init__(self, seconds: float, size: int, clock: Callable[[], float] = time.monotonic) -> None:
        """seconds: after a view's last use; size: bytes of files that logs no longer name."""
        self._seconds, self._size, self._clock = seconds, size, clock
        self._guard = threading.Lock()
        self._kept: OrderedDict[tuple[int, int], _Kept] = OrderedDict()  # the one used last at the end
        self._unnamed: OrderedDict[tuple[int, int, int], tuple[str, float]] = OrderedDict()
        self._looked = float("-inf")

    def __len__(self) -> int:
        return len(self._kept)

    def bytes(self) -> int:
        """Return the bytes of files that logs no longer name, of those logs of which an earlier state is kept."""
        with self._guard:
            kept = list(self._kept.values())
        oldest = {id(one.log): one for one in sorted(kept, key=lambda one: -one.view.manifest.version)}
        return sum(_unnamed_bytes(one) for one in oldest.values())

    def begin(self, log: Log, start: int, stop: int, token: str) -> Range | None:
        """Return what to read a page of a range from; None: the log as it is now.

        Args:
            log: The log.
            start: First offset that is left to read.
            stop: End of the range, as the client names it.
            token: What the page before named; "new" for the first page; "" if the client names none, which then goes on
                where a page of the same range ended.

        Raises:
            SnapshotExpired: If the range has changed, and its view is no longer kept.
            InvalidArgument: If it is not a token.
        """
        if token == NEW:
            return None
        now = log.view()
        known = None if token else self._known(now.manifest.log_id, start, stop)
        if not token and known is None:
            return None
        if known == SEVERAL:
            self._unnamed.pop((now.manifest.log_id, start, stop), None)
            raise SnapshotExpired(start, stop, log.path)
        snapshot = _parsed(token or known or "")
        self.drop_old()
        with self._guard:
            kept = self._kept.get((now.manifest.log_id, snapshot.version))
        if kept is not None and snapshot.trace.log == f"{now.manifest.log_id:016x}":
            if token or kept.view.manifest.epoch == now.manifest.epoch:
                return Range(kept.view, min(snapshot.end, stop))
        elif now.lowest_offset <= start and snapshot.holds(now._snapshot_of(start, snapshot.end)):
            return Range(now, min(snapshot.end, stop))
        self._unnamed.pop((now.manifest.log_id, start, stop), None)
        raise SnapshotExpired(start, snapshot.end, log.path)

    def _known(self, log_id: int, start: int, stop: int) -> str | None:
        token, since = self._unnamed.get((log_id, start, stop), (None, 0.0))
        return token if self._clock() - since < LONGEST * max(self._seconds, 1.0) else None

    def keep(self, log: Log, view: View, start: int, stop: int, token: str) -> None:
        """Keep a view for the next page, of the range that the client calls start..stop, and that the token names."""
        self._give_up_too_large()
        log_id, version, now = view.manifest.log_id, view.manifest.version, self._clock()
        with self._guard:
            known = self._kept.get((log_id, version))
            since = now if known is None else known.since
            self._kept[log_id, version] = _Kept(log, view, since, now)
            self._kept.move_to_end((log_id, version))
            before, _ = self._unnamed.get((log_id, start, stop), (token, now))
            self._unnamed[log_id, start, stop] = (token if before == token else SEVERAL, now)
            self._unnamed.move_to_end((log_id, start, stop))
            while len(self._unnamed) > MOST:
                self._unnamed.popitem(last=False)

    def _give_up_too_large(self) -> None:
        """Drop the view that was used longest ago while what logs no longer name is too large."""
        if self._clock() - self._looked < LOOK_SECONDS:
            return
        self._looked = self._clock()
        while self._kept and self.bytes() > self._size:
            with self._guard:
                log = self._kept.popitem(last=False)[1].log
            with suppress(SeglogError):
                log.expire()  # unlinks what nothing keeps any more

    def drop_old(self) -> None:
        """Drop the views that were not used for too long, or are too old, and those of closed logs."""
        now = self._clock()
        with self._guard:
            for key, one in list(self._kept.items()):
                if one.used < now - self._seconds or one.since < now - LONGEST * self._seconds or one.log.closed:
                    del self._kept[key]

    def drop_all(self) -> None:
        """Drop all views: the disk is full."""
        with self._guard:
            self._kept.clear()


def _parsed(token: str) -> Snapshot:
    try:
        return Snapshot.parse(token)
    except ValueError:
        raise InvalidArgument(f"Seglog-Snapshot is {token[:80]!r}; send what the page before named, or new") from None


def _unnamed_bytes(oldest: _Kept) -> int:
    """Return the bytes of stores that are on the disk and that the log no longer names.

    0 for a log that is closed, or has not changed since its oldest kept view.
    """
    with suppress(SeglogError):
        present = oldest.log.view().manifest
        if present.version != oldest.view.manifest.version:
            sizes = oldest.log._storage.sizes(ending="." + filename.STORE)
            named = {entry.name() for entry in present.segments}
            return sum(size for name, size in sizes.items() if name not in named)
    return 0
