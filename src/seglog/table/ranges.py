"""Decide which rows of a table stay, and which offsets of a partition come next. Pure."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from seglog.errors import CopyDiverged, CopyExpired, CorruptLog, LogTruncated
from seglog.replication.lineage import Lineage, common_offset, continue_at

Held = dict[int, Lineage]
"""What a table holds of each partition: the log's history, and its records before `end`."""


@dataclass(frozen=True, slots=True)
class Range:
    """What to do for one partition: delete its rows from `cut` on (None: none), then add the offsets start to stop."""

    cut: int | None
    start: int
    stop: int

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to do."""
        return self.cut is None and self.start >= self.stop


def next_range(
    held: Lineage | None,
    source: Lineage,
    stop: int,
    names: tuple[str, str],
    *,
    refuse_truncate: bool = False,
    skip_expired: bool = False,
    restart: bool = False,
) -> Range:
    """Return what brings the rows of one partition up to `stop`. names: of the table and of the log, for errors.

    Raises:
        CopyDiverged: If the log is another one, or in an earlier state than the table knows.
        CopyExpired: If the log has deleted records that the table lacks.
        LogTruncated: If records that the table holds were cut off the log, and `refuse_truncate`.
    """
    table, path = names
    if held is None:
        return Range(None, source.start, max(stop, source.start))
    try:
        start = common = continue_at(held, source, is_copy=True, names=names)
    except CopyDiverged:
        if not restart:
            raise
        return Range(0, source.start, max(stop, source.start))
    except CopyExpired:
        shared = common_offset(held.cuts, source.cuts, min(held.end, source.end))
        if not skip_expired or shared is None:
            raise
        common, start = shared, source.start
    if common < held.end and refuse_truncate:
        raise LogTruncated(
            f"{path} was truncated to offset {common}, and {table} holds its records up to {held.end}. To delete these "
            "rows, allow it: on_truncate='delete' (--on-truncate delete)"
        )
    return Range(common if common < held.end else None, start, max(stop, start))


def from_the_start(step: Range, lowest: int) -> Range:
    """Return a step for a table of the newest records: after a cut it has lost rows that the deleted ones had replaced.

    lowest: first offset of the log.
    """
    return step if step.cut is None else Range(0, lowest, max(step.stop, lowest))


def held_after(held: Lineage | None, source: Lineage, step: Range) -> Lineage:
    """Return what the table holds of a partition once the step is committed."""
    start = source.start if held is None or (step.cut is not None and step.cut <= held.start) else held.start
    return replace(source, start=min(start, step.start), end=step.stop, rebuilt=False)


def to_text(held: Held) -> str:
    """Return it as the text of a snapshot's property."""
    return json.dumps({str(number): one.to_json() for number, one in sorted(held.items())}, separators=(",", ":"))


def from_text(text: str, table: str) -> Held:
    """Read what `to_text` returned. CorruptLog if it is invalid."""
    try:
        return {int(number): Lineage.from_json(one) for number, one in json.loads(text).items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise CorruptLog(
            f"{table}: a snapshot names its offsets in an unknown way ({error}); a newer version of seglog may have "
            "written it, or another program"
        ) from error
