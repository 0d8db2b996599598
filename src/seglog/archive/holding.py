"""Let retention of archived logs wait for the archive: a hold in each log allows to delete what is archived.

A table (seglog.table) uses such holds, too, with a prefix of its own.
"""

from __future__ import annotations

from contextlib import suppress

from xxhash import xxh64_hexdigest

from seglog.errors import StorageError
from seglog.format.manifest import Manifest
from seglog.log.holds import drop_hold, holds, set_hold
from seglog.storage import Storage, Subdirectory
from seglog.topic.repair.discover import site_at

PREFIX = "archive-"


class Holding:
    """The holds of one archive. A directory is archived to one URL at a time: holds of another one are removed."""

    def __init__(self, url: str) -> None:
        """url: of the archive."""
        self._name = PREFIX + xxh64_hexdigest(url.rstrip("/").encode())
        self._moved: dict[str, tuple[int, int]] = {}

    def begin(self, log: Storage) -> None:
        """Hold everything that a log has, unless it has a hold of this archive. Raises StorageError."""
        known = holds(log)
        if self._name not in known:
            set_hold(log, self._name, 0, 0)
        for name in known:
            if name.startswith(PREFIX) and name != self._name:
                drop_hold(log, name)

    def move(self, log: Storage, archived: Manifest) -> None:
        """Allow to delete the sealed segments of a manifest, which are archived."""
        reached = archived.active.base_offset, archived.epoch
        if self._moved.get(log.path) != reached:
            with suppress(StorageError):  # it holds more than necessary until the next round
                set_hold(log, self._name, *reached)
                self._moved[log.path] = reached


def release(root: Storage, prefix: str = PREFIX) -> int:
    """Remove the holds of archives, or those with another prefix, from all logs of a directory; return how many."""
    site = site_at(root)
    places = [site.root] if site.kind == "log" else []
    places += [
        Subdirectory(topic, name) for topic in site.topics.values() for name in topic.names() if name.isdecimal()
    ]
    places += [] if site.offsets is None else [site.offsets]
    released = 0
    for place in places:
        for name in holds(place):
            if name.startswith(prefix):
                drop_hold(place, name)
                released += 1
    return released
