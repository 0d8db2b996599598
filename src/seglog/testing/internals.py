"""Access to what a log keeps to itself, for tests of the log: its files, its segments and its mutex."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from seglog.log.follower import LogFollower
    from seglog.log.live_segments import LiveSegments
    from seglog.log.log import Log
    from seglog.log.open_files import OpenFiles
    from seglog.log.syncer import Syncer
    from seglog.log.writer import LogWriter
    from seglog.log.writer_state import WriterState
    from seglog.segment.active import ActiveSegment
    from seglog.segment.follower import ActiveFollower
    from seglog.storage import Lock, Storage


def storage_of(log: Log) -> Storage:
    """Return the storage that a log's files are in."""
    return log._storage


def state_of(log: Log) -> WriterState:
    """Return the state of a log that is open for writing."""
    return cast("LogWriter", log)._state


def syncer_of(log: Log) -> Syncer:
    """Return what makes the records of a log durable."""
    return cast("LogWriter", log)._syncer


def files_of(log: Log) -> OpenFiles:
    """Return what holds the open files of a log that is open for writing."""
    return cast("LogWriter", log)._files


def lock_of(log: Log) -> Lock:
    """Return the lock that keeps other writers away."""
    return state_of(log)._lock


def segments_of(log: Log) -> LiveSegments:
    """Return the segments of a log that is open for writing."""
    return state_of(log).live


def active_of(log: Log) -> ActiveSegment:
    """Return the active segment of a log that is open for writing."""
    return segments_of(log).active


def followed_of(log: Log) -> ActiveFollower:
    """Return the active segment of a log that is open for reading."""
    return cast("LogFollower", log)._active
