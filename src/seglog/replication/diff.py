"""Compare two copies: where do they disagree?

Copies compact and expire on their own, so bytes, segments, lowest offsets and gaps may differ. They agree if, in the
range of offsets that both cover:
- a record that both hold is the same in both;
- without compaction, both hold every record;
- with compaction, the latest record of every key is the same, or a tombstone in one and removed in the other.
Offsets order the records, so equal offsets are an equal order.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.replication.places import LocalPlace
from seglog.storage import Storage, Subdirectory
from seglog.topic.layout.locations import is_location
from seglog.topic.layout.root import OFFSETS

if TYPE_CHECKING:
    import pyarrow as pa

    from seglog.replication.places import SourcePlace

WINDOW = 65_536  # offsets compared at a time
SHOWN = 100  # differences listed; all are counted

Latest = dict[bytes, tuple[int, bool]]
"""key -> offset of its latest record, and whether that is a tombstone."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One place where two copies disagree. log: "topic/partition", or "" of a single log; offset: None for a whole log.

    kind: "topic" (in one only), "log" (another id), "record" (another one, or in one only), "key" (another latest one).
    """

    log: str
    offset: int | None
    kind: str
    detail: str


@dataclass(frozen=True, slots=True)
class DiffReport:
    """What a comparison found.

    Attributes:
        logs: Number of logs compared.
        records: Number of records compared, of the first copy.
        differences: The first of them.
        count: Number of all differences.
        behind: log -> records that the second copy lacks at its end; negative: the first one.
    """

    logs: int
    records: int
    differences: tuple[Difference, ...]
    count: int
    behind: dict[str, int]

    @property
    def same(self) -> bool:
        """Whether the copies agree up to where the shorter one ends."""
        return self.count == 0


class Comparable(Protocol):
    """A log to compare."""

    id: str
    lowest_offset: int
    next_offset: int
    compacted: bool

    def table(self, start: int, stop: int) -> pa.Table:
        """Return the records start <= offset < stop, with the columns of Log.to_arrow."""
        ...


class _LocalLog:
    def __init__(self, log: Log) -> None:
        view = log.view()
        self._log = log
        self.id = f"{view.manifest.log_id:016x}"
        self.lowest_offset, self.next_offset = view.lowest_offset, view.next_offset
        self.compacted = view.manifest.config.retention.compact or not all(one.dense for one in view.manifest.segments)

    def table(self, start: int, stop: int) -> pa.Table:
        return self._log.to_arrow(start, stop)


def diff(
    one: str | os.PathLike[str] | Storage, other: str | os.PathLike[str] | Storage, *, token: str | None = None
) -> DiffReport:
    """Compare two logs, topics or directories of topics; reads all of both.

    Args:
        one: A path, a Storage, or the URL of a server.
        other: As `one`.
        token: A bearer token, if a server requires one.

    Raises:
        CorruptRecord: If a record of either is damaged.
    """
    found = _Findings()
    with ExitStack() as resources:
        first, second = (_logs(place, token, resources) for place in (one, other))
        if len(first) == len(second) == 1 and "" in {*first, *second}:  # a log and a topic of one partition
            first, second = ({"": next(iter(logs.values()))} for logs in (first, second))
        if is_location(one) or is_location(other):  # a server does not show the log of its groups
            first.pop(OFFSETS, None), second.pop(OFFSETS, None)
        for name in sorted({*first, *second}):
            if name in first and name in second:
                _compare(name, first[name], second[name], found)
            else:
                found.add(name, None, "topic", f"is only in the {'first' if name in first else 'second'} copy")
    return DiffReport(found.logs, found.records, tuple(found.differences), found.count, found.behind)


class _Findings:
    def __init__(self) -> None:
        self.logs = self.records = self.count = 0
        self.differences: list[Difference] = []
        self.behind: dict[str, int] = {}

    def add(self, log: str, offset: int | None, kind: str, detail: str) -> None:
        self.count += 1
        if len(self.differences) < SHOWN:
            self.differences.append(Difference(log, offset, kind, detail))


def _logs(place: Any, token: str | None, resources: ExitStack) -> dict[str, Comparable]:
    if is_location(place):
        from seglog.replication.remote import RemotePlace  # noqa: PLC0415 - paths need no client

        remote = RemotePlace(place, token=token)
        resources.callback(remote.close)
        if remote.kind == "log":
            return {"": remote.comparable("", 0)}
        if remote.kind == "topic":
            return {str(number): remote.comparable("", number) for _, number in _partitions(remote)}
        return {f"{topic}/{number}": remote.comparable(topic, number) for topic, number in _partitions(remote)}
    local = LocalPlace(place)
    root = local._root
    if local.kind == "log":
        return {"": _LocalLog(resources.enter_context(open_log(root, mode="r")))}
    found: dict[str, Comparable] = {}
    for topic, number in _partitions(local):
        storage = Subdirectory(Subdirectory(root, topic) if topic else root, str(number))
        found[f"{topic}/{number}" if topic else str(number)] = _LocalLog(
            resources.enter_context(open_log(storage, mode="r"))
        )
    if local.groups() is not None:
        groups = open_log(Subdirectory(root, OFFSETS), mode="r")
        found[OFFSETS] = _LocalLog(resources.enter_context(groups))
    return found


def _partitions(place: SourcePlace) -> Iterator[tuple[str, int]]:
    for name, known in place.topics().items():
        for number in range(0 if known is None else known.partitions):
            yield name, number


def _compare(name: str, one: Comparable, other: Comparable, found: _Findings) -> None:
    found.logs += 1
    if one.next_offset != other.next_offset:
        found.behind[name] = one.next_offset - other.next_offset
    if one.id != other.id:
        found.add(name, None, "log", f"the logs have the ids {one.id} and {other.id}: neither is a copy of the other")
    start = max(one.lowest_offset, other.lowest_offset)
    stop = min(one.next_offset, other.next_offset)
    keyed = one.compacted or other.compacted
    latest: tuple[Latest, Latest] = ({}, {})
    for begin in range(start, stop, WINDOW):
        end = min(begin + WINDOW, stop)
        tables = one.table(begin, end), other.table(begin, end)
        found.records += tables[0].num_rows
        if not tables[0].equals(tables[1]):
            _compare_records(name, tables, found, keyed=keyed)
        if keyed:
            for table, known in zip(tables, latest, strict=True):
                _note_latest(table, known)
    _compare_latest(name, latest, found)


def _compare_records(name: str, tables: tuple[pa.Table, pa.Table], found: _Findings, *, keyed: bool) -> None:
    from seglog.arrow.to_records import plain_rows  # noqa: PLC0415 - pyarrow loads when first used

    rows = [{row["offset"]: row for row in plain_rows(table)} for table in tables]
    for offset in sorted({*rows[0], *rows[1]}):
        ours, theirs = rows[0].get(offset), rows[1].get(offset)
        if ours is not None and theirs is not None:
            if ours != theirs:
                fields = ", ".join(field for field in ours if ours[field] != theirs[field])
                found.add(name, offset, "record", f"the records differ in {fields}")
        elif not keyed or (ours or theirs or {}).get("key") is None:
            found.add(name, offset, "record", f"is only in the {'second' if ours is None else 'first'} copy")


def _note_latest(table: pa.Table, known: Latest) -> None:
    keys, offsets = table.column("key").to_pylist(), table.column("offset").to_pylist()
    removed = table.column("value").is_null().to_pylist()
    known.update(
        {key: (offset, is_gone) for key, offset, is_gone in zip(keys, offsets, removed, strict=True) if key is not None}
    )


def _compare_latest(name: str, latest: tuple[Latest, Latest], found: _Findings) -> None:
    """Compare the latest records: both copies hold them at one offset, where `_compare_records` has compared them."""
    ours, theirs = latest
    for key in {*ours, *theirs}:
        one, other = ours.get(key), theirs.get(key)
        if one == other or (one is None and other is not None and other[1]):
            continue
        if other is None and one is not None and one[1]:
            continue
        places = [f"at offset {at[0]}" if at is not None else "missing" for at in (one, other)]
        offset = min(at[0] for at in (one, other) if at is not None)
        found.add(name, offset, "key", f"the latest record of key {key!r} is {places[0]} and {places[1]}")
