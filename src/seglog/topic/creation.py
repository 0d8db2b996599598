"""Making a topic's directory, and finding its partitions again. Knows what belongs there, and opens no log to use it.

A topic is created in this order: lock and create every partition, then `topic.json`. A crash before the last
step leaves empty partitions that no reader takes for a topic, and the next creation starts over from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import CorruptLog, InvalidArgument, InvalidType, NotALog
from seglog.log.opening import open_log
from seglog.topic import description as topic_json

if TYPE_CHECKING:
    from pathlib import Path


def check_partitions(partitions: object) -> None:
    """Raise InvalidType or InvalidArgument where a topic cannot have so many partitions."""
    if isinstance(partitions, bool) or not isinstance(partitions, int):
        raise InvalidType(f"partitions must be an int, not {type(partitions).__name__}")
    if not 1 <= partitions <= topic_json.MAX_PARTITIONS:
        raise InvalidArgument(f"partitions is {partitions}; it must be between 1 and {topic_json.MAX_PARTITIONS}")


def check_is_new(root: Path) -> None:
    """Raise InvalidArgument where a topic is already."""
    if topic_json.is_topic(root):
        raise InvalidArgument(f"{root} already is a topic; Topic.open opens it")


def claim_directory(root: Path) -> None:
    """Make `root` an empty directory, clearing what an interrupted create left and nothing else."""
    if root.exists() and not root.is_dir():
        raise NotALog(f"{root} is a file; a topic is a directory")
    root.mkdir(parents=True, exist_ok=True)
    topic_json.sync_directory(root.resolve().parent)
    check_is_new(root)
    entries = sorted(entry for entry in root.iterdir() if entry.name != topic_json.TEMPORARY_NAME)
    for entry in entries:
        if not (entry.name.isdecimal() and entry.is_dir()):
            raise NotALog(f"{root} holds {entry.name!r}, which is no partition; create the topic elsewhere")
    for entry in entries:
        _clear_leftover(entry)


def _clear_leftover(directory: Path) -> None:
    """Remove a partition that never was a topic's. One that holds records is somebody's log: NotALog."""
    log = open_log(directory, mode="a")
    if log.next_offset != log.config.initial_offset:
        log.close()
        raise NotALog(f"{directory} is a log with records but {directory.parent} is no topic; it was left alone")
    log.remove()


def existing_partition(root: Path, number: int) -> Path:
    """Return the directory of a partition. Opening for writing creates, so a lost one has to be noticed before."""
    directory = root / str(number)
    if not directory.is_dir() or not any(directory.iterdir()):
        raise CorruptLog(f"{root}: partition {number} is missing; restore {directory} or the records in it are lost")
    return directory
