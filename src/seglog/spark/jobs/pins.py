"""Find the logs behind a path and pin each: its identity, and the offsets a job covers.

A job reads a log in several tasks, some of them twice. So that all of them see the same records, the driver fixes the
offsets once; a task refuses a log that was truncated or replaced since. Looks at logs as the data source does; knows
nothing of Spark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from seglog.clock import microseconds
from seglog.errors import InvalidArgument, InvalidType, NotALog, OffsetCompacted, OffsetOutOfRange
from seglog.format.manifest import ANYTHING, Manifest
from seglog.log.opening import open_log
from seglog.spark.option_values import is_archive, place_path
from seglog.spark.read.data_loss import position_at
from seglog.spark.read.extents import LogSnapshot
from seglog.spark.read.local_logs import Logs, look_at_all, places
from seglog.spark.read.options import EARLIEST, LATEST, Selection
from seglog.spark.read.plan import OffsetRange
from seglog.topic.layout.places import Place
from seglog.topic.positions import Positions

Moment = int | datetime | Positions | None
"""A position in every log: an offset (for one log), a time, offsets by topic and partition, or the default."""

EVERY_TOPIC = "(?s).*"
_FILE = re.compile(r"^file:(//(localhost)?(?=/))?", re.IGNORECASE)  # Hadoop takes file:/a as well as file:///a


@dataclass(frozen=True, slots=True)
class Pin:
    """The offsets of one log that a job covers, and the log's state at planning.

    missing: why records before the stop are gone for good (retention, compaction), None if none is. as_of_then: whether
    the latest record of every key before the stop still exists despite compaction. next_file: files with this number or
    a greater one were made later.
    """

    range: OffsetRange
    missing: str | None
    as_of_then: bool
    next_file: int

    def __str__(self) -> str:
        return f"partition {self.range.partition} of topic {self.range.topic!r}"


def pin(path: str | Path, *, start: Moment = None, stop: Moment = None) -> list[Pin]:
    """Pin every log behind a log, a topic or a broker's directory in its present state, by topic and partition.

    start, stop (exclusive): default to the first and last offset; a time means the first record at or after it. Raises
    InvalidArgument or InvalidType for an invalid one, OffsetOutOfRange if a log does not hold it; LogNotFound or
    NotALog if there is no log.
    """
    found = logs_behind(path)
    with Logs() as logs:
        snapshots = look_at_all(logs, found)
        starts, stops = (
            [_offset(logs, snapshot, moments.get(snapshot.key), name) for snapshot in snapshots]
            for name, moments in (("start", _moments(start, "start", found)), ("stop", _moments(stop, "stop", found)))
        )
        return [
            _pinned(snapshot, logs.get(snapshot.path).view().manifest, low, high)
            for snapshot, low, high in zip(snapshots, starts, stops, strict=True)
        ]


def logs_behind(path: str | Path) -> list[Place]:
    """Return the logs behind a log, a topic or a broker's directory. Raises LogNotFound or NotALog."""
    root = place_path(path)
    found = places(root, Selection("subscribePattern", pattern=EVERY_TOPIC))
    if not found:
        raise NotALog(f"{root} is neither a log, a topic nor a broker with topics")
    return found


def _moments(moment: Moment, name: str, found: Sequence[Place]) -> Mapping[tuple[str, int], int | datetime]:
    """Return the requested moment of each log, none for the default; all logs must be named: none is skipped."""
    if moment is None:
        return {}
    if isinstance(moment, datetime):
        return {place.key: moment for place in found}
    if isinstance(moment, int) and not isinstance(moment, bool):
        if len(found) > 1:
            raise InvalidArgument(f"{name} is one offset for {len(found)} logs; give an offset for each partition")
        return {found[0].key: moment}
    if not isinstance(moment, Mapping):
        raise InvalidType(f"{name} must be an offset, a datetime or offsets by topic, not {type(moment).__name__}")
    named = {(topic, partition): offset for topic, of in moment.items() for partition, offset in of.items()}
    there = {place.key for place in found}
    for topic, partition in sorted(named.keys() ^ there):
        fault = "is missing; name all of them" if (topic, partition) in there else "does not exist"
        raise InvalidArgument(f"{name}: partition {partition} of topic {topic!r} {fault}")
    return named


def _offset(logs: Logs, snapshot: LogSnapshot, moment: int | datetime | None, name: str) -> int:
    lowest, end = snapshot.lowest_offset, snapshot.next_offset
    if moment is None:
        return lowest if name == "start" else end
    if isinstance(moment, datetime):
        found = logs.get(snapshot.path).offset_at(microseconds(moment), force_timestamp=True)
        return end if found is None else min(max(found, lowest), end)
    offset = {EARLIEST: lowest, LATEST: end}.get(moment, moment)
    if not lowest <= offset <= end:
        error = OffsetOutOfRange(offset, lowest, end)
        error.add_note(f"{name} of {snapshot}; {end}, the end, is allowed too")
        raise error
    return offset


def _pinned(snapshot: LogSnapshot, manifest: Manifest, start: int, stop: int) -> Pin:
    if start > stop:
        raise InvalidArgument(f"start {start} is after stop {stop} in {snapshot}")
    part = OffsetRange(snapshot.topic, snapshot.partition, snapshot.path, start, stop, 0, position_at(snapshot, stop))
    gaps = _has_gaps(snapshot, stop)
    missing = "there are gaps in its offsets" if gaps else None
    if snapshot.lowest_offset > snapshot.initial_offset:
        missing = f"it begins at offset {snapshot.lowest_offset}, earlier records are gone"
    as_of_then = not gaps or stop == snapshot.next_offset or _superseded_to(manifest, stop) <= stop
    next_file = max((extent.file for extent in snapshot.extents), default=0) + 1  # the manifest may be newer
    return Pin(part, missing, as_of_then, next_file)


def _has_gaps(snapshot: LogSnapshot, stop: int) -> bool:
    """Whether some offset before `stop` holds no record."""
    expected = snapshot.lowest_offset
    for extent in snapshot.extents:
        if extent.start >= stop:
            break
        if not extent.dense or extent.start > expected:
            return True
        expected = extent.stop
    return expected < stop


def _superseded_to(manifest: Manifest, stop: int) -> int:
    """Return the offset before which all records are that superseded ones before `stop`; ANYTHING if unknown."""
    expected, found = manifest.start, 0
    for entry in manifest.segments:
        if entry.base_offset >= stop:
            break
        if entry.base_offset > expected:  # between segments: what was there is unknown
            return ANYTHING
        found, expected = max(found, entry.taken_for), entry.next_offset or stop
    return found if expected >= stop else ANYTHING


def check_latest(one: Pin) -> None:
    """Raise if the latest record of a key before the stop may have been removed since the pin was taken.

    That can happen once a later compaction replaced records before the stop by later ones. Call it after reading the
    pinned records. Raises OffsetCompacted, or OffsetOutOfRange if retention deleted the start of the range.
    """
    part = one.range
    for entry in _present(one).segments:
        if entry.file >= one.next_file and entry.base_offset < part.stop < entry.taken_for:
            raise _compacted(one, "may have been superseded by later ones")


def check_all(one: Pin) -> None:
    """Raise as `check_latest` if any record before the stop is gone; for a pin that misses none."""
    part, expected = one.range, one.range.start
    for entry in _present(one).segments:
        if entry.base_offset >= part.stop or expected >= part.stop:
            break
        if not entry.dense or entry.base_offset > expected:
            raise _compacted(one, "are gone")
        expected = entry.next_offset or part.stop


def _present(one: Pin) -> Manifest:
    """Return the present manifest, of the pinned log with an unchanged start."""
    part = one.range
    with open_log(part.path, mode="r") as log:
        view = log.view()
        if view.lowest_offset > part.start < part.stop:
            error = OffsetOutOfRange(part.start, view.lowest_offset, view.next_offset)
            error.add_note(f"{one} expired since the job was planned; run it again")
            raise error
        return view.manifest


def _compacted(one: Pin, what: str) -> OffsetCompacted:
    part = one.range
    error = OffsetCompacted(part.start, part.stop)
    error.args = (f"{one} was compacted while the job waited: records before offset {part.stop} {what}",)
    error.add_note("repeat the snapshot or replay; it starts with the log's present records")
    return error


def refuse_overlap(path: str | Path, destination: str) -> None:
    """Raise InvalidArgument for a destination inside or around the log: replacing it would delete the log."""
    if is_archive(str(path)):
        one, other = (text.replace("s3a://", "s3://", 1).rstrip("/") + "/" for text in (str(path), destination))
        if one.startswith(other) or other.startswith(one):
            raise InvalidArgument(f"{destination} and {path} are inside one another; write to another prefix")
        return
    source, target = (Path(_FILE.sub("", text)).resolve() for text in (str(path), destination))
    if source == target or source in target.parents or target in source.parents:
        raise InvalidArgument(f"{destination} and {path} are inside one another; write to another directory")


def positions(pins: Sequence[Pin], *, start: bool = False) -> dict[str, dict[int, int]]:
    """Return the stops (or starts) of the pins by topic and partition."""
    found: dict[str, dict[int, int]] = {}
    for one in pins:
        found.setdefault(one.range.topic, {})[one.range.partition] = one.range.start if start else one.range.stop
    return found
