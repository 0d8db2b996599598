"""`seglog.replay`: apply the records of a log to a state machine, continuing from a snapshot where there is one."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Generic, TypeVar

from seglog.errors import InvalidArgument, LogTruncated, OffsetOutOfRange
from seglog.format.snapshot import Last
from seglog.log.history import Trace, was_cut
from seglog.log.log import Log
from seglog.machines.machine import Machine, checked_machine, failed
from seglog.machines.moments import offsets_of
from seglog.machines.part import Part
from seglog.machines.parts import parts_of
from seglog.machines.per_key import check_decodes
from seglog.machines.snapshots import Snapshots, SnapshotShelf, checked_snapshots
from seglog.record import checked_bytes
from seglog.storage import Storage
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from seglog.client.topic import RemoteTopic

S = TypeVar("S")


@dataclass(frozen=True, slots=True)
class ReplayedLog(Generic[S]):
    """The result for one log, or one partition of a topic.

    Attributes:
        state: The state after the last record before `next_offset`.
        next_offset: The offset of the next record to apply.
        last_offset: The offset of the last applied record; None if there is none.
        records: Number of records that this call applied.
        gaps: Number of offsets in the applied range that have no record, because compaction removed it.
        resumed_at: Offset of the snapshot that it continued from; None if it began without one.
        unusable: Names of snapshots that were not used, and why: damaged, of a history that was truncated, of another
            version of the machine.
    """

    state: S
    next_offset: int
    last_offset: int | None
    records: int
    gaps: int
    resumed_at: int | None
    unusable: Mapping[str, str]
    _trace: Trace = field(repr=False)
    _last: Last | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class Replayed(Generic[S]):
    """The result of a replay: one state for each partition, because only a partition has an order.

    Attributes:
        partitions: Number of the partition -> its result; a log without a topic is partition 0.
    """

    partitions: Mapping[int, ReplayedLog[S]]

    @property
    def state(self) -> S:
        """The state of the only partition. Raises InvalidArgument if there are several."""
        return self._only().state

    @property
    def next_offset(self) -> int:
        """The next offset of the only partition. Raises InvalidArgument if there are several."""
        return self._only().next_offset

    @property
    def states(self) -> dict[int, S]:
        """The state of each partition."""
        return {number: one.state for number, one in self.partitions.items()}

    @property
    def records(self) -> int:
        """Number of records that this call applied, in all partitions."""
        return sum(one.records for one in self.partitions.values())

    def _only(self) -> ReplayedLog[S]:
        if len(self.partitions) > 1:
            raise InvalidArgument(f"there are {len(self.partitions)} partitions, each with a state: use `states`")
        [one] = self.partitions.values()
        return one


def replay(
    log: Log | Topic | RemoteTopic | str | os.PathLike[str] | Storage,
    machine: Machine[S],
    *,
    state: S | None = None,
    start: int | datetime | Mapping[int, int] | Replayed[S] | None = None,
    stop: int | datetime | Mapping[int, int] | None = None,
    snapshots: str | os.PathLike[str] | Storage | Snapshots | None = None,
) -> Replayed[S]:
    """Apply the records start <= offset < stop of a log to a state machine, in order, and return the state.

    Each partition of a topic has its own state. `PerKey(machine)` is a machine with a state for each key.

    Args:
        log: A log or topic that is open, a path, a Storage, the URL of an archive, a topic of a `Client`, or the URL of
            a topic or partition on a server. It may be appended to meanwhile.
        machine: The state machine; see `seglog.types.Machine`.
        state: The state before the first record, of one log; default: `machine.initial()`.
        start: First offset, or the first record at or after a time, or offsets by partition; or the result of an
            earlier replay, to continue with its states. Default: the newest snapshot that can be used, else the first
            record that was ever appended.
        stop: As `start`, exclusive: the state as of an offset or a time. Default: the present end.
        snapshots: A directory (path or Storage) for snapshots, or `Snapshots`, which has options. The replay continues
            from the newest one before `stop`, and stores newer ones. The machine needs `decode`.

    Raises:
        MachineFailed: If the machine raised an error; it has the offset.
        OffsetOutOfRange: If start or stop is outside the log, or the log has expired records that are needed.
        LogTruncated: If `start` is an earlier result, and records that it applied were cut off.
        LogReplaced: If the snapshots are of another log.
        CorruptRecord: At a damaged record.
        InvalidArgument: If the machine lacks a method, or arguments exclude each other.
    """
    with parts_of(log) as parts:
        return replay_parts(parts, machine, state=state, start=start, stop=stop, snapshots=snapshots)


def replay_parts(
    parts: Mapping[int, Part],
    machine: Machine[S],
    *,
    state: S | None = None,
    start: int | datetime | Mapping[int, int] | Replayed[S] | None = None,
    stop: int | datetime | Mapping[int, int] | None = None,
    snapshots: str | os.PathLike[str] | Storage | Snapshots | None = None,
) -> Replayed[S]:
    """Replay partitions that are open; see `replay`."""
    machine = checked_machine(machine)
    kept = checked_snapshots(snapshots)
    if kept is not None:
        check_decodes(machine)
        if state is not None or (start is not None and not isinstance(start, Replayed)):
            raise InvalidArgument("snapshots hold a state and its offset: omit state and start, or omit snapshots")
    if state is not None and len(parts) > 1:
        raise InvalidArgument(f"one state for {len(parts)} partitions: replay each partition, or omit state")
    stops = offsets_of(stop, "stop", parts)
    if isinstance(start, Replayed):
        _check_continues(start, state, parts)
    starts = {} if isinstance(start, Replayed) else offsets_of(start, "start", parts)
    found: dict[int, ReplayedLog[S]] = {}
    for number, part in parts.items():
        shelf = None if kept is None else SnapshotShelf(kept, number, machine)
        one = Replay(part, machine, stops.get(number, part.end), shelf)
        if isinstance(start, Replayed):
            one.go_on(start.partitions[number])
        elif state is not None or number in starts:
            one.begin(state, starts.get(number))
        else:
            one.resume()
        found[number] = one.run()
    return Replayed(found)


def _check_continues(start: Replayed[S], state: S | None, parts: Mapping[int, Part]) -> None:
    if state is not None:
        raise InvalidArgument("start is an earlier result, which has a state: omit state")
    if start.partitions.keys() != parts.keys():
        raise InvalidArgument(f"start has partitions {sorted(start.partitions)}, the log has {sorted(parts)}")


class Replay(Generic[S]):
    """A replay of one partition up to `stop`: begin, resume or go_on, then run."""

    def __init__(self, part: Part, machine: Machine[S], stop: int, shelf: SnapshotShelf | None) -> None:
        self._part = part
        self._machine = machine
        self._stop = stop
        self._shelf = shelf
        self._state: S
        self._position = part.lowest
        self._resumed_at: int | None = None
        self._last: Last | None = None

    # --- where it begins ------------------------------------------------------------------------------------------

    def begin(self, state: S | None = None, start: int | None = None) -> None:
        """Begin with a state and an offset. Raises OffsetOutOfRange if the first records have expired."""
        if start is None and self._part.lowest > self._part.initial:
            raise self._expired()
        self._state = self._machine.initial() if state is None else state
        self._position = self._part.lowest if start is None else start
        if self._position > self._stop:
            raise InvalidArgument(f"start {self._position} is after stop {self._stop} in {self._part.name}")

    def _expired(self) -> OffsetOutOfRange:
        part = self._part
        error = OffsetOutOfRange(part.initial, part.lowest, part.end)
        error.add_note(
            f"{part.name} has expired the records before offset {part.lowest}, and there is no snapshot after them to"
            f" continue from; start={part.lowest} replays without these records"
        )
        for name, why in ({} if self._shelf is None else self._shelf.unusable).items():
            error.add_note(f"snapshot {name} cannot be used: {why}")
        return error

    def resume(self, start: int | None = None) -> None:
        """Begin with the newest snapshot that can be used, else with `start`; see `begin`."""
        loaded = None if self._shelf is None else self._shelf.newest(self._part, self._stop)
        if loaded is None:
            self.begin(start=start)
            return
        header, body = loaded
        try:
            self._state = self._machine.decode(body)  # type: ignore[attr-defined] # checked by the caller
        except Exception as error:
            error.add_note(f"while {type(self._machine).__name__} decoded the snapshot {header.name}")
            raise
        self._position = self._resumed_at = header.offset
        self._last = header.last_record

    def go_on(self, earlier: ReplayedLog[S]) -> None:
        """Continue an earlier result. Raises LogTruncated if the log no longer has what it applied."""
        position, part = earlier.next_offset, self._part
        if position > part.end or was_cut(earlier._trace, part.trace_of(position)):
            raise LogTruncated(
                f"{part.name} was truncated below offset {position}, or created again, since the earlier replay;"
                " replay from a snapshot or from the beginning"
            )
        if position < part.lowest:
            raise OffsetOutOfRange(position, part.lowest, part.end)
        self.begin(earlier.state, position)
        self._last = earlier._last

    # --- the loop -------------------------------------------------------------------------------------------------

    def run(self) -> ReplayedLog[S]:
        """Apply the records; store snapshots on the way and at the end."""
        part, shelf, apply = self._part, self._shelf, self._machine.apply
        state, begun, count = self._state, self._position, 0
        stored, unusable = (-1, {}) if shelf is None else (shelf.greatest(), dict(shelf.unusable))
        noted = 0
        for records in part.pieces(begun, self._stop) if begun < self._stop else ():
            try:
                for record in records:
                    state = apply(state, record)
            except Exception as error:  # noqa: BLE001 - whatever the machine raises
                failed(self._machine, record, part.name, error)
            self._last = Last.of(record)
            self._position = record.offset + 1
            count += len(records)
            if shelf is not None and count - noted >= shelf.every and self._position > stored:
                noted = count
                self._store(state)
        self._position = self._stop
        if shelf is not None and self._position > stored and (count > noted or self._resumed_at is None):
            self._store(state)
        return ReplayedLog(
            state=state,
            next_offset=self._stop,
            last_offset=None if self._last is None else self._last.offset,
            records=count,
            gaps=self._stop - begun - count,
            resumed_at=self._resumed_at,
            unusable=unusable,
            _trace=part.trace_of(self._stop),
            _last=self._last,
        )

    def _store(self, state: S) -> None:
        assert self._shelf is not None  # noqa: S101 - for the type checker
        position = self._position
        try:
            body = checked_bytes(self._machine.encode(state), f"what {type(self._machine).__name__}.encode returns")
        except Exception as error:
            error.add_note(f"while the state before offset {position} of {self._part.name} was encoded for a snapshot")
            raise
        self._shelf.write(self._part.trace_of(position), position, self._last, body)
