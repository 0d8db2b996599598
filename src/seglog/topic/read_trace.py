"""Traces of what a consumer read, exchanged between server and client, and the errors about them. Pure.

See log/history.py for what a trace is and when it shows a truncated log. Knows no consumers.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from seglog.errors import LogTruncated, OffsetOutOfRange
from seglog.log.history import Trace

if TYPE_CHECKING:
    from seglog.log.view import View
    from seglog.topic.layout.places import Partition


class Passage(NamedTuple):
    """The traces at the start and end of a read, from the log's state before it."""

    before: Trace
    after: Trace

    def trace_at(self, at_start: bool) -> Trace | None:
        """Return the trace of the start, or of an offset after it; None if that is not known.

        If one epoch covers the read, it is that of each offset. The file may be that of a later record: then a cut that
        an older version did not record may be reported without need, but none is missed.
        """
        if at_start:
            return self.before
        return self.after if self.before.epoch == self.after.epoch else None


def passage_of(view: View, start: int, next_offset: int) -> Passage:
    """Return the traces of a read from `start` to `next_offset`."""
    return Passage(view.trace_of(start), view.trace_of(next_offset))


def log_was_cut(partition: Partition, offset: int) -> LogTruncated:
    """Return the error for a position that `was_cut`, with topic and partition."""
    topic, number = partition
    error = LogTruncated(
        f"partition {number} of topic {topic!r} was truncated below offset {offset}, or deleted and created again: the"
        " records read before that offset no longer exist, and other records may have their offsets;"
        " seek, or start a new follow, to continue"
    )
    error.topic, error.partition = topic, number  # type: ignore[attr-defined] # as in HTTP answers
    return error


def tell_how_to_go_on(error: OffsetOutOfRange, partition: Partition) -> None:
    """Add to an error what a consumer can do about it; set its topic and partition."""
    topic, number = partition
    error.topic, error.partition = topic, number  # type: ignore[attr-defined] # as above
    if error.offset < error.lowest_offset:
        error.add_note(
            f"seek({topic!r}, {number}, {error.lowest_offset}) continues at the oldest record; those before are lost"
        )
    else:
        error.add_note(
            f"partition {number} of topic {topic!r} was truncated or created again;"
            f" seek({topic!r}, {number}, {error.next_offset}) continues at its end"
        )


# --- as a header: {"orders": {"0": [log, epoch, file before, file after]}}, and the epoch after if it differs --------


def to_json(passages: Iterable[tuple[Partition, Passage]]) -> str:
    """Return passages as text; each names its log once, as both traces come from one view."""
    shown: dict[str, dict[str, list[str | int | None]]] = {}
    for (topic, number), (before, after) in passages:
        epoch_after = [] if after.epoch == before.epoch else [after.epoch]
        shown.setdefault(topic, {})[str(number)] = [*before, after.file, *epoch_after]
    return json.dumps(shown, separators=(",", ":"))


def from_json(text: str) -> dict[Partition, Passage]:
    """Parse `to_json`'s text. Raises ValueError, TypeError or AttributeError for anything else."""
    return {
        (topic, int(number)): _passage(*of_one)
        for topic, of in json.loads(text).items()
        for number, of_one in of.items()
    }


def _passage(log: str, epoch: int, before: int | None, after: int | None, epoch_after: int | None = None) -> Passage:
    return Passage(Trace(log, epoch, before), Trace(log, epoch if epoch_after is None else epoch_after, after))
