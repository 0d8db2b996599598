"""The content of the log `.groups` in memory: every group's members and committed offsets. Written first, then applied.

Knows no clock and decides nothing; its owner holds a lock around every call.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from seglog.errors import CorruptLog
from seglog.log.log import Log
from seglog.topic.groups.charges import Charges
from seglog.topic.groups.records import DECIDED, Entry, GroupRecord, OffsetRecord, decode, encode
from seglog.topic.groups.state import Crew
from seglog.topic.layout.places import Partition


class Kept(NamedTuple):
    """A group that exists without members and offsets. remains: what another coordinator keeps of it, None: nothing;
    topics: of its last offsets.
    """

    remains: object
    topics: frozenset[str] = frozenset()


class Book:
    """crews: group -> its members; offsets: group -> partition -> the next offset to read, no empty ones.

    records: (group, partition) -> the record of that offset. charges: who pays for what all groups take.
    kept: groups that had members of another coordinator, or offsets, and have not expired. In memory only; any thread
    may change it.
    """

    def __init__(self, log: Log) -> None:
        """Read the whole log. Raises CorruptLog, naming the record, for an unknown or incomplete one."""
        self.crews: dict[str, Crew] = {}
        self.offsets: dict[str, dict[Partition, int]] = {}
        self.records: dict[tuple[str, Partition], OffsetRecord] = {}
        self.charges = Charges()
        self.kept: dict[str, Kept] = {}
        self._log = log
        for record in log.scan():
            try:
                self._take(decode(record.key, record.value))
            except ValueError as error:
                raise CorruptLog(
                    f"{log.path}: offset {record.offset} is not a record of consumer groups: {error}. Nothing was "
                    "changed; restore the log, or move it away to abandon members and committed offsets"
                ) from error

    def knows(self, group: str) -> bool:
        """Whether a group exists."""
        return group in self.crews or group in self.offsets or group in self.kept

    def crew(self, group: str) -> Crew:
        """Return a group's members; none for an unknown group."""
        return self.crews.get(group, Crew())

    def write(self, group: str, crew: Crew) -> None:
        """Write a group's new state, if it differs."""
        if crew != self.crew(group):
            self.append([GroupRecord(group, crew)])
        elif group in self.crews:
            self.crews[group] = crew  # equal, except for the partition counts of its assignment

    def append(self, entries: Iterable[Entry], decided: int | None = None) -> None:
        """Write entries, all or none; they survive kill -9 when this returns. decided: by a transaction, and when."""
        written = list(entries)
        pairs = [encode(entry) for entry in written]
        headers = () if decided is None else ((DECIDED, b"%d" % decided),)
        if len(pairs) == 1:
            self._log.append(pairs[0][1], key=pairs[0][0], headers=headers)
        elif pairs:
            import pyarrow as pa  # noqa: PLC0415 - imported with the first commit of several partitions

            keys, values = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
            table = pa.table({"key": keys, "value": values})
            if headers:
                kind = pa.map_(pa.string(), pa.binary())
                table = table.append_column("headers", pa.array([headers] * len(pairs), kind))
            self._log.append_batch(table)
        for entry in written:
            self._take(entry)

    def growth(self, entries: Iterable[Entry]) -> dict[str, int]:
        """Return how many bytes more each payer would pay with these entries; each replaces another record."""
        growth: dict[str, int] = {}
        for entry in entries:
            before = self._replaced(entry)
            for payer, size in entry.paid.items():
                growth[payer] = growth.get(payer, 0) + size
            for payer, size in before.paid.items():
                growth[payer] = growth.get(payer, 0) - size
        return growth

    def _replaced(self, entry: Entry) -> Entry:
        if isinstance(entry, GroupRecord):
            return GroupRecord(entry.group, self.crew(entry.group))
        return self.records.get((entry.group, entry.partition)) or entry._replace(offset=None)

    def _take(self, entry: Entry) -> None:
        self.charges.change(entry.group, self.growth([entry]))
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
