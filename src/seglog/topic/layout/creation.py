"""Create a topic's directory, and find its partitions again. Knows the layout; opens no log to use it.

Creation locks the directory, creates every partition, then `topic.json`. A crash before the last step leaves empty
partitions that no reader takes for a topic. The next creation there removes them, and so does the next broker that
opens the directory for writing. A creation that fails removes them itself.
"""

from __future__ import annotations

from contextlib import suppress
from traceback import clear_frames

from seglog.errors import CorruptLog, InvalidArgument, InvalidType, LogLocked, NotALog, SeglogError
from seglog.format import filename
from seglog.format.store import HEADER_BYTES
from seglog.log.locks.write_lock import Share, TreeLock, holder_of, try_lock_tree
from seglog.log.opening import open_log
from seglog.storage import Storage, Subdirectory, is_directory, is_doomed
from seglog.topic.layout import description as topic_json
from seglog.topic.layout.names import is_name, is_reserved


def check_partitions(partitions: object) -> None:
    """Raise InvalidType or InvalidArgument for an invalid number of partitions."""
    if isinstance(partitions, bool) or not isinstance(partitions, int):
        raise InvalidType(f"partitions must be an int, not {type(partitions).__name__}")
    if not 1 <= partitions <= topic_json.MAX_PARTITIONS:
        raise InvalidArgument(f"partitions is {partitions}; it must be between 1 and {topic_json.MAX_PARTITIONS}")


def check_added(name: str, present: int, partitions: int) -> None:
    """Raise InvalidType or InvalidArgument unless a topic can be given this number of partitions."""
    check_partitions(partitions)
    if partitions <= present:
        raise InvalidArgument(f"topic {name!r} has {present} partitions; {partitions} are not more")


def check_is_new(root: Storage) -> None:
    """Raise InvalidArgument if there is a topic already."""
    if topic_json.is_topic(root):
        raise InvalidArgument(f"{root.path} already is a topic; open it with Topic.open")


def make_directory(root: Storage) -> bool:
    """Create the directory of a new topic; refuse one that holds something else. Return whether it was created."""
    try:
        is_made = not root.exists()
    except NotALog as error:
        raise NotALog(f"{root.path} is a file; a topic is a directory") from error
    if not is_made:
        check_is_new(root)
        _leftovers(root)
    root.make([])
    return is_made


def lock_topic(root: Storage) -> Share:
    """Lock a topic with all its partitions for writing. Raises LogLocked if another process has any of it."""
    lock = try_lock_tree(root)
    if lock is None:
        held = f"the topic or a part of it is already open for writing, {holder_of(root)}"
        raise LogLocked.by(held, 'mode="r" reads beside it, wait=10 waits 10 seconds for it', root.path)
    return lock


def clear_directory(root: Storage, lock: TreeLock) -> None:
    """Remove what an interrupted creation left in a topic's directory. lock: the directory's, held by the caller.

    Raises InvalidArgument if there is a topic by now; NotALog, removing nothing, if there is something else.
    """
    check_is_new(root)
    doomed, partitions = _leftovers(root)
    for name in doomed:  # includes what an interrupted clearing left
        root.remove_directory(name)
    for name in partitions:
        clear_partition(partition_of(root, name, lock))


def _leftovers(root: Storage) -> tuple[list[str], list[str]]:
    """Return the directories being removed and the partitions. Raises NotALog if there is anything else."""
    names = [name for name in root.names() if name not in (topic_json.TEMPORARY_NAME, filename.TREE_LOCK)]
    doomed = [name for name in names if is_doomed(name)]
    partitions = [name for name in names if name not in doomed]
    for name in partitions:
        if not (name.isdecimal() and is_directory(root, name)):
            raise NotALog(f"{root.path} holds {name!r}, which is not a partition; create the topic elsewhere")
    return doomed, partitions


def clear_partition(partition: Storage) -> None:
    """Remove an empty partition that never belonged to a topic. Raises NotALog if it holds records."""
    log = open_log(partition, mode="a")
    if log.next_offset != log.config.initial_offset:
        log.close()
        raise NotALog(f"{log.path} is a log with records, but its directory is not a topic; it was not changed")
    log.remove()


def retract(root: Storage) -> None:
    """Remove the `topic.json` of a failed creation, if it was written; ignores errors, as the creation's error counts.

    The caller holds the topic's lock. Needs no descriptor; `abandon` makes the removal durable.
    """
    with suppress(SeglogError):
        root.unlink(topic_json.FILE_NAME)


def abandon(root: Storage, error: Exception, *, is_made: bool) -> None:
    """Remove what a failed creation left, as far as possible; the next opening removes the rest.

    error: why it failed; its frames, which keep files open, are cleared, as there may be no other descriptors. is_made:
    whether the directory itself was created for it.
    """
    clear_frames(error.__traceback__)
    with suppress(SeglogError):
        if not topic_json.is_topic(root):
            _remove_leftover(root, with_directory=is_made)


def undo(root: Storage, *, is_made: bool) -> None:
    """Remove a topic that the caller has just created, unless it has more than empty partitions or is open elsewhere.

    Ignores errors, as the error counts for which the creation is undone. is_made: whether the directory itself was
    created for it.
    """
    with suppress(SeglogError):
        lock = lock_topic(root)
        try:
            if not _is_unused(root):
                return
            retract(root)
        finally:
            lock.release()
        _remove_leftover(root, with_directory=is_made)


def _is_unused(root: Storage) -> bool:
    """Whether a topic has only partitions without records, and none that are staged."""
    names = [name for name in root.names() if name not in (topic_json.FILE_NAME, filename.TREE_LOCK)]
    return all(
        name.isdecimal()
        and not _was_written(partition_of(root, name))
        and not (is_directory(root, f"{name}/{filename.STAGING}") and root.names(f"{name}/{filename.STAGING}"))
        for name in names
    )


def _was_written(partition: Storage) -> bool:
    """Whether a partition has records, or had some that were deleted."""
    with open_log(partition, mode="r") as log:
        return log.next_offset != log.config.initial_offset


def clear_leftovers(root: Storage, lock: TreeLock | None) -> list[str]:
    """Remove the directories of incompletely created topics below a broker's root; report them as text.

    Removes only partitions without records that no process has open. lock: of root.
    """
    events = []
    for name in root.names():
        place = Subdirectory(root, name, locked=lock)
        if (
            not is_name(name)
            or is_reserved(name)
            or not is_directory(root, name)
            or topic_json.is_topic(place)
            or not _is_leftover(place)
        ):
            continue
        try:
            _remove_leftover(place, with_directory=True)
        except SeglogError as error:
            events.append(f"topic {name!r} was not created completely; its directory was left unchanged: {error}")
        else:
            events.append(f"topic {name!r} was not created completely; its directory, without records, was removed")
    return events


def _is_leftover(place: Storage) -> bool:
    """Whether a directory contains only partitions whose stores have no records."""
    for name in place.names():
        if name in (topic_json.TEMPORARY_NAME, filename.TREE_LOCK) or is_doomed(name):
            continue
        if not (name.isdecimal() and is_directory(place, name)) or holds_records(place, name):
            return False
    return True


def holds_records(topic: Storage, partition: str) -> bool:
    """Whether the stores in a partition's directory may hold records, judging by their sizes."""
    stores = topic.sizes(partition, ending="." + filename.STORE)
    return len(stores) > 1 or any(size > HEADER_BYTES for size in stores.values())


def _remove_leftover(place: Storage, *, with_directory: bool) -> None:
    lock = lock_topic(place)
    try:
        clear_directory(place, lock.tree)
        place.unlink(topic_json.TEMPORARY_NAME)
        if with_directory:
            place.unlink(filename.TREE_LOCK)
            place.remove_if_empty("")
    finally:
        lock.release()


def partition_of(root: Storage, number: int | str, lock: TreeLock | None = None) -> Subdirectory:
    """Return the directory of a partition; lock: the topic's, if it is held."""
    return Subdirectory(root, str(number), locked=lock)


def existing_partition(root: Storage, number: int, lock: TreeLock | None = None) -> Subdirectory:
    """Return the directory of a partition; raise if it is missing, as opening it for writing would create it."""
    partition = partition_of(root, number, lock)
    if not is_directory(partition) or not partition.names():
        raise CorruptLog(
            f"{root.path}: partition {number} is missing; restore {partition.path}, or the records in it are lost"
        )
    return partition
