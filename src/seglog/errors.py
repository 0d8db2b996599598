"""Every error seglog raises: one root, each with the builtin a Python user would expect as second base.

    SeglogError
    ├── InvalidArgument (ValueError)       a value the call does not accept
    ├── InvalidType (TypeError)            a type the call does not accept
    ├── ConfigError (ValueError)           a configuration that cannot be
    ├── MissingExtra (ImportError)         an optional dependency is not installed
    ├── OffsetError (IndexError)           OffsetOutOfRange, OffsetCompacted, OffsetConflict, NotDurableYet
    ├── RecordTooLarge (ValueError)        refused before a byte was written
    ├── KeyRequired (ValueError)           a log compacted by key takes no record without one
    ├── StreamOverflow (ValueError)        rolled back
    ├── CorruptRecord (ValueError)         one record is damaged: path, offset, position
    ├── CorruptLog (ValueError)            the structure is damaged
    ├── LogTruncated (ValueError)          a reader was after a cut, or LogReplaced: another log is at its path
    ├── CompactionAborted (RuntimeError)   stopped, or PlanStale: the log moved on; nothing was changed; retriable
    ├── FormatVersionError (ValueError)    written by a newer version
    ├── LogNotFound (FileNotFoundError)
    ├── NotALog (OSError)
    ├── LogLocked (OSError)                another writer; retriable
    ├── LogPoisoned (OSError)              a sync failed
    ├── LogClosed (ValueError)
    ├── ReentrantCall (RuntimeError)       a signal handler or callback changes the log that it has interrupted
    ├── LogReadOnly (OSError)
    ├── StorageError (OSError)             the operating system said no; retriable
    ├── TopicNotFound (LookupError)
    ├── TopicExists (ValueError)
    ├── OnceConflict (ValueError)          an idempotency key came again with another payload
    ├── GroupNotFound (LookupError)
    ├── GroupConflict (ValueError)         members and static sharing, or a seek, in one group
    ├── UnknownMember (RuntimeError)       silent for too long, or gone: join again
    ├── NotAssigned (RuntimeError)         a commit for a partition that is another member's
    ├── ConnectionFailed (ConnectionError) a server could not be reached, or went away before it had answered; retriable
    ├── ServerError (RuntimeError)         a server failed, or answered what none of ours answers
    ├── Unauthorized (PermissionError)     no token, or one that the server does not know
    ├── Forbidden (PermissionError)        the token lacks the right
    └── Busy (RuntimeError)                no room at present; retriable

An error says where (path, offset, position) and what to do next. `retriable` tells whether the same call may
succeed later without anybody's help. This module knows nothing else of the project.
"""

from __future__ import annotations

from typing import Any, ClassVar


def _restored(kind: type[SeglogError], args: tuple[Any, ...]) -> SeglogError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class SeglogError(Exception):
    """The root of all errors of this project."""

    retriable: ClassVar[bool] = False

    def __reduce__(self) -> Any:
        """Let the error travel between processes as it is, whatever its constructor takes."""
        if isinstance(self, OSError):
            return super().__reduce__()  # knows errno and file names
        return _restored, (type(self), self.args), self.__dict__


class InvalidArgument(SeglogError, ValueError):
    """A value outside what the call accepts."""


class InvalidType(SeglogError, TypeError):
    """A value of a type that the call does not accept."""


class ConfigError(SeglogError, ValueError):
    """A configuration that contradicts itself, a limit of the format or the stored log."""


class MissingExtra(SeglogError, ImportError):
    """An optional dependency is not installed; the message says what to install."""


class OffsetError(SeglogError, IndexError):
    """Any refusal that is about an offset."""

    def __init__(self, message: str, *, offset: int, lowest_offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.offset = offset
        self.lowest_offset = lowest_offset
        self.next_offset = next_offset


class OffsetOutOfRange(OffsetError):
    """The offset lies outside `lowest_offset <= offset < next_offset`."""

    def __init__(self, offset: int, lowest_offset: int, next_offset: int) -> None:
        super().__init__(
            f"offset {offset} is out of range: the log holds {lowest_offset} up to, not including, {next_offset}",
            offset=offset,
            lowest_offset=lowest_offset,
            next_offset=next_offset,
        )


class OffsetCompacted(OffsetError):
    """The offset was assigned, but no record stands there any more; `next_offset` is the next one that does."""

    def __init__(self, offset: int, next_offset: int) -> None:
        super().__init__(
            f"offset {offset} holds no record any more; the next record is at {next_offset}",
            offset=offset,
            lowest_offset=offset,
            next_offset=next_offset,
        )


class OffsetConflict(OffsetError):
    """The log has moved on: an append expected another offset than the next one."""

    def __init__(self, offset: int, next_offset: int) -> None:
        super().__init__(
            f"the append expected offset {offset}, the log's next offset is {next_offset}; read on and try again",
            offset=offset,
            lowest_offset=0,
            next_offset=next_offset,
        )


class RecordTooLarge(SeglogError, ValueError):
    """A record larger than one segment may ever hold; nothing was written."""

    def __init__(self, size: int, limit: int, *, row: int | None = None) -> None:
        where = "" if row is None else f" (row {row} of the batch)"
        super().__init__(
            f"the record takes {size} bytes{where}, the limit is {limit} "
            "(segment_bytes + segment_overflow_bytes - 64); raise segment_bytes or split the value"
        )
        self.size = size
        self.limit = limit
        self.row = row


class KeyRequired(SeglogError, ValueError):
    """The log keeps the latest record per key, so a record without key has no place in it; nothing was written."""

    def __init__(self, *, row: int | None = None) -> None:
        where = "the record" if row is None else f"row {row} of the batch"
        super().__init__(
            f'{where} has no key, and this log is compacted by key (retention.compact); give it one (b"" is a key)'
        )
        self.row = row


class StreamOverflow(SeglogError, ValueError):
    """A streamed record passed its limit; it was rolled back and nothing of it is visible."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the stream passed its limit of {limit} bytes and was rolled back; a record may take what its segment "
            "has left and segment_overflow_bytes more, or the limit you gave: raise segment_bytes or the limit"
        )
        self.limit = limit


class NotDurableYet(OffsetError):
    """The record was appended, but not synced yet, and this reader shows only what survives power loss.

    `next_offset` is one past the last durable record. The same read succeeds once the writer has synced.
    """

    retriable = True

    def __init__(self, offset: int, lowest_offset: int, next_offset: int) -> None:
        super().__init__(
            f"offset {offset} was appended but is not synced yet: what survives power loss ends before {next_offset}; "
            'wait for the writer to sync, or read with expose="appended"',
            offset=offset,
            lowest_offset=lowest_offset,
            next_offset=next_offset,
        )


class CorruptRecord(SeglogError, ValueError):
    """Bytes that were once acknowledged no longer verify; neighbours stay readable."""

    def __init__(self, path: str, offset: int | None, position: int, reason: str, *, advice: str | None = None) -> None:
        which = "a record" if offset is None else f"offset {offset}"
        advice = advice or "run `seglog verify` to see all damage, `seglog repair` to set it aside"
        super().__init__(f"{path}: {which} at position {position} is damaged: {reason}; {advice}")
        self.path = path
        self.offset = offset
        self.position = position
        self.reason = reason


class CorruptLog(SeglogError, ValueError):
    """The log's structure (manifest, a whole segment) is damaged or incomplete; nothing was changed."""


class LogTruncated(SeglogError, ValueError):
    """A reader stood behind the cut of a truncate: what it would read next never belonged to the log."""


class LogReplaced(LogTruncated):
    """The log that a reader has open was removed, and another one was created at its path; open that one."""


class CompactionAborted(SeglogError, RuntimeError):
    """A compaction ended before its end; the log is as it was."""

    retriable = True


class PlanStale(CompactionAborted):
    """What a compaction was planned for holds no longer: truncated, expired, compacted, repaired or kept otherwise."""


class FormatVersionError(SeglogError, ValueError):
    """Written by a newer version of seglog; not damaged."""


class LogNotFound(SeglogError, FileNotFoundError):
    """There is no log here, and the mode does not create one."""


class NotALog(SeglogError, OSError):
    """The path is a file, or a directory that holds something else than a log; it was left alone."""


class LogLocked(SeglogError, OSError):
    """Another writer has the log open."""

    retriable = True


class LogPoisoned(SeglogError, OSError):
    """A sync failed, so the writer can promise nothing more; reads up to the durable offset go on. Open again."""


class LogClosed(SeglogError, ValueError):
    """The log was closed."""


class ReentrantCall(SeglogError, RuntimeError):
    """A signal handler, callback or iterable tried to change a log in the middle of a call of the same thread.

    Nothing was changed. Reading works there, and so does `close`, which takes effect as the interrupted call ends.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: this thread is in the middle of another call on this log, which a signal handler, a callback or "
            "an iterable must not change; set a flag there and make the change after the call, or call close()"
        )


class LogReadOnly(SeglogError, OSError):
    """The log was opened with mode "r" (or inherited through fork) and must not be written."""


class StorageError(SeglogError, OSError):
    """The operating system refused an I/O call; carries its errno and path."""

    retriable = True


class TopicNotFound(SeglogError, LookupError):
    """There is no topic of this name; `topic` is the name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic!r}; create_topic makes one")
        self.topic = topic


class TopicExists(SeglogError, ValueError):
    """A topic of this name is here already; nothing was changed. `topic` is the name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there already is a topic {topic!r}; choose another name, or delete it first")
        self.topic = topic


class OnceConflict(SeglogError, ValueError):
    """The idempotency key was used before for another payload; nothing was stored. A key stands for one append."""


class GroupNotFound(SeglogError, LookupError):
    """There is no consumer group of this name: nobody joined it, and nothing was committed. `group` is the name."""

    def __init__(self, group: str) -> None:
        super().__init__(f"there is no consumer group {group!r}: it has neither members nor committed offsets")
        self.group = group


class GroupConflict(SeglogError, ValueError):
    """The group has members, and what was asked is for groups without (static sharing, seeking, deleting)."""


class UnknownMember(SeglogError, RuntimeError):
    """The group has no such member: it was silent for longer than its session, or it left. Join again."""


class NotAssigned(SeglogError, RuntimeError):
    """A commit for a partition that the member does not own, or no longer; nothing was committed."""


class ConnectionFailed(SeglogError, ConnectionError):
    """The server could not be reached, or the connection ended before the answer; sent: it may have got the request."""

    retriable = True

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class ServerError(SeglogError, RuntimeError):
    """The server failed, or answered what no server of ours answers; `status` is that of HTTP."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unauthorized(SeglogError, PermissionError):
    """The server wants a token, and got none or one that it does not know."""


class Forbidden(SeglogError, PermissionError):
    """The token is known, but does not carry the right for this; or the request comes from a foreign page."""


class Busy(SeglogError, RuntimeError):
    """The server has no room for this at present, or is stopping, or the client has no free connection.

    Try again, after `retry_after` seconds if the server named them.
    """

    retriable = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
