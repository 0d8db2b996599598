"""What a repair does to files: keep them in quarantine/, and restore or remove a transaction's. Durable, repeatable."""

from __future__ import annotations

from seglog.format import filename
from seglog.log.quarantine import link_aside
from seglog.storage import Storage, must_sync
from seglog.topic.repair.journals import Survey
from seglog.topic.transactions.journal import SUFFIX
from seglog.topic.transactions.transactions import DAMAGED

TEMPORARY = ".tmp"
COPY_BYTES = 4 * 1024 * 1024


def keep(place: Storage, name: str) -> list[str]:
    """Link a file, if it exists, into the quarantine/ of its place, durably; return the new names."""
    if place.identity(name) is None:
        return []
    place.make([filename.QUARANTINE])
    kept = link_aside(place, name)
    must_sync(lambda: place.sync_directory(filename.QUARANTINE))
    return [kept]


def restore_journal(place: Storage, found: Survey) -> list[str]:
    """Write the file of a transaction again with the original bytes, under the name that an opening looks for.

    The damaged file keeps its name until the new one is durable: after a crash the next repair does the same again.
    """
    name = found.journal.name
    whole = name.removesuffix(DAMAGED).removesuffix(SUFFIX) + SUFFIX
    kept = keep(place, name)
    source, target = place.open(name), place.create(TEMPORARY, replace=True)
    for at in range(0, source.size(), COPY_BYTES):
        target.pwrite(source.pread(COPY_BYTES, at), at)
    for at, data in found.restored.items():
        target.pwrite(data, at)
    must_sync(target.datasync)
    source.close()
    target.close()
    place.rename(TEMPORARY, whole)
    must_sync(place.sync_directory)
    if name != whole:
        place.unlink(name)
        must_sync(place.sync_directory)
    return kept


def quarantine_journal(place: Storage, name: str) -> list[str]:
    """Move the file of a transaction to quarantine/."""
    kept = keep(place, name)
    place.unlink(name)
    must_sync(place.sync_directory)
    return kept
