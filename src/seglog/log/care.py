"""An operator's two calls on a log that is not open, and may not open any more."""

from __future__ import annotations

import os

from seglog.log.check import Progress, verify_storage
from seglog.log.findings import VerifyReport
from seglog.log.opening import existing, storage_at
from seglog.log.repair import RepairReport, repair_storage
from seglog.storage import Storage


def verify(place: str | os.PathLike[str] | Storage, progress: Progress | None = None) -> VerifyReport:
    """Check every byte of a log, also of one that cannot be opened; changes nothing.

    progress(bytes done, bytes in all). LogNotFound or NotALog where there is no log.
    """
    return verify_storage(existing(storage_at(place)), progress)


def repair(
    place: str | os.PathLike[str] | Storage, *, dry_run: bool = False, progress: Progress | None = None
) -> RepairReport:
    """Set damage aside (quarantine/) so that the log opens again with all that is readable; destroys nothing.

    dry_run: only tell what would be done. LogLocked while a writer has the log open.
    """
    return repair_storage(existing(storage_at(place)), dry_run=dry_run, progress=progress)
