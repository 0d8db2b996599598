"""Compare records that a copy and its source both hold. Pure, apart from reading the views it is given.

Epochs show each cut that a log makes itself. They do not show that its directory was put back to an earlier state while
the machine ran on (a snapshot of the file system, a copy that was made while it was closed): no opening notices that.
So a source sends with its records the digests of a few records before them, and the copy compares its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from seglog.errors import CorruptLog, CorruptRecord, SnapshotExpired
from seglog.format.codec import NATIVE, NULL, encode_headers
from seglog.record import Record, value_size

if TYPE_CHECKING:
    from seglog.log.view import View

REACHES = (4, 64, 1024, 16384)
"""Offsets before a position that are searched for records, until there is one: compaction may have left few of them."""
KEPT_BYTES = 64 * 1024  # of a value that is longer than a scan reads at once

Digests = dict[int, int]
"""offset -> digest of the record there."""
_KNOWN: WeakKeyDictionary[View, dict[int, Digests]] = WeakKeyDictionary()
"""Answers of `digests_before` for a view, whose records do not change, by offset: idle copies ask again and again."""
MOST_KNOWN = 8
"""Answers of a view: of as many copies that have got to different offsets."""


def digests_before(view: View, offset: int) -> Digests:
    """Return the digests of up to 4 of the last records before `offset`, more if gaps precede it; none if damaged."""
    known = _KNOWN.setdefault(view, {})
    found = known.pop(offset, None)
    known[offset] = found = _digests_before(view, offset) if found is None else found  # the latest use comes last
    if len(known) > MOST_KNOWN:
        known.pop(next(iter(known)), None)
    return found


def _digests_before(view: View, offset: int) -> Digests:
    for reach in REACHES:
        start = max(view.lowest_offset, offset - reach)
        found = _digests(view, start, offset)
        if found or start == view.lowest_offset:
            return found
    return {}


def first_difference(view: View, theirs: Digests) -> int | None:
    """Return the lowest offset at which a view holds another record than the digests of another log; None if none.

    Offsets of which one of both holds no record, because compaction or retention removed it, do not count.
    """
    if not theirs:
        return None
    start = max(view.lowest_offset, view.next_offset - REACHES[-1], min(theirs))  # a source may send anything
    ours = _digests(view, start, min(view.next_offset, max(theirs) + 1))
    return min((offset for offset, digest in ours.items() if theirs.get(offset, digest) != digest), default=None)


def _digests(view: View, start: int, stop: int) -> Digests:
    """Return the digests of the records start <= offset < stop, without those that are damaged."""
    try:
        return {record.offset: _digest(record) for record in view.scan(start, stop, _skip, KEPT_BYTES)}
    except (CorruptLog, SnapshotExpired):
        return {}


def _skip(_: CorruptRecord) -> None:
    """Go on after a damaged record: a read of it reports it."""


def _digest(record: Record) -> int:
    """Return a number that depends on all fields but the offset; of a long value on its beginning and its size."""
    size = value_size(record.value) % NULL
    return NATIVE.encode(size, record.timestamp, record.key, record.value, encode_headers(record.headers), 0)[1]
