"""Copies the survivors of neighbouring sources into outputs, each filled up to the size of a segment, then the next.

One thread verifies and copies, window by window, the other one writes what has been copied.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from seglog.format.manifest import SegmentEntry
from seglog.kernels.layout import MarksState
from seglog.kernels.survivors import Copied, Target, copy_survivors
from seglog.keyed.ahead import Ahead
from seglog.keyed.died import Deaths
from seglog.keyed.output import Output
from seglog.keyed.pace import Pace
from seglog.keyed.plan import CompactionPlan, joined
from seglog.keyed.reader import ROWS, WINDOW_BYTES, SourceReader, Window
from seglog.storage import Storage

Array = np.ndarray[Any, Any]
Job = Callable[[], None]


class Survivors(NamedTuple):
    """What the kernel copied, how far it came, and the arrays it filled."""

    copied: Copied
    out: Array
    entries: Array
    marks: Array


class Room:
    """What the survivors of one window are written to, one copy behind the other."""

    def __init__(self) -> None:
        self._out = np.empty(WINDOW_BYTES, np.uint8)
        self._entries = np.empty((ROWS, 2), np.uint64)
        self._marks = np.empty((ROWS, 2), np.int64)

    def clear(self, window: Window) -> Room:
        """Make room for all of a window."""
        if self._out.size < window.data.size:  # one long record
            self._out = np.empty(window.data.size, np.uint8)
        self._length = self._rows = self._marked = 0
        return self

    def copy(self, window: Window, dead: Array, ordinal: int, target: Target, state: MarksState) -> Survivors:
        """Copy what lives of a window from its cursor on, and move the cursor; see seglog.kernels.survivors."""
        room = self._out[self._length :], self._entries[self._rows :], self._marks[self._marked :]
        copied = Copied(*copy_survivors(window.data, window.start, window.cursor, dead, ordinal, target, state, *room))
        window.position, window.expected = copied.position, copied.expected
        self._length += copied.length
        self._rows += copied.rows
        self._marked += copied.marks
        return Survivors(copied, room[0][: copied.length], room[1][: copied.rows], room[2][: copied.marks])


def verify(source: SourceReader, pace: Pace) -> None:
    """Raise CorruptRecord where a record of a source is damaged: a copy of which nothing is kept."""
    all_dead = np.full(((source.entry.records or 0) + 7) // 8 + 1, 0xFF, np.uint8)
    nowhere, room, ordinal = Target(0, 0, 0, 0, np.uint64(0)), Room(), 0

    def take(window: Window) -> int:
        nonlocal ordinal
        copied = room.clear(window).copy(window, all_dead, ordinal, nowhere, MarksState.start(WINDOW_BYTES)).copied
        ordinal = copied.ordinal
        return copied.reason

    for passed in source.windows(take):
        pace.step(passed)


class GroupCopy:
    """The copy of one group of neighbours. `sealed`: the entries of what was written, once `run` is over."""

    def __init__(
        self, plan: CompactionPlan, after: Sequence[SegmentEntry], output: Storage, *, number: int, pace: Pace
    ) -> None:
        """after: the members' entries as the pass leaves them; number: of the first output."""
        self._plan = plan
        self._storage = output
        self._number = number
        self._pace = pace
        self._rooms = Room(), Room()
        self._jobs: list[Job] = []
        self.sealed: list[SegmentEntry] = []
        self._end = after[-1].next_offset or 0
        self._sealed_at = max(entry.sealed_at or 0 for entry in after)
        cleaned = [entry.cleaned_to for entry in after]
        self._cleaned_to = None if None in cleaned else min(at for at in cleaned if at is not None)
        self._superseded_to = max(plan.end, *(entry.taken_for for entry in after))
        self._runs = joined(run for entry in after for run in entry.horizons)
        self._begin(after[0].base_offset)

    def run(self, members: Sequence[tuple[SourceReader, Deaths]], ahead: Ahead) -> None:
        """Copy the members; all of it is on the medium after that, but for the names."""
        for jobs in ahead(self._steps(members)):
            for job in jobs:
                job()
        self._seal(self._output, self._end)

    def _steps(self, members: Sequence[tuple[SourceReader, Deaths]]) -> Iterator[list[Job]]:
        """Yield what there is to write after every window, in the memory of one room by turns."""
        for source, deaths in members:
            self._deaths, self._ordinal = deaths, 0
            for passed in source.windows(self._take):
                jobs, self._jobs = self._jobs, []
                yield [*jobs, partial(self._pace.step, passed)]

    def _take(self, window: Window) -> int:
        self._rooms = self._rooms[1], self._rooms[0]
        room, base = self._rooms[0].clear(window), self._deaths.entry.base_offset
        while True:
            output = self._output
            survivors = room.copy(window, self._deaths.bits, self._ordinal, output.target(base), output.marks_state)
            copied = survivors.copied
            self._ordinal = copied.ordinal
            if copied.rows:
                self._jobs.append(partial(self._write, output, output.admit(survivors), survivors))
            if copied.blocked < 0:
                return copied.reason
            self._jobs.append(partial(self._seal, output, base + copied.blocked))
            self._begin(base + copied.blocked)

    def _write(self, output: Output, position: int, survivors: Survivors) -> None:
        output.write(survivors.out.data, position, survivors.entries.data)
        self._pace.move(survivors.out.size)

    def _begin(self, base_offset: int) -> None:
        self._output = Output(
            self._storage,
            base_offset=base_offset,
            number=self._number,
            log_id=self._plan.log_id,
            created=self._plan.made_at,
            interval=self._plan.config.index_interval_bytes,
            limit=self._plan.config.segment_bytes,
        )
        self._number += 1

    def _seal(self, output: Output, next_offset: int) -> None:
        sealed = output.seal(next_offset, sealed_at=self._sealed_at, cleaned_to=self._cleaned_to, runs=self._runs)
        self.sealed.append(replace(sealed, superseded_to=self._superseded_to))
