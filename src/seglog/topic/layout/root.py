"""A broker's directory: whether it can be one, and its log of committed offsets.

Knows topics only to refuse them, and nothing of what is in the log.
"""

from __future__ import annotations

import errno

from seglog.clock import Clock
from seglog.config import LogConfig, Retention
from seglog.errors import InvalidArgument, LogLocked, LogNotFound, NotALog
from seglog.log.locks.write_lock import Share, TreeLock, holder_of, try_lock_tree
from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.storage import MemoryStorage, Storage, Subdirectory
from seglog.topic.layout import description
from seglog.topic.layout.places import is_log

OFFSETS = ".groups"
PRODUCERS = ".producers"
OFFSETS_CONFIG = LogConfig(segment_bytes=16 * 1024 * 1024, retention=Retention(compact=True))


def refuse_other(root: Storage, mode: str) -> None:
    """Raise InvalidArgument for an unknown mode, NotALog or LogNotFound if no broker can be opened."""
    if mode not in ("a", "r"):
        raise InvalidArgument(f'mode is {mode!r}; it must be "a" (read and write) or "r" (read only)')
    try:
        there = root.exists()
    except NotALog as error:
        raise NotALog(errno.ENOTDIR, "this is a file; a broker is a directory of topics", root.path) from error
    if mode == "r" and not there:
        raise LogNotFound(errno.ENOENT, "there is no directory of topics here; creating a topic creates it", root.path)
    kind = "topic" if description.is_topic(root) else "log" if is_log(root) else None
    if kind is not None:
        raise NotALog(errno.ENOTDIR, f"this is a {kind} itself; a broker is a directory of topics", root.path)


def lock_to_write(root: Storage) -> Share:
    """Lock the directory, created if missing, with all topics in it. Raises LogLocked."""
    root.make([])
    lock = try_lock_tree(root)
    if lock is None:
        raise _locked(root)
    return lock


def _locked(root: Storage) -> LogLocked:
    held = (
        "another broker (perhaps a server), or a program with one of its topics, already has this open for writing, "
        f"{holder_of(root)}"
    )
    advice = 'mode="r" reads beside it, wait=10 waits 10 seconds for it, and seglog.Client(url) goes through a server'
    return LogLocked.by(held, advice, root.path)


def open_to_write(root: Storage, clock: Clock, lock: TreeLock, name: str = OFFSETS) -> Log:
    """Open a log of the broker's own, created if missing. lock: of the directory. Raises LogLocked, naming the root."""
    try:
        return open_log(Subdirectory(root, name, locked=lock), OFFSETS_CONFIG, clock=clock)
    except LogLocked as error:
        raise _locked(root) from error


def open_to_read(root: Storage, clock: Clock) -> Log:
    """Open it for reading; if it is missing, return an empty log in memory."""
    try:
        return open_log(Subdirectory(root, OFFSETS), mode="r", clock=clock)
    except LogNotFound:
        nothing = MemoryStorage()
        open_log(nothing, OFFSETS_CONFIG, clock=clock).close()
        return open_log(nothing, mode="r", clock=clock)
