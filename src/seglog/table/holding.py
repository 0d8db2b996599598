"""Let the retention of logs wait for their table."""

from __future__ import annotations

import os
from contextlib import suppress

from xxhash import xxh64_hexdigest

from seglog.archive import holding
from seglog.errors import StorageError
from seglog.log.holds import holds, set_hold
from seglog.log.opening import storage_at
from seglog.storage import Storage
from seglog.table.place import Logs
from seglog.table.ranges import Held

PREFIX = "table-"


class Holding:
    """The holds of one table in its logs. Several tables of a log each have their own."""

    def __init__(self, location: str, logs: Logs) -> None:
        """location: of the table."""
        self._name = PREFIX + xxh64_hexdigest(location.encode())
        self._logs = logs

    def begin(self) -> None:
        """Hold everything that the logs have, unless this table has a hold there. Raises StorageError."""
        for place in self._logs.places.values():
            if self._name not in holds(place):
                set_hold(place, self._name, 0, 0)

    def move(self, held: Held) -> None:
        """Allow to delete what the table holds."""
        for number, place in self._logs.places.items():
            if number in held:
                with suppress(StorageError):  # it holds more than necessary until the next round
                    set_hold(place, self._name, held[number].end, held[number].epoch)


def release(source: str | os.PathLike[str] | Storage) -> int:
    """End that the retention of logs waits for tables; return of how many holds.

    Args:
        source: Path or Storage of a log, a topic, or a directory of topics.
    """
    return holding.release(storage_at(source), PREFIX)
