"""One log of an audit: its figures and the rows of its keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from seglog.log.log import Log
from seglog.topic.audit.figures import GroupFigures, LogKeys
from seglog.topic.audit.key_rounds import KeySweep
from seglog.topic.audit.rows import key_batches, undelivered_in
from seglog.topic.layout.places import Place

Array = np.ndarray[Any, Any]


class SweptLog:
    """A log in its state at creation of this object. delivered: group -> the offset before which it got everything."""

    def __init__(self, place: Place, log: Log, delivered: Mapping[str, int], memory_bytes: int) -> None:
        self._place = place
        self._sweep = KeySweep(log, memory_bytes)
        self._groups = list(delivered)
        self._cuts = np.array(list(delivered.values()), np.int64)

    def figures(self) -> LogKeys:
        """Read the log, as often as its keys need, and count."""
        keys = live = records = tombstones = 0
        behind = undelivered = np.zeros(self._cuts.size, np.int64)
        for found in self._sweep.rounds(self._cuts):
            records, tombstones, behind = found.records, found.tombstones, found.undelivered
            keys += len(found.rows.keys)
            live += int(np.count_nonzero(~found.rows.tombstones))
            undelivered = undelivered + np.count_nonzero(undelivered_in(found.rows, self._cuts), axis=1)
        return LogKeys(
            topic=self._place.topic,
            partition=self._place.partition,
            path=self._place.path,
            start=self._sweep.start,
            next_offset=self._sweep.stop,
            records=records,
            tombstones=tombstones,
            keys=keys,
            live_keys=live,
            groups=self._group_figures(behind, undelivered),
        )

    def _group_figures(self, records: Array, keys: Array) -> tuple[GroupFigures, ...]:
        of_groups = zip(self._groups, self._cuts.tolist(), records.tolist(), keys.tolist(), strict=True)
        return tuple(
            GroupFigures(group=group, delivered=cut, undelivered_records=of_records, undelivered_keys=of_keys)
            for group, cut, of_records, of_keys in of_groups
        )

    def rows(self) -> Iterator[pa.RecordBatch]:
        """Yield a row for every key and group, in order of keys."""
        for found in self._sweep.rounds(self._cuts):
            yield from key_batches(self._place.key, found.rows.in_order(), self._groups, self._cuts)

    def undelivered_rows(self, number: int) -> Iterator[pa.RecordBatch]:
        """Yield the rows of one group for the keys whose latest record it did not get, in order of keys."""
        groups, cuts = self._groups[number : number + 1], self._cuts[number : number + 1]
        for found in self._sweep.rounds(cuts):
            rows = found.rows.where(undelivered_in(found.rows, cuts)[0])
            yield from key_batches(self._place.key, rows.in_order(), groups, cuts)
