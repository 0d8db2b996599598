"""Space allocated after the end of an active store (`LogConfig.allocate_bytes`): zeros, over which records are written.

A sync of a record that makes a file longer also has to record the file's new size and space; over zeros that were
synced before, it only writes the record. All zeros are never a valid record, so every reader takes them as the end of
the store. A seal and a close cut them, so another process must not map what follows the records of a store that may be
written (`survey`). What a crash has left is used again.
"""

from __future__ import annotations

from seglog.storage import File

ZEROS = bytes(64 * 1024)  # written by one call


def write_zeros(store: File, start: int, stop: int) -> None:
    """Write zeros from position `start` up to `stop`; after an error a part of them is written."""
    for position in range(start, stop, len(ZEROS)):
        store.pwrite(ZEROS[: stop - position], position)


def holds_zeros(store: File, start: int, stop: int) -> bool:
    """Whether a store holds nothing but zeros from position `start` up to `stop`."""
    pieces = (store.pread(min(len(ZEROS), stop - at), at) for at in range(start, stop, len(ZEROS)))
    return all(piece == ZEROS[: len(piece)] for piece in pieces)
