"""Copy the survivors of adjacent sources into outputs, each filled up to the segment size.

Several threads verify and copy stretches of the sources; one writes them in order. A copy can begin in the middle of a
source because the search has found where records begin.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

import numpy as np

from seglog.compaction.output import Array, Output, Outputs, Survivors
from seglog.compaction.plan import CompactionPlan, joined
from seglog.compaction.rate_limit import Pace
from seglog.compaction.superseded import Deaths, Piece
from seglog.compaction.window_reader import ROWS, WINDOW_BYTES, SourceReader, Window
from seglog.format.manifest import SegmentEntry
from seglog.kernels.layout import HEAD_BYTES, OK, REASONS, SHORT, Summary
from seglog.kernels.survivors import Copied, Target, copy_survivors
from seglog.parallel.ahead import ROOMS, Ahead


class Room:
    """Memory for the survivors of a window; a record longer than a window gets its own memory."""

    def __init__(self) -> None:
        self._out = np.empty(WINDOW_BYTES, np.uint8)
        self._entries = np.empty((ROWS, 2), np.uint64)
        self._newest = np.empty(ROWS, np.int64)

    def copy(self, window: Window, dead: Array, number: int, target: Target) -> Survivors:
        """Copy the live records of a window from its cursor on, and advance the cursor; see seglog.kernels.survivors.

        number: number in its store of the record at the cursor.
        """
        out = self._out if window.data.size <= WINDOW_BYTES else np.empty(window.data.size, np.uint8)
        entries, newest, at = self._entries, self._newest, window.cursor
        copied = Copied(*copy_survivors(window.data, window.start, at, dead, number, target, out, entries, newest))
        copied = copied._replace(summary=Summary(*copied.summary))
        window.position, window.expected = copied.position, copied.expected
        return Survivors(copied, out[: copied.length], entries[: copied.rows], newest[: copied.rows])


def verify(source: SourceReader, pace: Pace) -> None:
    """Raise CorruptRecord if a record of a source is damaged, by making a copy that keeps nothing."""
    all_dead = np.full((source.entry.bytes or 0) // (8 * HEAD_BYTES) + 1, 0xFF, np.uint8)  # as many as possible
    nowhere, room, number = Target(0, np.uint64(0), 0, 0), Room(), 0

    def take(window: Window) -> int:
        nonlocal number
        copied = room.copy(window, all_dead, number, nowhere).copied
        number = copied.ordinal
        return copied.reason

    for passed in source.windows(take):
        pace.step(passed)


class Copying:
    """The copy of one stretch, made for the output that was current when it began, which may be full by now."""

    def __init__(self, source: SourceReader, deaths: Deaths, piece: Piece, room: Room, output: Output) -> None:
        self.base_offset = deaths.entry.base_offset
        self.stretch = piece.stretch
        self.at_hand = piece.window
        self._source = source
        self._dead = deaths.bits
        self._room = room
        self._output = output

    def begin(self) -> Copying:
        """Read the stretch and copy its live records; called by any thread."""
        self._window = self.at_hand or self._source.window(self.stretch)
        self._survivors = self._anew(self._output)
        return self

    def _anew(self, output: Output) -> Survivors:
        self._window.rewind(self.stretch)
        self._number = self.stretch.number
        return self.go_on(output)

    def go_on(self, output: Output) -> Survivors:
        """Continue the copy into an output."""
        target = output.target(self.base_offset)
        survivors = self._room.copy(self._window, self._dead, self._number, target)
        self._number = survivors.copied.ordinal
        return survivors

    def survivors(self, output: Output) -> Survivors:
        """Return what to write to `output` first."""
        if output is self._output and self._survivors.copied.blocked < 0 and output.has_room(self._survivors):
            return self._survivors
        return self._anew(output)

    def check(self, survivors: Survivors) -> None:
        """Raise CorruptRecord if the copy ended before the stretch does."""
        reason, position = survivors.copied.reason, survivors.copied.position
        if reason != OK or position != self.stretch.end:
            raise self._source.corrupt(self._window, REASONS[reason or SHORT])


class Desk:
    """What a pass copies with: reused memory, the outputs, the pace."""

    def __init__(self, outputs: Outputs, pace: Pace) -> None:
        self.outputs = outputs
        self.pace = pace
        self.rooms = deque(Room() for _ in range(ROOMS))
        self.marks = np.empty((ROWS, 2), np.int64)


class GroupCopy:
    """The copy of one group of adjacent sources. `sealed`: the entries of what was written, after `run`."""

    def __init__(self, plan: CompactionPlan, after: Sequence[SegmentEntry], desk: Desk) -> None:
        """after: the entries of the members after the pass."""
        self._desk = desk
        self.sealed: list[SegmentEntry] = []
        self._end = after[-1].next_offset or 0
        self._sealed_at = max(entry.sealed_at or 0 for entry in after)
        cleaned = [entry.cleaned_to for entry in after]
        self._cleaned_to = None if None in cleaned else min(at for at in cleaned if at is not None)
        self._superseded_to = max(plan.end, *(entry.taken_for for entry in after))
        self._runs = joined(run for entry in after for run in entry.horizons)
        self._base_offset = after[0].base_offset

    def run(self, members: Sequence[tuple[SourceReader, Deaths, Iterator[Piece]]], ahead: Ahead) -> None:
        """Copy the members piece by piece. The caller waits for the outputs."""
        self._begin(self._base_offset)
        for copying in ahead.each(self._copies(members)):
            self._take(copying)
        self._seal(self._end)

    def _copies(
        self, members: Sequence[tuple[SourceReader, Deaths, Iterator[Piece]]]
    ) -> Iterator[Callable[[], Copying]]:
        """Yield the copies to make, each when a thread is free for it."""
        rooms = self._desk.rooms
        for source, deaths, pieces in members:
            for piece in pieces:
                rooms.rotate()
                yield Copying(source, deaths, piece, rooms[0], self._output).begin

    def _take(self, copying: Copying) -> None:
        """Write a copy, and what exceeds a full output to the next one."""
        survivors = copying.survivors(self._output)
        self._write(survivors)
        while (blocked := survivors.copied.blocked) >= 0:
            self._seal(copying.base_offset + blocked)
            self._begin(copying.base_offset + blocked)
            survivors = copying.go_on(self._output)
            self._write(survivors)
        copying.check(survivors)
        size = copying.stretch.end - copying.stretch.position
        if copying.at_hand is None:
            self._desk.pace.step(size)
        else:
            self._desk.pace.skip(size)  # it was read and counted with its keys

    def _write(self, survivors: Survivors) -> None:
        self._output.write(survivors, self._desk.marks)
        self._desk.pace.move(survivors.copied.length)

    def _begin(self, base_offset: int) -> None:
        self._output = self._desk.outputs.begin(base_offset)

    def _seal(self, next_offset: int) -> None:
        sealed = self._desk.outputs.seal(
            next_offset, sealed_at=self._sealed_at, cleaned_to=self._cleaned_to, runs=self._runs
        )
        self.sealed.append(replace(sealed, superseded_to=self._superseded_to))
