"""seglog: a durable segmented commit log. Append at disk speed, read zero-copy as Arrow, feed Spark.

    import seglog

    with seglog.open("orders") as log:
        offset = log.append(b"value", key=b"key")
        record = log.read(offset)
        table = log.to_arrow()

Importing this loads neither pyarrow nor numba: only the batch calls do, when first used.
"""

from typing import TYPE_CHECKING

from seglog import errors
from seglog.config import LogConfig, Retention
from seglog.errors import (
    Busy,
    CompactionAborted,
    ConfigError,
    ConnectionFailed,
    CorruptLog,
    CorruptRecord,
    Forbidden,
    FormatVersionError,
    GroupConflict,
    GroupNotFound,
    InvalidArgument,
    InvalidType,
    KeyRequired,
    LogClosed,
    LogLocked,
    LogNotFound,
    LogPoisoned,
    LogReadOnly,
    LogTruncated,
    MissingExtra,
    NotALog,
    NotAssigned,
    OffsetCompacted,
    OffsetConflict,
    OffsetError,
    OffsetOutOfRange,
    OnceConflict,
    PlanStale,
    RecordTooLarge,
    SeglogError,
    ServerError,
    StorageError,
    StreamOverflow,
    TopicExists,
    TopicNotFound,
    Unauthorized,
    UnknownMember,
)
from seglog.log.info import SegmentInfo
from seglog.log.log import Log
from seglog.log.opening import existing, open_log, storage_at
from seglog.record import Record, TopicRecord
from seglog.segment.report import RecoveryEvent, RecoveryReport
from seglog.storage import LocalStorage, MemoryStorage

if TYPE_CHECKING:
    import os

    from seglog.client import AsyncClient as AsyncClient
    from seglog.client import Client as Client
    from seglog.log.check import Progress
    from seglog.log.findings import VerifyReport
    from seglog.log.repair import RepairReport
    from seglog.storage import Storage
    from seglog.topic import Topic
    from seglog.topic.broker import Broker
    from seglog.topic.cleaning import Cleaner

open = open_log  # noqa: A001 - seglog.open reads as the standard library's other opens

__version__ = "0.1.0"


def __getattr__(name: str) -> object:
    """Load what not every program needs when it is first asked for."""
    if name == "Topic":
        from seglog.topic import Topic  # noqa: PLC0415 - see above

        return Topic
    if name == "Broker":
        from seglog.topic.broker import Broker  # noqa: PLC0415 - see above

        return Broker
    if name == "Cleaner":
        from seglog.topic.cleaning import Cleaner  # noqa: PLC0415 - see above

        return Cleaner
    if name in ("Client", "AsyncClient"):
        from seglog import client  # noqa: PLC0415 - see above

        return getattr(client, name)
    raise AttributeError(f"module 'seglog' has no attribute {name!r}")


def verify(place: "str | os.PathLike[str] | Storage", progress: "Progress | None" = None) -> "VerifyReport":
    """Check every byte of a log, also of one that cannot be opened; changes nothing.

    progress(bytes done, bytes in all). LogNotFound or NotALog where there is no log.
    """
    from seglog.log.check import verify_storage  # noqa: PLC0415 - an operator's call

    return verify_storage(existing(storage_at(place)), progress)


def repair(
    place: "str | os.PathLike[str] | Storage", *, dry_run: bool = False, progress: "Progress | None" = None
) -> "RepairReport":
    """Set damage aside (quarantine/) so that the log opens again with all that is readable; destroys nothing.

    dry_run: only tell what would be done. LogLocked while a writer has the log open.
    """
    from seglog.log.repair import repair_storage  # noqa: PLC0415 - an operator's call

    return repair_storage(existing(storage_at(place)), dry_run=dry_run, progress=progress)


__all__ = [
    "Broker",
    "Busy",
    "Cleaner",
    "CompactionAborted",
    "ConfigError",
    "ConnectionFailed",
    "CorruptLog",
    "CorruptRecord",
    "Forbidden",
    "FormatVersionError",
    "GroupConflict",
    "GroupNotFound",
    "InvalidArgument",
    "InvalidType",
    "KeyRequired",
    "LocalStorage",
    "Log",
    "LogClosed",
    "LogConfig",
    "LogLocked",
    "LogNotFound",
    "LogPoisoned",
    "LogReadOnly",
    "LogTruncated",
    "MemoryStorage",
    "MissingExtra",
    "NotALog",
    "NotAssigned",
    "OffsetCompacted",
    "OffsetConflict",
    "OffsetError",
    "OffsetOutOfRange",
    "OnceConflict",
    "PlanStale",
    "Record",
    "RecordTooLarge",
    "RecoveryEvent",
    "RecoveryReport",
    "Retention",
    "SeglogError",
    "SegmentInfo",
    "ServerError",
    "StorageError",
    "StreamOverflow",
    "Topic",
    "TopicExists",
    "TopicNotFound",
    "TopicRecord",
    "Unauthorized",
    "UnknownMember",
    "__version__",
    "errors",
    "open",
    "repair",
    "verify",
]
