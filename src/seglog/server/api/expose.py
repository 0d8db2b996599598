"""How much of a log a request reads: all records, or only those that survive power loss (`expose`).

A server has its logs open for writing, and these show all records; so every read is given the end that its request
asks for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import NotDurableYet
from seglog.server.api.parameters import choice

if TYPE_CHECKING:
    from seglog.config import Expose
    from seglog.log.log import Log


EXPOSE = choice(
    "expose",
    'Show all records ("appended") or only those that survive power loss ("durable"). A record that is not synced yet '
    "is then reported as NotDurableYet; a range and a poll end before it, and `wait` waits for the sync.",
    "appended",
    "durable",
)


def end_of(log: Log, expose: Expose) -> int:
    """Return the offset before which records are shown."""
    return log.durable_offset if expose == "durable" else log.next_offset


def check_exposed(log: Log, offset: int, expose: Expose) -> None:
    """Raise NotDurableYet for a record that was appended and is not shown yet."""
    if expose == "durable":
        end = log.durable_offset
        if end <= offset < log.next_offset:
            raise NotDurableYet(offset, log.lowest_offset, end)


def records_from(log: Log, offset: int, expose: Expose) -> int:
    """Return how many records are shown from `offset` on; see Log.records_from."""
    if expose == "appended":
        return log.records_from(offset)
    end = log.durable_offset
    return max(0, log.records_from(offset) - log.records_from(end)) if offset < end else 0
