"""Locks for writing. One process has a log, or a directory of logs, open for writing; its locks end with it.

    LOCK            in a log: held by the process that has only this log open for writing
    .seglog.lock    in a directory around logs (a topic, a broker): held exclusively by the process that has all of them
                    open for writing, shared by a process that has a part of them

So a process with thousands of logs in one directory needs only one descriptor for their locks. It also holds the locks
of as many parts as its descriptors allow (`OwnLocks`); of the others it checks once that no other process holds them.
It always holds the lock of a part that is a symbolic link: a process that opens the target by another path does not
see the lock of the directory around the link.

Order of locks: a process that opens a part takes the part's own lock first, then shared locks of the directories around
it. A process that opens the whole takes the directory's lock first and then checks the parts. If two processes open at
the same time, at least one of them finds the other's lock. No process waits for a lock, so there is no deadlock.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from seglog.errors import StorageError
from seglog.format.filename import LOCK, TREE_LOCK
from seglog.log.locks import holder
from seglog.storage import Lock, Storage, Subdirectory, enclosing, is_directory, link_target, lock_around
from seglog.storage.descriptors import descriptors_allowed
from seglog.uncopied import Uncopied

_AROUND = 2  # directories around a log: its topic, and the broker's
_PART_FOR_OWN_LOCKS = 8  # an eighth of the descriptors
_MOST_PLACES = 20_000  # looked at for the process that holds a lock


class Locks(Uncopied):
    """The own lock of a log or directory with those of the directories around it, held as one. path: its storage's."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._held: dict[str, Lock] = {}
        self._marked: Lock | None = None

    def __contains__(self, path: str) -> bool:
        return path in self._held

    def add(self, path: str, lock: Lock) -> None:
        """Add a lock that is held."""
        self._held[path] = lock

    def write(self, data: bytes) -> None:
        """Replace the content of the own lock's file."""
        self._own.write(data)

    def is_current(self) -> bool:
        """Whether the own lock's file still has its name."""
        return self._own.is_current()

    @property
    def _own(self) -> Lock:
        return self._held[self._path]

    def mark(self) -> None:
        """Write into the file of its own lock which process holds it."""
        self._marked = self._own
        holder.mark(self._marked)

    def release(self) -> None:
        """Release all; a second call does nothing."""
        marked, self._marked = self._marked, None
        if marked is not None:
            holder.unmark(marked)
        self.drop()

    def drop(self) -> None:
        """Release all and write nothing: the log was dropped, not closed."""
        while self._held:
            self._held.popitem()[1].release()


class OwnLocks:
    """The locks of logs and topics that this process holds in addition to that of the directory around them.

    They protect a topic that is moved while it is open, or opened by another path: its lock moves along. A process with
    more logs than spare descriptors holds only some of them.
    """

    def __init__(self) -> None:
        self._kept: set[int] = set()  # its methods are atomic

    def keep(self, lock: Lock) -> Lock | None:
        """Keep a lock if there are enough descriptors, else release it; return the lock if it is kept."""
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
    """The lock of a directory, shared by the logs in it: it is released when the last of them is closed."""

    def __init__(self, lock: Locks | Share) -> None:
        self._lock = lock
        self._shares: set[object] = set()  # atomic methods: a fork or a signal handler may interrupt

    def share(self, storage: Storage, name: str, own: Lock | None = None) -> Share:
        """Return a hold on the lock, for the log or directory whose own lock has this name.

        own: that lock, held. It is kept if the process has a spare descriptor.
        """
        share = Share(self, storage, name, own)
        self._shares.add(share.token)
        return share

    def is_current(self) -> bool:
        """Whether the locked file still has its name, so that no other process can hold this lock."""
        return self._lock.tree.is_current() if isinstance(self._lock, Share) else self._lock.is_current()

    def end(self, token: object, *, dropped: bool) -> None:
        """End one hold; release the lock after the last. dropped: see Locks.drop."""
        self._shares.discard(token)
        if self._shares:
            return
        if dropped:
            self._lock.drop()
        else:
            self._lock.release()


class Share(Uncopied):
    """One hold on a `TreeLock`, used like a lock of its own.

    token: identifies the hold. The tree refers to the token only, so a hold ends with the log that owns it.
    """

    def __init__(self, tree: TreeLock, storage: Storage, name: str, own: Lock | None) -> None:
        self.tree = tree
        self._own = OWN_LOCKS.keep(own) if own is not None else None
        self.token = object()
        self._storage = storage
        self._name = name
        self._identity = storage.identity(name)

    def write(self, data: bytes) -> None:
        """Do nothing: another process reads the file only if this one does not hold it by a share."""

    def is_current(self) -> bool:
        """Whether the tree's lock and the file of the log's own lock are still those from the start of this hold."""
        return self._storage.identity(self._name) == self._identity and self.tree.is_current()

    def release(self) -> None:
        """End this hold; a second call does nothing."""
        self._end(dropped=False)

    def drop(self) -> None:
        """End this hold and write nothing; see Locks.drop."""
        self._end(dropped=True)

    def _end(self, *, dropped: bool) -> None:
        own, self._own = self._own, None
        if own is not None:
            OWN_LOCKS.release(own)
        self.tree.end(self.token, dropped=dropped)

    def __del__(self) -> None:
        self.drop()


def try_lock_log(storage: Storage) -> Lock | None:
    """Lock one log for writing; None if another process holds it, or a directory around it."""
    return _try_lock(storage, LOCK)


def try_lock_tree(storage: Storage) -> Share | None:
    """Lock a directory and all logs below it; None if another process holds it, or a directory around it.

    Processes that hold a part of it are found as well, some of them only when that part is opened.
    """
    lock = _try_lock(storage, TREE_LOCK)
    return None if lock is None else TreeLock(lock).share(storage, TREE_LOCK)


def _try_lock(storage: Storage, name: str) -> Locks | Share | None:
    around = lock_around(storage)
    target = link_target(storage)
    if isinstance(around, TreeLock) and target is None:
        own_lock = storage.try_lock(name)
        return None if own_lock is None else around.share(storage, name, own_lock)
    storage = target or storage
    locks = Locks(storage.path)
    try:
        held = _add_around(locks, storage) and _add(locks, storage, name, shared=False)
        held = held and _add_around(locks, storage)  # again: one may have been created just before ours was taken
    except BaseException:
        locks.release()
        raise
    if held:
        locks.mark()
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
    return lock.is_current()  # else a process that held the lock until now has removed its file


def _locked_around(storage: Storage) -> Iterator[Storage]:
    """Yield the directories around this one that have a lock."""
    outer = enclosing(storage)
    for _ in range(_AROUND):
        if outer is None:
            return
        if outer.identity(TREE_LOCK) is not None:
            yield outer
        outer = enclosing(outer)


def holder_of(storage: Storage) -> str:
    """Return as text which process has a log, or a directory of logs, open for writing, as far as that is known."""
    return holder.described(islice(_places(storage), _MOST_PLACES))


def _places(storage: Storage) -> Iterator[tuple[Storage, str]]:
    """Yield the files of locks that keep a process from taking that of a log or a directory."""
    yield storage, LOCK
    yield storage, TREE_LOCK
    for outer in _locked_around(storage):
        yield outer, TREE_LOCK
    if storage.identity(TREE_LOCK) is not None:
        yield from _parts(storage, _AROUND)


def _parts(storage: Storage, depth: int) -> Iterator[tuple[Storage, str]]:
    for name in storage.names() if depth else ():
        if is_directory(storage, name):
            part = Subdirectory(storage, name)
            yield part, LOCK
            yield part, TREE_LOCK
            yield from _parts(part, depth - 1)


def is_written(log: Storage) -> bool | None:
    """Whether a process has a log, or a directory around it, open for writing; None if that cannot be determined."""
    try:
        return any(_is_held(place, name) for place, name in _locks_over(log))
    except StorageError:
        return None


def is_written_around(log: Storage) -> bool:
    """Whether a process has a directory around a log open for writing.

    For a caller that holds the log's LOCK without `try_lock_log`: a process that opens the log later finds that lock.
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
