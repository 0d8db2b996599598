"""`python -m benchmarks.generations`: the savings of the generational schedule against brute force, simulated.

Shows bytes read and written by compaction per byte appended, over the mean size of the log, for three patterns of
updates. Both sides are due by the same rule, a dirty share above min_dirty_ratio, which is varied. Brute force is
Kafka's cleaner: it reads the keys of what is dirty, then reads all of the log and writes what lives. The generational
side uses the same functions as the log (`seglog.compaction.schedule`, `seglog.compaction.plan`); only the records are
simulated, all of one size.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from seglog.compaction.plan import Measured, after_pass, considered_to, group, is_rewritten, make_plan
from seglog.compaction.schedule import (
    choose_passed,
    is_sure,
    joint_decay,
    observed_decay,
    standing,
)
from seglog.config import LogConfig, Retention
from seglog.format.manifest import Manifest, SegmentEntry, Segments
from seglog.format.store import HEADER_BYTES

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, int], Array]

KEYS = 20_000
SEGMENT_RECORDS = 1_000
RECORD_BYTES = 100
SEED = 1
WARM_UP, MEASURED = 6, 20  # appended records, as multiples of the number of keys
RATIOS = (0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 0.65)
COMPARED_AT = (1.3, 1.5, 1.75)  # mean size, as a multiple of what lives


# --- patterns of updates --------------------------------------------------------------------------------------------


def uniform(random: np.random.Generator, count: int) -> Array:
    """Update all keys alike."""
    return random.integers(0, KEYS, count)


def hot_tenth(random: np.random.Generator, count: int) -> Array:
    """Update a tenth of the keys in nine of ten cases."""
    hot = KEYS // 10
    return np.where(random.random(count) < 0.9, random.integers(0, hot, count), random.integers(hot, KEYS, count))


def zipf() -> Draw:
    """Return Zipf's law with exponent 0.99, with ranks assigned to the keys at random."""
    shares = np.arange(1, KEYS + 1) ** -0.99
    upto, key_of = np.cumsum(shares) / shares.sum(), np.random.default_rng(SEED).permutation(KEYS)
    return lambda random, count: key_of[np.searchsorted(upto, random.random(count))]


UPDATES: dict[str, Draw] = {"uniform": uniform, "10% of keys take 90%": hot_tenth, "Zipf 0.99": zipf()}


# --- a log with only offsets and keys -------------------------------------------------------------------------------


@dataclass
class Segment:
    """A sealed segment: its manifest entry and its records."""

    entry: SegmentEntry
    offsets: Array
    keys: Array


class SimulatedLog:
    """A simulated log. moved: bytes read and written by compactions; latest: the last offset of each key."""

    def __init__(self, draw: Draw, ratio: float) -> None:
        self.moved = 0
        self.appended = 0
        self.segments: list[Segment] = []
        self.latest = np.full(KEYS, -1)
        self._draw = draw
        self._random = np.random.default_rng(SEED)
        retention = Retention(compact=True, min_dirty_ratio=ratio)
        self._config = LogConfig(segment_bytes=HEADER_BYTES + SEGMENT_RECORDS * RECORD_BYTES, retention=retention)
        self._files = 0

    def fill(self) -> None:
        """Begin with every key once, compacted."""
        for keys in np.split(self._random.permutation(KEYS), KEYS // SEGMENT_RECORDS):
            self._append(keys)
        self.generational()
        self.moved = self.appended = 0

    def append(self) -> None:
        """Append a segment of updates."""
        self._append(self._draw(self._random, SEGMENT_RECORDS))

    def _append(self, keys: Array) -> None:
        first = self.segments[-1].entry.next_offset or 0 if self.segments else 0
        offsets = np.arange(first, first + len(keys))
        self.latest[keys] = offsets  # for a repeated key the last one counts
        self.segments.append(Segment(self._entry(first, first + len(keys), len(keys)), offsets, keys))
        self.appended += len(keys) * RECORD_BYTES

    def _entry(self, base: int, end: int, records: int) -> SegmentEntry:
        self._files += 1
        size = HEADER_BYTES + records * RECORD_BYTES
        return SegmentEntry(
            base_offset=base,
            next_offset=end,
            file=self._files,
            salt=0,
            created=0,
            sealed_at=0,
            bytes=size,
            records=records,
        )

    @property
    def size(self) -> int:
        """Bytes of all records."""
        return sum(len(segment.offsets) for segment in self.segments) * RECORD_BYTES

    @property
    def manifest(self) -> Manifest:
        """The manifest, for the schedule."""
        entries = [segment.entry for segment in self.segments]
        active = SegmentEntry(base_offset=entries[-1].next_offset or 0, file=0, salt=0, created=0)
        segments = Segments.of([*entries, active])
        return Manifest(log_id=0, version=0, epoch=0, next_file=0, start=0, config=self._config, segments=segments)

    def live(self, segment: Segment) -> Array:
        """Return which records of a segment are the latest of their keys."""
        alive: Array = self.latest[segment.keys] == segment.offsets
        return alive

    # --- passes -------------------------------------------------------------------------------------------------------

    def brute_force(self) -> None:
        """Read the keys of what is dirty, read everything, write what lives."""
        dirty = sum(len(one.offsets) for one in self.segments if one.entry.cleaned_to is None)
        self.moved += dirty * RECORD_BYTES
        plan = make_plan(self.manifest, 0)
        after = [after_pass(segment.entry, plan, plan.end) for segment in self.segments]
        self.segments = list(self._rewritten(self.segments, after))

    def generational(self) -> None:
        """Map, look up, and copy what has deaths, as `Log.compact(generational=True)` does.

        Not simulated: when keys are looked up during the copy, the first window of a segment is read twice.
        """
        manifest = self.manifest
        sources = make_plan(manifest, 0).sources
        plan = make_plan(manifest, 0, passed=choose_passed(sources, self._config, 0))
        mapped = {source.file for source in plan.dirty}
        after: list[Segment] = []
        stretch: list[Segment] = []
        for segment in self.segments:
            if segment.entry.file not in plan.passed:
                stretch.append(segment)
                continue
            after += [*self._stretch(stretch, plan, mapped), segment]
            stretch = []
        self.segments = [*after, *self._stretch(stretch, plan, mapped)]

    def _stretch(self, stretch: list[Segment], plan: Any, mapped: set[int]) -> Iterator[Segment]:
        """Yield the result for adjacent segments that are considered."""
        by_file = {segment.entry.file: segment for segment in stretch}
        measured = []
        for segment in stretch:
            live = int(self.live(segment).sum())
            measured.append(
                Measured(entry=segment.entry, live_bytes=live * RECORD_BYTES, dead=len(segment.offsets) - live)
            )
        for members in group(measured, self._config.segment_bytes):
            records = sum(source.records or 0 for source in plan.sources)
            after = [self._after(one, plan, records) for one in members]
            read = [by_file[one.entry.file] for one in members]
            keyed = [one for one in read if one.entry.file in mapped or not is_sure(one.entry, plan.end, records)]
            self.moved += sum(len(one.offsets) * RECORD_BYTES for one in keyed)
            if is_rewritten(members):
                yield from self._rewritten(read, after)
            else:
                self.moved += len(keyed[0].offsets) * RECORD_BYTES if read[0].entry.file in mapped else 0  # verified
                yield replace(read[0], entry=after[0])

    @staticmethod
    def _after(one: Measured, plan: Any, records: int) -> SegmentEntry:
        live = (one.entry.records or 0) - one.dead
        return replace(after_pass(one.entry, plan, plan.end), decay=observed_decay(one.entry, live, plan.end, records))

    def _rewritten(self, segments: list[Segment], after: list[SegmentEntry]) -> Iterator[Segment]:
        """Yield segments with the live records of others, each as full as possible."""
        alive = [self.live(segment) for segment in segments]
        offsets = np.concatenate([one.offsets[live] for one, live in zip(segments, alive, strict=True)])
        keys = np.concatenate([one.keys[live] for one, live in zip(segments, alive, strict=True)])
        self.moved += (sum(len(one.offsets) for one in segments) + len(offsets)) * RECORD_BYTES
        decay = joint_decay((entry.decay, int(live.sum())) for entry, live in zip(after, alive, strict=True))
        base, end = after[0].base_offset, after[-1].next_offset or 0
        cleaned = min(considered_to(entry) for entry in after)
        for start in range(0, max(len(offsets), 1), SEGMENT_RECORDS):
            part = slice(start, start + SEGMENT_RECORDS)
            stop = int(offsets[start + SEGMENT_RECORDS]) if start + SEGMENT_RECORDS < len(offsets) else end
            entry = self._entry(base, stop, len(offsets[part]))
            yield Segment(replace(entry, cleaned_to=cleaned, decay=decay, dense=False), offsets[part], keys[part])
            base = stop


# --- curves ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Point:
    """One run. ratio: min_dirty_ratio; space: mean size of the log over that of what lives, and its maximum; moved:
    bytes read and written by compaction per byte appended; passes: their number.
    """

    updates: str
    schedule: str
    ratio: float
    space: float
    most_space: float
    moved: float
    passes: int


def run(updates: str, schedule: str, ratio: float) -> Point:
    """Simulate one log under one schedule ("brute force" or "generational")."""
    log = SimulatedLog(UPDATES[updates], ratio)
    log.fill()
    live, passes = KEYS * RECORD_BYTES, 0
    spaces: list[float] = []
    for number in range((WARM_UP + MEASURED) * KEYS // SEGMENT_RECORDS):
        if number == WARM_UP * KEYS // SEGMENT_RECORDS:
            log.moved = log.appended = passes = 0
            spaces.clear()
        log.append()
        if standing(log.manifest, 0).due == "dirty":
            passes += 1
            log.brute_force() if schedule == "brute force" else log.generational()
        spaces.append(log.size / live)
    return Point(
        updates=updates,
        schedule=schedule,
        ratio=ratio,
        space=float(np.mean(spaces)),
        most_space=max(spaces),
        moved=log.moved / log.appended,
        passes=passes,
    )


def moved_at(points: list[Point], space: float) -> float:
    """Return the bytes moved per byte appended at a mean size, interpolated between the nearest runs."""
    ordered = sorted(points, key=lambda point: point.space)
    return float(np.interp(space, [point.space for point in ordered], [point.moved for point in ordered]))


def main() -> None:
    """Simulate, print the table, plot the curves."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.generations", description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("docs/generations"), help="path of .json and .svg")
    options = parser.parse_args()
    points = []
    print(f"{'updates':<22}{'mean space':>11}{'brute force':>13}{'generational':>14}{'saved':>8}")
    for updates in UPDATES:
        sides = {
            schedule: [run(updates, schedule, ratio) for ratio in RATIOS]
            for schedule in ("brute force", "generational")
        }
        for space in COMPARED_AT:
            brute, ours = (moved_at(side, space) for side in sides.values())
            print(f"{updates:<22}{space:>11.2f}{brute:>13.2f}{ours:>14.2f}{1 - ours / brute:>8.0%}")
        points += [point for side in sides.values() for point in side]
    options.output.with_suffix(".json").write_text(json.dumps([asdict(point) for point in points], indent=1) + "\n")
    draw(points, options.output.with_suffix(".svg"))


def draw(points: list[Point], path: Path) -> None:
    """Plot bytes moved over mean size for each pattern of updates, one curve per schedule."""
    import matplotlib.pyplot as plt  # noqa: PLC0415 - the figures do not need it

    plt.rcParams["svg.hashsalt"] = "seglog"  # the same picture from the same figures
    figure, axes = plt.subplots(1, len(UPDATES), figsize=(13, 4.2), sharey=True, layout="constrained")
    for axis, updates in zip(axes, UPDATES, strict=True):
        for schedule, colour, mark in (("brute force", "#888888", "o"), ("generational", "#c2410c", "s")):
            side = sorted((p.space, p.moved) for p in points if (p.updates, p.schedule) == (updates, schedule))
            axis.plot(*zip(*side, strict=True), color=colour, marker=mark, markersize=4, label=schedule)
        axis.set(title=updates, xlabel="mean space (bytes of the log / bytes that live)", xlim=(1.0, 2.2), ylim=(0, 10))
        axis.grid(alpha=0.3)
    axes[0].set_ylabel("bytes read and written\nper byte appended")
    axes[0].legend()
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
