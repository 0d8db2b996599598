"""Verify and repair a log that is not open, and may be too damaged to open."""

from __future__ import annotations

import os

from seglog.log.locks.wait import patiently
from seglog.log.opening import existing, storage_at
from seglog.log.repair.repair import RepairReport, repair_storage
from seglog.log.repair.reports import VerifyReport
from seglog.log.repair.verify import Progress, verify_storage
from seglog.storage import Storage


def verify(place: str | os.PathLike[str] | Storage, progress: Progress | None = None) -> VerifyReport:
    """Check every byte of a log, even if it cannot be opened. Changes nothing.

    Args:
        place: Path or storage of the log.
        progress: Called with (bytes done, bytes in total).

    Raises:
        LogNotFound: If there is no log.
        NotALog: If something else is there.
        CorruptLog: If nothing there can be identified as a log.
    """
    return verify_storage(existing(storage_at(place)), progress)


def repair(
    place: str | os.PathLike[str] | Storage,
    *,
    dry_run: bool = False,
    progress: Progress | None = None,
    wait: float | None = None,
) -> RepairReport:
    """Move damage to quarantine/ so that the log opens again with everything readable. Deletes nothing.

    Args:
        place: Path or storage of the log.
        dry_run: Only report what would be done.
        progress: Called with (bytes done, bytes in total).
        wait: Seconds to wait for a writer that has the log open; None: LogLocked at once.

    Raises:
        LogLocked: If a writer has the log open.
        LogNotFound: If there is no log.
        NotALog: If something else is there.
    """
    storage = existing(storage_at(place))
    return patiently(lambda: repair_storage(storage, dry_run=dry_run, progress=progress), wait)
