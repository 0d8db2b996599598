"""Wait until copies of a log have a record on their disks.

A record is mirrored if it is durable here and N copies have it durably. Durable here: otherwise the log could lose it
at a power loss, begin an epoch without it, and have the copies remove it too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument, InvalidType, LogTruncated, NotMirrored
from seglog.log.copies import LOOK_SECONDS, Copies, held
from seglog.log.writer_state import OPEN, WriterState

if TYPE_CHECKING:
    from seglog.log.view import View

FOREVER = 1e9  # seconds


class Mirroring:
    """What a writer knows of its copies. Takes the log's view with each call: a reference to the log would keep a
    dropped log, and its lock, until the next collection of garbage.
    """

    def __init__(self, state: WriterState, copies: Copies) -> None:
        self.copies = copies
        self._state = state

    def since(self, view: View, offset: int, epoch: int | None) -> int:
        """Return the epoch that a record at `offset` had at most, if the caller appended it in the epoch `epoch`."""
        known = view.manifest.cuts.epoch_at(offset + 1)
        return known if epoch is None else epoch

    def count(self, view: View, offset: int, since: int) -> int:
        """Return how many copies have the record at `offset` on their disks; 0 while it is not durable here.

        Raises:
            LogTruncated: If the offset has an epoch after `since`, or no record: the record was removed.
            LogFenced: If another log was promoted in place of this one: copies may follow that one.
            NotMirrored: If the manifest was rebuilt: it is unknown which records copies have.
        """
        if self._state.phase is not OPEN:
            raise self._state.refusal()
        cuts, end = view.manifest.cuts, view.next_offset
        if offset >= end or cuts.epoch_at(offset + 1) > since:
            raise LogTruncated(
                f"{self._state.path}: the record at offset {offset} was removed by a truncate before copies had it"
            )
        if view.manifest.rebuilt:  # then epochs may have come again
            raise NotMirrored.unknown(self._state.path, offset)
        if self._state.durability.durable_offset <= offset:
            return 0
        return sum(1 for reached in held(self.copies.reports(LOOK_SECONDS), cuts, end).values() if reached > offset)

    def wait(
        self, view: Callable[[], View], offset: int, wanted: int, timeout: float | None, epoch: int | None
    ) -> None:
        """Return once `wanted` copies have the record; see Log.mirrored. It is durable here already.

        view: returns the log's present view, or raises if the log is closed.
        """
        seconds = FOREVER if timeout is None else timeout
        until, since = monotonic() + seconds, self.since(view(), offset, epoch)
        while (found := self.count(view(), offset, since)) < wanted:
            left = until - monotonic()
            if left <= 0:
                raise NotMirrored.of(self._state.path, offset, found, wanted, seconds)
            self.copies.wait(left)


def checked_timeout(timeout: object) -> float | None:
    """Return a number of seconds, or None. Raises InvalidType or InvalidArgument."""
    if timeout is None:
        return None
    if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
        raise InvalidType(f"timeout must be a number of seconds or None, not {type(timeout).__name__}")
    if not 0 <= timeout < math.inf:
        raise InvalidArgument(f"timeout is {timeout}; it must be a number of seconds, 0 or more")
    return float(timeout)
