"""The topic compacted by key: the latest record of every aircraft remains. Other steps check with Spark that the states
are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from seglog.log.info import CompactionReport, SegmentInfo
    from seglog.topic import Topic


class Holdings(NamedTuple):
    """What a topic holds. segments: by partition; bytes: of all stores."""

    segments: Sequence[Sequence[SegmentInfo]]
    bytes: int

    @property
    def records(self) -> int:
        """The number of records."""
        return sum(info.records for lane in self.segments for info in lane)


def holdings(topic: Topic) -> Holdings:
    """Return what a topic holds now."""
    logs = [topic.partition(number) for number in range(topic.partitions)]
    return Holdings([log.segments for log in logs], sum(log.size for log in logs))


def compact(topic: Topic, progress: Callable[[int], object]) -> list[CompactionReport]:
    """Compact every partition; progress gets the finished steps (hundredths of a partition)."""
    reports = []
    for number in range(topic.partitions):
        shown = 0

        def show(done: int, total: int) -> None:
            nonlocal shown
            now = 100 * done // max(total, 1)
            progress(now - shown)
            shown = now

        reports.append(topic.partition(number).compact(roll=True, progress=show))
    return reports
