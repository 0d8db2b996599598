"""Committed offsets against the partitions that they are of: whether they are valid still, and what replaces them."""

from __future__ import annotations

from collections.abc import Callable

from seglog.errors import InvalidArgument, OffsetOutOfRange, SeglogError, TopicNotFound
from seglog.format.cuts import Cuts
from seglog.topic.groups.records import OffsetRecord
from seglog.topic.layout.places import Partition


class Offsets:
    """Offsets of partitions, as those are now. The functions that it is given may open a topic."""

    def __init__(
        self,
        bounds: Callable[[str, int], tuple[int, int]],
        records_from: Callable[[str, int, int], int],
        history: Callable[[str, int], tuple[str, Cuts]] | None,
    ) -> None:
        """See `Groups`."""
        self._bounds = bounds
        self._records_from = records_from
        self._history = history

    def record(self, group: str, partition: Partition, offset: int) -> OffsetRecord:
        """Return the record of an offset, with what is needed to check later whether it is still valid."""
        if self._history is None:
            return OffsetRecord(group, partition, offset)
        log, cuts = self._history(*partition)
        return OffsetRecord(group, partition, offset, log, cuts.epoch_at(offset))

    def reset(self, entry: OffsetRecord, offset: int) -> OffsetRecord:
        """Return the record of another offset of the same group, which the same payer pays for."""
        return self.record(entry.group, entry.partition, offset)._replace(payer=entry.payer)

    def still(self, entry: OffsetRecord) -> int | None:
        """Return where a group continues after an offset that it committed, None if that was in another log."""
        if self._history is None or entry.log is None or entry.offset is None:
            return entry.offset
        try:
            log, cuts = self._history(*entry.partition)
        except (SeglogError, IndexError):  # deleted, or it cannot be opened: nothing contradicts it
            return entry.offset
        if log != entry.log:
            return None
        if cuts.epoch_at(entry.offset) == entry.epoch:
            return entry.offset
        cut = cuts.first_since(entry.epoch)
        return entry.offset if cut is None else min(cut, entry.offset)

    def check(self, partition: Partition, offset: int, *, after_end: bool = False) -> None:
        """Raise OffsetOutOfRange for an offset that a group cannot commit. after_end: it may be after the end."""
        lowest, end = self._bounds(*partition)
        if offset < 0 or (offset > end and not after_end):
            error = OffsetOutOfRange(offset, lowest, end)
            error.add_note(f"partition {partition[1]} of topic {partition[0]!r}; nothing was committed")
            raise error

    def lag(self, partition: Partition, committed: int | None) -> int:
        """Return how many records are left to read."""
        try:
            return self._records_from(*partition, committed or 0)
        except (TopicNotFound, InvalidArgument):  # deleted, or created again with fewer: nothing to read
            return 0

    def settled(self, entry: OffsetRecord) -> tuple[OffsetRecord | None, str] | None:
        """Return the replacement for a committed offset and its description; None if the offset is valid."""
        (topic, number), what = entry.partition, f"group {entry.group!r}, partition {entry.partition[1]} of topic"
        try:
            _, end = self._bounds(topic, number)
        except (TopicNotFound, InvalidArgument):
            return entry._replace(offset=None), f"{what} {topic!r}: it does not exist; its committed offset was deleted"
        except SeglogError as error:
            return None, f"{what} {topic!r}: its committed offset was not checked: {error}"
        if entry.offset is None:
            return None
        still = self.still(entry)
        if still is None:
            return entry._replace(offset=None), (
                f"{what} {topic!r}: it was deleted and created again; its committed offset was deleted"
            )
        if still < entry.offset and still <= end:
            return self.reset(entry, still), (
                f"{what} {topic!r}: offset {entry.offset} was committed, but the partition was truncated at {still} "
                "or lost records there: reset to that offset"
            )
        if entry.offset <= end:
            return None
        return self.reset(entry, end), (
            f"{what} {topic!r}: offset {entry.offset} was committed, but the partition ends at {end}: reset to {end}"
        )
