"""`.archive.json` in an archived directory: which state of which archive this directory continues.

Two copies of a directory (one restored, or a disk that comes back) must not both continue one archive. The newest
commit names its writer by a random token, and only a directory that knows the token may follow it. A writer stores its
own token here before its first commit. A restored directory knows the token and the number of the commit that it was
restored from, and may follow only this one.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from seglog.errors import ArchiveMismatch, CorruptLog
from seglog.format.foreign import UNREADABLE

if TYPE_CHECKING:
    from seglog.archive.commit import Commit
    from seglog.storage import Storage

FILE_NAME = ".archive.json"
_TEMPORARY = FILE_NAME + ".tmp"


@dataclass(frozen=True)
class Lineage:
    """url: of the archive. owners: token of a writer -> the only commit of it to follow, or None: any."""

    url: str
    owners: dict[str, int | None] = field(default_factory=dict)

    def check(self, newest: Commit | None) -> None:
        """Raise ArchiveMismatch unless this directory may continue the newest commit."""
        if newest is None:
            return
        if newest.owner not in self.owners:
            raise ArchiveMismatch(
                f"{self.url} is an archive that this directory does not continue: another copy of it, or other logs, "
                "were archived there since. Choose another prefix, restore from it, or replace it by this directory "
                "with `seglog archive --take-over`"
            )
        number = self.owners[newest.owner]
        if number not in (None, newest.number):
            raise ArchiveMismatch(
                f"{self.url} has grown since this directory was restored from its commit {number} (now "
                f"{newest.number}): stop the other writer and restore again, or replace it by this directory with "
                "`seglog archive --take-over`, which drops the newer records"
            )

    def write(self, root: Storage) -> None:
        """Write the file durably."""
        file = root.create(_TEMPORARY, replace=True)
        file.pwrite(json.dumps(asdict(self), indent=2).encode() + b"\n", 0)
        file.datasync()
        root.rename(_TEMPORARY, FILE_NAME)
        root.sync_directory()


def read(root: Storage, url: str) -> Lineage:
    """Return what a directory knows of the archive at a URL. Raises CorruptLog if the file is damaged."""
    if root.identity(FILE_NAME) is None:
        return Lineage(url)
    file = root.open(FILE_NAME)
    try:
        values = json.loads(file.pread(file.size(), 0))
        known = Lineage(str(values["url"]), dict(values["owners"]))
    except UNREADABLE as error:
        raise CorruptLog(
            f"{file.path} is damaged ({error}): remove it; `seglog archive --take-over` then continues"
        ) from error
    return known if known.url.rstrip("/") == url.rstrip("/") else Lineage(url)
