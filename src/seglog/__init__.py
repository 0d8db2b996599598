"""seglog: a durable segmented commit log. Append at disk speed, read zero-copy as Arrow, feed Spark.

    import seglog

    with seglog.open("orders") as log:
        offset = log.append(b"value", key=b"key")
        record = log.read(offset)
        table = log.to_arrow()

`import seglog` loads nothing but this module. Each public name is imported from its module at first use; pyarrow and
numba load with the first batch call.
"""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING

if sys.platform in ("win32", "cygwin", "emscripten", "wasi"):
    raise ImportError(
        f"seglog runs on Linux and macOS, not on {sys.platform}: it needs flock and fsync of directories; "
        "on Windows run it in WSL or in a Linux container"
    )

if TYPE_CHECKING:
    from seglog import errors
    from seglog.archive.archiver import Archiver
    from seglog.archive.restore import restore
    from seglog.client import AsyncClient as AsyncClient
    from seglog.client import Client as Client
    from seglog.config import LogConfig, Retention
    from seglog.errors import (
        ArchiveFenced,
        ArchiveMismatch,
        Busy,
        CompactionAborted,
        ConfigError,
        ConnectionFailed,
        CopyDiverged,
        CopyExpired,
        CopyStopped,
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
        LogFenced,
        LogLocked,
        LogNotFound,
        LogPoisoned,
        LogReadOnly,
        LogReplaced,
        LogTruncated,
        MachineFailed,
        MissingExtra,
        NotALog,
        NotAssigned,
        NotDurableYet,
        NotMirrored,
        OffsetCompacted,
        OffsetConflict,
        OffsetError,
        OffsetOutOfRange,
        OnceConflict,
        PlanStale,
        RecordTooLarge,
        ReentrantCall,
        SeglogError,
        SerializationError,
        ServerError,
        SnapshotExpired,
        StorageError,
        StreamOverflow,
        TopicExists,
        TopicNotFound,
        Unauthorized,
        UnknownMember,
    )
    from seglog.log.info import SegmentInfo
    from seglog.log.key_index import KeyIndex
    from seglog.log.log import Log
    from seglog.log.offline import repair, verify
    from seglog.log.opening import open_log as open  # noqa: A004 - it reads as the standard library's other opens
    from seglog.machines.per_key import PerKey
    from seglog.machines.replay import replay
    from seglog.machines.snapshots import Snapshots
    from seglog.policies import Policies
    from seglog.record import Record, TopicRecord
    from seglog.replication import Mirror as Mirror
    from seglog.segment.recovery_report import RecoveryEvent, RecoveryReport
    from seglog.storage import LocalStorage, MemoryStorage
    from seglog.topic import Topic
    from seglog.topic.backup import backup
    from seglog.topic.broker import Broker
    from seglog.topic.cleaning import Cleaner

__version__ = "0.1.0"

_HOME = {  # public name -> its place below seglog; every other name of `__all__` is an error class
    "Archiver": "archive.archiver.Archiver",
    "AsyncClient": "client.AsyncClient",
    "Broker": "topic.broker.Broker",
    "Cleaner": "topic.cleaning.Cleaner",
    "Client": "client.Client",
    "KeyIndex": "log.key_index.KeyIndex",
    "LocalStorage": "storage.LocalStorage",
    "Log": "log.log.Log",
    "LogConfig": "config.LogConfig",
    "MemoryStorage": "storage.MemoryStorage",
    "Mirror": "replication.Mirror",
    "PerKey": "machines.per_key.PerKey",
    "Policies": "policies.Policies",
    "Record": "record.Record",
    "RecoveryEvent": "segment.recovery_report.RecoveryEvent",
    "RecoveryReport": "segment.recovery_report.RecoveryReport",
    "Retention": "config.Retention",
    "SegmentInfo": "log.info.SegmentInfo",
    "Snapshots": "machines.snapshots.Snapshots",
    "Topic": "topic.Topic",
    "TopicRecord": "record.TopicRecord",
    "backup": "topic.backup.backup",
    "open": "log.opening.open_log",
    "repair": "log.offline.repair",
    "replay": "machines.replay.replay",
    "restore": "archive.restore.restore",
    "verify": "log.offline.verify",
}
_MODULES = ("clock", "config", "errors", "record", "storage")


def __getattr__(name: str) -> object:
    """Import a public name from its module at first use, and keep it."""
    if name in _MODULES:
        return import_module(f"seglog.{name}")  # sets the attribute
    if name not in _HOME and name not in __all__:
        raise AttributeError(f"module 'seglog' has no attribute {name!r}")
    module, _, there = _HOME.get(name, f"errors.{name}").rpartition(".")
    found: object = getattr(import_module(f"seglog.{module}"), there)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOME})


__all__ = [
    "ArchiveFenced",
    "ArchiveMismatch",
    "Archiver",
    "Broker",
    "Busy",
    "Cleaner",
    "CompactionAborted",
    "ConfigError",
    "ConnectionFailed",
    "CopyDiverged",
    "CopyExpired",
    "CopyStopped",
    "CorruptLog",
    "CorruptRecord",
    "Forbidden",
    "FormatVersionError",
    "GroupConflict",
    "GroupNotFound",
    "InvalidArgument",
    "InvalidType",
    "KeyIndex",
    "KeyRequired",
    "LocalStorage",
    "Log",
    "LogClosed",
    "LogConfig",
    "LogFenced",
    "LogLocked",
    "LogNotFound",
    "LogPoisoned",
    "LogReadOnly",
    "LogReplaced",
    "LogTruncated",
    "MachineFailed",
    "MemoryStorage",
    "Mirror",
    "MissingExtra",
    "NotALog",
    "NotAssigned",
    "NotDurableYet",
    "NotMirrored",
    "OffsetCompacted",
    "OffsetConflict",
    "OffsetError",
    "OffsetOutOfRange",
    "OnceConflict",
    "PerKey",
    "PlanStale",
    "Policies",
    "Record",
    "RecordTooLarge",
    "RecoveryEvent",
    "RecoveryReport",
    "ReentrantCall",
    "Retention",
    "SeglogError",
    "SegmentInfo",
    "SerializationError",
    "ServerError",
    "SnapshotExpired",
    "Snapshots",
    "StorageError",
    "StreamOverflow",
    "Topic",
    "TopicExists",
    "TopicNotFound",
    "TopicRecord",
    "Unauthorized",
    "UnknownMember",
    "__version__",
    "backup",
    "errors",
    "open",
    "repair",
    "replay",
    "restore",
    "verify",
]
