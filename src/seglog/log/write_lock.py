"""Who may write. One process holds a log, or a directory of logs, for writing; these locks end with it.

    LOCK            in a log: held by the one process that has just this log open for writing
    .seglog.lock    in a directory around logs (a topic, a broker): held exclusively by the process that has all of them
                    open for writing, shared by a process that has a part of them

So a process with thousands of logs in one directory needs one descriptor for their locks. It also holds the locks of
as many parts as it has descriptors to spare (`OwnLocks`); of the others it checks once that no other process holds
them. It always holds the lock of a part that is a symbolic link: a process that opens the target by another path does
not see the lock of the directory around the link.

A process that opens a part takes the part's own lock first, then the locks of the directories around it (shared). A
process that opens the whole takes the directory's lock first and then checks the parts. So if two processes open at the
same time, at least one of them notices the other.
"""

from __future__ import annotations

from collections.abc import Iterator

from seglog.errors import StorageError
from seglog.format.filename import LOCK, TREE_LOCK
from seglog.storage import Lock, Storage, enclosing, link_target, lock_around
from seglog.storage.descriptors import descriptors_allowed
from seglog.uncopied import Uncopied

_AROUND = 2  # a log is in a topic, which is in a broker's directory
_PART_FOR_OWN_LOCKS = 8  # of the descriptors that the process may have


class Locks(Uncopied):
    """A log's or a directory's own lock with those of the directories around it, held as one. path: of its storage."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: dict[str, Lock] = {}

    def __contains__(self, path: str) -> bool:
        return path in self._held

    def add(self, path: str, lock: Lock) -> None:
        """Hold one more."""
        self._held[path] = lock

    def write(self, data: bytes) -> None:
        """Replace the content of its own lock's file."""
        self._own.write(data)

    def is_current(self) -> bool:
        """Whether the file of the log's, or the directory's, own lock is still the one that was locked."""
        return self._own.is_current()

    @property
    def _own(self) -> Lock:
        return self._held[self._path]

    def release(self) -> None:
        """Give all back; a second call does nothing."""
        while self._held:
            self._held.popitem()[1].release()


class OwnLocks:
    """The locks of logs and topics that this process holds beside that of the directory around them.

    They protect a topic that is moved elsewhere while it is open, or reached by another path: its lock goes along. A
    process with more logs than descriptors to spare holds some of them only.
    """

    def __init__(self) -> None:
        self._kept: set[int] = set()  # its methods are atomic

    def keep(self, lock: Lock) -> Lock | None:
        """Keep a lock if there are enough descriptors, else release it; return what is kept."""
        if len(self._kept) < descriptors_allowed() // _PART_FOR_OWN_LOCKS:
            self._kept.add(id(lock))
            return lock
        lock.release()
        return None

    def release(self, lock: Lock) -> None:
        """Release a lock that was kept."""
        self._kept.discard(id(lock))
        lock.release()


OWN_LOCKS = OwnLocks()


class TreeLock(Uncopied):
    """The lock of a directory, which the logs in it share: it is given back when the last of them is closed."""

    def __init__(self, lock: Lock) -> None:
        self._lock = lock
        self._shares: set[object] = set()  # its methods are atomic: a forked child, or a signal handler, may come in

    def share(self, storage: Storage, name: str, own: Lock | None = None) -> Share:
        """Return one more hold on the lock, for the log or the directory whose own lock has this name.

        own: that lock, held. It is kept while the process can spare a descriptor for it.
        """
        share = Share(self, storage, name, own)
        self._shares.add(share.token)
        return share

    def is_current(self) -> bool:
        """Whether the locked file is still the one at its path, so that no other process can hold this lock."""
        return self._lock.tree.is_current() if isinstance(self._lock, Share) else self._lock.is_current()

    def end(self, token: object) -> None:
        """End one hold."""
        self._shares.discard(token)
        if not self._shares:
            self._lock.release()


class Share(Uncopied):
    """One hold on a `TreeLock`, in place of a lock that is held alone. token: what the tree knows it by; the tree does
    not refer to it, so that it ends with the log that has it.
    """

    def __init__(self, tree: TreeLock, storage: Storage, name: str, own: Lock | None) -> None:
        self.tree = tree
        self._own = OWN_LOCKS.keep(own) if own is not None else None
        self.token = object()
        self._storage = storage
        self._name = name
        self._identity = storage.identity(name)

    def write(self, data: bytes) -> None:
        """Leave the file as it is: another process reads it only where this one does not hold it by a share."""

    def is_current(self) -> bool:
        """Whether the tree's lock, and the file of the log's own lock, are still those of when this hold began."""
        return self._storage.identity(self._name) == self._identity and self.tree.is_current()

    def release(self) -> None:
        """End this hold; a second call does nothing."""
        own, self._own = self._own, None
        if own is not None:
            OWN_LOCKS.release(own)
        self.tree.end(self.token)

    def __del__(self) -> None:
        self.release()


def try_lock_log(storage: Storage) -> Lock | None:
    """Lock one log for writing; None where another process has it, or all that is around it."""
    return _try_lock(storage, LOCK)


def try_lock_tree(storage: Storage) -> Share | None:
    """Lock a directory and all logs below it; None where another process has it, or what is around it.

    Processes that have a part of it are noticed as well, some of them only when that part is opened.
    """
    lock = _try_lock(storage, TREE_LOCK)
    return None if lock is None else TreeLock(lock).share(storage, TREE_LOCK)


def _try_lock(storage: Storage, name: str) -> Lock | None:
    around = lock_around(storage)
    target = link_target(storage)
    if isinstance(around, TreeLock) and target is None:
        own_lock = storage.try_lock(name)
        return None if own_lock is None else around.share(storage, name, own_lock)
    storage = target or storage
    locks = Locks(storage.path)
    try:
        held = _add_around(locks, storage) and _add(locks, storage, name, shared=False)
        held = held and _add_around(locks, storage)  # again: one that came to be just before ours was taken
    except BaseException:
        locks.release()
        raise
    if held:
        return locks
    locks.release()
    return None


def _add_around(locks: Locks, storage: Storage) -> bool:
    return all(outer.path in locks or _add(locks, outer, TREE_LOCK, shared=True) for outer in _locked_around(storage))


def _add(locks: Locks, storage: Storage, name: str, *, shared: bool) -> bool:
    lock = storage.try_lock(name, shared=shared)
    if lock is None:
        return False
    locks.add(storage.path, lock)
    return lock.is_current()  # else its file was removed, by a process that held the lock until now


def _locked_around(storage: Storage) -> Iterator[Storage]:
    """Yield the directories around one that have a lock."""
    outer = enclosing(storage)
    for _ in range(_AROUND):
        if outer is None:
            return
        if outer.identity(TREE_LOCK) is not None:
            yield outer
        outer = enclosing(outer)


def is_written(log: Storage) -> bool | None:
    """Whether a process has a log open for writing, by itself or with all around it; None where that cannot be told."""
    try:
        return any(_is_held(place, name) for place, name in _locks_over(log))
    except StorageError:
        return None


def is_written_around(log: Storage) -> bool:
    """Whether a process has all around a log open for writing.

    For a caller that holds the log's LOCK otherwise than by `try_lock_log`: a process that opens it later notices that.
    """
    return any(_is_held(outer, TREE_LOCK) for outer in _locked_around(log))


def _locks_over(log: Storage) -> Iterator[tuple[Storage, str]]:
    if log.identity(LOCK) is not None:
        yield log, LOCK
    for outer in _locked_around(log):
        yield outer, TREE_LOCK


def _is_held(place: Storage, name: str) -> bool:
    lock = place.try_lock(name, shared=True)
    if lock is None:
        return True
    lock.release()
    return False
