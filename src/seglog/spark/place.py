"""From a path to what can be read there: a topic's partitions, or one log. Takes the snapshot a read is
planned on.
"""

from __future__ import annotations

from pathlib import Path

from seglog.errors import LogNotFound, NotALog
from seglog.log.opening import open_log
from seglog.spark.plan import Extent, LogSnapshot
from seglog.topic import description


def snapshots(path: str) -> list[LogSnapshot]:
    """Return what every partition behind `path` holds now, in order of partition.

    A log alone is partition 0 of a topic named like its directory. All partitions are looked at in one go, so
    the read ends at one moment. Raises LogNotFound or NotALog that names the option, and what opening a log
    raises.
    """
    root = Path(path).absolute()
    if description.is_topic(root):
        topic = description.read(root)
        return [_snapshot(topic.name, number, root / str(number)) for number in range(topic.partitions)]
    try:
        return [_snapshot(root.name, 0, root)]
    except LogNotFound as error:
        raise LogNotFound(f"option path: there is neither a log nor a topic at {root}") from error
    except NotALog as error:
        raise NotALog(f"option path: {root} is neither a log nor a topic: {error}") from error


def _snapshot(topic: str, partition: int, path: Path) -> LogSnapshot:
    with open_log(path, mode="r") as log:
        next_offset = log.next_offset
        extents = tuple(
            Extent(segment.base_offset, min(segment.next_offset, next_offset), segment.bytes)
            for segment in log.segments
            if segment.base_offset < min(segment.next_offset, next_offset)
        )
        return LogSnapshot(topic, partition, str(path), log.lowest_offset, next_offset, extents)
