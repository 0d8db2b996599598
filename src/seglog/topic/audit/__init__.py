"""Audit a log, a topic or a directory of topics by key: was the latest record of every key delivered?

    with audit_keys("orders", delivered={"billing": {"orders": {0: 1200, 1: 1180}}}) as found:
        found.ok, found.logs                            # figures, exact
        for batch in found.undelivered("billing"):      # keys whose latest record the group did not get
            print(batch.to_pylist())

In a keyed log the question is not whether every record arrived but whether the latest one of every key did. The Spark
job (seglog.spark.audit) computes the same figures and rows on many machines, and checks for loss and damage too.
pyarrow and numba are imported with the first audit.
"""

from __future__ import annotations

import os
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Self

from seglog.errors import InvalidArgument, InvalidType, LogClosed
from seglog.log.log import Log
from seglog.log.opening import open_log, storage_at
from seglog.storage import Storage
from seglog.topic.audit.figures import GroupFigures, LogKeys
from seglog.topic.delivered import CONSUMER, Delivered, cuts_of, delivered_from_json, read_checkpoint
from seglog.topic.layout.places import Place, logs_at, storage_of
from seglog.topic.topic import Topic

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from types import TracebackType

    import pyarrow as pa

    from seglog.segment.recovery_report import RecoveryEvent
    from seglog.topic.audit.log_audit import SweptLog

MEMORY_BYTES = 256 * 1024 * 1024

__all__ = [
    "CONSUMER",
    "MEMORY_BYTES",
    "GroupFigures",
    "KeyAudit",
    "LogKeys",
    "audit_keys",
    "delivered_from_json",
    "read_checkpoint",
]


class KeyAudit:
    """The result of an audit; a context manager that holds the files it reads.

    logs: the figures of every log, by topic and partition; groups: their names, sorted; recovery: the problems found
    when the logs were opened.
    """

    def __init__(
        self,
        logs: tuple[LogKeys, ...],
        groups: tuple[str, ...],
        swept: Sequence[SweptLog],
        recovery: tuple[RecoveryEvent, ...],
        resources: ExitStack,
    ) -> None:
        self.logs = logs
        self.groups = groups
        self.recovery = recovery
        self._swept: Sequence[SweptLog] | None = swept
        self._resources = resources

    @property
    def ok(self) -> bool:
        """Whether every group got the latest record of every key."""
        return not self.total("undelivered_keys")

    def total(self, figure: str) -> int:
        """Return the sum of a figure of LogKeys over all logs."""
        return sum(getattr(log, figure) for log in self.logs)

    def keys(self) -> Iterator[pa.RecordBatch]:
        """Yield a row for every key and group, ordered by topic, partition, key (bytewise) and group.

        Columns: topic, partition, key, appended (its last offset), tombstone (whether that is one), group, delivered
        (its last offset that the group got, null if none), undelivered (whether the group did not get the last).
        Without groups: one row per key, with group and delivered null. Reads the logs again, in their state at the
        audit.

        Raises:
            LogClosed: the audit is closed.
            CorruptRecord, CorruptLog, LogTruncated: as `audit_keys`.
        """
        return (batch for log in self._open() for batch in log.rows())

    def undelivered(self, group: str) -> Iterator[pa.RecordBatch]:
        """Yield the rows of `keys` for one group and the keys whose latest record it did not get.

        Raises:
            InvalidArgument: the audit has no such group.
        """
        if group not in self.groups:
            known = ", ".join(map(repr, self.groups)) or "none"
            raise InvalidArgument(f"this audit has no group {group!r}; its groups: {known}")
        number = self.groups.index(group)
        return (batch for log in self._open() for batch in log.undelivered_rows(number))

    def _open(self) -> Sequence[SweptLog]:
        if self._swept is None:
            raise LogClosed("the audit is closed; its figures remain, but not its rows")
        return self._swept

    def close(self) -> None:
        """Release all files and close the logs that the audit opened. Closing twice is harmless."""
        self._swept = None
        self._resources.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def audit_keys(
    place: str | os.PathLike[str] | Storage | Log | Topic,
    *,
    delivered: Delivered | None = None,
    memory_bytes: int = MEMORY_BYTES,
) -> KeyAudit:
    """Count the keys of a log, a topic or the topics of a directory, and what of them each group received.

    The figures are those at the moment of the call: later appends, compactions and expiry change nothing. Records
    without a key count as records (and tombstones), never as keys. Keys that do not fit the memory are processed in
    several rounds over ranges of keys, each of which reads the log once: about
    12 * (bytes of the different keys, and for each 61, and 8 per group) / memory_bytes rounds.

    Args:
        place: A path, a Storage, or an open log or topic; a standalone log is partition 0 of a topic with its
            directory's name.
        delivered: group -> topic -> partition -> offset (exclusive: everything before it was delivered); without group
            names it is that of the group "consumer". A partition that is not named counts as not delivered.
        memory_bytes: The most memory for keys and offsets, including what joining and reading them takes; a single key
            is held whatever its length.

    Raises:
        LogNotFound, NotALog: there is no log at the place.
        InvalidArgument, InvalidType: the delivered offsets are invalid.
        CorruptRecord, CorruptLog: the log is damaged; `seglog verify` and the Spark job list all damage.
        LogTruncated: a truncate removed records meanwhile.
    """
    if isinstance(memory_bytes, bool) or not isinstance(memory_bytes, int) or memory_bytes < 1:
        raise InvalidArgument(f"memory_bytes is {memory_bytes!r}; it must be an int of at least 1")
    from seglog.topic.audit.log_audit import SweptLog  # noqa: PLC0415 - imports pyarrow and numba with the first audit

    with ExitStack() as resources:
        logs = _logs(place, resources)
        cuts = cuts_of(delivered, [one.key for one, _ in logs])
        swept = [
            SweptLog(one, log, {group: of[one.key] for group, of in cuts.items()}, memory_bytes) for one, log in logs
        ]
        events = () if isinstance(place, Log | Topic) else tuple(one for _, log in logs for one in log.recovery.events)
        figures = tuple(log.figures() for log in swept)
        return KeyAudit(figures, tuple(cuts), swept, events, resources.pop_all())


def _logs(place: str | os.PathLike[str] | Storage | Log | Topic, resources: ExitStack) -> list[tuple[Place, Log]]:
    """Return the logs of a place; `resources` closes those opened here."""
    if isinstance(place, Log):
        return [(Place(Path(place.path).absolute().name, 0, place.path), place)]
    if isinstance(place, Topic):
        logs = [place.partition(number) for number in range(place.partitions)]
        return [(Place(place.name, number, log.path), log) for number, log in enumerate(logs)]
    if not isinstance(place, (str, os.PathLike)) and not hasattr(place, "try_lock"):
        raise InvalidType(f"an audit takes a Storage, a path, a log or a topic, not {type(place).__name__}")
    root = storage_at(place)
    return [(one, resources.enter_context(open_log(storage_of(root, one), mode="r"))) for one in logs_at(root)]
