"""All records of a log as Kafka's record batches."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.format.cuts import Cuts
from seglog.kafka.records.encode import Room, encode

if TYPE_CHECKING:
    from seglog.log.log import Log

MOST = 2**30


def encoded(log: Log, *, epoch: int = 0, stamped: bool = False, most: int = MOST) -> list[memoryview]:
    """Return the batches of a response of up to `most` bytes."""
    view, room = log.view(), Room(most, MOST)
    batches = encode(view, view.lowest_offset, view.next_offset, Cuts(epoch), room, stamped=stamped)
    return [batch.data for batch in batches]
