"""Whether the log under a position is still the one that was read. Pure; knows no consumers.

An offset alone does not tell: a log that was truncated, or deleted and made anew, gives the same offsets again. A trace
tells which record stands before a position: of which log it is, how often that was truncated by then, and in which file
it stood. Truncates take ends, and what is appended after one goes to a new file: so nothing below a position is gone if
the record before it still stands where it stood. Where compaction has moved that record, or retention taken it, after
a truncate, nobody can tell; that counts as cut. Gaps that compaction left never do.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import LogTruncated, OffsetOutOfRange

if TYPE_CHECKING:
    from seglog.log.view import View
    from seglog.topic.places import Partition


class Trace(NamedTuple):
    """What stands before an offset. log: its id, 16 hex digits; epoch: grows with each truncate.

    file: the number of the file of the record before the offset, as `View.file_of` gives it; None where the log begins
    at the offset or behind it.
    """

    log: str
    epoch: int
    file: int | None


class Passage(NamedTuple):
    """The traces of where a reading began and of where it goes on, by the log as it was before the reading."""

    before: Trace
    after: Trace


def trace_of(view: View, offset: int) -> Trace:
    """Return the trace of an offset. Take the view before reading: a truncate in between is then noticed later."""
    manifest, last = view.manifest, offset - 1
    file = view.file_of(last) if last >= view.lowest_offset else None
    return Trace(f"{manifest.log_id:016x}", manifest.epoch, file)


def passage_of(view: View, start: int, next_offset: int) -> Passage:
    """Return the traces of a reading from `start` that came as far as `next_offset`."""
    return Passage(trace_of(view, start), trace_of(view, next_offset))


def was_cut(known: Trace, now: Trace) -> bool:
    """Whether what was read before an offset is no longer part of the log. Both traces are of that offset."""
    if now.log != known.log:
        return True
    if now.epoch == known.epoch or known.file is None:
        return False
    return now.file != known.file


def log_was_cut(partition: Partition, offset: int) -> LogTruncated:
    """Return the error to raise for a position that `was_cut`, with topic and partition."""
    topic, number = partition
    error = LogTruncated(
        f"partition {number} of topic {topic!r} was truncated below offset {offset}, or deleted and made anew: what"
        " was read before that offset is no longer there, and other records may stand in its place;"
        " seek (or follow anew), to go on"
    )
    error.topic, error.partition = topic, number  # type: ignore[attr-defined] # as HTTP tells them
    return error


def tell_how_to_go_on(error: OffsetOutOfRange, partition: Partition) -> None:
    """Add to an error of reading a position what a consumer can do about it; sets its topic and partition."""
    topic, number = partition
    error.topic, error.partition = topic, number  # type: ignore[attr-defined] # as above
    if error.offset < error.lowest_offset:
        error.add_note(
            f"seek({topic!r}, {number}, {error.lowest_offset}) goes on at what is there; what lies between is lost"
        )
    else:
        error.add_note(
            f"partition {number} of topic {topic!r} was truncated or made anew;"
            f" seek({topic!r}, {number}, {error.next_offset}) goes on at its end"
        )


# --- as a header: {"orders": {"0": [log, epoch, file before, file after]}} --------------------------------------------


def to_json(passages: Iterable[tuple[Partition, Passage]]) -> str:
    """Return passages as text; log and epoch are said once, as both traces of a passage are of one view."""
    shown: dict[str, dict[str, list[str | int | None]]] = {}
    for (topic, number), (before, after) in passages:
        shown.setdefault(topic, {})[str(number)] = [*before, after.file]
    return json.dumps(shown, separators=(",", ":"))


def from_json(text: str) -> dict[Partition, Passage]:
    """Read `to_json`'s text; ValueError, TypeError or AttributeError for anything else."""
    return {
        (topic, int(number)): Passage(Trace(log, epoch, before), Trace(log, epoch, after))
        for topic, of in json.loads(text).items()
        for number, (log, epoch, before, after) in of.items()
    }
