"""A position in a log, with an awaited `poll`."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Iterator
from copy import copy
from functools import partial
from itertools import islice
from typing import TypeVar

from seglog.aio.loops import running_loop
from seglog.errors import SeglogError
from seglog.log.tail import FIRST_WAIT, LONGEST_WAIT, POLL_RECORDS, Tail, in_share
from seglog.log.view import View
from seglog.record import Record, Share

Item = TypeVar("Item")

SCAN_RECORDS = 256
"""Records that are read with one call of a thread."""


class AsyncTail:
    """A position in a log that advances as records are read; as `Tail`. For one task at a time.

    A cancelled `poll` takes nothing: the records that it read are returned by the next one.
    """

    def __init__(self, tail: Tail) -> None:
        self._tail = tail

    @property
    def position(self) -> int:
        """The next offset to return."""
        return self._tail.position

    @property
    def view(self) -> View:
        """The view from which the last records were read."""
        return self._tail.view

    async def poll(
        self,
        most: int = POLL_RECORDS,
        size: int | None = None,
        keep: int | None = None,
        stop: int | None = None,
    ) -> list[Record]:
        """Return up to `most` records from the position on, without waiting; arguments and errors as Tail.poll."""
        tail = copy(self._tail)  # the call of a cancelled task goes on, and advances only its copy
        try:
            records = await running_loop().run_in_thread(partial(tail.poll, most, size, keep, stop))
        except SeglogError:
            self._tail = tail
            raise
        self._tail = tail
        return records

    async def follow(self, timeout: float | None, share: Share | None = None) -> AsyncIterator[Record]:
        """Iterate over new records, of a share if given; end after `timeout` seconds without any new record."""
        wait, since = FIRST_WAIT, time.monotonic()
        while True:
            records = await self.poll(SCAN_RECORDS)
            for record in records if share is None else in_share(records, *share):
                yield record
            if records:
                wait, since = FIRST_WAIT, time.monotonic()
                continue
            if timeout is not None and time.monotonic() - since >= timeout:
                return
            await running_loop().sleep(wait)
            wait = min(wait * 2, LONGEST_WAIT)


async def in_pieces(items: Iterator[Item], most: int = SCAN_RECORDS) -> AsyncIterator[Item]:
    """Iterate over what a blocking iterator yields, `most` items with one call of a thread."""
    while piece := await running_loop().run_in_thread(partial(_take, items, most)):
        for item in piece:
            yield item


def _take(items: Iterator[Item], most: int) -> list[Item]:
    return list(islice(items, most))
