"""Let retention of archived logs wait for the archive: a hold in each log allows to delete what is archived.

A table (seglog.table) uses such holds, too, with a prefix of its own.
"""

from __future__ import annotations

from xxhash import xxh64_hexdigest

from seglog.format.manifest import Manifest
from seglog.log.holds import Hold, drop_hold, holds
from seglog.storage import Storage
from seglog.topic.repair.discover import logs_of, site_at

PREFIX = "archive-"


class Holding:
    """The holds of one archive. A directory is archived to one URL at a time: holds of another one are removed."""

    def __init__(self, url: str) -> None:
        """url: of the archive."""
        self._hold = Hold(PREFIX + xxh64_hexdigest(url.rstrip("/").encode()))

    def begin(self, log: Storage) -> None:
        """Hold everything that a log has, unless it has a hold of this archive. Raises StorageError."""
        self._hold.begin(log)
        for name in holds(log):
            if name.startswith(PREFIX) and name != self._hold.name:
                drop_hold(log, name)

    def move(self, log: Storage, archived: Manifest) -> None:
        """Allow to delete the sealed segments of a manifest, which are archived."""
        self._hold.move(log, archived.active.base_offset, archived.epoch)


def release(root: Storage, prefix: str = PREFIX) -> int:
    """Remove the holds of archives, or those with another prefix, from all logs of a directory; return how many."""
    site = site_at(root)
    places = [site.root] if site.kind == "log" else []
    places += [place for name, topic in site.topics.items() for place in logs_of(topic, name).values()]
    places += [] if site.offsets is None else [site.offsets]
    released = 0
    for place in places:
        for name in holds(place):
            if name.startswith(prefix):
                drop_hold(place, name)
                released += 1
    return released
