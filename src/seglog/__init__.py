"""seglog: a durable segmented commit log. Append at disk speed, read zero-copy as Arrow, feed Spark.

    import seglog

    with seglog.open("orders") as log:
        offset = log.append(b"value", key=b"key")
        record = log.read(offset)
        table = log.to_arrow()

Importing this loads neither pyarrow nor numba: only the batch calls do, when first used.
"""

from seglog import errors
from seglog.config import LogConfig, Retention
from seglog.errors import (
    ConfigError,
    CorruptLog,
    CorruptRecord,
    FormatVersionError,
    InvalidArgument,
    InvalidType,
    LogClosed,
    LogLocked,
    LogNotFound,
    LogPoisoned,
    LogReadOnly,
    LogTruncated,
    MissingExtra,
    NotALog,
    OffsetCompacted,
    OffsetConflict,
    OffsetError,
    OffsetOutOfRange,
    RecordTooLarge,
    SeglogError,
    StorageError,
    StreamOverflow,
)
from seglog.log.info import SegmentInfo
from seglog.log.log import Log
from seglog.log.opening import open_log
from seglog.record import Record
from seglog.segment.report import RecoveryEvent, RecoveryReport
from seglog.storage import LocalStorage, MemoryStorage

open = open_log  # noqa: A001 - seglog.open reads as the standard library's other opens

__version__ = "0.1.0"

__all__ = [
    "ConfigError",
    "CorruptLog",
    "CorruptRecord",
    "FormatVersionError",
    "InvalidArgument",
    "InvalidType",
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
    "OffsetCompacted",
    "OffsetConflict",
    "OffsetError",
    "OffsetOutOfRange",
    "Record",
    "RecordTooLarge",
    "RecoveryEvent",
    "RecoveryReport",
    "Retention",
    "SegmentInfo",
    "SeglogError",
    "StorageError",
    "StreamOverflow",
    "__version__",
    "errors",
    "open",
]
