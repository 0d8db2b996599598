"""Select the segments that a retention policy deletes: a pure decision over the manifest's figures."""

from __future__ import annotations

from collections.abc import Sequence

from seglog.config import Retention
from seglog.format.manifest import SegmentEntry, Segments
from seglog.record import MIN_TIMESTAMP


def select_expired(sealed: Sequence[SegmentEntry], active_bytes: int, retention: Retention, now: int) -> int:
    """Return how many of the oldest sealed segments may be deleted.

    sealed: in order, the oldest first; active_bytes: size of the active store, which is never deleted; now: us.
    By age, a segment is deleted `retention.age` after `aged_from` by the log's clock; by size, as long as the rest
    is still `retention.bytes` or more. The policy that deletes more decides.
    """
    return max(_too_old(sealed, retention, now), _too_many(sealed, active_bytes, retention))


def _too_old(sealed: Sequence[SegmentEntry], retention: Retention, now: int) -> int:
    age = retention.age_us
    if age is None:
        return 0
    count, latest = 0, MIN_TIMESTAMP
    for number, segment in enumerate(sealed, 1):
        moment = aged_from(segment, retention)
        if moment is None or moment > now:
            continue  # sealed while the clock was ahead: it is deleted with the next one, which was sealed later
        latest = max(latest, moment)  # a clock that was behind must not delete a segment early
        if now - latest < age:
            break
        count = number
    return count


def aged_from(segment: SegmentEntry, retention: Retention) -> int | None:
    """Return the time (us) from which the age of a sealed segment counts; None if it is unknown.

    Records with a time in the future count from the sealing, so that they do not keep their segment forever.
    """
    sealed, newest = segment.sealed_at, segment.max_timestamp
    if retention.age_from == "sealed" or newest is None:
        return sealed
    return newest if sealed is None else min(newest, sealed)


def _too_many(sealed: Sequence[SegmentEntry], active_bytes: int, retention: Retention) -> int:
    most = retention.most_bytes
    if most is None:
        return 0
    remaining = active_bytes + Segments.of(sealed).total_bytes
    count = 0
    while count < len(sealed) and remaining - sealed[count].disk_bytes >= most:
        remaining -= sealed[count].disk_bytes
        count += 1
    return count
