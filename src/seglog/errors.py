"""Every error that seglog raises: one root, each with the matching builtin as second base.

    SeglogError
    ├── InvalidArgument (ValueError)       a value the call does not accept
    ├── InvalidType (TypeError)            a type the call does not accept
    ├── ConfigError (ValueError)           an invalid configuration
    ├── MissingExtra (ImportError)         an optional dependency is not installed
    ├── OffsetError (IndexError)           OffsetOutOfRange, OffsetCompacted, OffsetConflict, NotDurableYet
    ├── RecordTooLarge (ValueError)        refused before a byte was written
    ├── KeyRequired (ValueError)           a log compacted by key rejects records without a key
    ├── StreamOverflow (ValueError)        rolled back
    ├── CorruptRecord (ValueError)         one record is damaged: path, offset, position
    ├── CorruptLog (ValueError)            the structure is damaged
    ├── LogTruncated (ValueError)          records that a reader read are gone; LogReplaced: another log is at its path
    ├── CompactionAborted (RuntimeError)   stopped, or PlanStale: the log changed; nothing was compacted; retriable
    ├── FormatVersionError (ValueError)    written by a newer version
    ├── LogNotFound (FileNotFoundError)
    ├── NotALog (OSError)
    ├── LogLocked (OSError)                another writer; retriable
    ├── LogPoisoned (OSError)              a sync failed
    ├── ArchiveFenced (RuntimeError)       another writer took the archive over; this one must stop
    ├── ArchiveMismatch (ValueError)       an archive of other logs, or of another copy of them
    ├── LogClosed (ValueError)
    ├── ReentrantCall (RuntimeError)       a signal handler or callback changes the log that it interrupted
    ├── LogReadOnly (OSError)              LogFenced: another log was promoted in its place
    ├── SnapshotExpired (RuntimeError)     records that a read had still to return are gone; retriable: read again
    ├── MachineFailed (RuntimeError)       a state machine raised an error for a record: offset
    ├── CopyStopped (RuntimeError)         a copy cannot follow its source: CopyDiverged, CopyExpired
    ├── NotMirrored (TimeoutError)         appended, but not yet on the disks of as many copies as wanted
    ├── StorageError (OSError)             an I/O error of the operating system; retriable
    ├── TopicNotFound (LookupError)
    ├── TopicExists (ValueError)
    ├── OnceConflict (ValueError)          an idempotency key was reused for another payload
    ├── SerializationError (ValueError)    a serializer refused a key or value: topic, partition, offset, record
    ├── GroupNotFound (LookupError)
    ├── GroupConflict (ValueError)         members and static sharing, or a seek, in one group
    ├── UnknownMember (RuntimeError)       the session expired, or the member left: join again
    ├── NotAssigned (RuntimeError)         a commit for a partition of another member
    ├── ConnectionFailed (ConnectionError) no connection, or it ended before the answer; retriable
    ├── ServerError (RuntimeError)         a server failed, or its answer is not seglog's
    ├── Unauthorized (PermissionError)     no token, or an unknown one
    ├── Forbidden (PermissionError)        the token lacks the right
    └── Busy (RuntimeError)                the server is at a limit; retriable

An error reports where (path, offset, position) and what to do next. `retriable`: whether the same call may succeed
later without any intervention. This module knows nothing else of the project.
"""

from __future__ import annotations

import errno
from typing import Any, ClassVar


def _restored(kind: type[SeglogError], args: tuple[Any, ...]) -> SeglogError:
    error = kind.__new__(kind, *args)
    error.args = args
    return error


class SeglogError(Exception):
    """The root of all errors of this project."""

    retriable: ClassVar[bool] = False

    def __reduce__(self) -> Any:
        """Pickle the error unchanged, whatever its constructor takes."""
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
    """An optional dependency is not installed; the message names it."""


class OffsetError(SeglogError, IndexError):
    """The base of errors about an offset."""

    def __init__(self, message: str, *, offset: int, lowest_offset: int, next_offset: int) -> None:
        super().__init__(message)
        self.offset = offset
        self.lowest_offset = lowest_offset
        self.next_offset = next_offset


class OffsetOutOfRange(OffsetError):
    """The offset is outside `lowest_offset <= offset < next_offset`."""

    def __init__(self, offset: int, lowest_offset: int, next_offset: int) -> None:
        super().__init__(
            f"offset {offset} is out of range: the log holds {lowest_offset} up to, not including, {next_offset}",
            offset=offset,
            lowest_offset=lowest_offset,
            next_offset=next_offset,
        )


class OffsetCompacted(OffsetError):
    """A compaction removed the record at the offset; `next_offset` is the offset of the next record."""

    def __init__(self, offset: int, next_offset: int) -> None:
        super().__init__(
            f"offset {offset} no longer holds a record; the next record is at {next_offset}",
            offset=offset,
            lowest_offset=offset,
            next_offset=next_offset,
        )


class OffsetConflict(OffsetError):
    """An append expected another offset than the next one: other records were appended."""

    def __init__(self, offset: int, next_offset: int) -> None:
        super().__init__(
            f"the append expected offset {offset}, but the log's next is {next_offset}; read the new records and retry",
            offset=offset,
            lowest_offset=0,
            next_offset=next_offset,
        )


class RecordTooLarge(SeglogError, ValueError):
    """The record is larger than a segment can hold (nothing was written), or than an Arrow answer of a server."""

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
    """The log is compacted by key and rejects records without a key; nothing was written."""

    def __init__(self, *, row: int | None = None, what: str = "the record") -> None:
        where = what if row is None else f"row {row} of the batch"
        super().__init__(
            f'{where} has no key, and this log is compacted by key (retention.compact); give it one (b"" is a key)'
        )
        self.row = row


class StreamOverflow(SeglogError, ValueError):
    """A streamed record exceeded its limit; it was rolled back and nothing of it is visible."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"the stream exceeded its limit of {limit} bytes and was rolled back; a record may take what its segment "
            "has left plus segment_overflow_bytes, or the given limit: raise segment_bytes or the limit"
        )
        self.limit = limit


class NotDurableYet(OffsetError):
    """The record was appended but is not synced yet, and this reader shows only what survives power loss.

    `next_offset` is one past the last durable record. The same read succeeds once the writer has synced.
    """

    retriable = True

    def __init__(self, offset: int, lowest_offset: int, next_offset: int) -> None:
        super().__init__(
            f"offset {offset} was appended but is not synced yet: the durable records end before {next_offset}; "
            'wait for the writer to sync, or read with expose="appended"',
            offset=offset,
            lowest_offset=lowest_offset,
            next_offset=next_offset,
        )


class CorruptRecord(SeglogError, ValueError):
    """A stored record fails its checks; other records stay readable."""

    def __init__(self, path: str, offset: int | None, position: int, reason: str, *, advice: str | None = None) -> None:
        which = "a record" if offset is None else f"offset {offset}"
        advice = advice or "run `seglog verify` to see all damage, `seglog repair` to move it aside"
        super().__init__(f"{path}: {which} at position {position} is damaged: {reason}; {advice}")
        self.path = path
        self.offset = offset
        self.position = position
        self.reason = reason


class CorruptLog(SeglogError, ValueError):
    """The log's structure (manifest, a whole segment) is damaged or incomplete; nothing was changed."""


class LogTruncated(SeglogError, ValueError):
    """The log was truncated below a reader's position: what it would read next does not continue what it read."""


class LogReplaced(LogTruncated):
    """A reader's log was removed, and another one was created at its path; open that one."""


class SnapshotExpired(SeglogError, RuntimeError):
    """Records that a read had still to return were deleted or rewritten after it began; it returned all before them.

    A read returns the log as it was when it began, whole, or this error. The same read, begun again, sees the log as
    it is now.

    Attributes:
        offset: The first offset that was not returned.
        next_offset: One after the last offset that was to be returned.
        place: The log.
    """

    retriable = True

    def __init__(self, offset: int, next_offset: int, place: str = "the log") -> None:
        super().__init__(
            f"{place}: records at offsets {offset} up to, not including, {next_offset} were deleted or replaced after "
            "this read began (by a compaction, retention, a truncate or a repair); all records returned before them "
            "are right; begin the read again"
        )
        self.offset = offset
        self.next_offset = next_offset
        self.place = place

    def of(self, offset: int, next_offset: int) -> SnapshotExpired:
        """Return the same error for the offsets of a whole read."""
        return SnapshotExpired(offset, next_offset, self.place)


class MachineFailed(SeglogError, RuntimeError):
    """A state machine raised an error for a record; `__cause__` is that error.

    Attributes:
        offset: Offset of the record.
    """

    def __init__(self, message: str, *, offset: int) -> None:
        super().__init__(message)
        self.offset = offset


class CompactionAborted(SeglogError, RuntimeError):
    """A compaction was stopped; the log is unchanged."""

    retriable = True


class PlanStale(CompactionAborted):
    """The log changed after a compaction was planned: truncate, expiry, compaction, repair or another retention."""


class FormatVersionError(SeglogError, ValueError):
    """A newer version of seglog wrote it; it is not damaged."""


class LogNotFound(SeglogError, FileNotFoundError):
    """There is no log here, and the mode does not create one."""


class NotALog(SeglogError, OSError):
    """The path is a file, or a directory that is not a log; it was not changed."""


class LogLocked(SeglogError, OSError):
    """Another writer has the log open.

    Attributes:
        held: What is locked and by which process, if the text goes on with advice for Python programs, else None.
    """

    retriable = True
    held: str | None = None

    @classmethod
    def by(cls, held: str, advice: str, path: str) -> LogLocked:
        """Return the error for a lock that another writer has; advice: what a Python program can do."""
        error = cls(errno.EWOULDBLOCK, f"{held}; {advice}", path)
        error.held = held
        return error


class LogPoisoned(SeglogError, OSError):
    """A sync failed, so the writer stopped; reads up to the durable offset still work. Open the log again."""


class ArchiveFenced(SeglogError, RuntimeError):
    """Another writer has taken the archive over; this one must stop. What it did not commit is not archived."""


class ArchiveMismatch(SeglogError, ValueError):
    """The archive holds other logs, or was continued by another copy of this directory; nothing was changed."""


class LogClosed(SeglogError, ValueError):
    """The log was closed."""


class ReentrantCall(SeglogError, RuntimeError):
    """A signal handler, callback or iterable tried to change a log during a call of the same thread.

    Nothing was changed. Reading works there, and so does `close`, which takes effect when the interrupted call ends.
    """

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path}: this thread is in the middle of another call on this log, which a signal handler, a callback or "
            "an iterable must not change; set a flag there and make the change after the call, or call close()"
        )


class LogReadOnly(SeglogError, OSError):
    """The log was opened with mode "r" (or inherited through fork) and must not be written."""


class LogFenced(LogReadOnly):
    """Another log was promoted in place of this one, which accepts no more changes."""


class CopyStopped(SeglogError, RuntimeError):
    """A copy cannot follow its source; nothing was changed."""


class CopyDiverged(CopyStopped):
    """The copy holds records that its source does not have, or has another history."""


class CopyExpired(CopyStopped):
    """The source has deleted records that the copy has not read."""


class NotMirrored(SeglogError, TimeoutError):
    """The record is appended and durable here, but in the given time not enough copies had it on their disks.

    Also, at once, if the log's manifest was rebuilt: until that is accepted, it is unknown what copies have.

    Attributes:
        offset: The record's offset.
        copies: How many copies have it.
    """

    offset: int
    copies: int

    @classmethod
    def of(cls, path: str, offset: int, copies: int, wanted: int, seconds: float) -> NotMirrored:
        """Return the error of a wait of `seconds` for `wanted` copies, of which `copies` have the record."""
        error = cls(
            f"{path}: the record at offset {offset} is appended, but not mirrored: after {seconds:g} s, {copies} of "
            f"{wanted} copies have it on disk. It stays; repeat the append with the same idempotency key to wait again"
        )
        error.offset, error.copies = offset, copies
        return error

    @classmethod
    def unknown(cls, path: str, offset: int) -> NotMirrored:
        """Return the error for a log whose manifest was rebuilt: no report of a copy counts there."""
        error = cls(
            f"{path}: the record at offset {offset} is appended, but it cannot be known which copies have it: the "
            "manifest was lost and rebuilt. Run `seglog repair` to accept it, then wait again"
        )
        error.offset, error.copies = offset, 0
        return error


class StorageError(SeglogError, OSError):
    """The operating system reported an I/O error; has its errno and path."""

    retriable = True


class TopicNotFound(SeglogError, LookupError):
    """There is no topic of this name; `topic` is the name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there is no topic {topic!r}; create it, or correct the name")
        self.topic = topic


class TopicExists(SeglogError, ValueError):
    """A topic of this name exists already; nothing was changed. `topic` is the name."""

    def __init__(self, topic: str) -> None:
        super().__init__(f"there already is a topic {topic!r}; choose another name, or delete it first")
        self.topic = topic


class OnceConflict(SeglogError, ValueError):
    """The idempotency key was used before for another payload; nothing was stored. A key identifies one append."""


class SerializationError(SeglogError, ValueError):
    """A serializer raised for a key or value, or returned no bytes; nothing was stored, or skipped.

    Attributes:
        topic: Name of the topic.
        partition: Number of the partition; None: the record had none yet.
        offset: Offset of the record that cannot be deserialized; None: it was about to be appended.
        field: "key" or "value".
        record: The record as it is stored, with its bytes; None: it was about to be appended.
    """

    def __init__(
        self, message: str, *, topic: str, partition: int | None, offset: int | None, field: str, record: Any
    ) -> None:
        super().__init__(message)
        self.topic, self.partition, self.offset = topic, partition, offset
        self.field, self.record = field, record


class GroupNotFound(SeglogError, LookupError):
    """There is no consumer group of this name: it has no members and no committed offsets. `group` is the name."""

    def __init__(self, group: str) -> None:
        super().__init__(f"there is no consumer group {group!r}: it has neither members nor committed offsets")
        self.group = group


class GroupConflict(SeglogError, ValueError):
    """The group has members, but the call needs a group without (static sharing, seeking, deleting)."""


class UnknownMember(SeglogError, RuntimeError):
    """The group has no such member: its session expired, or it left. Join again."""


class NotAssigned(SeglogError, RuntimeError):
    """A commit for a partition that the member does not, or no longer, own; nothing was committed."""


class ConnectionFailed(SeglogError, ConnectionError):
    """The server could not be reached, or the connection ended before the answer; sent: it may have got the request."""

    retriable = True

    def __init__(self, message: str, *, sent: bool = False) -> None:
        super().__init__(message)
        self.sent = sent


class ServerError(SeglogError, RuntimeError):
    """The server failed, or its answer is not one of seglog's; `status`: the HTTP status."""

    def __init__(self, message: str, *, status: int) -> None:
        super().__init__(message)
        self.status = status


class Unauthorized(SeglogError, PermissionError):
    """The server requires a token, and got none or an unknown one."""


class Forbidden(SeglogError, PermissionError):
    """The token lacks the right for this, or the request comes from a foreign page."""


class Busy(SeglogError, RuntimeError):
    """The server is at a limit or stopping, or the client has no free connection.

    Retry, after `retry_after` seconds if the server sent that.
    """

    retriable = True

    def __init__(self, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
