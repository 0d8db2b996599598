"""Space allocated after the end of an active store (`LogConfig.allocate_bytes`): zeros, over which records are written.

A sync of a record that makes a file longer also has to record the file's new size and space; over zeros that were
synced before, it only writes the record. All zeros are never a valid record, so every reader takes them as the end of
the store. A seal and a close cut them, so another process must not map what follows the records of a store that may be
written (`survey`). What a crash has left is used again.
"""

from __future__ import annotations

from contextlib import suppress

from seglog.errors import StorageError
from seglog.segment.active_files import ActiveFiles
from seglog.storage import File

ZEROS = bytes(64 * 1024)  # written by one call


class Space:
    """The space that is allocated in one store.

    ahead: how many bytes after the last record are allocated at a time; 0: none. end: up to this position the store
    holds zeros after its records.
    """

    def __init__(self, files: ActiveFiles, *, ahead: int, limit: int, end: int) -> None:
        """limit: the maximum size of the store."""
        self.ahead = ahead
        self.end = end
        self._files = files
        self._limit = limit

    def reserve(self, written: int, needed: int) -> None:
        """Before records are written up to position `needed`, write zeros from `written` on, where the last one ends.

        Nothing is written if the log allocates no space, has enough, or allocates less at a time than is needed. Zeros
        are no change of the log, and no append depends on them: after an error, such as a full disk, the space is given
        back, and the rest of the segment grows with its records.
        """
        if not self.ahead or needed <= self.end:
            return
        stop = min(written + self.ahead, self._limit)
        if stop < needed:
            return
        try:
            write_zeros(self._files.store, max(written, self.end), stop)
            self.end = stop
        except StorageError:
            self.ahead = self.end = 0
            with suppress(StorageError):
                self._files.store.truncate(written)

    def give_back(self, written: int) -> None:
        """Cut what is not used. After an error it stays, as after a crash."""
        if self.end > written:
            with suppress(StorageError):
                self._files.store.truncate(written)
                self.end = 0


def write_zeros(store: File, start: int, stop: int) -> None:
    """Write zeros from position `start` up to `stop`; after an error a part of them is written."""
    for position in range(start, stop, len(ZEROS)):
        store.pwrite(ZEROS[: stop - position], position)


def holds_zeros(store: File, start: int, stop: int) -> bool:
    """Whether a store holds nothing but zeros from position `start` up to `stop`."""
    pieces = (store.pread(min(len(ZEROS), stop - at), at) for at in range(start, stop, len(ZEROS)))
    return all(piece == ZEROS[: len(piece)] for piece in pieces)
