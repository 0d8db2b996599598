"""The figures of an audit by key, as the local audit and the Spark job both give them. Values only."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GroupFigures:
    """How far a consumer group has come in one log. delivered: the offset before which it got everything.

    undelivered_records: from that offset on; undelivered_keys: whose latest record is one of them.
    """

    group: str
    delivered: int
    undelivered_records: int
    undelivered_keys: int


@dataclass(frozen=True, kw_only=True)
class LogKeys:
    """The keys of one log, offsets start up to next_offset (exclusive).

    records, tombstones: all there are, with or without a key; keys: with a record; live_keys: whose latest is no
    tombstone. groups: in order of their names, none where nothing was said of them.
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
        """Records that were not delivered, over all groups."""
        return sum(group.undelivered_records for group in self.groups)

    @property
    def undelivered_keys(self) -> int:
        """Keys whose latest record was not delivered, over all groups."""
        return sum(group.undelivered_keys for group in self.groups)
