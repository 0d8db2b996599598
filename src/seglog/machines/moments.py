"""Positions in the partitions of a replay: an offset, a time, or offsets by partition. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from seglog.clock import microseconds
from seglog.errors import InvalidArgument, InvalidType, OffsetOutOfRange
from seglog.machines.part import Part
from seglog.record import checked_offset

Moment = int | datetime | Mapping[int, int] | None


def offsets_of(moment: Moment, name: str, parts: Mapping[int, Part]) -> dict[int, int]:
    """Return partition -> the offset of a moment; empty for None.

    A time means the first record at or after it, or the end. Raises InvalidType, InvalidArgument if partitions are
    missing or unknown, OffsetOutOfRange.
    """
    if moment is None:
        return {}
    if isinstance(moment, datetime):
        at = microseconds(moment)
        found = {number: part.offset_at(at) for number, part in parts.items()}
        return {number: _within(offset, parts[number]) for number, offset in found.items()}
    if isinstance(moment, Mapping):
        if unknown := sorted(moment.keys() ^ parts.keys()):
            raise InvalidArgument(f"{name} must name each partition of {sorted(parts)}; it differs in {unknown}")
        offsets = {number: checked_offset(offset, name) for number, offset in moment.items()}
    elif isinstance(moment, bool) or not hasattr(moment, "__index__"):
        raise InvalidType(f"{name} must be an offset, a datetime or offsets by partition, not {type(moment).__name__}")
    elif len(parts) > 1:
        raise InvalidArgument(f"{name} is one offset for {len(parts)} partitions; give partition -> offset")
    else:
        offsets = dict.fromkeys(parts, checked_offset(moment, name))
    for number, offset in offsets.items():
        part = parts[number]
        if not part.lowest <= offset <= part.end:
            error = OffsetOutOfRange(offset, part.lowest, part.end)
            error.add_note(f"{name} of {part.name}; {part.end}, the end, is allowed too")
            raise error
    return offsets


def _within(offset: int | None, part: Part) -> int:
    return part.end if offset is None else min(max(offset, part.lowest), part.end)
