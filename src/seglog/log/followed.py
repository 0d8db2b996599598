"""The programs that follow a log, and the reasons for its records: pins, copies, backups and explanations.

Pins, holds and copies are files beside the log, which any process may write. `log.Log` adds the changes of the log
itself.
"""

from __future__ import annotations

import os
from abc import abstractmethod
from typing import TYPE_CHECKING

from seglog.errors import OffsetOutOfRange
from seglog.log.copies import checked_copies, held, mirrored_offset
from seglog.log.holds import in_tables
from seglog.log.locks.wait import patiently
from seglog.log.pins import Pin, drop_pin, read_copies, read_pins, set_pin
from seglog.log.reading import ReadableLog
from seglog.log.view import at_one_moment
from seglog.record import checked_bytes, checked_offset
from seglog.storage import Storage

if TYPE_CHECKING:
    from seglog.log.backup import BackupReport
    from seglog.log.explain.explain import Explainer, Explanation


class FollowedLog(ReadableLog):
    """The followers, copies and explanations of a log."""

    @property
    def pins(self) -> dict[str, int]:
        """The followers registered with `pin`: name -> next offset that each will read; 0 if a pin is damaged."""
        self._check_open()
        return read_pins(self._storage)

    @property
    def table_offset(self) -> int | None:
        """The offset before which retention may delete because the log's tables have the records (seglog.table).

        0 as long as there is no table: nothing is deleted then. None: retention does not wait for tables (`after`).
        """
        return in_tables(self._storage, self._own_view().manifest)

    def pin(self, name: str, offset: int) -> None:
        """Register a follower or update its position, durably: it has read every record before `offset`.

        Compactions that are planned after this call keep the tombstones from `offset` on, until the pin has passed them
        or is removed. Any process may call this, in both modes. The position may also move back, as a consumer may
        seek.

        Args:
            name: Name of the follower.
            offset: The next offset that it will read.

        Raises:
            OffsetOutOfRange: If offset < 0 or > next_offset.
            StorageError: If the pin cannot be written; it is then the old one or the new one.
        """
        view, offset = self.view(), checked_offset(offset)
        if not 0 <= offset <= view.next_offset:
            raise OffsetOutOfRange(offset, view.lowest_offset, view.next_offset)
        self._check_place()
        set_pin(self._storage, name, offset, clock=self._clock)

    def _check_place(self) -> None:
        """Raise if the directory holds another log, or none: its pins must not be changed."""
        self.view()

    def unpin(self, name: str) -> None:
        """Remove a follower; one that is not registered is no error.

        Args:
            name: Name of the follower.

        Raises:
            StorageError: If the pin cannot be removed.
        """
        self._check_place()
        drop_pin(self._storage, name)

    @abstractmethod
    def mirrored(self, offset: int, copies: int = 1, *, timeout: float | None = None, epoch: int | None = None) -> None:
        """Return once the record at `offset`, and all before it, are on the disks of this log and of `copies` copies.

        Copies are those of `seglog.Mirror`, by path or from a server, unless made with pin=False. Syncs the log first.

        Args:
            offset: Offset of the record.
            copies: Number of copies, 1 to 100.
            timeout: Seconds to wait; None: as long as it takes.
            epoch: What `epoch` was before the record was appended. Without it, a truncate between the append and this
                call is not noticed, and another record at this offset counts.

        Raises:
            NotMirrored: If the time is over, or at once if the manifest was rebuilt; the record is appended and stays.
            LogTruncated: If the record was removed by a truncate.
            LogFenced: If another log was promoted in place of this one.
        """

    def mirrored_offset(self, copies: int = 1) -> int:
        """Return the offset before which every record is on the disks of this log and of `copies` copies.

        0 if fewer copies have reported. Copies report at their next round; see `mirrored` to wait.

        Args:
            copies: Number of copies, 1 to 100.
        """
        view = self._own_view()
        offsets = held(self._reports(), view.manifest.cuts, view.next_offset).values()
        return (
            0 if view.manifest.rebuilt else min(mirrored_offset(offsets, checked_copies(copies)), self.durable_offset)
        )

    @property
    def epoch(self) -> int:
        """The epoch of the next record: a number that rises with each truncate, and with an opening after a crash."""
        return self._own_view().manifest.epoch

    @abstractmethod
    def _mirrored_since(self, offset: int, epoch: int | None) -> int:
        """Return the epoch up to which the record at `offset` is the one that was appended; see `mirrored`."""

    @abstractmethod
    def _copies_with(self, offset: int, since: int) -> int:
        """Return how many copies have a record on their disks, without waiting; errors as `mirrored`."""

    def _reports(self) -> dict[str, list[Pin]]:
        """Return by copy what it has reported to have on its disk."""
        return {name: [pin] for name, pin in read_copies(self._storage).items()}

    def _complete_at(self, _name: str) -> int | None:
        """Return when a copy last had every record, in us; None if that is not known."""
        return None

    def _note_copy(self, name: str, pin: Pin, *, durable: bool) -> None:
        """Take the report of a copy, which has every record before the pin on its disk.

        durable: store it durably; else other processes, or only this one, may see it until the machine stops.

        Raises:
            OffsetOutOfRange: If it is beyond the end: the log was cut meanwhile.
            StorageError: If the pin cannot be written.
        """
        view = self._own_view()
        if pin.offset > view.next_offset:
            raise OffsetOutOfRange(pin.offset, view.lowest_offset, view.next_offset)
        self._check_place()
        options = {"epoch": pin.epoch, "copy": pin.name, "durable": durable, "clock": self._clock}
        set_pin(self._storage, name, pin.offset, **options)  # type: ignore[arg-type] # as above

    def backup(
        self, place: str | os.PathLike[str] | Storage, *, share: bool = True, wait: float | None = None
    ) -> BackupReport:
        """Copy the log, as it is at this moment, to a directory. Works beside a writer and in both modes.

        The copy opens and verifies, with all records that `scan` would return now. A repeated call with the same place
        is incremental: sealed segments that are already there are not copied again. A crash leaves the earlier backup,
        or none.

        Args:
            place: Path of a directory, or a Storage: missing, empty, or an earlier backup of this log.
            share: Let sealed segments share their bytes with the log (reflink or hard link) if both are on one file
                system. False copies them, which also protects against damage of the disk.
            wait: Seconds to wait for another backup to this place, or a writer of it. None: fail at once.

        Raises:
            InvalidArgument: If another log is there, or a backup that was written to.
            LogLocked: If another backup to this place is running after `wait` seconds.
            SnapshotExpired: If the log has deleted files meanwhile that this reader could not keep, as in `scan`.
        """
        from seglog.log.backup import backup_log  # noqa: PLC0415 - an operator's call

        return patiently(lambda: backup_log(self._storage, self._own_view(), place, share=share), wait)

    @at_one_moment
    def explain(self, offset: int) -> Explanation:
        """Explain why a record is still in the log and what would remove it, or why it was removed.

        May read every following segment to find a later record of the same key.

        Args:
            offset: Offset of the record.

        Raises:
            OffsetOutOfRange: If offset < 0.
            CorruptRecord: If the record does not verify.
        """
        offset = checked_offset(offset)
        if offset < 0:
            raise OffsetOutOfRange(offset, self.lowest_offset, self.next_offset)
        return self._explainer().explain(offset)

    @at_one_moment
    def explain_key(self, key: bytes) -> tuple[Explanation, ...]:
        """Explain every record of a key that is still in the log, the oldest first. Reads the whole log.

        Args:
            key: The key.

        Raises:
            InvalidType: If the key is not bytes.
        """
        return self._explainer().explain_key(checked_bytes(key, "key"))

    def _visible_damage(self) -> tuple[str, ...]:
        """Return what is wrong with the log as far as figures and sizes show it; see `repair.glance`."""
        from seglog.log.repair.glance import visible_damage  # noqa: PLC0415 - an operator's call

        while True:
            view, records = self._own_view(), self.segments[-1].records
            found = visible_damage(self._storage, view, records)
            if not found or self._own_view().manifest.version == view.manifest.version:
                return found  # else a writer has changed the segments meanwhile

    def _explainer(self) -> Explainer:
        from seglog.log.explain.explain import Explainer  # noqa: PLC0415 - pyarrow and numba load when first used
        from seglog.log.explain.verdicts import Situation  # noqa: PLC0415 - an operator's call

        view = self._own_view()
        stored = in_tables(self._storage, view.manifest)
        situation = Situation(view.manifest, self._clock(), view.active.size, view.next_offset, self.pins, stored)
        return Explainer(view, situation)
