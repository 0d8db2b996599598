"""Checks of arguments of members and operators. They raise InvalidType and InvalidArgument."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from seglog.errors import InvalidArgument, InvalidType
from seglog.record import checked_offset
from seglog.settings import MAX_SECONDS
from seglog.topic.layout.names import checked_name

if TYPE_CHECKING:
    from seglog.topic.layout.places import Partition
    from seglog.topic.positions import Positions


def checked_topics(topics: Iterable[str]) -> tuple[str, ...]:
    """Return the topics that a member reads, sorted, without duplicates."""
    if isinstance(topics, (str, bytes)) or not isinstance(topics, Iterable):
        raise InvalidType(f"topics must be names in a list, not {type(topics).__name__}")
    names = tuple(sorted({checked_name(topic, "topic") for topic in topics}))
    if not names:
        raise InvalidArgument("a member must read at least one topic")
    return names


def checked_timeout(seconds: float) -> float:
    """Return a session's length in seconds: finite, more than 0."""
    return _checked_seconds(seconds, "session_timeout", least=math.ulp(0.0))


def checked_wait(seconds: float) -> float:
    """Return the seconds to wait for records: finite, 0 or more."""
    return _checked_seconds(seconds, "timeout", least=0.0)


def _checked_seconds(seconds: object, what: str, *, least: float) -> float:
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        raise InvalidType(f"{what} must be seconds, not {type(seconds).__name__}")
    if not least <= seconds <= MAX_SECONDS:  # false for NaN
        shown = f"an int of {seconds.bit_length()} bits" if isinstance(seconds, int) else seconds
        bounds = f"{'above' if least else 'from'} 0 up to {MAX_SECONDS:.0f} (100 years)"
        raise InvalidArgument(f"{what} is {shown}; it must be a finite number of seconds, {bounds}")
    return float(seconds)


def checked_offsets(offsets: Positions) -> dict[Partition, int]:
    """Return (topic, partition) -> offset."""
    try:
        return {
            (checked_name(topic, "topic"), checked_offset(number, "partition")): checked_offset(offset)
            for topic, of in offsets.items()
            for number, offset in of.items()
        }
    except AttributeError as error:
        raise InvalidType(f"offsets must be topic -> partition -> offset, not {offsets!r}") from error
