"""Decide when a log is compacted, and which segments are considered: pure functions of the manifest's figures.

The rule is Kafka's: a log is due when its dirty share exceeds a ratio, a record has waited for the maximum lag, or
tombstones have reached their horizon. Which segments are then considered is generational ("Generational Compaction" in
Kafka's proposal of keyed messages): every pass records how fast the records of a segment die (`decay`), and a clean
segment is skipped until enough garbage is expected for a copy to pay off. So records that have survived for long are
rarely copied.

Hysteresis: a segment is considered from a quarter of garbage on, not after every death; a choice must take a good part
of all garbage, and must be better than considering everything by more than the error of the estimates; and after a
pass nothing is dirty, so that the next one waits as long again.
`python -m benchmarks.generations` plots the savings.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from seglog.clock import has_passed
from seglog.compaction.plan import (
    NEVER,
    CompactionPlan,
    cleanable,
    considered_to,
    has_due,
    make_plan,
    next_horizon,
)
from seglog.config import LogConfig
from seglog.format.manifest import Manifest, SegmentEntry
from seglog.format.store import HEADER_BYTES

LEAST_GARBAGE = 0.25  # expected share from which a clean segment is considered
SEEN_TO_DIE = 0.2  # fraction of the decay that every segment has if all keys are updated alike
LEAST_PART = 0.4  # fraction of all expected garbage that a choice must take
LEAST_ADVANTAGE = 0.05  # by which skipping segments must be better than considering all
MOST_STARTS = 16  # offsets to compare from; the best is chosen
CONFIDENCE = 0.1  # fraction of the log's records: after that many appends, observation and prior count alike

Reason = Literal["dirty", "lag", "tombstones"]


@dataclass(frozen=True, kw_only=True)
class SegmentStanding:
    """The state of a segment.

    Attributes:
        base_offset: First offset.
        next_offset: First offset after it; None for the active segment.
        file: File number.
        bytes: Size of its store.
        state: "active"; "fresh" (sealed within the minimum lag, or after such a segment); "dirty" (never compacted);
            "clean".
        cleaned_to: Records before this offset were compared with this segment's; None: none were.
        expected_garbage: Share of its bytes, 0 to 1, that a compaction is expected to free; None if it is not
            considered.
    """

    base_offset: int
    next_offset: int | None
    file: int
    bytes: int
    state: Literal["active", "fresh", "dirty", "clean"]
    cleaned_to: int | None
    expected_garbage: float | None


@dataclass(frozen=True, kw_only=True)
class Standing:
    """The state of a log's compaction by key, and of its compression.

    Attributes:
        due: Why it is due: "dirty" (ratio > min_dirty_ratio), "lag" (max_compaction_lag has passed), "tombstones" (some
            have reached their horizon), or None.
        dirty_bytes: Size of the segments that were never compacted.
        total_bytes: Size of all segments that may be compacted.
        ratio: dirty_bytes / total_bytes.
        next_at: Time (us) at which time alone may make something due; None: never.
        pinned: Tombstones from this offset on stay for a registered follower; None without one.
        segments: The state of each segment.
        to_compress: Bytes, before compression, of the sealed segments that `Log.compress` would store in another form.
    """

    due: Reason | None
    dirty_bytes: int
    total_bytes: int
    ratio: float
    next_at: int | None
    pinned: int | None
    segments: tuple[SegmentStanding, ...]
    to_compress: int


def to_compress(segments: Iterable[SegmentEntry], config: LogConfig) -> list[SegmentEntry]:
    """Return the sealed segments that are not stored with the config's codec, the oldest first.

    Those without a record only if they have a codec: a truncate may have cut all records of a compressed segment.
    """
    codec = None if config.compression == "none" else config.compression
    due = [one for one in segments if one.sealed and one.codec != codec]
    return [one for one in due if one.codec or (one.bytes or 0) > HEADER_BYTES]


def least_pin(pins: Mapping[str, int]) -> int:
    """Return the lowest next offset of the registered followers; NEVER without any."""
    return min(pins.values(), default=NEVER)


def standing(
    manifest: Manifest,
    now: int,
    *,
    durable: int | None = None,
    active_bytes: int = 0,
    active_records: int = 0,
    pins: Mapping[str, int] | None = None,
) -> Standing:
    """Return the state of a log at `now` (us). durable: see `make_plan`; pins: follower -> next offset to read."""
    config, pinned = manifest.config, least_pin(pins or {})
    keyed = config.retention.compact
    sources = cleanable(manifest.segments[:-1], config, now, durable) if keyed else ()
    dirty = sum(source.bytes or 0 for source in sources if source.cleaned_to is None)
    total = sum(source.bytes or 0 for source in sources)
    return Standing(
        due=_due(sources, config, now, pinned, dirty / max(total, 1)),
        dirty_bytes=dirty,
        total_bytes=total,
        ratio=dirty / max(total, 1),
        next_at=_next_at(manifest, sources, now, active_records) if keyed else None,
        pinned=None if pinned == NEVER else pinned,
        segments=_segments(manifest, sources, active_bytes),
        to_compress=sum(one.bytes or 0 for one in to_compress(manifest.segments, config)),
    )


def _due(sources: Sequence[SegmentEntry], config: LogConfig, now: int, pinned: int, ratio: float) -> Reason | None:
    if ratio > config.retention.min_dirty_ratio:
        return "dirty"
    most = config.retention.max_compaction_lag_us
    dirty = (source.created for source in sources if source.cleaned_to is None)
    if most is not None and any(has_passed(created, most, now) for created in dirty):
        return "lag"
    kept = config.retention.delete_retention_us
    due = (has_due(source, now, pinned, part=LEAST_GARBAGE, longest=kept) for source in sources)
    return "tombstones" if any(due) else None


def _next_at(manifest: Manifest, sources: Sequence[SegmentEntry], now: int, active_records: int) -> int | None:
    """Return the next time after `now` at which time alone changes what is due."""
    config, sealed = manifest.config, manifest.segments[:-1]
    most, roll = config.retention.max_compaction_lag_us, config.roll_age_us
    moments = [next_horizon(sources, now)]
    moments += [(one.sealed_at or 0) + config.retention.min_compaction_lag_us for one in sealed[len(sources) :]]
    if most is not None:
        moments += [source.created + most for source in sealed if source.cleaned_to is None]
    if roll is not None and active_records:
        moments.append(manifest.active.created + roll)
    return min((moment for moment in moments if moment is not None and moment > now), default=None)


def _segments(manifest: Manifest, sources: Sequence[SegmentEntry], active_bytes: int) -> tuple[SegmentStanding, ...]:
    end, records = _end(sources), _records(sources)
    found = []
    for number, entry in enumerate(manifest.segments):
        state: Literal["active", "fresh", "dirty", "clean"] = "dirty" if entry.cleaned_to is None else "clean"
        if not entry.sealed:
            state = "active"
        elif number >= len(sources) and state == "dirty":
            state = "fresh"
        found.append(
            SegmentStanding(
                base_offset=entry.base_offset,
                next_offset=entry.next_offset,
                file=entry.file,
                bytes=(entry.bytes or 0) if entry.sealed else active_bytes,
                state=state,
                cleaned_to=entry.cleaned_to,
                expected_garbage=expected_garbage(entry, end, records) if number < len(sources) else None,
            )
        )
    return tuple(found)


def scheduled_plan(manifest: Manifest, now: int, *, durable: int | None = None, pinned: int = NEVER) -> CompactionPlan:
    """Return the plan of a pass over segments that are expected to yield enough; arguments as in `make_plan`."""
    sources = cleanable(manifest.segments[:-1], manifest.config, now, durable)
    passed = choose_passed(sources, manifest.config, now, pinned)
    return make_plan(manifest, now, durable=durable, pinned=pinned, passed=passed)


# --- generations ----------------------------------------------------------------------------------------------------


def expected_garbage(entry: SegmentEntry, end: int, records: int) -> float:
    """Return the share of a segment's records, 0 to 1, that later ones up to `end` are expected to supersede."""
    return -math.expm1(-_decay(entry, records) * max(end - _compared_to(entry), 0))


def is_sure(entry: SegmentEntry, end: int, records: int) -> bool:
    """Whether a clean segment is assumed to hold enough garbage, from observed deaths, without reading all its keys.

    A segment without observed deaths has less than SEEN_TO_DIE of the decay if all keys were updated alike.
    """
    seen = entry.decay is not None and entry.decay * records >= SEEN_TO_DIE
    return seen and expected_garbage(entry, end, records) > LEAST_GARBAGE


def observed_decay(entry: SegmentEntry, live: int, end: int, records: int) -> float | None:
    """Return the decay of a segment after a pass up to `end` that left `live` of its records.

    records: of the log. The observation is weighted by the number of records appended meanwhile against the prior: a
    segment that was compared with few later records yields little information.
    """
    appended, known = max(end - _compared_to(entry), 0.0), CONFIDENCE * records
    if not entry.records:
        return entry.decay
    died = math.log(entry.records / max(live, 0.5))  # half a record keeps it finite if none is left
    return (died + known * _decay(entry, records)) / max(appended + known, 1.0)


def joint_decay(parts: Iterable[tuple[float | None, int]]) -> float | None:
    """Return the decay of merged segments, from the decay and live records of each."""
    known = [(decay, live) for decay, live in parts if decay is not None]
    records = sum(live for _, live in known)
    return sum(decay * live for decay, live in known) / records if records else None


def _decay(entry: SegmentEntry, records: int) -> float:
    """Return the decay; before the first pass every record of the log is equally likely to be superseded."""
    return 1 / max(records, 1) if entry.decay is None else entry.decay


def _compared_to(entry: SegmentEntry) -> float:
    """Return the average offset from which on a segment's records were not compared with later ones yet."""
    if entry.cleaned_to is not None:
        return entry.cleaned_to
    return (entry.base_offset + (entry.next_offset or entry.base_offset)) / 2


@dataclass(frozen=True)
class _Prospect:
    """What a pass may expect of a segment. start: considered_to; garbage: bytes; needed: it must be considered."""

    file: int
    size: int
    start: int
    end: int
    garbage: float
    sure: bool
    needed: bool

    def is_chosen(self, start: int, segment_bytes: int) -> bool:
        """Whether a pass that compares from `start` on considers it: it must, or reads its keys in any case, or it is
        worth it, for its garbage or for merging.
        """
        worth = self.garbage > LEAST_GARBAGE * self.size or 2 * self.size <= segment_bytes
        return self.needed or self.end > start or (self.start >= start and worth)

    def moved(self, start: int) -> float:
        """Return the bytes read and written for it; its keys are read first unless it is copied directly."""
        keys = self.size if self.end > start or not self.sure else 0
        return keys + 2 * self.size - self.garbage


@dataclass(frozen=True)
class _Choice:
    """A possible pass. files: considered; gain: bytes expected to be freed; moved: bytes read and written."""

    files: frozenset[int]
    gain: float
    moved: float

    @classmethod
    def of(cls, prospects: Sequence[_Prospect], start: int) -> _Choice:
        """Return the choice of some segments, comparing the records from `start` on."""
        files = frozenset(one.file for one in prospects)
        return cls(files, sum(one.garbage for one in prospects), sum(one.moved(start) for one in prospects))

    @property
    def worth(self) -> float:
        """Bytes freed per byte moved; plus one, so that without gain the least is moved."""
        return (self.gain + 1) / max(self.moved, 1.0)


def choose_passed(sources: Sequence[SegmentEntry], config: LogConfig, now: int, pinned: int = NEVER) -> frozenset[int]:
    """Return the file numbers of the clean segments that a pass over `sources` should skip.

    Of the offsets to compare from, the one is chosen that frees most bytes per byte read and written; all segments are
    considered if that is hardly worse.
    """
    prospects = _prospects(sources, now, pinned, config.retention.delete_retention_us)
    latest = min((one.start for one in prospects if one.needed), default=_end(sources))
    choices = [
        _Choice.of([one for one in prospects if one.is_chosen(start, config.segment_bytes)], start)
        for start in _some(sorted({one.start for one in prospects if one.start <= latest}))
    ]
    all_of_it = _Choice.of(prospects, min((one.start for one in prospects), default=0))
    least_gain, least_worth = LEAST_PART * all_of_it.gain, (1 + LEAST_ADVANTAGE) * all_of_it.worth
    better = (choice for choice in choices if choice.gain >= least_gain and choice.worth > least_worth)
    taken = max(better, key=lambda choice: choice.worth, default=all_of_it)
    return all_of_it.files - taken.files


def _some(starts: Sequence[int]) -> Sequence[int]:
    """Return up to MOST_STARTS of the offsets, including first and last: each of 10,000 segments may have its own."""
    if len(starts) <= MOST_STARTS:
        return starts
    return [starts[number * (len(starts) - 1) // (MOST_STARTS - 1)] for number in range(MOST_STARTS)]


def _prospects(sources: Sequence[SegmentEntry], now: int, pinned: int, kept: int) -> list[_Prospect]:
    """Return the prospects of the sources. Needed are dirty ones, and, if tombstones are to be removed, theirs and
    older ones that were not compared with them. kept: how long (us) tombstones are kept.
    """
    end, records = _end(sources), _records(sources)
    due = {number for number, one in enumerate(sources) if has_due(one, now, pinned, part=LEAST_GARBAGE, longest=kept)}
    last = max(due, default=-1)
    compared_to = (sources[last].next_offset or 0) if due else 0
    return [
        _Prospect(
            file=source.file,
            size=source.bytes or 0,
            start=considered_to(source),
            end=source.next_offset or 0,
            garbage=expected_garbage(source, end, records) * (source.bytes or 0),
            sure=is_sure(source, end, records),
            needed=source.cleaned_to is None
            or number in due
            or (number < last and considered_to(source) < compared_to),
        )
        for number, source in enumerate(sources)
    ]


def _end(sources: Sequence[SegmentEntry]) -> int:
    return (sources[-1].next_offset or 0) if sources else 0


def _records(sources: Sequence[SegmentEntry]) -> int:
    return sum(source.records or 0 for source in sources)
