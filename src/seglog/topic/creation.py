"""Making a topic's directory, and finding its partitions again. Knows what belongs there, and opens no log to use it.

A topic is created in this order: lock and create every partition, then `topic.json`. A crash before the last step
leaves empty partitions that no reader takes for a topic. They are removed by the next creation there, and by the next
broker that opens the directory for writing. A creation that fails removes them itself.
"""

from __future__ import annotations

from contextlib import suppress
from traceback import clear_frames
from typing import TYPE_CHECKING

from seglog.errors import CorruptLog, InvalidArgument, InvalidType, NotALog, SeglogError
from seglog.format import filename
from seglog.format.store import HEADER_BYTES
from seglog.log.opening import open_log
from seglog.storage import Subdirectory, is_directory, is_doomed
from seglog.topic import description as topic_json
from seglog.topic.names import is_name

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


def claim_directory(root: Storage) -> bool:
    """Make `root` an empty directory, clearing what an interrupted create left and nothing else.

    Return whether it was made here.
    """
    try:
        is_made = not root.exists()
    except NotALog as error:
        raise NotALog(f"{root.path} is a file; a topic is a directory") from error
    root.make([])
    check_is_new(root)
    _clear(root)
    return is_made


def _clear(root: Storage) -> None:
    """Remove what an interrupted create left in a directory; NotALog, and nothing removed, where something else is."""
    names = [name for name in root.names() if name != topic_json.TEMPORARY_NAME]
    doomed = [name for name in names if is_doomed(name)]
    partitions = [name for name in names if name not in doomed]
    for name in partitions:
        if not (name.isdecimal() and is_directory(root, name)):
            raise NotALog(f"{root.path} holds {name!r}, which is no partition; create the topic elsewhere")
    for name in doomed:  # a clearing that was interrupted as well
        root.remove_directory(name)
    for name in partitions:
        _clear_partition(root, name)


def _clear_partition(root: Storage, name: str) -> None:
    """Remove a partition that never was a topic's. One that holds records is somebody's log: NotALog."""
    log = open_log(Subdirectory(root, name), mode="a")
    if log.next_offset != log.config.initial_offset:
        log.close()
        raise NotALog(f"{log.path} is a log with records but {root.path} is no topic; it was left alone")
    log.remove()


def retract(root: Storage) -> None:
    """Remove the `topic.json` of a creation that failed, if it came into being; the error of the creation counts.

    For a caller that holds every partition's lock, so that it is not another one's. Needs no descriptor; `abandon`
    makes it durable.
    """
    with suppress(SeglogError):
        root.unlink(topic_json.FILE_NAME)


def abandon(root: Storage, error: Exception, *, is_made: bool) -> None:
    """Remove what a creation that failed has left, as far as the system allows; the next opening removes the rest.

    error: why it failed; its frames, which keep files open, are cleared: there may be no other descriptors. is_made:
    whether the directory itself was made for it.
    """
    clear_frames(error.__traceback__)
    with suppress(SeglogError):
        if not topic_json.is_topic(root):
            _remove_leftover(root, with_directory=is_made)


def clear_leftovers(root: Storage) -> list[str]:
    """Remove the directories of topics below a broker's root that were not created to their end; report them as text.

    Only what such a creation leaves is removed: partitions without records, which no process has open.
    """
    events = []
    for name in root.names():
        place = Subdirectory(root, name)
        if not is_name(name) or not is_directory(root, name) or topic_json.is_topic(place) or not _is_leftover(place):
            continue
        try:
            _remove_leftover(place, with_directory=True)
        except SeglogError as error:
            events.append(f"topic {name!r} was not created to its end; its directory was left alone: {error}")
        else:
            events.append(f"topic {name!r} was not created to its end; its directory, without records, was removed")
    return events


def _is_leftover(place: Storage) -> bool:
    """Whether nothing is in a directory but partitions whose stores have no records."""
    for name in place.names():
        if name == topic_json.TEMPORARY_NAME or is_doomed(name):
            continue
        if not (name.isdecimal() and is_directory(place, name)) or holds_records(place, name):
            return False
    return True


def holds_records(topic: Storage, partition: str) -> bool:
    """Whether the stores in a partition's directory may hold records, as far as their sizes show."""
    stores = topic.sizes(partition, ending="." + filename.STORE)
    return len(stores) > 1 or any(size > HEADER_BYTES for size in stores.values())


def _remove_leftover(place: Storage, *, with_directory: bool) -> None:
    _clear(place)
    place.unlink(topic_json.TEMPORARY_NAME)
    if with_directory:
        place.remove_if_empty("")


def existing_partition(root: Storage, number: int) -> Subdirectory:
    """Return the directory of a partition. Opening for writing creates, so a lost one has to be noticed before."""
    partition = Subdirectory(root, str(number))
    if not is_directory(partition) or not partition.names():
        raise CorruptLog(
            f"{root.path}: partition {number} is missing; restore {partition.path} or the records in it are lost"
        )
    return partition
