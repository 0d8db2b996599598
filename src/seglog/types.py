"""The types in the signatures of seglog's public calls, for annotations and isinstance.

    from seglog.types import CompactionReport, RemoteTopic

What is public: the names of `seglog`, of this module, of `seglog.aio`, `seglog.client`, `seglog.serializers`,
`seglog.storage` and `seglog.testing`, the format "seglog" of Spark with the functions of the packages `seglog.spark.*`,
and the `seglog` command. Everything else may change in any release. As with `seglog`, a name is loaded when it is first
used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seglog.aio import AsyncBroker, AsyncConsumer, AsyncLog, AsyncTail, AsyncTopic
    from seglog.aio.topic import AsyncPartitionWriter
    from seglog.archive.background import BackgroundArchiver
    from seglog.archive.objects import ObjectStore
    from seglog.archive.report import ArchiveReport
    from seglog.archive.restore import RestoreReport
    from seglog.client.aio.consumer import AsyncRemoteConsumer
    from seglog.client.aio.producer import AsyncProducer
    from seglog.client.aio.topic import AsyncRemoteTopic
    from seglog.client.consumer import RemoteConsumer
    from seglog.client.endpoint import Verify
    from seglog.client.models import Ack, Bounds, Page, PartitionInfo, PartitionState, SegmentState, TopicInfo
    from seglog.client.producer import Producer
    from seglog.client.topic import RemoteTopic
    from seglog.clock import Clock
    from seglog.compaction.plan import CompactionPlan
    from seglog.compaction.rewrite import Outcome as RewriteOutcome
    from seglog.compaction.schedule import SegmentStanding, Standing
    from seglog.config import Compression, Expose
    from seglog.log.appends.group import Appended, Draft
    from seglog.log.backup import BackupReport
    from seglog.log.explain.explain import Explanation, SegmentPlace
    from seglog.log.history import Trace
    from seglog.log.info import CompactionReport, CompressionReport
    from seglog.log.opening import Mode
    from seglog.log.repair.repair import RepairAction, RepairReport
    from seglog.log.repair.reports import Gap, Problem, VerifyReport
    from seglog.log.repair.verify import Progress
    from seglog.log.staging import StagedSegment
    from seglog.log.tail import Tail
    from seglog.log.view import View
    from seglog.machines.machine import Machine
    from seglog.machines.per_key import KeyState
    from seglog.machines.replay import Replayed, ReplayedLog
    from seglog.record import Header, Headers, Share, Timestamp
    from seglog.replication.log_mirror import Lag
    from seglog.segment.reader import OnCorrupt
    from seglog.serializers import Deserialize
    from seglog.storage import File, Lock, Storage
    from seglog.storage.base import Buffer
    from seglog.storage.local import LocalLock
    from seglog.storage.local_file import LocalFile
    from seglog.storage.memory import MemoryFile, MemoryLock
    from seglog.topic.cleaning.state import Event, LogState
    from seglog.topic.groups.charges import Payer
    from seglog.topic.groups.consumer import Consumer, TopicBatch
    from seglog.topic.groups.groups import Groups
    from seglog.topic.groups.position import Start
    from seglog.topic.groups.state import GroupState, Membership, MemberState
    from seglog.topic.idempotency.memory import OnceWindow
    from seglog.topic.layout.places import Partition
    from seglog.topic.partition_writer import PartitionWriter
    from seglog.topic.positions import Positions

_HOME = {  # name -> where it is found below seglog
    "Ack": "client.models.Ack",
    "Appended": "log.appends.group.Appended",
    "AsyncBroker": "aio.AsyncBroker",
    "AsyncConsumer": "aio.AsyncConsumer",
    "AsyncLog": "aio.AsyncLog",
    "AsyncPartitionWriter": "aio.topic.AsyncPartitionWriter",
    "AsyncProducer": "client.aio.producer.AsyncProducer",
    "AsyncRemoteConsumer": "client.aio.consumer.AsyncRemoteConsumer",
    "AsyncRemoteTopic": "client.aio.topic.AsyncRemoteTopic",
    "AsyncTail": "aio.AsyncTail",
    "AsyncTopic": "aio.AsyncTopic",
    "ArchiveReport": "archive.report.ArchiveReport",
    "BackgroundArchiver": "archive.background.BackgroundArchiver",
    "BackupReport": "log.backup.BackupReport",
    "ObjectStore": "archive.objects.ObjectStore",
    "RestoreReport": "archive.restore.RestoreReport",
    "Bounds": "client.models.Bounds",
    "Buffer": "storage.base.Buffer",
    "Clock": "clock.Clock",
    "CompactionPlan": "compaction.plan.CompactionPlan",
    "CompactionReport": "log.info.CompactionReport",
    "Compression": "config.Compression",
    "CompressionReport": "log.info.CompressionReport",
    "Consumer": "topic.groups.consumer.Consumer",
    "Deserialize": "serializers.Deserialize",
    "Draft": "log.appends.group.Draft",
    "Event": "topic.cleaning.state.Event",
    "Explanation": "log.explain.explain.Explanation",
    "Expose": "config.Expose",
    "File": "storage.File",
    "Gap": "log.repair.reports.Gap",
    "GroupState": "topic.groups.state.GroupState",
    "Groups": "topic.groups.groups.Groups",
    "Header": "record.Header",
    "Headers": "record.Headers",
    "LocalFile": "storage.local_file.LocalFile",
    "LocalLock": "storage.local.LocalLock",
    "Lock": "storage.Lock",
    "LogState": "topic.cleaning.state.LogState",
    "KeyState": "machines.per_key.KeyState",
    "Machine": "machines.machine.Machine",
    "Lag": "replication.log_mirror.Lag",
    "MemberState": "topic.groups.state.MemberState",
    "Membership": "topic.groups.state.Membership",
    "MemoryFile": "storage.memory.MemoryFile",
    "MemoryLock": "storage.memory.MemoryLock",
    "Mode": "log.opening.Mode",
    "OnCorrupt": "segment.reader.OnCorrupt",
    "OnceWindow": "topic.idempotency.memory.OnceWindow",
    "Page": "client.models.Page",
    "Partition": "topic.layout.places.Partition",
    "PartitionInfo": "client.models.PartitionInfo",
    "PartitionState": "client.models.PartitionState",
    "PartitionWriter": "topic.partition_writer.PartitionWriter",
    "Payer": "topic.groups.groups.Payer",
    "Positions": "topic.positions.Positions",
    "Problem": "log.repair.reports.Problem",
    "Producer": "client.producer.Producer",
    "Progress": "log.repair.verify.Progress",
    "RemoteConsumer": "client.consumer.RemoteConsumer",
    "RemoteTopic": "client.topic.RemoteTopic",
    "RepairAction": "log.repair.repair.RepairAction",
    "RepairReport": "log.repair.repair.RepairReport",
    "Replayed": "machines.replay.Replayed",
    "ReplayedLog": "machines.replay.ReplayedLog",
    "RewriteOutcome": "compaction.rewrite.Outcome",
    "SegmentPlace": "log.explain.explain.SegmentPlace",
    "SegmentStanding": "compaction.schedule.SegmentStanding",
    "SegmentState": "client.models.SegmentState",
    "Serialize": "serializers.Serialize",
    "Serializer": "serializers.Serializer",
    "Share": "record.Share",
    "StagedSegment": "log.staging.StagedSegment",
    "Standing": "compaction.schedule.Standing",
    "Start": "topic.groups.position.Start",
    "Storage": "storage.Storage",
    "Tail": "log.tail.Tail",
    "Timestamp": "record.Timestamp",
    "TopicBatch": "topic.groups.consumer.TopicBatch",
    "TopicInfo": "client.models.TopicInfo",
    "Trace": "log.history.Trace",
    "Verify": "client.endpoint.Verify",
    "VerifyReport": "log.repair.reports.VerifyReport",
    "View": "log.view.View",
}

__all__ = [
    "Ack",
    "Appended",
    "ArchiveReport",
    "AsyncBroker",
    "AsyncConsumer",
    "AsyncLog",
    "AsyncPartitionWriter",
    "AsyncProducer",
    "AsyncRemoteConsumer",
    "AsyncRemoteTopic",
    "AsyncTail",
    "AsyncTopic",
    "BackgroundArchiver",
    "BackupReport",
    "Bounds",
    "Buffer",
    "Clock",
    "CompactionPlan",
    "CompactionReport",
    "Compression",
    "CompressionReport",
    "Consumer",
    "Deserialize",
    "Draft",
    "Event",
    "Explanation",
    "Expose",
    "File",
    "Gap",
    "GroupState",
    "Groups",
    "Header",
    "Headers",
    "KeyState",
    "Lag",
    "LocalFile",
    "LocalLock",
    "Lock",
    "LogState",
    "Machine",
    "MemberState",
    "Membership",
    "MemoryFile",
    "MemoryLock",
    "Mode",
    "ObjectStore",
    "OnCorrupt",
    "OnceWindow",
    "Page",
    "Partition",
    "PartitionInfo",
    "PartitionState",
    "PartitionWriter",
    "Payer",
    "Positions",
    "Problem",
    "Producer",
    "Progress",
    "RemoteConsumer",
    "RemoteTopic",
    "RepairAction",
    "RepairReport",
    "Replayed",
    "ReplayedLog",
    "RestoreReport",
    "RewriteOutcome",
    "SegmentPlace",
    "SegmentStanding",
    "SegmentState",
    "Share",
    "StagedSegment",
    "Standing",
    "Start",
    "Storage",
    "Tail",
    "Timestamp",
    "TopicBatch",
    "TopicInfo",
    "Trace",
    "Verify",
    "VerifyReport",
    "View",
]


def __getattr__(name: str) -> object:
    """Load a type from its module when it is first used, and keep it."""
    if name not in _HOME:
        raise AttributeError(f"module 'seglog.types' has no attribute {name!r}")
    module, _, there = _HOME[name].rpartition(".")
    found: object = getattr(import_module(f"seglog.{module}"), there)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
