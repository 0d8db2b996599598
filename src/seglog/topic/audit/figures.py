"""The figures of an audit by key, shared by the local audit and the Spark job. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """A consumer group's progress in one log. delivered: the offset before which it got everything.

    undelivered_records: from that offset on; undelivered_keys: keys whose latest record is one of them.
    """

    group: str
    delivered: int
    undelivered_records: int
    undelivered_keys: int


@dataclass(frozen=True, kw_only=True)
class LogKeys:
    """The keys of one log, from offset start to next_offset (exclusive).

    records, tombstones: in total, with or without a key; keys: with at least one record; live_keys: whose latest record
    is not a tombstone. groups: by name; none if no delivered offsets were given.
    """

    topic: str
    partition: int
    path: str
    start: int
    next_offset: int
    records: int
    tombstones: int
    keys: int
    live_keys: int
    groups: tuple[GroupFigures, ...]

    @property
    def undelivered_records(self) -> int:
        """The records that were not delivered, over all groups."""
        return sum(group.undelivered_records for group in self.groups)

    @property
    def undelivered_keys(self) -> int:
        """The keys whose latest record was not delivered, over all groups."""
        return sum(group.undelivered_keys for group in self.groups)
