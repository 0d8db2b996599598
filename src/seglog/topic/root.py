"""A broker's directory: whether it can be one, and the log in it that holds what consumer groups have committed.

That log's lock is the broker's. Knows no topic but to refuse one, and nothing of what is in the log.
"""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

from seglog.config import LogConfig, Retention
from seglog.errors import InvalidArgument, LogLocked, LogNotFound, NotALog
from seglog.log.opening import open_log
from seglog.storage import MemoryStorage, Subdirectory
from seglog.topic import description
from seglog.topic.places import is_log

if TYPE_CHECKING:
    from seglog.clock import Clock
    from seglog.log.log import Log
    from seglog.storage import Storage

OFFSETS = ".groups"
OFFSETS_CONFIG = LogConfig(segment_bytes=16 * 1024 * 1024, retention=Retention(compact=True))


def refuse_other(root: Storage, mode: str) -> None:
    """Raise InvalidArgument for a mode that is none, NotALog or LogNotFound where no broker can be opened."""
    if mode not in ("a", "r"):
        raise InvalidArgument(f'mode is {mode!r}; it must be "a" (read and write) or "r" (read only)')
    try:
        there = root.exists()
    except NotALog as error:
        raise NotALog(errno.ENOTDIR, "this is a file; a broker is a directory of topics", root.path) from error
    if mode == "r" and not there:
        raise LogNotFound(errno.ENOENT, "there is no broker here", root.path)
    kind = "topic" if description.is_topic(root) else "log" if is_log(root) else None
    if kind is not None:
        raise NotALog(errno.ENOTDIR, f"this is a {kind} itself; a broker is a directory of topics", root.path)


def open_to_write(root: Storage, clock: Clock) -> Log:
    """Open the log of groups, created where it is missing. LogLocked, naming the root."""
    try:
        return open_log(Subdirectory(root, OFFSETS), OFFSETS_CONFIG, clock=clock)
    except LogLocked as error:
        message = "a broker (a server, perhaps) has these topics open for writing already"
        raise LogLocked(errno.EWOULDBLOCK, message, root.path) from error


def open_to_read(root: Storage, clock: Clock) -> Log:
    """Open it for reading; where topics were made without a broker, one without records that is nowhere."""
    try:
        return open_log(Subdirectory(root, OFFSETS), mode="r", clock=clock)
    except LogNotFound:
        nothing = MemoryStorage()
        open_log(nothing, OFFSETS_CONFIG, clock=clock).close()
        return open_log(nothing, mode="r", clock=clock)
