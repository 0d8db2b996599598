"""The lag of a streaming query, from the progress that Spark reports.

Spark's Kafka source reports it in the `metrics` of each source. For a Python source Spark 4.3 never fills them: its
streams do not implement ReportsSourceMetrics. It does report where the last micro-batch ended (`endOffset`) and where
the logs end (`latestOffset`), which is enough.

Pure: a progress report in, figures out.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from seglog.errors import InvalidType, SeglogError
from seglog.format.foreign import UNREADABLE
from seglog.spark.read.offsets import decode

if TYPE_CHECKING:
    from seglog.topic.layout.places import Partition


@dataclass(frozen=True, slots=True)
class Lag:
    """The lag of one source of a query. partitions: (topic, partition) -> offsets up to the end of its log.

    In a compacted log an offset may hold no record, so there these are upper bounds.
    """

    partitions: Mapping[Partition, int]

    @property
    def total(self) -> int:
        """The unread offsets of all partitions."""
        return sum(self.partitions.values())

    @property
    def metrics(self) -> dict[str, float]:
        """The figures under the names of Spark's Kafka source."""
        behind = list(self.partitions.values()) or [0]
        return {
            "minOffsetsBehindLatest": min(behind),
            "maxOffsetsBehindLatest": max(behind),
            "avgOffsetsBehindLatest": sum(behind) / len(behind),
        }


def lag(progress: Any) -> list[Lag]:
    """Return the lag of each seglog source of a query, in the order of the query's sources.

    Sources of other formats are omitted, and so are those that have not read yet.

    Args:
        progress: `query.lastProgress`, the `progress` of a listener's event, or their JSON.

    Raises:
        InvalidType: it is anything else.
    """
    found = [_lag_of(source) for source in _values(progress).get("sources", [])]
    return [one for one in found if one is not None]


def _values(progress: Any) -> dict[str, Any]:
    if progress is None:  # a query that has not run a micro-batch yet
        return {}
    text = progress if isinstance(progress, str) else getattr(progress, "json", None)
    try:
        values = progress if text is None else json.loads(text)
    except UNREADABLE as error:
        raise InvalidType(f"a query's progress must be JSON: {error}") from error
    if not isinstance(values, dict):
        raise InvalidType(f"lag takes the progress of a streaming query, not {type(progress).__name__}")
    return values


def _lag_of(source: Mapping[str, Any]) -> Lag | None:
    try:
        read = decode(_offsets(source["endOffset"]))
        ends = {
            (topic, int(number)): int(end)
            for topic, partitions in _offsets(source["latestOffset"]).items()
            for number, end in partitions.items()
        }
    except (SeglogError, *UNREADABLE):  # of another format, or nothing yet
        return None
    behind = {
        partition: max(0, end - (read[partition].position.offset if partition in read else 0))
        for partition, end in ends.items()
    }
    return Lag(behind)


def _offsets(value: Any) -> dict[str, Any]:
    """Return offsets, which some versions of Spark provide as text."""
    return dict(json.loads(value) if isinstance(value, str) else value)
