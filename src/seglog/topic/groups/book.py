"""What the log `.groups` says, in memory: every group's members and committed offsets. First written, then believed.

It knows no clock and decides nothing; its owner holds a lock around every call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import CorruptLog
from seglog.topic.groups.records import Entry, GroupRecord, OffsetRecord, decode, encode
from seglog.topic.groups.state import Crew

if TYPE_CHECKING:
    from collections.abc import Iterable

    from seglog.log.log import Log
    from seglog.topic.places import Partition


class Book:
    """crews: group -> its members; offsets: group -> partition -> the offset to be read next, no empty ones.

    records: (group, partition) -> the record that says so.
    """

    def __init__(self, log: Log) -> None:
        """Read the whole log; CorruptLog, naming the record, where one is not ours or not whole."""
        self.crews: dict[str, Crew] = {}
        self.offsets: dict[str, dict[Partition, int]] = {}
        self.records: dict[tuple[str, Partition], OffsetRecord] = {}
        self._log = log
        for record in log.scan():
            try:
                self._take(decode(record.key, record.value))
            except ValueError as error:
                raise CorruptLog(
                    f"{log.path}: offset {record.offset} is no record of consumer groups: {error}. Nothing was "
                    "changed; restore the log, or move it away and give up members and committed offsets"
                ) from error

    def crew(self, group: str) -> Crew:
        """Return a group's members; of a group that nobody knows, none."""
        return self.crews.get(group, Crew())

    def write(self, group: str, crew: Crew) -> None:
        """Make a group what it is to be, if that is anything new."""
        if crew != self.crew(group):
            self.append([GroupRecord(group, crew)])
        elif group in self.crews:
            self.crews[group] = crew  # the same, but with the counts of partitions it was shared out for

    def append(self, entries: Iterable[Entry]) -> None:
        """Write entries, all or none; they survive kill -9 when this returns."""
        written = list(entries)
        pairs = [encode(entry) for entry in written]
        if len(pairs) == 1:
            self._log.append(pairs[0][1], key=pairs[0][0])
        elif pairs:
            import pyarrow as pa  # noqa: PLC0415 - loads with the first commit of several partitions

            keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
            self._log.append_batch(pa.table({"key": keys, "value": values}))
        for entry in written:
            self._take(entry)

    def _take(self, entry: Entry) -> None:
        if isinstance(entry, GroupRecord):
            if entry.crew is None:
                self.crews.pop(entry.group, None)
            else:
                self.crews[entry.group] = entry.crew
            return
        offsets = self.offsets.setdefault(entry.group, {})
        if entry.offset is None:
            offsets.pop(entry.partition, None)
            self.records.pop((entry.group, entry.partition), None)
        else:
            self.records[entry.group, entry.partition] = entry
            offsets[entry.partition] = entry.offset
        if not offsets:
            del self.offsets[entry.group]
