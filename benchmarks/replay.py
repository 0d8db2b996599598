"""A replay of a state machine against the same machine in a plain loop over records that are in memory already.

"From a snapshot": of a log of which all but the last hundredth is in the snapshot, against a replay of all of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import seglog
from benchmarks.data import keyed_table
from benchmarks.scale import Scale
from benchmarks.timing import Figure, in_turn, stopwatch
from seglog.types import Machine

VALUE_BYTES = 100


class Totals:
    """Counts bytes of values for each first byte of a key: a cheap `apply`, so that reading dominates."""

    def initial(self) -> dict[int, int]:
        """Return no totals."""
        return {}

    def apply(self, state: dict[int, int], record: seglog.Record) -> dict[int, int]:
        """Add the size of a value."""
        first = (record.key or b"\0")[0]
        state[first] = state.get(first, 0) + len(record.value or b"")
        return state

    def encode(self, state: dict[int, int]) -> bytes:
        """Return the totals as text."""
        return b" ".join(b"%d:%d" % item for item in state.items())

    def decode(self, data: bytes) -> dict[int, int]:
        """Return what `encode` wrote."""
        return {int(key): int(value) for key, _, value in (word.partition(b":") for word in data.split())}


def figures(directory: Path, scale: Scale) -> Iterator[Figure]:
    """Measure values of 100 B with keys of 16 B."""
    place = directory / "replay"
    with seglog.open(place, seglog.LogConfig(segment_bytes=2 * scale.file_bytes)) as log:
        log.append_batch(keyed_table(VALUE_BYTES, scale.file_bytes))
        records = list(log.scan())
    yield _figure(place, records, scale, "replay", Totals(), 0.3)
    yield _figure(place, records, scale, "replay, a state per key", seglog.PerKey(Totals()), 0.5)
    yield _with_snapshot(place, directory / "states", len(records), scale)


def _figure(
    place: Path, records: list[seglog.Record], scale: Scale, name: str, machine: Machine[Any], aim: float
) -> Figure:
    def ours() -> float:
        with seglog.open(place, mode="r") as log, stopwatch() as watch:
            assert seglog.replay(log, machine).records == len(records)
        return watch.seconds

    def other() -> float:
        with stopwatch() as watch:
            state, apply = machine.initial(), machine.apply
            for record in records:
                state = apply(state, record)
        return watch.seconds

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    return Figure(
        name=name,
        against="a loop over records in memory",
        ours=mine,
        other=others,
        work=len(records) / 1e6,
        unit="M records",
        aim=aim,
    )


def _with_snapshot(place: Path, states: Path, count: int, scale: Scale) -> Figure:
    with seglog.open(place, mode="r") as log:
        seglog.replay(log, Totals(), stop=count - count // 100, snapshots=states)

    def ours() -> float:
        kept = seglog.Snapshots(states, keep=2)
        with seglog.open(place, mode="r") as log, stopwatch() as watch:
            assert seglog.replay(log, Totals(), snapshots=kept).records == count // 100
        for path in states.glob(f"0-{count:020d}.snapshot"):
            path.unlink()
        return watch.seconds

    def other() -> float:
        with seglog.open(place, mode="r") as log, stopwatch() as watch:
            seglog.replay(log, Totals())
        return watch.seconds

    mine, others = in_turn(ours, other, repeats=scale.repeats)
    return Figure(
        name="replay from a snapshot, 1 % of the log after it, and store the next one",
        against="a replay of all records",
        ours=mine,
        other=others,
        work=count / 1e6,
        unit="M records",
        aim=20,
    )
