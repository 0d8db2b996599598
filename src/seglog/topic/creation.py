"""Making a topic's directory, and finding its partitions again. Knows what belongs there, and opens no log to use it.

A topic is created in this order: lock and create every partition, then `topic.json`. A crash before the last
step leaves empty partitions that no reader takes for a topic, and the next creation starts over from them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seglog.errors import CorruptLog, InvalidArgument, InvalidType, NotALog
from seglog.log.opening import open_log
from seglog.storage import Subdirectory, is_directory, is_doomed
from seglog.topic import description as topic_json

if TYPE_CHECKING:
    from seglog.storage import Storage


def check_partitions(partitions: object) -> None:
    """Raise InvalidType or InvalidArgument where a topic cannot have so many partitions."""
    if isinstance(partitions, bool) or not isinstance(partitions, int):
        raise InvalidType(f"partitions must be an int, not {type(partitions).__name__}")
    if not 1 <= partitions <= topic_json.MAX_PARTITIONS:
        raise InvalidArgument(f"partitions is {partitions}; it must be between 1 and {topic_json.MAX_PARTITIONS}")


def check_is_new(root: Storage) -> None:
    """Raise InvalidArgument where a topic is already."""
    if topic_json.is_topic(root):
        raise InvalidArgument(f"{root.path} already is a topic; Topic.open opens it")


def claim_directory(root: Storage) -> None:
    """Make `root` an empty directory, clearing what an interrupted create left and nothing else."""
    try:
        root.exists()
    except NotALog as error:
        raise NotALog(f"{root.path} is a file; a topic is a directory") from error
    root.make([])
    check_is_new(root)
    names = [name for name in root.names() if name != topic_json.TEMPORARY_NAME]
    doomed = [name for name in names if is_doomed(name)]
    partitions = [name for name in names if name not in doomed]
    for name in partitions:
        if not (name.isdecimal() and is_directory(root, name)):
            raise NotALog(f"{root.path} holds {name!r}, which is no partition; create the topic elsewhere")
    for name in doomed:  # a clearing that was interrupted as well
        root.remove_directory(name)
    for name in partitions:
        _clear_leftover(root, name)


def _clear_leftover(root: Storage, name: str) -> None:
    """Remove a partition that never was a topic's. One that holds records is somebody's log: NotALog."""
    log = open_log(Subdirectory(root, name), mode="a")
    if log.next_offset != log.config.initial_offset:
        log.close()
        raise NotALog(f"{log.path} is a log with records but {root.path} is no topic; it was left alone")
    log.remove()


def existing_partition(root: Storage, number: int) -> Subdirectory:
    """Return the directory of a partition. Opening for writing creates, so a lost one has to be noticed before."""
    partition = Subdirectory(root, str(number))
    if not is_directory(partition) or not partition.names():
        raise CorruptLog(
            f"{root.path}: partition {number} is missing; restore {partition.path} or the records in it are lost"
        )
    return partition
