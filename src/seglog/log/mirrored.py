"""A log that is written, and its copies: waiting for them, and what they report. See `mirroring`."""

from __future__ import annotations

from seglog.errors import OffsetOutOfRange
from seglog.log.copies import checked_copies
from seglog.log.log import Log
from seglog.log.mirroring import Mirroring, checked_timeout
from seglog.log.pins import Pin
from seglog.record import checked_offset


class MirroredLog(Log):
    """The part of a writer that concerns copies of its log."""

    _mirroring: Mirroring

    def mirrored(self, offset: int, copies: int = 1, *, timeout: float | None = None, epoch: int | None = None) -> None:
        """Return once copies have the record; see Log.mirrored."""
        offset, copies, timeout = checked_offset(offset), checked_copies(copies), checked_timeout(timeout)
        epoch = None if epoch is None else checked_offset(epoch, "epoch")
        if offset < 0 or (epoch is None and offset >= self.next_offset):
            raise OffsetOutOfRange(offset, self.lowest_offset, self.next_offset)
        since = self._mirroring.since(self._own_view(), offset, epoch)
        if self.durable_offset <= offset:
            self.sync()
        self._mirroring.wait(self._own_view, offset, copies, timeout, since)

    def _mirrored_since(self, offset: int, epoch: int | None) -> int:
        return self._mirroring.since(self._own_view(), offset, epoch)

    def _copies_with(self, offset: int, since: int) -> int:
        return self._mirroring.count(self._own_view(), offset, since)

    def _reports(self) -> dict[str, list[Pin]]:
        return self._mirroring.copies.reports()

    def _note_copy(self, name: str, pin: Pin, *, durable: bool) -> None:
        if durable:
            super()._note_copy(name, pin, durable=True)
        self._mirroring.copies.report(name, pin, self.next_offset)

    def _complete_at(self, name: str) -> int | None:
        return self._mirroring.copies.complete_at(name)

    def pin(self, name: str, offset: int) -> None:
        """Register a follower or update its position; see Log.pin."""
        super().pin(name, offset)
        self._mirroring.copies.forget(name)

    def unpin(self, name: str) -> None:
        """Remove a follower; see Log.unpin."""
        super().unpin(name)
        self._mirroring.copies.forget(name)
